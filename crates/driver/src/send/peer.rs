//! A receiver as its sender sees it.

use std::net::SocketAddr;

use treecast_wire::message::{Hello, Progress};

use super::ReceiverProgress;
use crate::connection::Connection;

#[derive(Debug)]
pub(super) struct Peer {
    pub name: String,
    pub address: SocketAddr,
    /// Where unicast blocks go, if the receiver hears them.
    pub udp: Option<SocketAddr>,
    /// None once it is closed; what is known of the receiver stays for the summary.
    pub connection: Option<Connection>,
    /// Whether the connection is waited for to take output.
    pub waits_for_room: bool,
    /// To be closed when all output is written.
    pub closes: bool,
    pub progress: Progress,
    pub retransmitted_bytes: u64,
    pub objects_complete: u32,
    /// Bytes of the objects that it has whole.
    pub complete_bytes: u64,
    pub failures: Vec<(String, String)>,
    /// Why it went before the session was over.
    pub left: Option<String>,
}

impl Peer {
    pub fn new(connection: Connection, hello: &Hello) -> Self {
        let address = connection.peer();
        let udp = (hello.udp_port != 0).then(|| SocketAddr::new(plain(address.ip()), hello.udp_port));
        Self {
            name: hello.name().to_owned(),
            address,
            udp,
            connection: Some(connection),
            waits_for_room: false,
            closes: false,
            progress: Progress::default(),
            retransmitted_bytes: 0,
            objects_complete: 0,
            complete_bytes: 0,
            failures: Vec::new(),
            left: None,
        }
    }

    /// A receiver that left early failed at whatever it does not have, started or not; one that is
    /// there to the end and lacks something joined after it was sent.
    pub fn settle(&mut self, objects: u64) {
        if !self.failures.is_empty() || u64::from(self.objects_complete) >= objects {
            return;
        }
        let (what, why) = match self.left.take() {
            Some(reason) => ("what was left to send", format!("the receiver left: {reason}")),
            None => ("what it lacks", "it joined after that was sent, or the session ended first".to_owned()),
        };
        self.failures.push((what.into(), why));
    }

    pub fn report(&self) -> ReceiverProgress {
        ReceiverProgress {
            name: self.name.clone(),
            address: SocketAddr::new(plain(self.address.ip()), self.address.port()).to_string(),
            // Its last report may be older than its last object.
            received_bytes: self.progress.received_bytes.max(self.complete_bytes),
            retransmitted_bytes: self.retransmitted_bytes,
            duplicate_blocks: self.progress.duplicate_blocks,
            dropped_packets: self.progress.dropped_packets,
            objects_complete: self.objects_complete,
            failures: self.failures.clone(),
        }
    }
}

/// An IPv4 address that a socket for both families tells as IPv6, as what it is.
fn plain(address: std::net::IpAddr) -> std::net::IpAddr {
    address.to_canonical()
}
