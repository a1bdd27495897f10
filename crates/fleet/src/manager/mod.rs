//! The manager: it admits agents, orders them what its users want, keeps what they report, and serves the console.
//!
//! ```text
//! agents     connections of agents: TLS 1.3 with the keys of both sides, a WebSocket
//!   hub      who is here, what is ordered, what is reported
//!     hosts  who belongs to the fleet
//!     store  the database, written by one thread
//! api        HTTP for people and programs: whatever the console and `treecast fleet` do, and its description
//!   access   roles, tokens, logins
//!   asks     one question to many hosts
//!     checks   the doctor's findings at hosts, and which host hears which
//!   runs     experiments over the fleet
//!   rollouts releases that go to hosts ring by ring
//!   deliveries files that go to many hosts
//!     uploads files that wait for their delivery
//!     session one session, by which files go to many hosts at once
//! config     what the manager's host says about it
//! keep       how long things are kept
//! counters   what is counted while the manager runs
//! metrics    figures for Prometheus
//! notices    web hooks and e-mail on what matters
//! oidc       logins of people by an identity provider
//! ```

pub mod access;
mod agents;
mod api;
mod asks;
mod checks;
pub mod config;
mod console;
mod counters;
mod deliveries;
mod hosts;
mod hub;
mod keep;
mod metrics;
pub mod notices;
mod oidc;
mod rollouts;
mod runs;
mod session;
mod site;
mod store;
mod uploads;

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use treecast_driver::security::{
    Identity,
    tls::{TlsError, server_config},
};
use treecast_host::folder;

use self::{
    access::Role,
    config::Config,
    deliveries::{Deliveries, DeliveryError},
    hub::Hub,
    notices::{NoticeError, Notices},
    oidc::{LoginError, Provider},
    rollouts::Rollouts,
    runs::Runs,
    store::{Store, StoreError},
};
use crate::{
    agent::joined::{self, JoinError, write_private},
    message::TLS_NAME,
};

pub use api::description;
pub use hosts::{Host, HostId};
pub use hub::HubError;
pub use rollouts::{NewRollout, ReleaseView, Ring, RolloutView};
pub use runs::{NewRun, Repeat, RunView, State};

/// The port at which agents reach a manager.
pub const AGENT_PORT: u16 = 7443;
/// The port of the console.
pub const CONSOLE_PORT: u16 = 7444;
/// The name of the database's file.
const DATABASE: &str = "fleet.sqlite";

/// What a manager needs to know.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder of the manager: its key, its database and the results of runs.
    pub state: PathBuf,
    /// Where agents are listened for.
    pub agents: SocketAddr,
    /// Where the console is served. Plain HTTP: this is an address of this host alone, or a proxy with a certificate stands before it.
    pub console: SocketAddr,
    /// The addresses by which agents reach this host, each as `HOST:PORT`. Empty: those of its interfaces.
    pub advertised: Vec<String>,
    /// The treecast program.
    pub treecast: PathBuf,
    pub version: String,
    pub config: Config,
}

/// How `treecast fleet` reaches a manager: a file that only its user may read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// The address of the API, as `HOST:PORT`.
    pub api: String,
    pub token: String,
}

/// The reason why a manager does not start.
#[derive(Debug, Error)]
pub enum ManagerError {
    #[error(transparent)]
    Key(#[from] JoinError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the manager's deliveries cannot be made ready: {0}")]
    Deliveries(#[from] DeliveryError),
    #[error("the manager's key cannot be used: {0}")]
    Tls(#[from] TlsError),
    #[error("nobody can be listened for at {address}: {source}; name another address with {option}")]
    Listen { address: SocketAddr, option: &'static str, source: io::Error },
    #[error("another manager runs in {}: end it first, or name another folder with --state", .0.display())]
    Busy(PathBuf),
    #[error(transparent)]
    Login(#[from] LoginError),
    #[error(transparent)]
    Notice(#[from] NoticeError),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
}

/// A manager that runs. It ends when this is dropped.
pub struct Manager {
    pub hub: Arc<Hub>,
    pub identity: Identity,
    /// Where agents reach it.
    pub agents: SocketAddr,
    pub console: SocketAddr,
    /// The address to open in a browser, which logs in whoever opens it first.
    pub login: String,
    tasks: Vec<tokio::task::JoinHandle<()>>,
    _claim: std::fs::File,
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
        self.hub.end();
    }
}

impl Manager {
    /// Starts a manager. `listener` is where agents come, if somebody listens already; otherwise the options say where.
    ///
    /// # Errors
    /// The reason why it does not start.
    pub async fn start(
        options: Options,
        listener: Option<std::net::TcpListener>,
    ) -> Result<Self, ManagerError> {
        let identity = joined::identity(&options.state)?;
        let failed = |source| ManagerError::File { path: options.state.clone(), source };
        let claim = folder::claim(&options.state).map_err(failed)?;
        let claim = claim.ok_or_else(|| ManagerError::Busy(options.state.clone()))?;
        let store = Store::open(&options.state.join(DATABASE))?;
        let hub = Arc::new(Hub::new(store).await?);
        let tls = TlsAcceptor::from(Arc::new(server_config(&identity, TLS_NAME)?));
        let (agents, for_agents) = match listener {
            Some(listener) => adopt(listener).map_err(|source| ManagerError::Listen {
                address: options.agents,
                option: "--listen",
                source,
            })?,
            None => listen(options.agents, "--listen").await?,
        };
        let (console, for_console) = listen(options.console, "--console").await?;
        write_access(&hub, console, &options.state).await?;
        let notices = Arc::new(Notices::new(Arc::clone(&hub), &options.config.hooks, &options.config.mail)?);
        let mut tasks = notices.start(options.config.notices.away_after()).await?;
        let runs = Runs::start(Arc::clone(&hub), &options).await?;
        let rollouts =
            Rollouts::start(Arc::clone(&hub), options.state.clone(), options.treecast.clone()).await?;
        let deliveries =
            Deliveries::start(Arc::clone(&hub), options.state.clone(), options.treecast.clone()).await?;
        let api = api::Api::new(
            Arc::clone(&hub),
            api::Works { runs, rollouts, deliveries },
            identity.public_key(),
            advertised(&options, agents),
            options.clone(),
            options.config.login.as_ref().map(Provider::new).transpose()?,
        );
        let own = access::Caller { name: "this host".into(), role: Role::Administrator };
        let link = api.link(own).map_err(|error| StoreError::Failed(error.to_string()))?;
        let login = format!("http://{console}{link}");
        tasks.extend([
            tokio::spawn(agents::serve(for_agents, tls, Arc::clone(&hub))),
            tokio::spawn(async move {
                // It ends with the manager.
                let service = api.router().into_make_service_with_connect_info::<SocketAddr>();
                _ = axum::serve(for_console, service).await;
            }),
            tokio::spawn(keep::work(Arc::downgrade(&hub), options.state.join("runs"), options.config.keep)),
        ]);
        Ok(Self { hub, identity, agents, console, login, tasks, _claim: claim })
    }
}

/// Writes down how `treecast fleet` on this host reaches the manager.
async fn write_access(hub: &Hub, console: SocketAddr, state: &Path) -> Result<(), ManagerError> {
    let token = access::make_token(&hub.store, "this host", Role::Administrator).await?;
    let own = Access { api: console.to_string(), token };
    let path = state.join("access.json");
    let failed = |source| ManagerError::File { path: path.clone(), source };
    let text = serde_json::to_string_pretty(&own).map_err(|error| failed(io::Error::other(error)))?;
    write_private(&path, &text).map_err(failed)
}

async fn listen(
    address: SocketAddr,
    option: &'static str,
) -> Result<(SocketAddr, TcpListener), ManagerError> {
    let failed = |source| ManagerError::Listen { address, option, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    Ok((listener.local_addr().map_err(failed)?, listener))
}

fn adopt(listener: std::net::TcpListener) -> io::Result<(SocketAddr, TcpListener)> {
    listener.set_nonblocking(true)?;
    Ok((listener.local_addr()?, TcpListener::from_std(listener)?))
}

/// Returns the addresses that codes tell agents.
fn advertised(options: &Options, agents: SocketAddr) -> Vec<String> {
    if !options.advertised.is_empty() {
        return options.advertised.clone();
    }
    if !agents.ip().is_unspecified() {
        return vec![agents.to_string()];
    }
    let facts = crate::facts::Facts::gather(&options.state, &options.version, None);
    let addresses = facts.interfaces.iter().filter_map(|interface| facts.address_of(&interface.name));
    // Agents on this host reach it, too.
    let own = std::net::IpAddr::from(std::net::Ipv6Addr::LOCALHOST);
    addresses.chain([own]).map(|address| SocketAddr::new(address, agents.port()).to_string()).collect()
}
