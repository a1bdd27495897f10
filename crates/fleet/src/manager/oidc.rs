//! Logins of people by an identity provider (OpenID Connect Core 1.0): the authorization code flow with PKCE (RFC 7636).
//!
//! Whoever logs in has the highest role of its groups that the configuration names. Without one, the login is refused.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use http_body_util::Full;
use hyper::body::Bytes;
use openidconnect::{
    AdditionalClaims, AuthorizationCode, ClientId, ClientSecret, CsrfToken, EmptyExtraTokenFields,
    EndpointMaybeSet, EndpointNotSet, EndpointSet, HttpRequest, HttpResponse, IdTokenFields, IssuerUrl,
    Nonce, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, Scope, StandardErrorResponse,
    StandardTokenResponse, TokenResponse,
    core::{
        CoreAuthDisplay, CoreAuthPrompt, CoreAuthenticationFlow, CoreErrorResponseType, CoreGenderClaim,
        CoreJsonWebKey, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm, CoreProviderMetadata,
        CoreRevocableToken, CoreRevocationErrorResponse, CoreTokenIntrospectionResponse, CoreTokenType,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;
use treecast_host::text;

use super::access::{Caller, Role};
use crate::https::Https;

/// The longest time from the beginning of a login to its end.
pub const LONGEST: Duration = Duration::from_secs(10 * 60);
/// The most logins that have begun.
const MAX_BEGUN: usize = 1_000;
/// The path where the provider sends browsers back to.
pub const BACK: &str = "/login/back";

/// An identity provider.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// The provider's address, as it calls itself: `https://id.example.org/realms/x`.
    pub issuer: String,
    /// The name of the manager at the provider.
    pub client: String,
    /// The file with the manager's secret at the provider. Nobody else may read it.
    #[serde(default)]
    pub secret_file: Option<PathBuf>,
    /// Where browsers reach the console, such as `https://fleet.example.org`.
    pub address: String,
    /// The certificates of those who may have signed the provider's. Without it, those of the system.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// The claim that has the groups of somebody.
    #[serde(default = "groups")]
    pub groups: String,
    /// What is asked for beside `openid`, so that the provider tells names and groups.
    #[serde(default = "scopes")]
    pub scopes: Vec<String>,
    /// The role of each group.
    pub roles: BTreeMap<String, Role>,
}

fn groups() -> String {
    "groups".into()
}

fn scopes() -> Vec<String> {
    vec!["profile".into()]
}

/// The reason why nobody is logged in.
#[derive(Debug, Error)]
pub enum LoginError {
    #[error("[login] {what}: {source}")]
    Secret { what: String, source: io::Error },
    #[error("the identity provider at {issuer}: {what}")]
    Provider { issuer: String, what: String },
    #[error("this login was not begun here, or has taken too long: begin again at /login/start")]
    Unknown,
    #[error("the identity provider refuses: {0}")]
    Refused(String),
    #[error("{who} is in no group that has a role here")]
    Nobody { who: String },
}

/// All claims of an identity.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Claims {
    #[serde(flatten)]
    all: BTreeMap<String, Value>,
}

impl AdditionalClaims for Claims {}

type Identity = IdTokenFields<
    Claims,
    EmptyExtraTokenFields,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJwsSigningAlgorithm,
>;

type Client = openidconnect::Client<
    Claims,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    StandardTokenResponse<Identity, CoreTokenType>,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// The logins by an identity provider.
pub struct Provider {
    config: Login,
    secret: Option<ClientSecret>,
    /// Logins that have begun, by their state.
    begun: Mutex<HashMap<String, Begun>>,
}

/// A login that has begun.
struct Begun {
    nonce: Nonce,
    verifier: PkceCodeVerifier,
    at: Instant,
}

/// The beginning of a login.
pub struct Beginning {
    /// Where the browser goes.
    pub url: String,
    /// What the browser keeps, so that nobody else's login is ended in it.
    pub state: String,
}

impl Provider {
    /// Reads the manager's secret at the provider. The provider itself is asked at each login.
    ///
    /// # Errors
    /// If the secret cannot be read.
    pub fn new(config: &Login) -> Result<Self, LoginError> {
        let read = |path: &PathBuf| {
            let secret = text::read_private(path, 4096);
            secret.map(|text| ClientSecret::new(text.trim().to_owned())).map_err(|source| {
                LoginError::Secret { what: format!("secret_file {}", path.display()), source }
            })
        };
        let secret = config.secret_file.as_ref().map(read).transpose()?;
        Ok(Self { config: config.clone(), secret, begun: Mutex::default() })
    }

    /// Begins a login.
    ///
    /// # Errors
    /// If the provider does not say where to go.
    pub async fn begin(&self) -> Result<Beginning, LoginError> {
        let client = self.client().await?;
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let scopes = self.config.scopes.iter().cloned().map(Scope::new);
        let (url, state, nonce) = client
            .authorize_url(
                CoreAuthenticationFlow::AuthorizationCode,
                CsrfToken::new_random,
                Nonce::new_random,
            )
            .add_scopes(scopes)
            .set_pkce_challenge(challenge)
            .url();
        let state = state.secret().clone();
        let mut begun = self.begun();
        begun.retain(|_, of| of.at.elapsed() < LONGEST);
        if begun.len() >= MAX_BEGUN {
            begun.clear();
        }
        begun.insert(state.clone(), Begun { nonce, verifier, at: Instant::now() });
        Ok(Beginning { url: url.to_string(), state })
    }

    /// Ends a login with the code that the provider gave the browser. Returns who it is.
    ///
    /// # Errors
    /// If the login was not begun here, the provider does not know the code, or nobody has a role.
    pub async fn end(&self, state: &str, code: String) -> Result<Caller, LoginError> {
        let begun = self.begun().remove(state).filter(|of| of.at.elapsed() < LONGEST);
        let Begun { nonce, verifier, .. } = begun.ok_or(LoginError::Unknown)?;
        let client = self.client().await?;
        let http = |request| call(self.config.ca_file.clone(), request);
        let asked =
            client.exchange_code(AuthorizationCode::new(code)).map_err(|error| self.failed(&error))?;
        let answer = asked.set_pkce_verifier(verifier).request_async(&http).await;
        let answer = answer.map_err(|error| self.failed(&error))?;
        let identity = answer.id_token().ok_or_else(|| self.failed(&"it gives no identity"))?;
        let claims = identity.claims(&client.id_token_verifier(), &nonce);
        let claims = claims.map_err(|error| self.failed(&error))?;
        // A name can be chosen at many providers, and the subject cannot.
        let subject = claims.subject().as_str();
        let name = claims.preferred_username().map(|name| name.as_str());
        let who = name.map_or_else(|| subject.to_owned(), |name| format!("{name} ({subject})"));
        match self.role(&claims.additional_claims().all) {
            Some(role) => Ok(Caller { name: who, role }),
            None => Err(LoginError::Nobody { who }),
        }
    }

    /// Returns the highest role of somebody's groups.
    fn role(&self, claims: &BTreeMap<String, Value>) -> Option<Role> {
        let groups = claims.get(&self.config.groups).and_then(Value::as_array).into_iter().flatten();
        groups.filter_map(|group| self.config.roles.get(group.as_str()?).copied()).max()
    }

    async fn client(&self) -> Result<Client, LoginError> {
        let http = |request| call(self.config.ca_file.clone(), request);
        let issuer = IssuerUrl::new(self.config.issuer.clone()).map_err(|error| self.failed(&error))?;
        let metadata = CoreProviderMetadata::discover_async(issuer, &http).await;
        let metadata = metadata.map_err(|error| self.failed(&error))?;
        let back = format!("{}{BACK}", self.config.address.trim_end_matches('/'));
        let back = RedirectUrl::new(back).map_err(|error| self.failed(&error))?;
        let name = ClientId::new(self.config.client.clone());
        Ok(openidconnect::Client::from_provider_metadata(metadata, name, self.secret.clone())
            .set_redirect_uri(back))
    }

    fn failed(&self, what: &dyn std::fmt::Display) -> LoginError {
        LoginError::Provider { issuer: self.config.issuer.clone(), what: what.to_string() }
    }

    fn begun(&self) -> MutexGuard<'_, HashMap<String, Begun>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reason why the provider is not reached.
#[derive(Debug, Error)]
#[error("{0}")]
struct Unreached(String);

/// Sends a request to the provider.
async fn call(certificates: Option<PathBuf>, request: HttpRequest) -> Result<HttpResponse, Unreached> {
    /// The longest time of a request.
    const LONGEST: Duration = Duration::from_secs(10);
    let https = Https::new(request.uri(), certificates.as_deref()).map_err(Unreached)?;
    let (mut parts, body) = request.into_parts();
    // A server is asked for a path, and by the header for itself.
    parts.uri = parts.uri.path_and_query().map_or_else(Default::default, |path| path.clone().into());
    let request = hyper::Request::from_parts(parts, Full::new(Bytes::from(body)));
    let answered = tokio::time::timeout(LONGEST, https.send(request)).await;
    let (status, body) = answered.map_err(|_| Unreached("no answer in time".into()))?.map_err(Unreached)?;
    let mut response = HttpResponse::new(body.to_vec());
    *response.status_mut() = status;
    Ok(response)
}
