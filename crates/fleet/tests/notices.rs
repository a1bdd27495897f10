//! Notices of what matters: web hooks and e-mail.

use std::{
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use data_encoding::HEXLOWER;
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use ring::hmac;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::timeout,
};
use treecast_driver::security::Identity;
use treecast_fleet::{client::Client, release::Release};

use crate::support::{Agent, Fleet, Folder, LONGEST, manager_with, until};

const SECRET: &str = "0123456789abcdef0123";

/// A request that came: its signature and its body.
type Came = (String, Bytes);

/// Starts a server that answers 503 to the first requests. Returns its address and what comes.
async fn server(failures: u32) -> (String, mpsc::UnboundedReceiver<Came>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (say, said) = mpsc::unbounded_channel();
    let number = Arc::new(AtomicU32::new(0));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (say, number) = (say.clone(), Arc::clone(&number));
            let answer = move |request: Request<Incoming>| {
                let (say, number) = (say.clone(), Arc::clone(&number));
                async move {
                    let signature = request.headers()["x-treecast-signature"].to_str().unwrap().to_owned();
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    // The test may have seen enough.
                    _ = say.send((signature, body));
                    let fails = number.fetch_add(1, Ordering::Relaxed) < failures;
                    let status = if fails { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
                    Response::builder().status(status).body(Full::new(Bytes::new()))
                }
            };
            tokio::spawn(async move {
                // The manager may close first.
                _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await;
            });
        }
    });
    (address, said)
}

async fn next(said: &mut mpsc::UnboundedReceiver<Came>) -> Came {
    timeout(LONGEST, said.recv()).await.expect("a notice comes").unwrap()
}

fn write(path: &Path, mode: u32, text: &str) {
    use std::io::Write;
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(mode).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// The configuration of a hook.
fn hook(folder: &Folder, address: &str, on: &str) -> String {
    let secret = folder.0.join("secret");
    write(&secret, 0o600, SECRET);
    let secret = secret.display();
    format!(
        "[notices]\naway_after = \"0s\"\n[[hooks]]\nurl = \"http://{address}/in\"\nsecret_file = \"{secret}\"\non = [{on}]\n"
    )
}

/// Checks the signature of what came, and reads it.
fn read((signature, body): &Came) -> Value {
    let signature = HEXLOWER.decode(signature.strip_prefix("sha256=").unwrap().as_bytes()).unwrap();
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    hmac::verify(&key, body, &signature).unwrap();
    serde_json::from_slice(body).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notice_comes_once_the_server_takes_it_also_after_a_restart() {
    let folder = Folder::new();
    let (address, mut said) = server(2).await;
    let config = hook(&folder, &address, "\"host-away\"");
    let fleet = Fleet::with(&config).await;
    fleet.agent("a").await.kill().await;
    let first = next(&mut said).await;
    let state = fleet.state();
    let Fleet { folder: kept, manager, .. } = fleet;
    drop(manager);
    let manager = manager_with(&state, &config).await;
    let second = next(&mut said).await;
    let third = next(&mut said).await;
    let notice = read(&first);
    assert_eq!((notice["kind"].as_str(), notice["about"].as_str()), (Some("host-away"), Some("host a")));
    assert_eq!(read(&second), notice, "it is the same");
    assert_eq!(read(&third), notice);
    drop((manager, kept));
}

#[tokio::test(flavor = "multi_thread")]
async fn rollouts_that_wait_and_strangers_are_told() {
    let folder = Folder::new();
    let (address, mut said) = server(0).await;
    let fleet =
        Fleet::with(&hook(&folder, &address, "\"rollout-waits\", \"rollout-stopped\", \"host-refused\""))
            .await;
    let agent = fleet.agent("a").await;
    let source = folder.0.join("source");
    std::fs::create_dir_all(&source).unwrap();
    std::fs::write(source.join("file"), "bytes").unwrap();
    let signed =
        Release::of_folder(&source, "app", "1.0", None, None).unwrap().sign(&Identity::generate().unwrap());
    let own = Client::of_state(&fleet.state()).unwrap();
    let release: Value =
        own.post("/api/releases", &json!({ "signed": signed, "folder": source })).await.unwrap();
    let wanted = json!({ "release": release["id"], "rings": [{ "select": "a" }], "approval": true });
    let rollout: Value = own.post("/api/rollouts", &wanted).await.unwrap();
    let told = read(&next(&mut said).await);
    assert_eq!(told["kind"], "rollout-waits", "{told}");
    assert!(told["about"].as_str().unwrap().contains("app 1.0"), "{told}");
    let second = fleet.client("second", "release-manager").await;
    // This host trusts nobody's releases.
    let _: Value =
        second.post(&format!("/api/rollouts/{}/approve", rollout["id"]), &json!({})).await.unwrap();
    let told = read(&next(&mut said).await);
    assert_eq!(told["kind"], "rollout-stopped", "{told}");
    // Somebody else wants to be this host.
    let other = Agent::start(&folder.0.join("other"), "a", Some(&fleet.code));
    other.refused().await;
    let told = read(&next(&mut said).await);
    assert_eq!((told["kind"].as_str(), told["about"].as_str()), (Some("host-refused"), Some("host a")));
    drop(agent);
}

#[tokio::test(flavor = "multi_thread")]
async fn sendmail_gets_a_message_until_it_takes_it() {
    let folder = Folder::new();
    let program = folder.0.join("sendmail");
    let at = folder.0.display();
    // It fails twice, and keeps what it takes then.
    let script = format!(
        "#!/bin/sh\necho x >> {at}/tries\nif [ $(wc -l < {at}/tries) -le 2 ]; then exit 75; fi\n\
         echo \"$@\" > {at}/arguments\ncat > {at}/part && mv {at}/part {at}/message\n"
    );
    write(&program, 0o755, &script);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let config = format!(
        "[notices]\naway_after = \"0s\"\n[[mail]]\nfrom = \"treecast@example.org\"\nto = [\"ops@example.org\"]\n\
         sendmail = \"{}\"\n",
        program.display()
    );
    let fleet = Fleet::with(&config).await;
    fleet.agent("a").await.kill().await;
    let message = folder.0.join("message");
    until("the message comes", || async { message.exists() }).await;
    let arguments = std::fs::read_to_string(folder.0.join("arguments")).unwrap();
    assert_eq!(arguments.trim(), "-i -f treecast@example.org -- ops@example.org");
    let text = std::fs::read_to_string(&message).unwrap();
    assert!(text.starts_with("From: treecast@example.org\nTo: ops@example.org\nSubject: "), "{text}");
}

/// Starts a mail server that takes no message of the first connections. Returns its address and the messages that it takes.
async fn mail_server(failures: u32) -> (String, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (say, said) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        for number in 0.. {
            let (stream, _) = listener.accept().await.unwrap();
            let say = say.clone();
            tokio::spawn(async move {
                // The manager may close first.
                _ = take(stream, number >= failures, &say).await;
            });
        }
    });
    (address, said)
}

/// Speaks SMTP (RFC 5321) with a client.
async fn take(stream: TcpStream, takes: bool, say: &mpsc::UnboundedSender<String>) -> std::io::Result<()> {
    let (from, mut to) = stream.into_split();
    let mut lines = BufReader::new(from).lines();
    to.write_all(b"220 mail\r\n").await?;
    while let Some(line) = lines.next_line().await? {
        let answer: &[u8] = match line.get(..4).unwrap_or_default() {
            "MAIL" if !takes => b"451 later\r\n",
            "QUIT" => return to.write_all(b"221 bye\r\n").await,
            "DATA" => {
                to.write_all(b"354 go on\r\n").await?;
                let mut message = String::new();
                while let Some(line) = lines.next_line().await?.filter(|line| line != ".") {
                    message += &format!("{line}\n");
                }
                // The test may have seen enough.
                _ = say.send(message);
                b"250 taken\r\n"
            }
            _ => b"250 well\r\n",
        };
        to.write_all(answer).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mail_server_gets_a_message_until_it_takes_it() {
    let (address, mut said) = mail_server(2).await;
    let config = format!(
        "[notices]\naway_after = \"0s\"\n[[mail]]\nfrom = \"treecast@example.org\"\nto = [\"ops@example.org\"]\n\
         smtp = \"smtp://{address}\"\n"
    );
    let fleet = Fleet::with(&config).await;
    fleet.agent("a").await.kill().await;
    let message = timeout(LONGEST, said.recv()).await.expect("the message comes").unwrap();
    assert!(message.starts_with("From: treecast@example.org\nTo: ops@example.org\nSubject: "), "{message}");
}
