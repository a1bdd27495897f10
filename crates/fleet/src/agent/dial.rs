//! Reaches the manager: over TCP, through a proxy if there is one, and TLS 1.3 with the keys of both sides.

use std::{io, net::IpAddr, sync::Arc, time::Duration};

use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use treecast_driver::security::{
    Identity, PublicKey,
    tls::{TlsError, client_config},
};

use crate::message::TLS_NAME;

/// The longest time until a connection is there.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// The most bytes of a proxy's answer.
const MAX_ANSWER_LEN: usize = 8 << 10;

/// The way to a manager.
#[derive(Clone)]
pub struct Dial {
    tls: TlsConnector,
    addresses: Vec<String>,
    /// The proxy, as `HOST:PORT`.
    proxy: Option<String>,
}

/// A connection to the manager.
pub struct Connection {
    pub stream: TlsStream<TcpStream>,
    /// The other end of the connection: the manager, or the proxy.
    pub peer: Option<IpAddr>,
}

/// The reason why the manager is not reached.
#[derive(Debug, Error)]
pub enum DialError {
    #[error("{address} is not reached: {source}")]
    Tcp { address: String, source: io::Error },
    #[error("the proxy {proxy} does not lead to {address}: it says {answer:?}")]
    Proxy { proxy: String, address: String, answer: String },
    #[error("{address} is not the manager that this host has joined: it has the key {found}, not {expected}")]
    OtherKey { address: String, found: PublicKey, expected: PublicKey },
    #[error("{address} does not speak as a manager: {source}")]
    Tls { address: String, source: TlsError },
    #[error("no address of a manager is known: join again with a new code")]
    None,
}

impl Dial {
    /// Makes the way to the manager that has this key.
    ///
    /// # Errors
    /// If the agent's own key cannot be used.
    pub fn new(
        identity: &Identity,
        manager: PublicKey,
        addresses: &[String],
        proxy: Option<&str>,
    ) -> Result<Self, TlsError> {
        let config = client_config(identity, manager, TLS_NAME)?;
        let proxy = proxy.map(|proxy| proxy.trim_start_matches("http://").trim_end_matches('/').to_owned());
        Ok(Self { tls: TlsConnector::from(Arc::new(config)), addresses: addresses.to_vec(), proxy })
    }

    /// Connects to the first address that answers with the manager's key.
    ///
    /// # Errors
    /// The error of the last address.
    pub async fn connect(&self) -> Result<Connection, DialError> {
        let mut failed = DialError::None;
        for address in &self.addresses {
            match timeout(CONNECT_TIME, self.connect_to(address)).await {
                Ok(Ok(connection)) => return Ok(connection),
                Ok(Err(error)) => failed = error,
                Err(_) => {
                    let source = io::ErrorKind::TimedOut.into();
                    failed = DialError::Tcp { address: address.clone(), source };
                }
            }
        }
        Err(failed)
    }

    async fn connect_to(&self, address: &str) -> Result<Connection, DialError> {
        let through = self.proxy.as_deref().unwrap_or(address);
        let unreached = |source| DialError::Tcp { address: through.to_owned(), source };
        let mut stream = TcpStream::connect(through).await.map_err(unreached)?;
        stream.set_nodelay(true).map_err(unreached)?;
        let peer = stream.peer_addr().ok().map(|peer| peer.ip().to_canonical());
        if let Some(proxy) = &self.proxy {
            pass(&mut stream, proxy, address).await?;
        }
        // The name is not sent: the key says who is there.
        let name = ServerName::IpAddress(std::net::Ipv6Addr::LOCALHOST.into());
        let stream = self.tls.connect(name, stream).await.map_err(|error| refused(address, error))?;
        Ok(Connection { stream, peer })
    }
}

/// Asks a proxy for a connection (RFC 9110, section 9.3.6).
async fn pass(stream: &mut TcpStream, proxy: &str, address: &str) -> Result<(), DialError> {
    let unreached = |source| DialError::Tcp { address: proxy.to_owned(), source };
    let request = format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(unreached)?;
    let mut answer = Vec::new();
    // Byte by byte: what follows the empty line is TLS.
    while !answer.ends_with(b"\r\n\r\n") && answer.len() < MAX_ANSWER_LEN {
        match stream.read_u8().await {
            Ok(byte) => answer.push(byte),
            Err(_) => break,
        }
    }
    let first = String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned();
    match first.split_whitespace().nth(1) {
        Some(status) if status.starts_with('2') => Ok(()),
        _ => Err(DialError::Proxy { proxy: proxy.to_owned(), address: address.to_owned(), answer: first }),
    }
}

fn refused(address: &str, error: io::Error) -> DialError {
    let address = address.to_owned();
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()).cloned();
    match inner.map(TlsError::from) {
        Some(TlsError::WrongKey { found, expected }) => DialError::OtherKey { address, found, expected },
        Some(source) => DialError::Tls { address, source },
        None => DialError::Tcp { address, source: error },
    }
}
