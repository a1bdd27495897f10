//! Web hooks: a request for each notice, signed by HMAC-SHA256 (RFC 2104).

use std::path::PathBuf;

use data_encoding::HEXLOWER;
use http_body_util::Full;
use hyper::{Method, Request, Uri, body::Bytes, header};
use ring::hmac;
use serde::Deserialize;
use treecast_host::text;

use super::{Kind, Notice, NoticeError};
use crate::{https::Https, message::text_of};

/// The fewest bytes of a secret.
const MIN_SECRET_LEN: usize = 16;

/// A program that is told what matters.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hook {
    /// Where requests go: `https://...`, or `http://...`.
    pub url: String,
    /// The file with the secret by which requests are signed. Nobody else may read it.
    pub secret_file: PathBuf,
    /// The certificates of those who may have signed the server's. Without it, those of the system.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// What is told. Empty: everything.
    #[serde(default)]
    pub on: Vec<Kind>,
}

/// A hook that is ready for use.
pub struct Ready {
    hook: Hook,
    uri: Uri,
    key: hmac::Key,
    https: Https,
}

impl Hook {
    /// Reads the secret.
    pub(super) fn ready(&self) -> Result<Ready, NoticeError> {
        let what = format!("the secret of the hook {} in {}", self.url, self.secret_file.display());
        let secret = text::read_private(&self.secret_file, 4096)
            .map_err(|source| NoticeError::Secret { what: what.clone(), source })?;
        let secret = secret.trim();
        if secret.len() < MIN_SECRET_LEN {
            return Err(NoticeError::Wrong(format!("{what}: it has at least {MIN_SECRET_LEN} bytes")));
        }
        let uri: Uri = self
            .url
            .parse()
            .map_err(|error| NoticeError::Wrong(format!("the hook {}: {error}", self.url)))?;
        let https = Https::new(&uri, self.ca_file.as_deref())
            .map_err(|why| NoticeError::Wrong(format!("the hook {}: {why}", self.url)))?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        Ok(Ready { hook: self.clone(), uri, key, https })
    }
}

impl Ready {
    pub(super) fn url(&self) -> &str {
        &self.hook.url
    }

    pub(super) fn on(&self) -> &[Kind] {
        &self.hook.on
    }

    /// Tells a notice.
    ///
    /// # Errors
    /// The reason why it has not come.
    pub(super) async fn tell(&self, notice: &Notice) -> Result<(), String> {
        let body = text_of(notice);
        let signature = HEXLOWER.encode(hmac::sign(&self.key, body.as_bytes()).as_ref());
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.uri.path_and_query().map_or("/", |path| path.as_str()))
            .header(header::CONTENT_TYPE, "application/json")
            .header("x-treecast-signature", format!("sha256={signature}"))
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| error.to_string())?;
        let (status, _) = self.https.send(request).await?;
        if status.is_success() { Ok(()) } else { Err(format!("it answers {status}")) }
    }
}
