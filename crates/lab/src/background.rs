//! Packets of others, which come to the queues of a lab's cables at random times.
//!
//! A packet is a frame of a type that no host handles, so only queues and links notice it. The lab's relay process
//! sends them, each from the end of the cable whose queue it goes to.

use std::io::{self, IoSlice};
use std::thread;
use std::time::{Duration, Instant};

use treecast_host::{namespace::Namespace, packet::FrameSocket};
use treecast_proto::random::SplitMix64;

use crate::parallel;
use crate::plan::{CableEnd, Plan};

/// The length of a packet in bytes, with its headers. The simulator's have the same length.
const FRAME_BYTES: usize = 576;

/// The offload header in front of each frame (`struct virtio_net_hdr`). All zeros: there is nothing left to do.
const OFFLOAD_HEADER: [u8; 10] = [0; 10];

/// The reserved group address that bridges do not forward (IEEE 802.1Q, 8.6.3).
const TO: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0x0b];

/// The Ethernet type for local experiments (IEEE 802, 9.2.4).
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

/// Whether a cable of the plan has packets of others.
pub(crate) fn is_wanted(plan: &Plan) -> bool {
    plan.cables.iter().flat_map(|cable| &cable.quality).any(|quality| quality.background_bps.is_some())
}

/// All senders of such packets in a lab.
pub(crate) struct Background {
    senders: Vec<Sender>,
    frame: Vec<u8>,
    random: SplitMix64,
}

/// The packets that come to one queue.
struct Sender {
    socket: FrameSocket,
    /// The mean time between two packets.
    mean: Duration,
    due: Instant,
}

impl Background {
    /// Opens the sockets of all senders, each in the namespace of its end of a cable.
    pub fn open(plan: &Plan) -> io::Result<Self> {
        let mut frame = OFFLOAD_HEADER.to_vec();
        frame.extend(TO.iter().chain(&crate::plan::mac(3, 0)).chain(&ETHERTYPE));
        frame.resize(OFFLOAD_HEADER.len() + FRAME_BYTES, 0);
        let mut background = Self { senders: Vec::new(), frame, random: SplitMix64(0) };
        for cable in &plan.cables {
            for (end, quality) in cable.ends.iter().zip(&cable.quality) {
                let Some(rate_bps) = quality.background_bps else { continue };
                let (namespace, index) = match end {
                    CableEnd::Node(node, interface) => {
                        let node = &plan.nodes[*node];
                        (&node.namespace, node.interfaces[*interface].index)
                    }
                    CableEnd::Switch(port) => (&plan.switch, port.index),
                };
                let socket = parallel::aside(|| {
                    Namespace::open(namespace)?.enter()?;
                    FrameSocket::open_to_send(index)
                })?;
                let mean = Duration::from_secs_f64(FRAME_BYTES as f64 * 8.0 / rate_bps as f64);
                let due = Instant::now() + gap(mean, background.random.unit());
                background.senders.push(Sender { socket, mean, due });
            }
        }
        Ok(background)
    }

    /// Sends packets for as long as the process runs.
    pub fn run(mut self) {
        while let Some(next) = self.senders.iter().map(|sender| sender.due).min() {
            thread::sleep(next.saturating_duration_since(Instant::now()));
            let now = Instant::now();
            for sender in &mut self.senders {
                while sender.due <= now {
                    // The queue drops what it has no room for, as it does with all other packets.
                    _ = sender.socket.send(&[IoSlice::new(&self.frame)]);
                    sender.due += gap(sender.mean, self.random.unit());
                }
            }
        }
    }
}

/// The time until the next packet where packets come independently of each other (a Poisson process). `share` is even
/// between 0 and 1.
fn gap(mean: Duration, share: f64) -> Duration {
    mean.mul_f64(-(1.0 - share).max(f64::MIN_POSITIVE).ln()).max(Duration::from_nanos(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_at_the_rate_that_was_asked_for() {
        let mut random = SplitMix64(1);
        let mean = Duration::from_millis(10);
        let gaps: Vec<Duration> = (0..10_000).map(|_| gap(mean, random.unit())).collect();
        let sum: Duration = gaps.iter().sum();
        assert!((9.7..10.3).contains(&(sum.as_secs_f64() / 10.0)), "{sum:?}");
        // Independent arrivals: a share of 1 - 1/e of all gaps is shorter than the mean.
        let short = gaps.iter().filter(|gap| **gap < mean).count();
        assert!((6_150..6_500).contains(&short), "{short}");
    }
}
