//! One connection of an agent to its manager.

use std::{convert::Infallible, sync::Arc, time::Duration};

use futures_util::{SinkExt, StreamExt};
use thiserror::Error;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{self, Message, protocol::WebSocketConfig},
};
use treecast_host::clock;

use super::{
    Event,
    dial::DialError,
    joined::{JoinError, Joined},
    spool::SpoolError,
    worker::Worker,
};
use crate::message::{
    Hello, MAX_MESSAGE_LEN, PROTOCOL, READ_BUFFER_LEN, ToAgent, ToManager, Welcome, nanoseconds, read,
    text_of,
};

/// The longest silence of the manager, which asks for the time more often.
const SILENCE: Duration = Duration::from_secs(15);
/// The most reports that are read from the disk at once.
const BATCH: usize = 100;

/// A connection that is about to begin.
pub struct Conversation<'s> {
    pub worker: &'s Arc<Worker>,
    pub joined: &'s mut Joined,
    pub tell: &'s (dyn Fn(Event) + Send + Sync),
}

/// The reason why a connection has ended.
#[derive(Debug, Error)]
pub enum SessionError {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("{0}")]
    Lost(String),
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Spool(#[from] SpoolError),
    #[error(transparent)]
    Join(#[from] JoinError),
}

type Socket = WebSocketStream<TlsStream<TcpStream>>;

impl Conversation<'_> {
    /// Connects, and does what the manager says until the connection ends.
    pub async fn run(mut self) -> Result<Infallible, SessionError> {
        let connection = self.worker.fetcher.dial().connect().await?;
        self.worker.fetcher.set_manager(connection.peer);
        let limits = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER_LEN)
            .max_message_size(Some(MAX_MESSAGE_LEN));
        let opened = client_async_with_config("ws://manager/agent", connection.stream, Some(limits));
        let opened = timeout(SILENCE, opened).await.map_err(|_| lost("the manager does not answer"))?;
        let (mut socket, _) = opened.map_err(cut)?;
        let welcome = self.greet(&mut socket).await?;
        self.worker.has_reported();
        let address = connection.peer.map_or_else(String::new, |peer| peer.to_string());
        (self.tell)(Event::Connected { name: &welcome.name, address });
        self.worker.spool.go_on_from(&welcome)?;
        self.exchange(&mut socket, welcome.committed).await
    }

    async fn greet(&mut self, socket: &mut Socket) -> Result<Welcome, SessionError> {
        let (worker, options) = (self.worker, &self.worker.options);
        let facts = worker.facts();
        let hello = Hello {
            protocol: PROTOCOL,
            name: options.config.name.clone().unwrap_or_else(|| facts.hostname.clone()),
            secret: self.joined.secret.clone(),
            fleet: self.joined.fleet.clone(),
            facts,
            permits: options.config.may,
            tags: options.config.tags.clone(),
            last_order: worker.spool.last_order()?,
            last_report: worker.spool.last_report()?,
        };
        send(socket, &ToManager::Hello(Box::new(hello))).await?;
        match next(socket).await? {
            ToAgent::Welcome(welcome) => {
                if self.joined.fleet.as_ref().is_some_and(|fleet| *fleet != welcome.fleet) {
                    return Err(SessionError::Refused(format!(
                        "it has another database ({}) than the one that this host has joined; \
                         if that is meant, leave with `treecast agent --leave` and join again",
                        welcome.fleet
                    )));
                }
                self.joined.fleet = Some(welcome.fleet.clone());
                self.joined.name = Some(welcome.name.clone());
                self.joined.secret = None;
                self.joined.save(&options.state)?;
                Ok(welcome)
            }
            ToAgent::Refused { reason } => Err(SessionError::Refused(reason)),
            _ => Err(lost("the manager does not greet")),
        }
    }

    /// Carries out orders and sends reports. `sent` is the number of the last report that the manager has.
    async fn exchange(&self, socket: &mut Socket, mut sent: u64) -> Result<Infallible, SessionError> {
        loop {
            let reports = self.worker.spool.after(sent, BATCH)?;
            let is_all = reports.len() < BATCH;
            for report in reports {
                sent = report.number;
                socket.feed(Message::text(text_of(&ToManager::Report(report)))).await.map_err(cut)?;
            }
            socket.flush().await.map_err(cut)?;
            if !is_all {
                continue;
            }
            tokio::select! {
                () = self.worker.reported.notified() => {}
                said = next(socket) => self.obey(socket, said?).await?,
            }
        }
    }

    async fn obey(&self, socket: &mut Socket, said: ToAgent) -> Result<(), SessionError> {
        let heard = clock::monotonic();
        match said {
            ToAgent::Order(order) => self.worker.take(order)?,
            ToAgent::Committed { through } => self.worker.spool.committed(through)?,
            ToAgent::Ping { asked_ns } => {
                let pong = ToManager::Pong {
                    asked_ns,
                    heard_ns: nanoseconds(heard),
                    answered_ns: nanoseconds(clock::monotonic()),
                    wall_ns: nanoseconds(clock::since_1970()),
                    carried: self.worker.carried(),
                };
                send(socket, &pong).await?;
            }
            ToAgent::Refused { reason } => return Err(SessionError::Refused(reason)),
            ToAgent::Welcome(_) => {}
        }
        Ok(())
    }
}

async fn send(socket: &mut Socket, message: &ToManager) -> Result<(), SessionError> {
    socket.send(Message::text(text_of(message))).await.map_err(cut)
}

/// Waits for the manager's next message. What later versions say and this one does not know is an error: both sides have named their
/// versions.
async fn next(socket: &mut Socket) -> Result<ToAgent, SessionError> {
    loop {
        let message = timeout(SILENCE, socket.next()).await.map_err(|_| lost("the manager is silent"))?;
        match message {
            Some(Ok(Message::Text(text))) => return read(&text).map_err(lost),
            Some(Ok(Message::Close(_))) | None => return Err(lost("the manager has closed the connection")),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(cut(error)),
        }
    }
}

/// Says what ended a connection.
fn cut(error: tungstenite::Error) -> SessionError {
    match error {
        tungstenite::Error::Io(error) => lost(format!("the connection was cut ({})", error.kind())),
        error => lost(error),
    }
}

fn lost(why: impl ToString) -> SessionError {
    SessionError::Lost(why.to_string())
}
