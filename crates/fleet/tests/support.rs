//! Starts managers and agents in folders that are deleted at the end.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};
use treecast_fleet::{
    agent::{self, AgentError, Config, Event, Options as AgentOptions},
    client::Client,
    manager::{Manager, Options, config},
};

/// The longest time that anything may take here.
pub const LONGEST: Duration = Duration::from_secs(60);

/// A folder that is deleted at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("treecast-fleet-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Starts a manager that keeps its state in a folder.
pub async fn manager(state: &Path, agents: SocketAddr) -> Manager {
    manager_known_as(state, agents, Vec::new()).await
}

/// Starts a manager with a configuration.
pub async fn manager_with(state: &Path, config: &str) -> Manager {
    let file = state.with_extension("toml");
    std::fs::write(&file, config).unwrap();
    let config = config::Config::load(Some(&file)).unwrap();
    Manager::start(Options { config, ..options(state, any_port(), Vec::new()) }, None).await.unwrap()
}

/// Starts a manager whose codes name these addresses.
pub async fn manager_known_as(state: &Path, agents: SocketAddr, advertised: Vec<String>) -> Manager {
    Manager::start(options(state, agents, advertised), None).await.unwrap()
}

fn options(state: &Path, agents: SocketAddr, advertised: Vec<String>) -> Options {
    Options {
        state: state.to_owned(),
        agents,
        console: "127.0.0.1:0".parse().unwrap(),
        advertised,
        treecast: "treecast".into(),
        version: "1.2.3".into(),
        config: config::Config::default(),
    }
}

/// Any free port of this host.
pub fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Makes a code for so many hosts.
pub async fn code(state: &Path, uses: u32) -> String {
    let client = Client::of_state(state).unwrap();
    let made: Value = client.post("/api/codes", &json!({ "uses": uses, "lasts": "1h" })).await.unwrap();
    made["code"].as_str().unwrap().to_owned()
}

/// An agent that runs.
pub struct Agent {
    task: JoinHandle<Result<(), AgentError>>,
    events: mpsc::UnboundedReceiver<bool>,
}

impl Agent {
    pub fn start(state: &Path, name: &str, code: Option<&str>) -> Self {
        let (say, events) = mpsc::unbounded_channel();
        let options = AgentOptions {
            config: Config { name: Some(name.to_owned()), ..Config::default() },
            state: state.to_owned(),
            treecast: "treecast".into(),
            version: "1.2.3".into(),
            code: code.map(str::to_owned),
            own: None,
        };
        let task = tokio::spawn(async move {
            let tell = move |event: Event| _ = say.send(matches!(event, Event::Connected { .. }));
            agent::run(options, &tell).await
        });
        Self { task, events }
    }

    /// Waits until the agent is connected.
    pub async fn connected(&mut self) {
        let connected = async { while !self.events.recv().await.expect("the agent goes on") {} };
        timeout(LONGEST, connected).await.expect("the agent connects");
    }

    /// Waits until the agent ends, and returns why.
    pub async fn refused(self) -> String {
        timeout(LONGEST, self.task).await.expect("the agent ends").unwrap().unwrap_err().to_string()
    }

    /// Ends the agent as a signal would, and waits until it has gone.
    pub async fn kill(self) {
        self.task.abort();
        _ = self.task.await;
    }
}

/// Waits until something is so.
pub async fn until<F: Future<Output = bool>>(what: &str, is_so: impl Fn() -> F) {
    let so = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(LONGEST, so).await.is_ok(), "{what}");
}

/// The lines of the log of who did what.
pub async fn audit(state: &Path) -> Vec<Value> {
    Client::of_state(state).unwrap().get("/api/audit?latest=1000").await.unwrap()
}

/// Whether the log says that something was refused.
pub async fn was_refused(state: &Path, what: &str) -> bool {
    audit(state).await.iter().any(|entry| entry["what"] == what && entry["is_refused"] == true)
}

/// A manager with a code for any number of agents.
pub struct Fleet {
    pub folder: Folder,
    pub manager: Arc<Manager>,
    pub code: String,
}

impl Fleet {
    pub async fn new() -> Self {
        Self::with("").await
    }

    /// A fleet whose manager has a configuration.
    pub async fn with(config: &str) -> Self {
        let folder = Folder::new();
        let manager = manager_with(&folder.0.join("manager"), config).await;
        let code = code(&folder.0.join("manager"), 100).await;
        Self { folder, manager: Arc::new(manager), code }
    }

    pub fn state(&self) -> PathBuf {
        self.folder.0.join("manager")
    }

    /// Makes a token of a role, under this name.
    pub async fn token(&self, name: &str, role: &str) -> String {
        let own = Client::of_state(&self.state()).unwrap();
        let made: Value = own.post(&format!("/api/tokens/{name}"), &json!({ "role": role })).await.unwrap();
        made["token"].as_str().unwrap().to_owned()
    }

    /// A client with a token of a role, which has this name in the log.
    pub async fn client(&self, name: &str, role: &str) -> Client {
        Client::new(self.manager.console.to_string(), self.token(name, role).await)
    }

    /// Starts an agent and waits until it is connected.
    pub async fn agent(&self, name: &str) -> Agent {
        let mut agent = Agent::start(&self.folder.0.join(name), name, Some(&self.code));
        agent.connected().await;
        agent
    }
}
