//! The system calls that the command may not make: those that open sockets which no network namespace confines.

use anyhow::Context;
use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

/// The families of sockets that may be opened. Of others, some lead out of the machine without a network, such as that of virtual
/// machines to their hypervisor (vsock(7)).
const FAMILIES: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Forbids the calls to this process and to all that it starts. They must not be able to gain privileges.
pub(super) fn forbid() -> anyhow::Result<()> {
    let other_families = FAMILIES
        .into_iter()
        .map(|family| {
            let family = u64::from(family.unsigned_abs());
            SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)
        })
        .collect::<Result<_, _>>()?;
    let by_family = vec![SeccompRule::new(other_families)?];
    for (call, rules, error) in [
        (libc::SYS_socket, by_family, libc::EAFNOSUPPORT),
        // Its requests open sockets, too, and are not filtered. Programs do without it.
        (libc::SYS_io_uring_setup, Vec::new(), libc::ENOSYS),
    ] {
        // Programs of another architecture, whose calls have other numbers, are killed.
        let filter = SeccompFilter::new(
            [(call, rules)].into_iter().collect(),
            SeccompAction::Allow,
            SeccompAction::Errno(error.unsigned_abs()),
            std::env::consts::ARCH.try_into()?,
        )?;
        let program: BpfProgram = filter.try_into()?;
        apply_filter(&program).context("filtering system calls (seccomp)")?;
    }
    Ok(())
}
