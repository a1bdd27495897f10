//! The choices with which a lab is built.

use std::path::PathBuf;

use crate::routes::Routing;
use crate::state;

/// How a lab is built.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the lab is recorded: the same for whoever is to find it again.
    pub state_directory: PathBuf,
    /// The `treecast` command, of which a lab starts `lab relay` where cables have a delay and the
    /// kernel has no netem.
    pub program: PathBuf,
    /// Who says where packets go.
    pub routing: Routing,
}

impl Default for Options {
    /// `/run/treecast/labs`, or what `TREECAST_LAB_STATE` names, and the program that runs.
    fn default() -> Self {
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("treecast"));
        Self { state_directory: state::directory(), program, routing: Routing::default() }
    }
}
