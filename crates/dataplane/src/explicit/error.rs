use std::{collections::BTreeSet, fmt, io, path::PathBuf};

use thiserror::Error;

use super::lease::{self, LEASE};
use crate::control::Failure;

/// The reason why the router cannot start or go on, or cannot be asked.
#[derive(Debug, Error)]
pub enum Error {
    #[error(
        "loading eBPF programs is not allowed here: a MEADcast router needs root, or CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN and \
         CAP_NET_RAW (without the first two: `treecast router run --user-space`)"
    )]
    Permission,
    #[error(
        "this kernel refuses the router's program ({0}): it needs Linux 6.1 with CONFIG_BPF_SYSCALL, CONFIG_NET_CLS_BPF \
         and CONFIG_NET_SCH_INGRESS, or --user-space"
    )]
    Program(String),
    #[error(
        "forwarding in user space is not possible here ({0}): it needs CAP_NET_ADMIN, CAP_NET_RAW and iproute2"
    )]
    UserSpace(String),
    #[error("interface {name} refuses the router's program ({reason})")]
    Attach { name: String, reason: String },
    #[error(
        "interface {name} is served by another MEADcast router ({by}): stop it first, or leave out {name}"
    )]
    Served { name: String, by: String },
    #[error("interface {0} does not exist: `ip link` lists those that do")]
    NoInterface(String),
    #[error("interface {0} is down: bring it up with `ip link set {0} up`")]
    InterfaceDown(String),
    #[error("interface {0} is no Ethernet interface, or belongs to a bridge, bond or VRF: name another")]
    NotEthernet(String),
    #[error(
        "interface {0} has no global IPv6 address, which discovery needs: `ip addr add ADDRESS/64 dev {0}`"
    )]
    NoAddress(String),
    #[error(
        "no Ethernet interface is up and has a global IPv6 address: give one an address with `ip addr add`"
    )]
    NothingToServe,
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
    #[error("control socket {}: {source}; name another path with --control", path.display())]
    Control { path: PathBuf, source: io::Error },
    #[error(
        "another MEADcast router runs in this network namespace: stop it first, or serve other interfaces than it does, and \
         name a path with --control"
    )]
    AlreadyRuns,
    #[error(
        "no MEADcast router answers here: start one with `treecast router run` in this network namespace"
    )]
    NotRunning,
    #[error(
        "no MEADcast router answers here: {0}. `treecast router run` takes over, `treecast router clean` takes away what is left"
    )]
    Killed(Remains),
    #[error(
        "no MEADcast router answers here, but one ({1}) serves {0}: name its control socket with --control"
    )]
    Elsewhere(String, String),
    #[error("a MEADcast router's settings are changed by the user that runs it alone, or by root")]
    NotAllowed,
    #[error("the MEADcast router's answer is not understood ({0}): is it of the same version?")]
    Answer(serde_json::Error),
    #[error("the MEADcast router could not do that: {0}")]
    Refused(String),
}

impl Error {
    /// A system call that failed; `what` says what it was to do.
    pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }

    pub(super) fn of_user_space(failure: &(dyn std::error::Error + 'static)) -> Self {
        Self::UserSpace(failure.to_string())
    }

    /// The error of a kernel that refuses a program. A verifier's log is not for people.
    pub(super) fn of_program(failure: &(dyn std::error::Error + 'static)) -> Self {
        match system_error(failure).map(|error| (error.raw_os_error(), error)) {
            Some((Some(libc::EPERM | libc::EACCES), _)) => Self::Permission,
            Some((_, error)) => Self::Program(error.to_string()),
            None => Self::Program(failure.to_string().lines().next().unwrap_or_default().to_owned()),
        }
    }
}

/// The system's error behind others.
fn system_error<'a>(mut failure: &'a (dyn std::error::Error + 'static)) -> Option<&'a io::Error> {
    loop {
        if let Some(error) = failure.downcast_ref() {
            return Some(error);
        }
        failure = failure.source()?;
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let is_abstract = failure.path.to_string_lossy().starts_with('@');
        match failure.source.kind() {
            _ if failure.is_nobody() => Self::NotRunning,
            io::ErrorKind::AddrInUse if is_abstract => Self::AlreadyRuns,
            _ => Self::Control { path: failure.path, source: failure.source },
        }
    }
}

/// The remains of killed routers in this network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remains {
    pub(super) interfaces: BTreeSet<String>,
    /// The time at which the last lease ends, in nanoseconds of CLOCK_MONOTONIC_COARSE. `None`: something acts
    /// without one.
    pub(super) lease_ends_ns: Option<u64>,
}

impl fmt::Display for Remains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let interfaces = self.interfaces.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let silence = self.lease_ends_ns.map(lease::silence);
        match silence {
            None => write!(f, "one has ended and left its program, which acts on, at {interfaces}"),
            Some(silence) => {
                let left = LEASE.saturating_sub(silence).as_secs_f64().ceil();
                let seconds = silence.as_secs();
                write!(f, "one was killed about {seconds} s ago, and its program at {interfaces} ")?;
                if left > 0.0 { write!(f, "acts for {left} s more") } else { write!(f, "acts no more") }
            }
        }
    }
}
