use std::{io, path::PathBuf};

use thiserror::Error;

/// The reason why the daemon cannot start or go on, or cannot be asked.
#[derive(Debug, Error)]
pub enum Error {
    #[error("multicast routing needs root (CAP_NET_ADMIN and CAP_NET_RAW): run it as root")]
    Permission,
    #[error("this kernel has no {family} multicast routing: it needs one built with {option}")]
    NoKernelSupport { family: &'static str, option: &'static str },
    #[error("another {family} multicast routing daemon runs in this network namespace: stop it first")]
    AlreadyRuns { family: &'static str },
    #[error("interface {0} does not exist: `ip link` lists those that do")]
    NoInterface(String),
    #[error("interface {0} is down: bring it up with `ip link set {0} up`")]
    InterfaceDown(String),
    #[error("interface {0} cannot multicast: name another with --interface")]
    NotMulticast(String),
    #[error("interface {0} is the --upstream and must be one of the --interface, too")]
    UpstreamNotServed(String),
    #[error(
        "{0} interfaces can multicast here, and a kernel routes between 32 at most: name those to use with --interface"
    )]
    TooManyInterfaces(usize),
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
    #[error("control socket {}: {source}; name another path with --control", path.display())]
    Control { path: PathBuf, source: io::Error },
    #[error(
        "no multicast routing daemon answers here: start one with `treecast mroute` in this network namespace"
    )]
    NotRunning,
    #[error("the multicast routing daemon's answer is not understood ({0}): is it of the same version?")]
    Answer(serde_json::Error),
}

impl Error {
    /// The error of a kernel that does not let this process route multicast. `option` is what the kernel would have
    /// to be built with.
    pub(super) fn of_kernel(family: &'static str, option: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.raw_os_error() {
            Some(libc::EADDRINUSE) => Self::AlreadyRuns { family },
            Some(libc::EPERM | libc::EACCES) => Self::Permission,
            Some(libc::ENOPROTOOPT | libc::EOPNOTSUPP) => Self::NoKernelSupport { family, option },
            _ => Self::System { what: "cannot start multicast routing", source },
        }
    }

    /// A system call that failed; `what` says what it was to do.
    pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

impl From<crate::control::Failure> for Error {
    fn from(failure: crate::control::Failure) -> Self {
        let crate::control::Failure { path, source } = failure;
        Self::Control { path, source }
    }
}
