//! Connections to Unix sockets outside, forbidden by the kernel itself (landlock(7)), as far as it can.

use anyhow::Context;
use landlock::{AccessFs, Ruleset, RulesetAttr, Scope};

/// Forbids this process, and all that it starts, to connect to sockets that others have bound: by their names from ABI 9 on, abstract
/// ones from ABI 6 on. Those of the processes inside remain, also those that are bound later. An older kernel forbids nothing.
pub(super) fn forbid_outside_sockets() -> anyhow::Result<()> {
    let sockets_of_others = || {
        let ruleset = Ruleset::default();
        let ruleset = ruleset.handle_access(AccessFs::ResolveUnix)?;
        ruleset.scope(Scope::AbstractUnixSocket)?.create()?.restrict_self()
    };
    sockets_of_others().context("forbidding the sockets of others (Landlock)")?;
    Ok(())
}
