//! `treecast mead` on node `s` of a network, what programs there send to its device, and what receivers hear.

use std::{
    io::{BufRead, BufReader, ErrorKind},
    net::{SocketAddr, UdpSocket},
    os::fd::AsRawFd,
    process::{Child, ChildStdout, Stdio},
};

use serde_json::Value;

use crate::mroute_network::{Network, eventually, treecast};

const TUN_ADDRESS: &str = "[fd15::1]:7777";

/// A sender that runs on `s` and tells what happens as JSON. Dropped, it is killed.
pub struct Sender {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Sender {
    pub fn start(network: &Network, arguments: &[&str]) -> Self {
        Self::start_in(network, "s", arguments)
    }

    /// The same on another node.
    pub fn start_in(network: &Network, node: &str, arguments: &[&str]) -> Self {
        let mut command = treecast(&[&["mead", "--json"], arguments].concat());
        command.stdout(Stdio::piped());
        let mut child = network.within(node, move || command.spawn().expect("treecast can be run"));
        let lines = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut sender = Self { child, lines };
        sender.next("ready");
        sender
    }

    /// Waits for the next event.
    pub fn any(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.lines.read_line(&mut line).expect("it can be read") > 0, "it has ended");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// Waits for the next event of a kind.
    pub fn next(&mut self, kind: &str) -> Value {
        loop {
            let event = self.any();
            if event["event"] == kind {
                return event;
            }
        }
    }

    /// Waits for a group in which so many get unicast.
    pub fn group_with_unicast(&mut self, count: usize) -> Value {
        loop {
            let group = self.next("group");
            if group["unicast"].as_array().expect("a list").len() == count {
                return group;
            }
        }
    }

    /// Stops it, and returns what it has counted.
    pub fn end(mut self) -> Value {
        // SAFETY: the process is our child and has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        let done = self.next("done");
        assert_eq!(self.child.wait().expect("it is our child").code(), Some(0));
        done
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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
    let segment = len as libc::c_int;
    let (value, size) = (std::ptr::from_ref(&segment).cast(), size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the option takes an int, which the kernel copies.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, value, size) };
    assert_eq!(set, 0, "super-packets need Linux 4.18");
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
    eventually("all datagrams", || {
        taken += usize::from(take());
        taken >= count
    });
    // And none twice.
    while take() {}
    (numbers, source)
}
