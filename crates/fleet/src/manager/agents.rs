//! Listens for agents, and speaks with each.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    body::{Body, Bytes},
    extract::{
        Path, State,
        ws::{Message, WebSocket, WebSocketUpgrade},
    },
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use futures_util::{FutureExt, SinkExt, StreamExt, stream::SplitStream};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
    sync::OwnedSemaphorePermit,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use treecast_driver::security::PublicKey;
use treecast_host::clock;

use super::{
    hosts::HostId,
    hub::{Connected, Hub},
};
use crate::{
    clock::Exchange,
    message::{MAX_MESSAGE_LEN, READ_BUFFER_LEN, Report, ToAgent, ToManager, nanoseconds, read, text_of},
};

/// The longest time of a handshake and a greeting. Strangers hold a connection no longer.
const GREETING_TIME: Duration = Duration::from_secs(10);
/// The longest silence of an agent.
const SILENCE: Duration = Duration::from_secs(20);
/// The time between two questions for the time: at the beginning, and later.
const FIRST_PINGS: Duration = Duration::from_millis(100);
const PINGS: Duration = Duration::from_secs(5);
/// The number of questions at the beginning.
const PINGS_AT_FIRST: u32 = 6;
/// The most reports that are kept together.
const TOGETHER: usize = 200;
/// The most connections that have not greeted.
const MAX_STRANGERS: usize = 2_500;

/// Takes connections of agents until the future is dropped.
pub async fn serve(listener: TcpListener, tls: TlsAcceptor, hub: Arc<Hub>) {
    let strangers = Arc::new(tokio::sync::Semaphore::new(MAX_STRANGERS));
    let router = Router::new().route("/agent", get(agent)).route("/blobs/{blob}", get(blob));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // No descriptors are left, for example. Later some will be.
                tracing::warn!("a connection is not accepted: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&strangers).try_acquire_owned() else { continue };
        let (tls, router, hub) = (tls.clone(), router.clone(), Arc::clone(&hub));
        tokio::spawn(async move {
            // A stranger that does not finish its handshake is let go without a word.
            _ = connection(stream, tls, router, hub, permit).await;
        });
    }
}

async fn connection(
    stream: TcpStream,
    tls: TlsAcceptor,
    router: Router<Arc<Hub>>,
    hub: Arc<Hub>,
    permit: OwnedSemaphorePermit,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let stream = timeout(GREETING_TIME, tls.accept(stream)).await??;
    let keys = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let key = keys.first().and_then(|key| PublicKey::from_spki(key).ok());
    let key = key.ok_or_else(|| io::Error::other("it has no key"))?;
    // Whoever has greeted is no stranger any more, and gives its place to others.
    let service = router.layer(Extension(key)).layer(Extension(Arc::new(permit))).with_state(hub);
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(GREETING_TIME)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
        .with_upgrades();
    served.await.map_err(io::Error::other)
}

async fn agent(
    State(hub): State<Arc<Hub>>,
    Extension(key): Extension<PublicKey>,
    Extension(place): Extension<Arc<OwnedSemaphorePermit>>,
    upgrade: WebSocketUpgrade,
) -> Response {
    // A buffer for each of thousands of agents.
    let upgrade = upgrade.read_buffer_size(READ_BUFFER_LEN).max_message_size(MAX_MESSAGE_LEN);
    upgrade.on_upgrade(move |socket| speak(socket, hub, key, place))
}

/// Speaks with an agent until its connection ends.
async fn speak(socket: WebSocket, hub: Arc<Hub>, key: PublicKey, place: Arc<OwnedSemaphorePermit>) {
    let (mut to_agent, mut from_agent) = socket.split();
    let Ok(Ok(ToManager::Hello(hello))) = timeout(GREETING_TIME, next(&mut from_agent)).await else { return };
    let connected = match hub.admit(key, *hello).await {
        Ok(Ok(connected)) => connected,
        Ok(Err(reason)) => {
            // It may not stay to hear it.
            _ = to_agent.send(Message::text(text_of(&ToAgent::Refused { reason }))).await;
            return;
        }
        Err(error) => return tracing::error!("an agent is not admitted: {error}"),
    };
    drop(place);
    let Connected { host, number, mut from_hub } = connected;
    let (acknowledge, mut acknowledged) = tokio::sync::mpsc::unbounded_channel();
    let write = async {
        let mut pings = 0;
        loop {
            let pause = if pings < PINGS_AT_FIRST { FIRST_PINGS } else { PINGS };
            let message = tokio::select! {
                message = from_hub.recv() => match message {
                    Some(message) => message,
                    // Another connection of the same agent has taken its place.
                    None => return,
                },
                Some(through) = acknowledged.recv() => ToAgent::Committed { through },
                () = tokio::time::sleep(pause) => {
                    pings += 1;
                    ToAgent::Ping { asked_ns: nanoseconds(clock::monotonic()) }
                }
            };
            if to_agent.send(Message::text(text_of(&message))).await.is_err() {
                return;
            }
        }
    };
    let hear = hear(&hub, host, &mut from_agent, &acknowledge);
    tokio::select! {
        () = write => {}
        () = hub.ended() => {}
        ended = hear => if let Err(reason) = ended {
            tracing::info!("the connection of host {host} has ended: {reason}");
        },
    }
    hub.left(host, number).await;
}

/// Hears an agent until its connection ends. The error says why it did.
async fn hear(
    hub: &Hub,
    host: HostId,
    from_agent: &mut SplitStream<WebSocket>,
    acknowledge: &tokio::sync::mpsc::UnboundedSender<u64>,
) -> Result<(), String> {
    loop {
        let first = timeout(SILENCE, next(from_agent)).await.map_err(|_| "it is silent")??;
        let mut reports: Vec<Report> = Vec::new();
        let mut said = Some(first);
        while let Some(message) = said.take() {
            note(hub, host, message, &mut reports).await?;
            if reports.len() < TOGETHER {
                // What has come already is kept together.
                said = next(from_agent).now_or_never().transpose()?;
            }
        }
        if !reports.is_empty() {
            let through = hub.keep(host, reports).await.map_err(|error| error.to_string())?;
            // The other end is in the same function.
            _ = acknowledge.send(through);
        }
    }
}

async fn note(hub: &Hub, host: HostId, message: ToManager, reports: &mut Vec<Report>) -> Result<(), String> {
    match message {
        ToManager::Report(report) => reports.push(report),
        ToManager::Pong { asked_ns, heard_ns, answered_ns, wall_ns, carried } => {
            let [asked, heard, answered, wall] =
                [asked_ns, heard_ns, answered_ns, wall_ns].map(Duration::from_nanos);
            hub.note_pong(
                host,
                &Exchange { asked, heard, answered, came: clock::monotonic() },
                wall,
                carried,
            );
        }
        ToManager::Facts(facts) => hub.note_facts(host, *facts).await.map_err(|error| error.to_string())?,
        ToManager::Hello(_) => return Err("it greets twice".into()),
    }
    Ok(())
}

async fn next(from_agent: &mut SplitStream<WebSocket>) -> Result<ToManager, String> {
    loop {
        match from_agent.next().await {
            Some(Ok(Message::Text(text))) => return read(&text),
            Some(Ok(Message::Close(_))) | None => return Err("it has closed".into()),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error.to_string()),
        }
    }
}

/// Gives an agent a file that it was ordered to fetch. Strangers get none.
async fn blob(
    State(hub): State<Arc<Hub>>,
    Extension(key): Extension<PublicKey>,
    Path(blob): Path<String>,
) -> Response {
    let is_known = hub.knows(&key).await.unwrap_or(false);
    let Some(path) = hub.blob(&blob).filter(|_| is_known) else {
        return (StatusCode::NOT_FOUND, "there is no such file").into_response();
    };
    match stream(path).await {
        Ok(body) => body.into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

/// Reads a file piece by piece, as fast as it is taken.
async fn stream(path: PathBuf) -> io::Result<Body> {
    let file = tokio::fs::File::open(path).await?;
    let pieces = futures_util::stream::unfold(file, |mut file| async {
        let mut piece = vec![0; 64 << 10];
        match file.read(&mut piece).await {
            Ok(0) => None,
            Ok(len) => {
                piece.truncate(len);
                Some((Ok(Bytes::from(piece)), file))
            }
            Err(error) => Some((Err(error), file)),
        }
    });
    Ok(Body::from_stream(pieces))
}
