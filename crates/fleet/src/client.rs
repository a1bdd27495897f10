//! Speaks with the API of a manager, for `treecast fleet`.

use std::{
    io,
    path::{Path, PathBuf},
};

use http_body_util::{BodyExt, Full, StreamBody};
use hyper::{
    Method, Request,
    body::{Body, Bytes, Frame},
    client::conn::http1,
    header,
};
use hyper_util::rt::TokioIo;
use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;
use tokio::{fs::File, io::AsyncReadExt, net::TcpStream};
use treecast_host::text;

pub use crate::manager::Access;

/// The most bytes of an answer: the results of a long experiment are the longest.
const MAX_ANSWER_LEN: usize = 1 << 30;
/// The bytes of a file that are sent at a time.
const PIECE_LEN: usize = 64 << 10;

/// A way to the API of a manager.
#[derive(Debug, Clone)]
pub struct Client {
    access: Access,
    /// Whether the manager is one of this host, which can read the files that a user names.
    is_local: bool,
}

/// The reason why a manager does not do what it is asked.
#[derive(Debug, Error)]
pub enum ClientError {
    #[error(
        "no manager is known here: {} is not there. Start one with `treecast manager`, or name its folder with --state or its \
         address and token with --api and --token-file",
        .0.display()
    )]
    None(PathBuf),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("the manager at {api} is not reached: {source}; is `treecast manager` running?")]
    Unreached { api: String, source: io::Error },
    #[error("the connection to the manager at {api} has failed: {what}")]
    Broken { api: String, what: String },
    #[error("{0}")]
    Refused(String),
}

impl Client {
    /// Finds the manager whose state is in a folder.
    ///
    /// # Errors
    /// If there is none.
    pub fn of_state(state: &Path) -> Result<Self, ClientError> {
        let path = state.join("access.json");
        match text::read_private(&path, 64 << 10) {
            Ok(text) => serde_json::from_str(&text)
                .map(|access| Self { access, is_local: true })
                .map_err(|error| ClientError::File { path, source: io::Error::other(error) }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ClientError::None(path)),
            Err(source) => Err(ClientError::File { path, source }),
        }
    }

    /// Takes an address, as `HOST:PORT`, and a token.
    pub fn new(api: String, token: String) -> Self {
        Self { access: Access { api, token }, is_local: false }
    }

    /// Whether the manager's state is in a folder of this host.
    pub fn is_local(&self) -> bool {
        self.is_local
    }

    /// Gets something.
    ///
    /// # Errors
    /// If the manager is not reached, or refuses.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.json(Method::GET, path, None::<&()>).await
    }

    /// Sends something new, and gets the answer.
    ///
    /// # Errors
    /// If the manager is not reached, or refuses.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.json(Method::POST, path, Some(body)).await
    }

    /// Sends what takes the place of something, and gets the answer.
    ///
    /// # Errors
    /// If the manager is not reached, or refuses.
    pub async fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.json(Method::PUT, path, Some(body)).await
    }

    /// Gets a file.
    ///
    /// # Errors
    /// If the manager is not reached, or refuses.
    pub async fn bytes_of(&self, path: &str) -> Result<Bytes, ClientError> {
        self.bytes(Method::GET, path, None::<&()>).await
    }

    /// Returns the address of the API.
    pub fn api(&self) -> &str {
        &self.access.api
    }

    /// Sends a file as it is, and gets the answer.
    ///
    /// # Errors
    /// If the file cannot be read, the manager is not reached, or it refuses.
    pub async fn upload<T: DeserializeOwned>(&self, path: &str, file: &Path) -> Result<T, ClientError> {
        let failed = |source| ClientError::File { path: file.to_owned(), source };
        let opened = File::open(file).await.map_err(failed)?;
        let size = opened.metadata().await.map_err(failed)?.len();
        // What is added to the file meanwhile is not sent.
        let pieces = futures_util::stream::try_unfold(opened.take(size), |mut left| async {
            let mut piece = vec![0; PIECE_LEN];
            let read = left.read(&mut piece).await?;
            piece.truncate(read);
            Ok::<_, io::Error>((read > 0).then(|| (Frame::data(Bytes::from(piece)), left)))
        });
        let request = Request::builder().method(Method::PUT).uri(path).header(header::CONTENT_LENGTH, size);
        let bytes = self.ask(request, Box::pin(StreamBody::new(pieces))).await?;
        serde_json::from_slice(&bytes).map_err(|error| self.broken(error))
    }

    /// Removes something.
    ///
    /// # Errors
    /// If the manager is not reached, or refuses.
    pub async fn delete(&self, path: &str) -> Result<(), ClientError> {
        self.bytes(Method::DELETE, path, None::<&()>).await.map(drop)
    }

    async fn json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<T, ClientError> {
        let bytes = self.bytes(method, path, body).await?;
        serde_json::from_slice(&bytes).map_err(|error| self.broken(error))
    }

    /// Asks, and gets the bytes of the answer.
    async fn bytes(
        &self,
        method: Method,
        path: &str,
        body: Option<&impl Serialize>,
    ) -> Result<Bytes, ClientError> {
        let text = body.map(|body| serde_json::to_vec(body).unwrap_or_default()).unwrap_or_default();
        let request = Request::builder().method(method).uri(path);
        let request = request.header(header::CONTENT_TYPE, "application/json");
        self.ask(request, Full::new(Bytes::from(text))).await
    }

    async fn ask<B>(&self, request: hyper::http::request::Builder, body: B) -> Result<Bytes, ClientError>
    where
        B: Body<Data = Bytes> + Unpin + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Access { api, token } = &self.access;
        let unreached = |source| ClientError::Unreached { api: api.clone(), source };
        let stream = TcpStream::connect(api.as_str()).await.map_err(unreached)?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|error| self.broken(error))?;
        let connection = tokio::spawn(connection);
        let request = request
            .header(header::HOST, api)
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .body(body)
            .map_err(|error| self.broken(error))?;
        let response = sender.send_request(request).await.map_err(|error| self.broken(error))?;
        let status = response.status();
        let body = http_body_util::Limited::new(response.into_body(), MAX_ANSWER_LEN);
        let bytes = body.collect().await.map_err(|error| self.broken(error))?.to_bytes();
        connection.abort();
        match status.is_success() {
            true => Ok(bytes),
            false => Err(ClientError::Refused(reason(&bytes, status))),
        }
    }

    fn broken(&self, error: impl ToString) -> ClientError {
        ClientError::Broken { api: self.access.api.clone(), what: error.to_string() }
    }
}

/// Returns the manager's own words.
fn reason(bytes: &[u8], status: hyper::StatusCode) -> String {
    let value: Option<serde_json::Value> = serde_json::from_slice(bytes).ok();
    let error = value.and_then(|value| Some(value.get("error")?.as_str()?.to_owned()));
    error.unwrap_or_else(|| match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() => format!("the manager answers {status}: {text:.200}"),
        _ => format!("the manager answers {status}"),
    })
}

/// Returns a word as a part of a path (RFC 3986, section 2.1).
pub fn escaped(word: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    word.bytes().map(escape).collect()
}
