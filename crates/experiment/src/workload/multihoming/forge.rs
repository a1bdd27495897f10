//! A forger without keys, which tells the stub's systems the opposite of what is so.

use std::{
    io,
    net::{Ipv6Addr, SocketAddr, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use treecast_mast::{
    Prefix,
    dns::{client::PrefixUpdate, keys::signer},
    message::{Envelope, Key, Message, Preference, PrefixState, Protocol},
};

use super::systems::{LINK, STUB, Targets, UPDATE_KEY, ZONE};
use crate::site::{Site, enter};

/// The time between two rounds of forged messages.
const EVERY: Duration = Duration::from_millis(250);

/// The secret that the forger would like to be the right one.
const SECRET: [u8; 32] = [0x66; 32];

/// The messages that a forger has sent: SRMP, ITMP, and updates of names.
pub type Forged = [u64; 3];

/// The forger and those whom they tell.
pub struct Forger<'a> {
    pub site: &'a dyn Site,
    /// A node in the stub, where SRMP can be reached.
    pub inside: &'a str,
    pub outside: &'a str,
    pub targets: &'a Targets,
    pub name_server: SocketAddr,
}

impl Forger<'_> {
    /// Sends forged messages until all is over. Returns how many of each kind.
    pub fn run(&self, is_over: &AtomicBool) -> io::Result<Forged> {
        let socket = |node: &str| enter(self.site, node, || UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)))?;
        let (inside, outside) = (socket(self.inside)?, socket(self.outside)?);
        let prefix = self.targets.prefix;
        let mut forged = Forged::default();
        let mut round = 0;
        while !is_over.load(Ordering::Relaxed) {
            round += 1;
            // Whatever is so, every second round says the opposite.
            let is_discouraged = round % 2 == 0;
            let messages = [
                (&inside, self.targets.srmp, states(prefix, is_discouraged)),
                (&outside, self.targets.itmp, close(prefix)),
                (&outside, self.name_server, update(prefix, is_discouraged, round)?),
            ];
            for (count, (socket, to, message)) in forged.iter_mut().zip(messages) {
                // While no route leads there, nothing can be forged.
                *count += u64::from(socket.send_to(&message, to).is_ok());
            }
            thread::sleep(EVERY);
        }
        Ok(forged)
    }
}

fn states(prefix: Prefix, is_discouraged: bool) -> Vec<u8> {
    let preference = if is_discouraged { Preference::Discouraged } else { Preference::Encouraged };
    let state = PrefixState { prefix, preference, epoch: now().as_micros() as u64 };
    seal(Protocol::Srmp, Message::Prefixes(vec![state]))
}

fn close(prefix: Prefix) -> Vec<u8> {
    seal(Protocol::Itmp, Message::Close { prefix })
}

fn seal(protocol: Protocol, message: Message) -> Vec<u8> {
    let stamp = now().as_micros() as u64;
    Envelope { sender: STUB.into(), stamp, message }.seal(&Key::new(protocol, &SECRET))
}

fn update(prefix: Prefix, is_discouraged: bool, id: u16) -> io::Result<Vec<u8>> {
    let key = signer(UPDATE_KEY, &SECRET).map_err(io::Error::other)?;
    let zone = ZONE.parse().map_err(io::Error::other)?;
    let network = format!("{LINK}.{ZONE}").parse().map_err(io::Error::other)?;
    let update =
        PrefixUpdate { zone, networks: vec![network], blocks: vec![(prefix, is_discouraged)], ttl: 1 };
    let message = update.message(id, &key, now().as_secs()).map_err(io::Error::other)?;
    Ok(message.0)
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
