//! Says which link, host or machine gave in when packets were lost.

use std::{collections::BTreeMap, fmt};

/// The counters of a trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evidence {
    /// Packets that did not arrive, over all pairs of sender and receiver.
    pub lost_packets: u64,
    /// Packets that the queue of each cable dropped: the sending end, the other end, and the number.
    pub cables: Vec<(String, String, u64)>,
    /// Packets that the kernel of each receiver dropped, because the program did not take them in time.
    pub receivers: Vec<(String, u64)>,
    /// Senders that could not send what was asked: the host, and the asked and the real rate in packets a second.
    pub senders: Vec<(String, f64, f64)>,
    /// Hosts whose program ended in mid-run.
    pub vanished: Vec<String>,
    /// The reason why this machine limited the trial, such as processors over 95 % busy. `None` when it did not.
    pub machine: Option<String>,
}

impl Evidence {
    /// The largest number of receivers that lose a frame which is dropped on the way to this node or switch.
    fn behind(&self, to: &str) -> u64 {
        match self.receivers.iter().any(|(host, _)| host == to) {
            true => 1,
            false => self.receivers.len().max(1) as u64,
        }
    }
}

/// Something that gave in.
#[derive(Debug, Clone, PartialEq)]
pub enum Limit {
    /// The machine was too slow, so the result says nothing about the network. `cables_explain`: the queues of the
    /// cables have dropped enough for every loss, and every sender kept its rate, so the machine may have done no
    /// harm.
    Machine { why: String, cables_explain: bool },
    /// The host's program ended in mid-run.
    Vanished { host: String },
    /// The host could not send what was asked. Rates are in packets a second.
    Sender { host: String, asked: f64, sent: f64 },
    /// The queues of cables that leave a node dropped packets. `to` is the node at the other end of the one that dropped most.
    Cables { from: String, to: String, cables: usize, packets: u64 },
    /// The queues of several hosts' cables to one switch dropped packets. `from` is the host whose cable dropped most.
    CablesOfHosts { to: String, from: String, cables: usize, packets: u64 },
    /// The kernels of receivers dropped packets. `host` is the one that dropped most.
    Receivers { host: String, hosts: usize, packets: u64 },
    /// Packets were lost, and no counter says where.
    Unknown { packets: u64 },
}

impl Limit {
    /// Whether a machine or its programs gave in, and not the network. In a lab, all hosts are on one machine.
    pub fn is_machine(&self) -> bool {
        match self {
            Self::Machine { .. } | Self::Vanished { .. } | Self::Sender { .. } | Self::Receivers { .. } => {
                true
            }
            Self::Cables { .. } | Self::CablesOfHosts { .. } | Self::Unknown { .. } => false,
        }
    }
}

/// Returns what gave in: first what makes the trial void, then by the number of packets. Empty when nothing was lost and every
/// sender kept its rate.
pub fn blame(evidence: &Evidence) -> Vec<Limit> {
    let mut limits: Vec<Limit> = Vec::new();
    let slowest =
        evidence.senders.iter().min_by(|one, other| (one.2 / one.1).total_cmp(&(other.2 / other.1)));
    let is_lossy = evidence.lost_packets > 0;
    let by_cables: u64 = evidence.cables.iter().map(|(_, to, frames)| frames * evidence.behind(to)).sum();
    let by_receivers: u64 = evidence.receivers.iter().map(|(_, packets)| packets).sum();
    if let Some(why) = evidence.machine.as_ref().filter(|_| is_lossy || slowest.is_some()) {
        let cables_explain = slowest.is_none()
            && evidence.vanished.is_empty()
            && by_receivers == 0
            && by_cables >= evidence.lost_packets;
        limits.push(Limit::Machine { why: why.clone(), cables_explain });
    }
    limits.extend(slowest.map(|(host, asked, sent)| Limit::Sender {
        host: host.clone(),
        asked: *asked,
        sent: *sent,
    }));
    limits.extend(evidence.vanished.iter().map(|host| Limit::Vanished { host: host.clone() }));
    if !is_lossy {
        return limits;
    }
    let mut counted = by_sending_end(&evidence.cables);
    counted.extend(of_receivers(&evidence.receivers));
    counted.sort_by_key(|limit| std::cmp::Reverse(limit.packets()));
    let explained = by_cables + by_receivers;
    if explained < evidence.lost_packets && limits.is_empty() {
        counted.push(Limit::Unknown { packets: evidence.lost_packets - explained });
    }
    limits.extend(counted);
    limits
}

/// Adds up the drops of the cables that leave the same switch: one whose ports are all full is one limit. The cables of several
/// hosts to the same switch are one limit, too: where every host sends too much, a hundred of them say the same.
fn by_sending_end(cables: &[(String, String, u64)]) -> Vec<Limit> {
    let is_host = |end: &String| cables.iter().filter(|(from, ..)| from == end).count() == 1;
    let (mut of_switches, mut of_hosts) = (BTreeMap::<_, Vec<_>>::new(), BTreeMap::<_, Vec<_>>::new());
    for (from, to, packets) in cables.iter().filter(|(_, _, packets)| *packets > 0) {
        match is_host(from) {
            true => of_hosts.entry(to).or_default().push((from, *packets)),
            false => of_switches.entry(from).or_default().push((to, *packets)),
        }
    }
    let of_switch = |(from, ports): (&String, Vec<(&String, u64)>)| {
        let (to, packets) = most_and_sum(&ports)?;
        Some(Limit::Cables { from: from.clone(), to, cables: ports.len(), packets })
    };
    let to_switch = |(to, hosts): (&String, Vec<(&String, u64)>)| {
        let (from, packets) = most_and_sum(&hosts)?;
        let to = to.clone();
        Some(match hosts.len() {
            1 => Limit::Cables { from, to, cables: 1, packets },
            cables => Limit::CablesOfHosts { to, from, cables, packets },
        })
    };
    let switches = of_switches.into_iter().filter_map(of_switch);
    switches.chain(of_hosts.into_iter().filter_map(to_switch)).collect()
}

/// The end whose cable dropped most, and the drops of all.
fn most_and_sum(ends: &[(&String, u64)]) -> Option<(String, u64)> {
    let (end, _) = ends.iter().max_by_key(|(_, packets)| *packets)?;
    Some(((*end).clone(), ends.iter().map(|(_, packets)| packets).sum()))
}

fn of_receivers(receivers: &[(String, u64)]) -> Option<Limit> {
    let dropping = || receivers.iter().filter(|(_, packets)| *packets > 0);
    let (host, _) = dropping().max_by_key(|(_, packets)| *packets)?;
    let packets = dropping().map(|(_, packets)| packets).sum();
    Some(Limit::Receivers { host: host.clone(), hosts: dropping().count(), packets })
}

impl Limit {
    /// The number of packets that were dropped there, when it is counted.
    fn packets(&self) -> u64 {
        match self {
            Self::Cables { packets, .. }
            | Self::CablesOfHosts { packets, .. }
            | Self::Receivers { packets, .. }
            | Self::Unknown { packets } => *packets,
            Self::Machine { .. } | Self::Vanished { .. } | Self::Sender { .. } => 0,
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine { why, cables_explain: false } => write!(f, "this machine: {why}"),
            Self::Machine { why, cables_explain: true } => {
                write!(f, "this machine: {why}, although the drops of the cables explain every loss")
            }
            Self::Vanished { host } => write!(f, "{host} ended in mid-run"),
            Self::Sender { host, asked, sent } => {
                write!(f, "{host} sent {sent:.1} packets/s where {asked:.1} were asked")
            }
            Self::Cables { from, to, cables: 1, packets } => {
                write!(f, "the cable from {from} to {to} dropped {packets} packets")
            }
            Self::Cables { from, to, cables, packets } => {
                write!(
                    f,
                    "{cables} cables that leave {from} dropped {packets} packets, most of them the one to {to}"
                )
            }
            Self::CablesOfHosts { to, from, cables, packets } => {
                write!(
                    f,
                    "{cables} cables of hosts to {to} dropped {packets} packets, most of them the one of {from}"
                )
            }
            Self::Receivers { host, hosts: 1, packets } => {
                write!(f, "{host} did not read {packets} packets in time")
            }
            Self::Receivers { host, hosts, packets } => {
                write!(f, "{hosts} hosts did not read {packets} packets in time, most of them {host}")
            }
            Self::Unknown { packets } => {
                write!(f, "{packets} packets are missing, and no queue, kernel or sender counted them")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(evidence: &Evidence) -> Vec<String> {
        blame(evidence).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_ports_of_a_switch_are_one_limit_and_the_largest_comes_first() {
        let cable = |from: &str, to: &str, packets| (from.to_owned(), to.to_owned(), packets);
        let evidence = Evidence {
            lost_packets: 60,
            cables: vec![cable("lan0", "a", 10), cable("lan0", "b", 30), cable("a", "lan0", 0)],
            receivers: vec![("c".into(), 20), ("d".into(), 0)],
            ..Evidence::default()
        };
        let expected = [
            "2 cables that leave lan0 dropped 40 packets, most of them the one to b",
            "c did not read 20 packets in time",
        ];
        assert_eq!(words(&evidence), expected);
    }

    #[test]
    fn hosts_that_all_send_too_much_are_one_limit() {
        let cable = |from: &str, to: &str, packets| (from.to_owned(), to.to_owned(), packets);
        let evidence = Evidence {
            lost_packets: 18,
            cables: vec![
                cable("a", "lan0", 4),
                cable("b", "lan0", 5),
                cable("c", "lan1", 2),
                cable("lan0", "lan1", 7),
                cable("lan0", "a", 0),
                cable("lan0", "b", 0),
                cable("lan1", "c", 0),
                cable("lan1", "lan0", 0),
            ],
            ..Evidence::default()
        };
        let expected = [
            "2 cables of hosts to lan0 dropped 9 packets, most of them the one of b",
            "the cable from lan0 to lan1 dropped 7 packets",
            "the cable from c to lan1 dropped 2 packets",
        ];
        assert_eq!(words(&evidence), expected);
    }

    #[test]
    fn a_slow_sender_is_named_even_when_nothing_is_lost() {
        let evidence = Evidence {
            senders: vec![("a".into(), 100.0, 99.0), ("b".into(), 100.0, 50.0)],
            ..Evidence::default()
        };
        assert_eq!(words(&evidence), ["b sent 50.0 packets/s where 100.0 were asked"]);
        assert!(blame(&evidence)[0].is_machine());
    }

    #[test]
    fn a_busy_machine_that_loses_nothing_is_no_limit() {
        let busy = Evidence { machine: Some("processors over 95 % busy".into()), ..Evidence::default() };
        assert_eq!(blame(&busy), []);
        let lossy = Evidence { lost_packets: 3, ..busy };
        assert_eq!(words(&lossy), ["this machine: processors over 95 % busy"]);
    }

    #[test]
    fn a_busy_machine_marks_a_trial_and_the_cables_are_named_if_they_explain_all() {
        let cables = vec![("a".to_owned(), "b".to_owned(), 3)];
        let machine = Some("processors were 97 % busy".to_owned());
        let busy = Evidence { lost_packets: 3, cables, machine, ..Evidence::default() };
        let told = blame(&busy);
        assert!(told[0].is_machine() && told[0].to_string().ends_with("the cables explain every loss"));
        assert_eq!(told[1].to_string(), "the cable from a to b dropped 3 packets");
        let slow = Evidence { senders: vec![("a".into(), 9.0, 8.0)], ..busy.clone() };
        let more = Evidence { lost_packets: 4, ..busy.clone() };
        let unread = Evidence { receivers: vec![("b".into(), 1)], ..busy.clone() };
        // Three frames on the cable of one host are no six losses, and three between switches may be.
        let hosts = vec![("b".into(), 0), ("c".into(), 0)];
        let on_one_cable = Evidence { lost_packets: 6, receivers: hosts, ..busy };
        let between = vec![("lan0".to_owned(), "lan0-2".to_owned(), 3)];
        let told = blame(&Evidence { cables: between, ..on_one_cable.clone() });
        assert!(told[0].to_string().ends_with("the cables explain every loss"));
        for evidence in [slow, more, unread, on_one_cable] {
            assert_eq!(words(&evidence)[0], "this machine: processors were 97 % busy", "{evidence:?}");
        }
    }

    #[test]
    fn a_receiver_that_does_not_read_is_the_machine_and_not_the_network() {
        let evidence = Evidence { lost_packets: 9, receivers: vec![("c".into(), 9)], ..Evidence::default() };
        assert!(blame(&evidence).iter().all(Limit::is_machine));
    }

    #[test]
    fn a_single_frame_does_not_explain_ten_thousand_losses() {
        let cables = vec![("a".to_owned(), "b".to_owned(), 1)];
        let evidence = Evidence { lost_packets: 10_000, cables, ..Evidence::default() };
        assert_eq!(blame(&evidence)[1], Limit::Unknown { packets: 9_999 });
    }

    #[test]
    fn losses_without_a_counter_are_not_blamed_on_anybody() {
        let evidence = Evidence { lost_packets: 7, ..Evidence::default() };
        let expected = "7 packets are missing, and no queue, kernel or sender counted them";
        assert_eq!(words(&evidence), [expected]);
        let vanished = Evidence { vanished: vec!["c".into()], ..evidence };
        assert_eq!(words(&vanished), ["c ended in mid-run"]);
    }
}
