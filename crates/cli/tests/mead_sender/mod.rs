//! `treecast mead` on node `s` of a network, what programs there send to its device, and what receivers hear.
use std::{
    collections::BTreeMap,
    io::ErrorKind,
    net::{SocketAddr, UdpSocket},
    ops::{Deref, DerefMut},
    process::Stdio,
    time::Duration,
};

use serde_json::Value;
use treecast_host::option;

use crate::{
    child::Teller,
    mroute_network::{Network, Router, treecast},
    session::wait_until,
};

const TUN_ADDRESS: &str = "[fd15::1]:7777";

/// A sender that runs on `s` and tells what happens as JSON. Dropped, it is killed.
pub struct Sender(Teller);

impl Deref for Sender {
    type Target = Teller;

    fn deref(&self) -> &Teller {
        &self.0
    }
}

impl DerefMut for Sender {
    fn deref_mut(&mut self) -> &mut Teller {
        &mut self.0
    }
}

impl Sender {
    pub fn start(network: &Network, arguments: &[&str]) -> Self {
        Self::start_in(network, "s", arguments)
    }

    /// The same on another node.
    pub fn start_in(network: &Network, node: &str, arguments: &[&str]) -> Self {
        let mut sender = network.tell(node, &mut treecast(&[&["mead", "--json"], arguments].concat()));
        sender.next("ready");
        Self(sender)
    }

    /// Waits for a group in which so many get unicast.
    pub fn group_with_unicast(&mut self, count: usize) -> Value {
        let len = |group: &Value| group["unicast"].as_array().map(Vec::len);
        self.wait_for(|event| event["event"] == "group" && len(event) == Some(count))
    }

    /// Stops it, and returns what it has counted.
    pub fn end(self) -> Value {
        self.child.signal(libc::SIGTERM);
        self.0.end().0
    }
}

/// Sends so many datagrams of so many bytes to the device on `s`, the number of each at its beginning.
pub fn send(network: &Network, count: u8, len: usize) {
    let socket = network.within("s", || UdpSocket::bind("[::]:0").expect("a free port"));
    for number in 0..count {
        let mut datagram = vec![0xa5; len];
        datagram[0] = number;
        network.within("s", || socket.send_to(&datagram, TUN_ADDRESS).expect("the device is there"));
    }
}

/// Sends so many datagrams of so many bytes to the device on `s` in one call, and so as one super-packet.
pub fn send_super(network: &Network, count: u8, len: usize) {
    let socket = network.within("s", || UdpSocket::bind("[::]:0").expect("a free port"));
    option::set(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, len as i32)
        .expect("super-packets need Linux 4.18");
    let mut datagrams = vec![0xa5; len * usize::from(count)];
    datagrams.chunks_mut(len).zip(0..).for_each(|(datagram, number)| datagram[0] = number);
    network.within("s", || socket.send_to(&datagrams, TUN_ADDRESS).expect("the device is there"));
}

/// What has come, in order; the kernel has checked the checksums.
pub fn received(socket: &UdpSocket, count: usize, len: usize) -> (Vec<u8>, Option<SocketAddr>) {
    let (mut numbers, mut source) = (Vec::new(), None);
    let mut take = || {
        let mut buffer = [0; 2048];
        match socket.recv_from(&mut buffer) {
            Ok((got, from)) => {
                assert_eq!((got, &buffer[1..got]), (len, &vec![0xa5; len - 1][..]));
                numbers.push(buffer[0]);
                source = Some(from);
                true
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => false,
            Err(error) => panic!("{error}"),
        }
    };
    let mut taken = 0;
    wait_until("all datagrams", || {
        taken += usize::from(take());
        taken >= count
    });
    // And none twice.
    while take() {}
    (numbers, source)
}

/// Plain UDP programs at these nodes and ports.
pub fn receivers_at(network: &Network, at: &[(&'static str, u16)]) -> BTreeMap<&'static str, UdpSocket> {
    let open = |(node, port): &(&'static str, u16)| {
        let socket = network.within(node, || UdpSocket::bind(("::", *port)).expect("the port is free"));
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a good time");
        (*node, socket)
    };
    at.iter().map(open).collect()
}

/// A MEADcast and Xcast router that serves.
pub fn router(network: &Network, node: &str, arguments: &[&str]) -> Router {
    network.daemon(node, &[&["router", "run", "--all"], arguments].concat(), Stdio::inherit())
}
