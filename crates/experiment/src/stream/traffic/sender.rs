//! Sends datagrams at an even pace.

use std::{
    net::{SocketAddrV6, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use super::{Stamp, now};

/// One program that sends: a socket in its node, and whom each datagram goes to.
pub struct Flow {
    pub socket: UdpSocket,
    pub to: Vec<SocketAddrV6>,
}

/// What each flow sends.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub run: u32,
    pub payload_bytes: usize,
    pub packets: u32,
    /// From one datagram of a flow to its next one.
    pub interval: Duration,
}

/// What was sent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sent {
    /// Datagrams of each flow, each to all of its receivers.
    pub packets: u32,
    /// Copies that the kernel did not take.
    pub refused: u64,
    /// Since 1970, of the first datagram.
    pub began: Duration,
    pub lasted: Duration,
    /// Processor time of this thread.
    pub cpu: Duration,
}

/// Sends all that `pace` says, flow by flow, each with an equal part of the interval behind the one before; `stop` ends
/// it early. What is late is made up for.
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
