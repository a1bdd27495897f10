//! `treecast manager --try`: a fleet to look at, in a lab of this machine.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
};

use treecast_fleet::manager::AGENT_PORT;
use treecast_host::temporary::TemporaryFolder;
use treecast_lab::{Daemon, Lab, Options, Topology, Trees, process, program::Program};

/// Twelve hosts behind three levels of routers, whose links have a rate at which rates are seen.
const TOPOLOGY: &str = "tree:levels=3,clients=3,rate=100M";

/// The lab's name.
const NAME: &str = "try";

/// A lab with hosts for a fleet. It is taken down when this is dropped.
pub struct Trial {
    /// The folder with what manager and agents keep.
    folder: TemporaryFolder,
    agents: Vec<Program>,
    routers: Vec<Daemon>,
    lab: Option<Lab>,
}

impl Trial {
    /// Builds the lab. Its routers route multicast.
    pub fn build() -> Result<Self, Box<dyn std::error::Error>> {
        if !treecast_host::user::is_root() {
            return Err("--try builds a network of namespaces, which needs root: run it with sudo".into());
        }
        let folder = TemporaryFolder::new(&std::env::temp_dir(), "treecast-try-")?;
        let options = Options::default();
        let lab = Lab::up(&Topology::parse(TOPOLOGY)?, NAME, &options)?;
        let mut trial = Self { folder, agents: Vec::new(), routers: Vec::new(), lab: Some(lab) };
        let program = std::env::current_exe()?;
        trial.routers = trial.lab().start_routers(&program, Trees::Shared, process::die_with_parent)?;
        Ok(trial)
    }

    /// Listens for agents at the lab's server.
    pub fn listen(&self) -> Result<TcpListener, Box<dyn std::error::Error>> {
        let address = self.lab().node("server0")?.v6().ok_or("the lab's server has no address")?;
        Ok(self.lab().enter("server0", || TcpListener::bind((address, AGENT_PORT)))??)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts an agent at every node.
    pub fn start_agents(&mut self, code: &str) -> Result<(), Box<dyn std::error::Error>> {
        let program = std::env::current_exe()?;
        let nodes: Vec<String> = self.lab().nodes().iter().map(|node| node.name.clone()).collect();
        for node in nodes {
            let state = self.folder().join(&node);
            fs::create_dir_all(&state)?;
            let role = node.trim_end_matches(|letter: char| letter.is_ascii_digit());
            let config = state.join("agent.toml");
            fs::write(&config, format!("[may]\nrun_commands = true\n[tags]\nrole = \"{role}\"\n"))?;
            let mut command = Command::new(&program);
            command.args(["agent", "--join", code, "--name", &node, "--state"]).arg(&state);
            command.arg("--config").arg(&config).stderr(Stdio::null());
            process::die_with_parent(&mut command);
            let inside = self.lab().inside(&node, &command)?;
            self.agents.push(Program::start(format!("the agent of {node}"), inside)?);
        }
        Ok(())
    }

    fn lab(&self) -> &Lab {
        // It is taken out when this is dropped, and not before.
        #[allow(clippy::expect_used)]
        self.lab.as_ref().expect("the lab is up")
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        self.agents.clear();
        for router in self.routers.drain(..) {
            // The lab ends what is left.
            _ = router.end();
        }
        if let Some(lab) = self.lab.take()
            && let Err(error) = lab.down()
        {
            remark!("treecast: {error}; `treecast lab down {NAME}` removes the lab");
        }
    }
}
