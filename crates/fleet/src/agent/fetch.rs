//! Gets files from the manager, by HTTP over a connection of their own.

use std::{
    fs,
    io::{self, Write},
    net::IpAddr,
    path::Path,
    sync::{Mutex, PoisonError},
};

use http_body_util::{BodyExt, Empty};
use hyper::{Request, body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;

use super::dial::Dial;

/// Gets files from the manager.
pub struct Fetcher {
    dial: Dial,
    /// The address of the manager to which the agent is connected, or was last.
    manager: Mutex<Option<IpAddr>>,
}

impl Fetcher {
    pub fn new(dial: Dial) -> Self {
        Self { dial, manager: Mutex::new(None) }
    }

    pub fn dial(&self) -> &Dial {
        &self.dial
    }

    pub fn manager(&self) -> Option<IpAddr> {
        *self.manager.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_manager(&self, manager: Option<IpAddr>) {
        *self.manager.lock().unwrap_or_else(PoisonError::into_inner) = manager;
    }

    /// Gets a file by its BLAKE3 hash. What is there at the end is exactly that file.
    ///
    /// # Errors
    /// If the manager does not give it, or it cannot be written.
    pub async fn fetch(&self, blob: &str, size_bytes: u64, into: &Path) -> io::Result<()> {
        let expected = blake3::Hash::from_hex(blob).map_err(io::Error::other)?;
        if let Some(folder) = into.parent() {
            fs::create_dir_all(folder)?;
        }
        let connection = self.dial.connect().await.map_err(io::Error::other)?;
        let (mut sender, driver) =
            http1::handshake(TokioIo::new(connection.stream)).await.map_err(io::Error::other)?;
        let driver = tokio::spawn(driver);
        let request =
            Request::get(format!("/blobs/{blob}")).header("host", "manager").body(Empty::<Bytes>::new());
        let response =
            sender.send_request(request.map_err(io::Error::other)?).await.map_err(io::Error::other)?;
        if !response.status().is_success() {
            return Err(io::Error::other(format!("the manager answers {}", response.status())));
        }
        let mut body = response.into_body();
        let (mut file, mut hasher, mut len) = (fs::File::create(into)?, blake3::Hasher::new(), 0);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(io::Error::other)?;
            let Some(bytes) = frame.data_ref() else { continue };
            len += bytes.len() as u64;
            if len > size_bytes {
                return Err(io::Error::other("the file is longer than was said"));
            }
            hasher.update(bytes);
            file.write_all(bytes)?;
        }
        driver.abort();
        match hasher.finalize() == expected && len == size_bytes {
            true => Ok(()),
            false => Err(io::Error::other("the file is not the one that was ordered")),
        }
    }
}
