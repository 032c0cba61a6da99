//! The system calls that the command may not make: those that open sockets which no network namespace confines, and those that type
//! into the terminal, whose shell would run it after the command has ended.

use anyhow::Context;
use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter, sock_filter,
};

/// The families of sockets that may be opened. Of others, some lead out of the machine without a network, such as that of virtual
/// machines to their hypervisor (vsock(7)).
const FAMILIES: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// The requests to a terminal that put input into it (TIOCSTI(2const)), or paste a selection of the console (TIOCLINUX(2const)).
const TYPING: [u64; 2] = [0x5412, 0x541c];

/// A filter of calls by the x32 interface (ENOSYS), which some kernels have: the architecture is x86-64, and the numbers are others.
const NO_X32: [sock_filter; 4] = [
    // The number of the call: BPF_LD | BPF_W | BPF_ABS.
    sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 },
    // Numbers from __X32_SYSCALL_BIT on are refused: BPF_JMP | BPF_JGE | BPF_K.
    sock_filter { code: 0x35, jt: 0, jf: 1, k: 0x4000_0000 },
    // SECCOMP_RET_ERRNO.
    sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x0005_0000 | libc::ENOSYS.unsigned_abs() },
    // SECCOMP_RET_ALLOW.
    sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x7fff_0000 },
];

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
    // The kernel reads 32 bits of the request, whatever is above them.
    let typing = TYPING.map(|request| {
        SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, request)
            .and_then(|condition| SeccompRule::new(vec![condition]))
    });
    let typing = typing.into_iter().collect::<Result<Vec<_>, _>>()?;
    for (call, rules, error) in [
        (libc::SYS_socket, by_family, libc::EAFNOSUPPORT),
        (libc::SYS_ioctl, typing, libc::EPERM),
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
    apply_filter(&NO_X32).context("filtering system calls (seccomp)")
}
