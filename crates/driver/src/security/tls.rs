//! TLS 1.3 for control connections, with raw public keys in place of certificates (RFC 7250; RFC 8446, section
//! 4.4.2).
//!
//! The receiver knows the sender's key from the ticket, and accepts no other. The sender asks each receiver for
//! its key, and accepts any key in the handshake. It decides about admission afterwards, so that it can tell
//! the receiver the reason.

use std::{net::IpAddr, sync::Arc};

use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct,
    DistinguishedName, Error, OtherError, ServerConfig, ServerConnection, SignatureScheme,
    client::{
        AlwaysResolvesClientRawPublicKeys, Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{
        CryptoProvider, GetRandomFailed, KeyProvider, SecureRandom, WebPkiSupportedAlgorithms, ring,
        verify_tls13_signature_with_raw_key,
    },
    pki_types::{
        CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
    },
    server::{
        AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::{CertifiedKey, SigningKey},
    time_provider::TimeProvider,
    version::TLS13,
};
use thiserror::Error as ThisError;

use super::{Identity, PublicKey};

/// The reason why a TLS connection failed.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
pub enum TlsError {
    #[error("it has another key ({found}) than the ticket says ({expected})")]
    WrongKey { found: PublicKey, expected: PublicKey },
    #[error("its ticket names another key of the sender")]
    KeyRefused,
    #[error("it does not speak TLS here: it takes the session for a plain one, or is no treecast")]
    NoTls,
    #[error("it speaks TLS, and the ticket is that of a plain session: ask for the ticket anew")]
    NotPlain,
    #[error("TLS failed: {0}")]
    Other(String),
}

/// The TLS configuration of a sender.
#[derive(Debug, Clone)]
pub struct SenderTls(Arc<ServerConfig>);

impl SenderTls {
    /// Creates the configuration for a sender or a receiver with this identity.
    ///
    /// # Errors
    /// If rustls refuses the key. No key is known that it refuses.
    pub fn new(identity: &Identity) -> Result<Self, TlsError> {
        server_config(identity, PROTOCOL).map(|config| Self(Arc::new(config)))
    }

    pub(crate) fn accept(&self) -> Result<ServerConnection, TlsError> {
        Ok(ServerConnection::new(Arc::clone(&self.0))?)
    }
}

/// The TLS configuration of a receiver.
#[derive(Debug, Clone)]
pub struct ReceiverTls(Arc<ClientConfig>);

impl ReceiverTls {
    /// Makes the TLS configuration of the receiver `identity` for the sender whose key is `sender`.
    ///
    /// # Errors
    /// If rustls cannot use the key, which none is known for.
    pub fn new(identity: &Identity, sender: PublicKey) -> Result<Self, TlsError> {
        client_config(identity, sender, PROTOCOL).map(|config| Self(Arc::new(config)))
    }

    pub(crate) fn connect(&self, address: IpAddr) -> Result<ClientConnection, TlsError> {
        Ok(ClientConnection::new(Arc::clone(&self.0), ServerName::IpAddress(address.into()))?)
    }
}

/// Makes the TLS configuration of a server that asks each client for its key, and accepts any. `protocol` is the name
/// (RFC 7301) that both sides must say.
///
/// # Errors
/// If rustls refuses the key. No key is known that it refuses.
pub fn server_config(identity: &Identity, protocol: &[u8]) -> Result<ServerConfig, TlsError> {
    let builder = ServerConfig::builder_with_details(provider(), Arc::new(NoClock))
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(Arc::new(AnyKey));
    let resolver = AlwaysResolvesServerRawPublicKeys::new(certified(identity)?);
    let mut config = builder.with_cert_resolver(Arc::new(resolver));
    // A connection lasts as long as its session: there is nothing to resume.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(config)
}

/// Makes the TLS configuration of a client that accepts one key of its server alone, and proves its own.
///
/// # Errors
/// As for [`server_config`].
pub fn client_config(
    identity: &Identity,
    server: PublicKey,
    protocol: &[u8],
) -> Result<ClientConfig, TlsError> {
    let builder = ClientConfig::builder_with_details(provider(), Arc::new(NoClock))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(PinnedKey { sender: server }));
    let resolver = AlwaysResolvesClientRawPublicKeys::new(certified(identity)?);
    let mut config = builder.with_client_cert_resolver(Arc::new(resolver));
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(config)
}

/// The protocol's name (RFC 7301), so that no other protocol's endpoint can be led here.
const PROTOCOL: &[u8] = b"treecast";

/// The one kind of signature. Others would be in the program with all of their curves and RSA, and never be used.
const ALGORITHMS: WebPkiSupportedAlgorithms = WebPkiSupportedAlgorithms {
    all: &[webpki::ring::ED25519],
    mapping: &[(SignatureScheme::ED25519, &[webpki::ring::ED25519])],
};

/// Ciphers of ring, with one key exchange: each more would cost a sender that many strangers ask.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: ring::ALL_CIPHER_SUITES.to_vec(),
        kx_groups: vec![ring::kx_group::X25519],
        signature_verification_algorithms: ALGORITHMS,
        secure_random: &Ed25519Only,
        key_provider: &Ed25519Only,
    })
}

/// Random numbers of the kernel, and keys of Ed25519.
#[derive(Debug)]
struct Ed25519Only;

impl SecureRandom for Ed25519Only {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        getrandom::fill(bytes).map_err(|_| GetRandomFailed)
    }
}

impl KeyProvider for Ed25519Only {
    fn load_private_key(&self, key: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, Error> {
        match &key {
            PrivateKeyDer::Pkcs8(key) => ring::sign::any_eddsa_type(key),
            _ => Err(Error::General("the key is none of Ed25519".to_owned())),
        }
    }
}

fn certified(identity: &Identity) -> Result<Arc<CertifiedKey>, TlsError> {
    let other = |error: &dyn ToString| TlsError::Other(error.to_string());
    let der = identity.to_der().map_err(|error| other(&error))?;
    let key = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(der.as_bytes()))?;
    let spki = identity.public_key().to_spki().map_err(|error| other(&error))?;
    Ok(Arc::new(CertifiedKey::new(vec![CertificateDer::from(spki)], key)))
}

/// A raw public key has no dates, so no clock is asked.
#[derive(Debug)]
struct NoClock;

impl TimeProvider for NoClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(std::time::Duration::ZERO))
    }
}

/// The part that is the same for both sides: keys are raw Ed25519 keys, and TLS 1.2 is not spoken.
macro_rules! raw_ed25519_keys {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::General("TLS 1.2 is not spoken".to_owned()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            key: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let key = SubjectPublicKeyInfoDer::from(key.as_ref());
            verify_tls13_signature_with_raw_key(message, &key, signed, &ALGORITHMS)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

/// Takes the one key that the ticket names.
#[derive(Debug)]
struct PinnedKey {
    sender: PublicKey,
}

impl ServerCertVerifier for PinnedKey {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = PublicKey::from_spki(key).map_err(|_| CertificateError::BadEncoding)?;
        if found == self.sender {
            return Ok(ServerCertVerified::assertion());
        }
        let wrong = TlsError::WrongKey { found, expected: self.sender };
        Err(CertificateError::Other(OtherError(Arc::new(wrong))).into())
    }

    raw_ed25519_keys!();
}

/// Takes any key, if only the receiver has the private half of it.
#[derive(Debug)]
struct AnyKey;

impl ClientCertVerifier for AnyKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        PublicKey::from_spki(key).map_err(|_| CertificateError::BadEncoding)?;
        Ok(ClientCertVerified::assertion())
    }

    raw_ed25519_keys!();
}

impl From<Error> for TlsError {
    fn from(error: Error) -> Self {
        match &error {
            Error::InvalidCertificate(CertificateError::Other(other)) => {
                other.0.downcast_ref::<Self>().cloned().unwrap_or_else(|| Self::Other(error.to_string()))
            }
            // What `PinnedKey` refuses becomes this alert.
            Error::AlertReceived(AlertDescription::CertificateUnknown) => Self::KeyRefused,
            Error::InvalidMessage(_) => Self::NoTls,
            _ => Self::Other(error.to_string()),
        }
    }
}
