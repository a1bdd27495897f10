//! Sends datagrams at an even pace.

use std::{
    net::{SocketAddrV6, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use super::{Stamp, now};

/// A flow: a socket at its node, and the receivers of each datagram.
pub struct Flow {
    pub socket: UdpSocket,
    pub to: Vec<SocketAddrV6>,
}

/// The amount that each flow sends, and its pace.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub run: u32,
    pub payload_bytes: usize,
    pub packets: u32,
    /// The time from one datagram of a flow to its next one.
    pub interval: Duration,
}

/// Counts of what was sent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sent {
    /// The number of datagrams of each flow. Each goes to all receivers of the flow.
    pub packets: u32,
    /// The number of copies that the kernel did not take.
    pub refused: u64,
    /// The time at which the first datagram was sent, since 1970.
    pub began: Duration,
    pub lasted: Duration,
    /// The processor time of the sending thread.
    pub cpu: Duration,
}

/// Sends all that `pace` says, one flow after the other within each interval, evenly spaced. `stop` ends this
/// early. The sender makes up for delays.
pub fn send(flows: &[Flow], pace: &Pace, stop: &dyn Fn() -> bool) -> Sent {
    let (start, cpu) = (Instant::now(), treecast_host::clock::thread_time());
    let mut sent = Sent { began: now(), ..Sent::default() };
    let mut datagram = vec![0; pace.payload_bytes];
    for number in 0..pace.packets {
        if stop() {
            break;
        }
        for (flow, index) in flows.iter().zip(0u32..) {
            let offset = pace.interval * index / flows.len() as u32;
            let due = pace.interval.mul_f64(f64::from(number)) + offset;
            if let Some(early) = due.checked_sub(start.elapsed()) {
                thread::sleep(early);
            }
            Stamp { run: pace.run, flow: index, number, sent: now() }.write(&mut datagram);
            let refused = flow.to.iter().filter(|to| flow.socket.send_to(&datagram, to).is_err());
            sent.refused += refused.count() as u64;
        }
        sent.packets += 1;
    }
    sent.lasted = start.elapsed();
    sent.cpu = treecast_host::clock::thread_time().saturating_sub(cpu);
    sent
}
