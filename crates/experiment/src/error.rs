//! The errors of experiments.

use std::{io, path::PathBuf};

/// The reason why an experiment did not start, or could not go on. One line each.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("an experiment builds a network of namespaces, which needs root: run it with sudo")]
    NotRoot,
    #[error("cannot read experiment {}: {error}; name a TOML file, such as labs/librecast/demo.toml", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("{name}:{line}: {what}")]
    Syntax { name: String, line: usize, what: String },
    #[error("{name}: {what}")]
    Invalid { name: String, what: String },
    #[error("--set {setting}: {what}")]
    Setting { setting: String, what: String },
    #[error("{what}")]
    Oversize { what: String },
    #[error("{what}")]
    NotSimulated { what: String },
    #[error("network {name}: {what}")]
    Network { name: String, what: String },
    #[error("cannot send {}: {error}; name a file that is there and that you may read", path.display())]
    Object { path: PathBuf, error: io::Error },
    #[error(
        "this kernel has no TCP congestion control `{name}`: load its module, or take one of {available} (--set congestion=...)"
    )]
    Congestion { name: String, available: String },
    #[error("{what}")]
    Claim { what: String },
    #[error(
        "{run} cannot be made {place}: it needs {needs}, which are not there: leave its delivery out (--set deliveries=...)"
    )]
    Lacking { run: String, place: String, needs: String },
    #[error("{run}: {error}")]
    Run { run: String, error: io::Error },
    #[error("scp: {error}")]
    Scp { error: io::Error },
    #[error("cannot tell how busy this machine is: {0}")]
    Machine(io::Error),
    #[error(transparent)]
    Results(#[from] treecast_measure::DbError),
    #[error(transparent)]
    Sampling(#[from] treecast_measure::sample::SampleError),
    #[error("no place for {what}: {error}; name a folder with --set store=FOLDER")]
    Store { what: String, error: io::Error },
}
