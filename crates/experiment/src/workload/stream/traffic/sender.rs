//! Sends datagrams at an even pace.

use std::{
    io,
    net::{Ipv6Addr, SocketAddrV6, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use treecast_host::{
    interface::index_of,
    option::{self, ToGroups},
};

use super::{Clock, PORT, Stamp};

/// The number of links that multicast packets may cross.
const HOP_LIMIT: u32 = 32;

/// A flow that is to be sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FlowPlan {
    /// The number of the flow among those of its run.
    pub number: u32,
    /// The interface by which the sender's node is connected.
    pub interface: String,
    /// The receivers of each datagram.
    pub to: Vec<Ipv6Addr>,
}

/// A flow: a socket at its node, and the receivers of each datagram.
pub struct Flow {
    number: u32,
    socket: UdpSocket,
    to: Vec<SocketAddrV6>,
}

impl Flow {
    /// Opens the socket, in the namespace of the calling thread.
    pub fn open(plan: &FlowPlan) -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
        socket2::SockRef::from(&socket).set_send_buffer_size(1 << 20)?;
        let interface = index_of(&plan.interface)?;
        option::send_to_groups(&socket, ToGroups { interface, hop_limit: HOP_LIMIT, loops_back: true })?;
        let to = plan.to.iter().map(|address| SocketAddrV6::new(*address, PORT, 0, 0)).collect();
        Ok(Self { number: plan.number, socket, to })
    }
}

/// The amount that each flow sends, and its pace.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Pace {
    pub run: u32,
    /// The number of flows of the run, wherever they are sent. They take turns within each interval.
    pub flows: u32,
    pub payload_bytes: usize,
    pub packets: u32,
    /// The time from one datagram of a flow to its next one.
    pub interval: Duration,
}

/// Counts of what was sent.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Sent {
    /// The number of datagrams of each flow. Each goes to all receivers of the flow.
    pub packets: u32,
    /// The number of copies that the kernel did not take.
    pub refused: u64,
    /// The time at which the first datagram was sent, since 1970, by the run's clock.
    pub began: Duration,
    pub lasted: Duration,
    /// The processor time of the sending thread.
    pub cpu: Duration,
}

/// Sends all that `pace` says, one flow after the other within each interval, evenly spaced. `stop` ends this
/// early. The sender makes up for delays.
pub fn send(flows: &[Flow], pace: &Pace, clock: Clock, stop: &dyn Fn() -> bool) -> Sent {
    let (start, cpu) = (Instant::now(), treecast_host::clock::thread_time());
    let mut sent = Sent { began: clock.now(), ..Sent::default() };
    let mut datagram = vec![0; pace.payload_bytes];
    for number in 0..pace.packets {
        if stop() {
            break;
        }
        for flow in flows {
            let offset = pace.interval * flow.number / pace.flows;
            let due = pace.interval.mul_f64(f64::from(number)) + offset;
            if let Some(early) = due.checked_sub(start.elapsed()) {
                thread::sleep(early);
            }
            Stamp { run: pace.run, flow: flow.number, number, sent: clock.now() }.write(&mut datagram);
            let refused = flow.to.iter().filter(|to| flow.socket.send_to(&datagram, to).is_err());
            sent.refused += refused.count() as u64;
        }
        sent.packets += 1;
    }
    sent.lasted = start.elapsed();
    sent.cpu = treecast_host::clock::thread_time().saturating_sub(cpu);
    sent
}
