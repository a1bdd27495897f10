//! `treecast doctor beacon`: beacons that run on, and show what each of them hears of each other one.
//!
//! Each beacon sends a packet to the group at a steady rate, with what it hears of the others. So every beacon knows
//! the whole matrix. [`Circle`] is the machine; [`run`] gives it sockets and a clock.

mod circle;
mod heard;
mod matrix;
mod socket;

use std::{
    io,
    net::SocketAddr,
    time::{Duration, Instant as SystemInstant, SystemTime},
};

use thiserror::Error;
use treecast_host::{
    interface::{Interface, InterfaceError},
    messages,
    poller::Poller,
    stop::Stop,
};
use treecast_proto::{Instant, Step, random::SplitMix64};
use treecast_wire::beacon::{Beacon, MAX_LEN};

pub use circle::{Change, Circle, Key, MAX_OTHERS, MAX_PER_ADDRESS, Refusal, Wait};
pub use matrix::{Known, Matrix, Seen, State};
use socket::Sockets;

/// The time between two matrices that the caller gets.
const MATRIX_EVERY: Duration = Duration::from_secs(1);

const PACKETS: u64 = 0;
const STOP: u64 = 1;

/// The settings of a beacon.
#[derive(Debug, Clone)]
pub struct Options {
    /// The group and its UDP port.
    pub group: SocketAddr,
    /// The interface. `None`: the one of the route to the group, or the default route.
    pub interface: Option<String>,
    /// The name that the others show; see [`Beacon::new`].
    pub name: String,
    /// The time between two packets, 1 ms to 65 s.
    pub interval: Duration,
    /// The hop limit of packets. With 1, no router forwards them.
    pub hop_limit: u8,
    /// The key that all beacons of the group share. `None`: packets are not protected.
    pub key: Option<Key>,
}

/// News of a running beacon.
#[derive(Debug)]
pub enum News<'a> {
    /// The beacon sends and listens from now on.
    Ready,
    /// One beacon hears another better or worse than before.
    Change(&'a Change),
    /// The matrix, once a second, and at the end.
    Matrix(&'a Matrix),
}

/// Why a beacon cannot run.
#[derive(Debug, Error)]
pub enum Error {
    #[error("{0} is no multicast group: name one like [ff15::42]:5000 or 239.1.2.3:5000")]
    NoGroup(SocketAddr),
    #[error("a beacon's name has 1 to 40 bytes and no control characters: {0:?} does not")]
    Name(String),
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
}

/// Runs a beacon until `stop` is requested. Returns the last matrix.
///
/// # Errors
/// If the options are not valid, or the group cannot be joined.
pub fn run(options: &Options, stop: &Stop, notify: &mut dyn FnMut(News<'_>)) -> Result<Matrix, Error> {
    let failed = |what| move |source| Error::System { what, source };
    if !options.group.ip().is_multicast() {
        return Err(Error::NoGroup(options.group));
    }
    let interface = match &options.interface {
        Some(name) => Interface::named(name)?,
        None => Interface::by_route(None)?,
    };
    interface.check_family(options.group.ip())?;
    let mut packet =
        Beacon::new(random_id(), &options.name).map_err(|_| Error::Name(options.name.clone()))?;
    packet.hop_limit = options.hop_limit;
    packet.interval_ms = options.interval.as_millis().clamp(1, u128::from(u16::MAX)) as u16;
    let sockets = Sockets::open(options.group, &interface, options.hop_limit);
    let sockets = sockets.map_err(failed("cannot open sockets for the group"))?;
    let mut poller = Poller::new().map_err(failed("cannot wait for packets"))?;
    poller.watch(&sockets.receiver, PACKETS).map_err(failed("cannot wait for packets"))?;
    poller.watch(stop, STOP).map_err(failed("cannot wait for packets"))?;

    let start = SystemInstant::now();
    let now = || Instant::ZERO + start.elapsed();
    let mut circle = Circle::new(now(), packet, options.key.clone());
    let mut next_matrix = now() + MATRIX_EVERY;
    notify(News::Ready);
    while !stop.is_requested() {
        let deadline = match circle.poll(now(), wall_us()) {
            Step::Transmit(bytes) => {
                sockets.send(&bytes);
                continue;
            }
            Step::Event(change) => {
                notify(News::Change(&change));
                continue;
            }
            Step::Wait(deadline, Wait::Packets) => deadline.unwrap_or(next_matrix),
        };
        if next_matrix <= now() {
            next_matrix = now() + MATRIX_EVERY;
            notify(News::Matrix(&circle.matrix(now())));
        }
        let timeout = deadline.min(next_matrix) - now();
        poller.tokens(Some(timeout)).map_err(failed("cannot wait for packets"))?;
        receive(&sockets, &mut circle, now()).map_err(failed("cannot receive packets"))?;
    }
    let matrix = circle.matrix(now());
    notify(News::Matrix(&matrix));
    Ok(matrix)
}

/// Takes all packets that have come.
fn receive(sockets: &Sockets, circle: &mut Circle, now: Instant) -> io::Result<()> {
    // A longer packet is cut, and then refused.
    let mut buffer = [0; MAX_LEN + 1];
    loop {
        match messages::receive_from(&sockets.receiver, &mut buffer) {
            Ok((from, received)) => {
                let Some(from) = from.as_socket() else { continue };
                let arrived = received.ancillary.arrived.map_or_else(wall_us, |time| time.as_micros() as u64);
                let bytes = &buffer[..received.len];
                circle.handle(now, arrived, from.ip(), received.ancillary.hop_limit, bytes);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            // An interface that goes down and comes up again is what beacons are there to show.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::ENETDOWN)) => {}
            Err(error) => return Err(error),
        }
    }
}

fn wall_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as u64
}

/// A number that no other beacon has.
fn random_id() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut entropy = [0; 16];
    // Where the kernel has no random numbers to give, the time and the process are what is left.
    let _ = std::fs::File::open("/dev/urandom")
        .and_then(|mut file| io::Read::read_exact(&mut file, &mut entropy));
    let [one, other] = [0, 8].map(|at| u64::from_ne_bytes(*entropy[at..].first_chunk().expect("16 bytes")));
    let process = u64::from(std::process::id()) << 40;
    SplitMix64(one ^ since.as_nanos() as u64 ^ process).draw() ^ other
}
