//! Logins of people by an identity provider, which is a small one in this file.

use std::{
    collections::HashMap,
    os::unix::fs::OpenOptionsExt,
    sync::{Arc, Mutex},
    time::{SystemTime, UNIX_EPOCH},
};

use data_encoding::{BASE64, BASE64URL_NOPAD};
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    client, server,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use ring::{
    digest,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair},
};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Fleet, Folder, was_refused};

const SECRET: &str = "a-secret-of-the-manager";

/// What the provider knows of a code that it gave.
struct Given {
    nonce: String,
    challenge: String,
    groups: Vec<&'static str>,
}

/// An identity provider.
struct Provider {
    issuer: String,
    key: EcdsaKeyPair,
    /// The key that is shown. It is the one that signs, unless the provider is not who it says.
    shown: Vec<u8>,
    codes: Mutex<HashMap<String, Given>>,
}

fn new_key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap()
}

impl Provider {
    /// Starts a provider. `is_true` is whether it signs by the key that it shows.
    async fn start(is_true: bool) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let key = new_key();
        let shown = if is_true {
            key.public_key().as_ref().to_vec()
        } else {
            new_key().public_key().as_ref().to_vec()
        };
        let provider = Arc::new(Self { issuer, key, shown, codes: Mutex::default() });
        let serving = Arc::clone(&provider);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let serving = Arc::clone(&serving);
                let answer = move |request| {
                    let serving = Arc::clone(&serving);
                    async move { Ok::<_, hyper::Error>(serving.answer(request).await) }
                };
                tokio::spawn(async move {
                    // The manager may close first.
                    let http = server::conn::http1::Builder::new();
                    _ = http.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
                });
            }
        });
        provider
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let issuer = &self.issuer;
        let told = match request.uri().path() {
            "/.well-known/openid-configuration" => json!({
                "issuer": issuer, "authorization_endpoint": format!("{issuer}/authorize"),
                "token_endpoint": format!("{issuer}/token"), "jwks_uri": format!("{issuer}/keys"),
                "response_types_supported": ["code"], "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["ES256"],
            }),
            "/keys" => {
                let [x, y] = [1..33, 33..65].map(|of| BASE64URL_NOPAD.encode(&self.shown[of]));
                json!({ "keys": [
                    { "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "1", "x": x, "y": y },
                ] })
            }
            "/token" => match self.token(request).await {
                Some(token) => token,
                None => return status(StatusCode::BAD_REQUEST),
            },
            _ => return status(StatusCode::NOT_FOUND),
        };
        let answer = Response::builder().header("content-type", "application/json");
        answer.body(Full::new(Bytes::from(told.to_string()))).unwrap()
    }

    /// Gives an identity for a code, once, to the manager, and to whoever has begun the login.
    async fn token(&self, request: Request<Incoming>) -> Option<Value> {
        let expected = format!("Basic {}", BASE64.encode(format!("treecast:{SECRET}").as_bytes()));
        let authorization = request.headers().get("authorization")?.to_str().ok()?.to_owned();
        assert_eq!(authorization, expected);
        let body = request.into_body().collect().await.ok()?.to_bytes();
        let body = String::from_utf8(body.to_vec()).ok()?;
        let form: HashMap<&str, &str> = body.split('&').filter_map(|pair| pair.split_once('=')).collect();
        let given = self.codes.lock().unwrap().remove(*form.get("code")?)?;
        let hashed = digest::digest(&digest::SHA256, form.get("code_verifier")?.as_bytes());
        assert_eq!(BASE64URL_NOPAD.encode(hashed.as_ref()), given.challenge);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let claims = json!({
            "iss": self.issuer, "sub": "u1", "aud": "treecast", "iat": now, "exp": now + 60, "nonce": given.nonce,
            "preferred_username": "ada", "groups": given.groups,
        });
        let part = |value: Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        let signed = format!("{}.{}", part(json!({ "alg": "ES256", "kid": "1" })), part(claims));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        let token = format!("{signed}.{}", BASE64URL_NOPAD.encode(signature.as_ref()));
        Some(json!({ "access_token": "x", "token_type": "Bearer", "id_token": token }))
    }
}

fn status(status: StatusCode) -> Response<Full<Bytes>> {
    Response::builder().status(status).body(Full::new(Bytes::new())).unwrap()
}

/// What the manager answers to a browser.
struct Answer {
    status: StatusCode,
    location: String,
    /// The cookie that is set, without its attributes.
    cookie: String,
    text: String,
}

async fn browse(fleet: &Fleet, path: &str, cookie: &str) -> Answer {
    let stream = TcpStream::connect(fleet.manager.console).await.unwrap();
    let (mut sender, connection) = client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get(path).header("host", "localhost").header("cookie", cookie);
    let response = sender.send_request(request.body(Full::new(Bytes::new())).unwrap()).await.unwrap();
    let header = |name: &str| {
        response.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
    };
    let (status, location, cookie) = (response.status(), header("location"), header("set-cookie"));
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    Answer { status, location, cookie, text: String::from_utf8(bytes.to_vec()).unwrap() }
}

/// A fleet whose people log in by a provider.
async fn fleet(folder: &Folder, provider: &Provider) -> Fleet {
    use std::io::Write;
    let secret = folder.0.join("secret");
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&secret).unwrap();
    file.write_all(SECRET.as_bytes()).unwrap();
    let config = format!(
        "[login]\nissuer = \"{}\"\nclient = \"treecast\"\nsecret_file = \"{}\"\naddress = \"http://localhost\"\n\
         [login.roles]\nstaff = \"viewer\"\nnoc = \"operator\"\n",
        provider.issuer,
        secret.display()
    );
    Fleet::with(&config).await
}

/// Logs somebody of these groups in at the provider. Returns the path to which the browser is sent back, and its cookie.
async fn log_in(fleet: &Fleet, provider: &Provider, groups: Vec<&'static str>) -> (String, String) {
    let begun = browse(fleet, "/login/start", "").await;
    assert_eq!(begun.status, StatusCode::SEE_OTHER, "{}", begun.text);
    let (at, query) = begun.location.split_once('?').unwrap();
    assert_eq!(at, format!("{}/authorize", provider.issuer));
    let query: HashMap<&str, &str> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
    assert_eq!((query["response_type"], query["client_id"]), ("code", "treecast"));
    assert_eq!(query["code_challenge_method"], "S256");
    assert_eq!(query["redirect_uri"], "http%3A%2F%2Flocalhost%2Flogin%2Fback");
    let given =
        Given { nonce: query["nonce"].to_owned(), challenge: query["code_challenge"].to_owned(), groups };
    provider.codes.lock().unwrap().insert("c0de".into(), given);
    (format!("/login/back?code=c0de&state={}", query["state"]), begun.cookie)
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_has_the_highest_role_of_its_groups() {
    let (folder, provider) = (Folder::new(), Provider::start(true).await);
    let fleet = fleet(&folder, &provider).await;
    let (back, cookie) = log_in(&fleet, &provider, vec!["staff", "noc", "others"]).await;
    let ended = browse(&fleet, &back, &cookie).await;
    assert_eq!((ended.status, ended.location.as_str()), (StatusCode::SEE_OTHER, "/"), "{}", ended.text);
    let me = browse(&fleet, "/api/me", &ended.cookie).await;
    let me: Value = serde_json::from_str(&me.text).unwrap();
    assert_eq!(me, json!({ "name": "ada (u1)", "role": "operator" }));
    assert_eq!(browse(&fleet, &back, &cookie).await.status, StatusCode::BAD_REQUEST, "it works once");
}

#[tokio::test(flavor = "multi_thread")]
async fn logins_of_others_are_refused() {
    let (folder, provider) = (Folder::new(), Provider::start(true).await);
    let fleet = fleet(&folder, &provider).await;
    // Nobody's login is ended in the browser of somebody else.
    let (back, _) = log_in(&fleet, &provider, vec!["noc"]).await;
    let refused = browse(&fleet, &back, "").await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.text.contains("not begun here"), "{}", refused.text);
    let (back, cookie) = log_in(&fleet, &provider, vec!["others"]).await;
    let refused = browse(&fleet, &back, &cookie).await;
    assert!(refused.text.contains("ada (u1) is in no group"), "{}", refused.text);
    // The identity is not of this login.
    let (back, cookie) = log_in(&fleet, &provider, vec!["noc"]).await;
    provider.codes.lock().unwrap().get_mut("c0de").unwrap().nonce = "another".into();
    assert_eq!(browse(&fleet, &back, &cookie).await.status, StatusCode::INTERNAL_SERVER_ERROR);
    let refused = browse(&fleet, "/login/back?error=access_denied", "").await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(was_refused(&fleet.state(), "log in").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_with_another_signature_is_refused() {
    let (folder, provider) = (Folder::new(), Provider::start(false).await);
    let fleet = fleet(&folder, &provider).await;
    let (back, cookie) = log_in(&fleet, &provider, vec!["noc"]).await;
    let refused = browse(&fleet, &back, &cookie).await;
    assert_eq!(refused.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(refused.text.contains("ignature"), "{}", refused.text);
    assert_eq!(refused.cookie, "");
}
