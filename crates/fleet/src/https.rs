//! Requests to servers of others, by HTTP or by HTTPS with TLS 1.3.

use std::{path::Path, sync::Arc};

use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, StatusCode, Uri, body::Bytes, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

/// The certificates of the system, as Debian has them.
const SYSTEM_CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// The most bytes of an answer.
const MAX_ANSWER_LEN: usize = 1 << 20;

/// A way to one server.
#[derive(Clone)]
pub struct Https {
    host: String,
    port: u16,
    /// `None`: plain HTTP.
    tls: Option<TlsConnector>,
}

impl Https {
    /// Makes the way to the server of an address ready. `certificates` is a file with the certificates of those who may have signed
    /// the server's; without it, those of the system count.
    ///
    /// # Errors
    /// What is wrong with the address or the file.
    pub fn new(uri: &Uri, certificates: Option<&Path>) -> Result<Self, String> {
        let host = uri.host().ok_or("it has no host: write https://HOST/PATH")?.to_owned();
        let (tls, port) = match uri.scheme_str() {
            Some("https") => (Some(connector(certificates.unwrap_or(Path::new(SYSTEM_CERTIFICATES)))?), 443),
            Some("http") => (None, 80),
            _ => return Err("write https://HOST/PATH, or http://HOST/PATH".into()),
        };
        Ok(Self { host, port: uri.port_u16().unwrap_or(port), tls })
    }

    /// Sends a request. Redirections are not followed.
    ///
    /// # Errors
    /// The reason why there is no answer.
    pub async fn send(&self, mut request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), String> {
        let name = self.host.trim_matches(['[', ']']).to_owned();
        let value = format!("{}:{}", self.host, self.port);
        request.headers_mut().insert(
            header::HOST,
            value.parse().map_err(|_| format!("{} cannot be the name of a host", self.host))?,
        );
        let stream =
            TcpStream::connect((name.as_str(), self.port)).await.map_err(|error| error.to_string())?;
        match &self.tls {
            None => exchange(stream, request).await,
            Some(tls) => {
                let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
                exchange(tls.connect(name, stream).await.map_err(|error| error.to_string())?, request).await
            }
        }
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), String> {
    let failed = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let answered = async {
        let response = sender.send_request(request).await.map_err(failed)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER_LEN).collect().await;
        Ok((status, body.map_err(|error| error.to_string())?.to_bytes()))
    };
    tokio::pin!(answered);
    tokio::select! {
        answer = &mut answered => answer,
        // The server may close once it has answered.
        ended = connection => match ended {
            Ok(()) => answered.await,
            Err(error) => Err(error.to_string()),
        },
    }
}

fn connector(certificates: &Path) -> Result<TlsConnector, String> {
    let failed = |error: &dyn std::fmt::Display| {
        format!("the certificates in {}: {error}; name a file with ca_file", certificates.display())
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(certificates).map_err(|error| failed(&error))? {
        // A system has certificates of kinds that are not known here.
        _ = roots.add(certificate.map_err(|error| failed(&error))?);
    }
    if roots.is_empty() {
        return Err(failed(&"there are none that can be used"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| failed(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
