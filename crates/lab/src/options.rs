//! The choices with which a lab is built.

use std::path::PathBuf;

use crate::routes::Routing;
use crate::state;

/// Options for building a lab.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder where the lab is recorded. Whoever looks for the lab needs the same folder.
    pub state_directory: PathBuf,
    /// The `treecast` program. A lab starts `lab relay` if cables have a delay and the kernel has no netem.
    pub program: PathBuf,
    /// The source of the lab's routes.
    pub routing: Routing,
}

impl Default for Options {
    /// The folder `/run/treecast/labs`, or the one that `TREECAST_LAB_STATE` names, and the running program.
    fn default() -> Self {
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("treecast"));
        Self { state_directory: state::directory(), program, routing: Routing::default() }
    }
}
