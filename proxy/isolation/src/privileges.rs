//! The privileges of the processes inside. The command has none, whatever it executes.

use std::io;

use nix::sys::prctl;
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    configure_capability_in_ambient_set, remove_capability_from_bounding_set, set_capabilities,
};

/// Leaves this process's next program only the privileges that init needs to mount /proc, and nothing to all programs after
/// it: neither setuid programs nor file capabilities raise it again.
pub(super) fn reduce_to_mounting() -> io::Result<()> {
    prctl::set_no_new_privs()?;
    let sets = capabilities(None)?;
    let mounting = CapabilitySet::SYS_ADMIN;
    // In this order: a privilege that is no longer in the bounding set can become neither.
    set_capabilities(None, CapabilitySets { inheritable: mounting, ..sets })?;
    // Ambient ones alone survive an exec of a process that is not root.
    configure_capability_in_ambient_set(mounting, true)?;
    for number in 0..u64::BITS {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            Ok(()) => {}
            // The kernel knows no more of them.
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Drops all capabilities.
pub(super) fn drop_all() -> io::Result<()> {
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(set_capabilities(None, sets)?)
}
