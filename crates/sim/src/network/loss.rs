//! Decides which packets get lost.

use rand_chacha::ChaCha8Rng;

use super::happens;

/// How packets get lost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// Each packet is lost with the same probability.
    Uniform(f64),
    /// Packets are lost in bursts (Gilbert-Elliott). With probability `enter` a packet begins a burst, in which
    /// packets are lost with probability `lost`. With probability `leave` the burst ends. Outside of bursts,
    /// packets are lost with probability `outside`.
    Bursts { enter: f64, leave: f64, lost: f64, outside: f64 },
    /// One packet of each period is lost.
    Periodic(Period),
}

/// A loss that comes again after the same number of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// The number of packets of which one is lost, at least 1.
    pub every: u64,
    /// The number of packets before the first that is lost.
    pub phase: u64,
    /// Whether a super-packet counts as one packet, and is lost as a whole.
    pub is_of_super_packets: bool,
}

impl Period {
    /// Whether the packet with this number, counted from 0, is lost.
    pub fn loses(self, number: u64) -> bool {
        number % self.every.max(1) == self.phase % self.every.max(1)
    }
}

/// The losses of one link, or of one receiver.
#[derive(Debug)]
pub struct Losses {
    loss: Loss,
    in_burst: bool,
    /// The number of packets, and of super-packets and single packets, that have come to where they get lost.
    counts: (u64, u64),
}

impl Losses {
    pub fn new(loss: Loss) -> Self {
        Self { loss, in_burst: false, counts: (0, 0) }
    }

    /// Takes note that a super-packet comes, or a packet by itself. Its packets follow.
    pub fn begin_super_packet(&mut self) {
        self.counts.1 += 1;
    }

    /// Whether the next packet is lost.
    pub fn loses(&mut self, random: &mut ChaCha8Rng) -> bool {
        let packet = self.counts.0;
        self.counts.0 += 1;
        match self.loss {
            Loss::Uniform(chance) => happens(random, chance),
            Loss::Bursts { enter, leave, lost, outside } => {
                self.in_burst ^= happens(random, if self.in_burst { leave } else { enter });
                happens(random, if self.in_burst { lost } else { outside })
            }
            Loss::Periodic(period) if period.is_of_super_packets => {
                period.loses(self.counts.1.saturating_sub(1))
            }
            Loss::Periodic(period) => period.loses(packet),
        }
    }

    /// Sets the loss from now on.
    pub fn set(&mut self, loss: Loss) {
        self.loss = loss;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::generator;

    /// How many of 10,000 packets get lost, and how many losses follow another one.
    fn lost(loss: Loss) -> (usize, usize) {
        let (mut losses, mut random) = (Losses::new(loss), generator(1, 0));
        let fates: Vec<bool> = (0..10_000).map(|_| losses.loses(&mut random)).collect();
        let lost = fates.iter().filter(|lost| **lost).count();
        (lost, fates.windows(2).filter(|pair| pair[0] && pair[1]).count())
    }

    #[test]
    fn losses_are_as_many_as_asked_for_and_come_in_bursts_when_asked_for() {
        let (uniform, together) = lost(Loss::Uniform(0.1));
        assert!((900..1_100).contains(&uniform) && together < 200, "{uniform} {together}");
        let (bursty, together) = lost(Loss::Bursts { enter: 0.01, leave: 0.09, lost: 1.0, outside: 0.0 });
        assert!((600..1_400).contains(&bursty) && together > bursty * 8 / 10, "{bursty} {together}");
    }

    #[test]
    fn a_periodic_loss_takes_one_of_each_period_of_packets_or_super_packets() {
        for (is_of_super_packets, expected) in [(false, [1, 4, 7, 10]), (true, [3, 4, 5, 12])] {
            let loss = Loss::Periodic(Period { every: 3, phase: 1, is_of_super_packets });
            let (mut losses, mut random) = (Losses::new(loss), generator(1, 0));
            let fates = (0..13).filter(|packet| {
                if packet % 3 == 0 {
                    losses.begin_super_packet();
                }
                losses.loses(&mut random)
            });
            assert_eq!(fates.collect::<Vec<_>>(), expected);
        }
    }
}
