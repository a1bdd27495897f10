//! Joins the reports of several hosts: a matrix of senders and receivers, where packets were lost, and the metrics of
//! groups of receivers (RFC 5644).

use std::{collections::BTreeMap, net::Ipv4Addr};

use serde::{Deserialize, Serialize};

use crate::{
    account::MAX_NUMBER,
    report::{Ending, HostReport, InterfaceDrops, PairReport, RateLosses, SenderReport, VERSION},
};

/// The joined reports of the hosts of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Combined {
    pub version: u32,
    /// One entry for each host, by name. Hosts that were expected and sent no report are marked.
    pub hosts: Vec<HostSummary>,
    /// One entry for each session of a sender and each receiver that was there for it.
    pub matrix: Vec<Cell>,
    /// One entry for each session of a sender.
    pub groups: Vec<GroupMetrics>,
    /// Sums over the matrix, without hosts that hear themselves.
    pub totals: Totals,
}

/// One host of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostSummary {
    pub host: String,
    /// Whether the host has told its results. If not, only what others heard of its senders is known.
    pub has_reported: bool,
    /// Whether it sent all that was asked for.
    pub is_met: bool,
    /// Packets asked for, of all its senders.
    pub asked: u64,
    /// Packets sent, by all its senders.
    pub sent: u64,
    /// Packets counted by the packet socket.
    pub on_wire: Option<u64>,
    pub kernel_dropped: u64,
    pub interface_drops: InterfaceDrops,
    pub foreign: u64,
    pub unaccounted: u64,
    pub clock_jumps: u32,
    pub warnings: Vec<String>,
}

/// The packets that one receiver heard of one session of one sender.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The host of the sender. `None` if no host has reported this session.
    pub sender_host: Option<String>,
    /// The host of the receiver.
    pub receiver: String,
    /// Whether the sender is on the receiver's host, so its packets crossed no network.
    pub is_own: bool,
    /// The receiver's counts. If the sender's host has reported, `expected` and `lost` also include the packets after the last one
    /// that arrived.
    pub pair: PairReport,
}

/// A session of a sender, over all receivers on other hosts (RFC 5644, section 8).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupMetrics {
    pub sender: Ipv4Addr,
    pub session: Option<u32>,
    pub sender_host: Option<String>,
    /// Number of receivers on other hosts.
    pub receivers: usize,
    /// Mean over receivers of the share of packets that did not arrive in time (0 to 1).
    pub loss_ratio: f64,
    /// Highest share at a receiver, less the lowest.
    pub loss_ratio_range: f64,
    /// Mean over receivers of their mean latency, in microseconds.
    pub mean_delay_us: Option<f64>,
    /// Highest mean latency of a receiver, less the lowest.
    pub mean_delay_range_us: Option<f64>,
    pub max_mean_delay_us: Option<f64>,
    /// Mean over receivers of their jitter (RFC 3393).
    pub mean_jitter_us: Option<f64>,
    pub correlation: Correlation,
}

/// The places where the packets of one session were lost. Each packet counts once, however many receivers lack it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Correlation {
    /// Lost at all receivers, of which there are at least two: at the sender's side, or in a switch that all share.
    pub everywhere: u64,
    /// Lost at one receiver only, by its host: at its link, or on the host.
    pub at_one: BTreeMap<String, u64>,
    /// Lost at several receivers, but not at all.
    pub at_some: u64,
    /// Whether a receiver had more runs of losses than it told, so that these numbers are too low.
    pub is_cut: bool,
}

/// Sums over pairs of a sender and a receiver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    pub expected: u64,
    pub received: u64,
    pub lost: u64,
    pub late: u64,
    pub duplicates: u64,
    pub reordered: u64,
    /// The paper's invalid packets.
    pub invalid: u64,
    /// The part of `lost` that the receivers' kernels dropped, at most `lost`.
    pub kernel_dropped: u64,
}

/// Joins reports. `expected` are the names of hosts that took part; those without a report are marked.
pub fn combine(reports: &[HostReport], expected: &[String]) -> Combined {
    let mut matrix: Vec<Cell> = reports.iter().flat_map(|receiver| row(reports, receiver)).collect();
    matrix.sort_by(|a, b| key(a).cmp(&key(b)));
    for cells in matrix.chunk_by_mut(|a, b| is_same_session(&a.pair, &b.pair)) {
        complete_by_others(cells);
    }
    let mut hosts: Vec<_> = reports.iter().map(HostSummary::of).collect();
    for host in expected {
        if !hosts.iter().any(|known| known.host == *host) {
            hosts.push(HostSummary { host: host.clone(), ..HostSummary::default() });
        }
    }
    hosts.sort_by(|a, b| a.host.cmp(&b.host));
    let groups = matrix.chunk_by(|a, b| is_same_session(&a.pair, &b.pair)).map(GroupMetrics::of).collect();
    // A session that none of the hosts has sent is not theirs. Without knowing all hosts, it may be that of another one.
    let knows_all = !expected.is_empty() && hosts.iter().all(|host| host.has_reported);
    let totals = Totals::of(matrix.iter().filter(|cell| !knows_all || cell.sender_host.is_some()), &hosts);
    Combined { version: VERSION, hosts, matrix, groups, totals }
}

/// Checks that reports can be joined: each host has a name of its own, and no number is one that no receiver can have told.
///
/// # Errors
/// The fault of the reports, and what to do about it.
pub fn check(reports: &[HostReport]) -> Result<(), String> {
    for (index, report) in reports.iter().enumerate() {
        if reports[..index].iter().any(|earlier| earlier.host == report.host) {
            return Err(format!(
                "two results are those of host {}: give each host a name of its own",
                report.host
            ));
        }
        let pairs = report.receiver.iter().flat_map(|receiver| &receiver.pairs);
        let sent = report.senders.iter().map(|sender| sender.sent);
        let is_sound =
            pairs.clone().all(has_sound_ranges) && sent.max().is_none_or(|sent| sent <= MAX_NUMBER);
        if !is_sound {
            return Err(format!(
                "the result of host {} has numbers that cannot be right: make it again",
                report.host
            ));
        }
    }
    Ok(())
}

fn has_sound_ranges(pair: &PairReport) -> bool {
    let mut above = 0;
    let in_order = pair.lost_ranges.iter().all(|(first, last)| {
        let is_next = *first > above && first <= last;
        above = *last;
        is_next
    });
    let last = pair.last_number();
    in_order && above <= last && last <= MAX_NUMBER && pair.counts.lost <= pair.counts.expected
}

/// The order of the matrix: by sender, session and receiver.
fn key(cell: &Cell) -> (Ipv4Addr, Option<u32>, std::net::IpAddr, u16, u32, &str) {
    let pair = &cell.pair;
    // A session has one name. Without it, restarts are told apart by their order.
    let restart = if pair.session.is_none() { pair.restart } else { 0 };
    (pair.sender, pair.session, pair.source.ip(), pair.source.port(), restart, &cell.receiver)
}

fn is_same_session(a: &PairReport, b: &PairReport) -> bool {
    match (a.session, b.session) {
        (None, None) => a.sender == b.sender && is_same_source(a.source, b.source) && a.restart == b.restart,
        (a_session, b_session) => a.sender == b.sender && a_session == b_session,
    }
}

/// Whether two pairs are of one sender and, if it has a name, of one session.
fn is_from(a: &PairReport, b: &PairReport) -> bool {
    match (a.session, b.session) {
        (None, None) => a.sender == b.sender && is_same_source(a.source, b.source),
        _ => is_same_session(a, b),
    }
}

/// Scopes of link-local addresses differ from host to host.
fn is_same_source(a: std::net::SocketAddr, b: std::net::SocketAddr) -> bool {
    (a.ip(), a.port()) == (b.ip(), b.port())
}

/// The cells of one receiver: its pairs, completed by what the senders tell, and the senders that it never heard.
fn row(reports: &[HostReport], receiver: &HostReport) -> Vec<Cell> {
    let Some(heard) = &receiver.receiver else { return Vec::new() };
    let known: Vec<_> =
        reports.iter().flat_map(|host| host.senders.iter().map(move |sender| (host, sender))).collect();
    let cell = |pair: &PairReport| {
        let is_newer = |other: &PairReport| is_from(other, pair) && other.restart > pair.restart;
        // Of sessions without a name, the sender's host tells of the last one.
        let is_last = pair.session.is_some() || !heard.pairs.iter().any(is_newer);
        let of = known.iter().find(|(_, sender)| is_last && is_from(&unheard(sender), pair));
        let mut pair = pair.clone();
        if let Some((_, sender)) = of {
            complete(&mut pair, sender.sent, last_rate(sender));
            // Its host was there until the end, whether or not an end packet was heard.
            if pair.ending == Ending::Vanished {
                pair.ending = Ending::Announced;
            }
        }
        let sender_host = of.map(|(host, _)| host.host.clone());
        let is_own = of.is_some_and(|(host, _)| std::ptr::eq(*host, receiver));
        Cell { sender_host, receiver: receiver.host.clone(), is_own, pair }
    };
    let mut cells: Vec<Cell> = heard.pairs.iter().map(cell).collect();
    for (host, sender) in &known {
        let none = unheard(sender);
        let is_own = std::ptr::eq(*host, receiver);
        let is_heard = heard.pairs.iter().any(|pair| is_from(&none, pair));
        if !is_heard && sender.sent > 0 && (!is_own || receiver.loops_back) {
            let mut pair = none;
            complete(&mut pair, sender.sent, last_rate(sender));
            pair.counts.lost_before_first = pair.counts.lost;
            cells.push(Cell {
                sender_host: Some(host.host.clone()),
                receiver: receiver.host.clone(),
                is_own,
                pair,
            });
        }
    }
    cells
}

/// The counts of a receiver that has heard nothing of a sender.
fn unheard(sender: &SenderReport) -> PairReport {
    PairReport {
        sender: sender.sender,
        session: sender.session,
        source: sender.source,
        ..PairReport::unheard(sender.source)
    }
}

/// The rate at which a sender sent its last packets.
fn last_rate(sender: &SenderReport) -> f64 {
    sender.steps.iter().rfind(|step| step.sent > 0).map_or(0.0, |step| step.asked_pps)
}

/// Completes the counts of a session whose host has not reported: it has sent at least what any receiver knows of.
fn complete_by_others(cells: &mut [Cell]) {
    let sent = cells.iter().map(|cell| cell.pair.last_number()).max().unwrap_or(0);
    for cell in cells.iter_mut().filter(|cell| cell.sender_host.is_none()) {
        let rate_pps = cell.pair.rates.last().map_or(0.0, |rate| rate.rate_pps);
        complete(&mut cell.pair, sent, rate_pps);
    }
}

/// Adds the packets behind the last one that a receiver knows of, up to packet `sent`.
fn complete(pair: &mut PairReport, sent: u64, rate_pps: f64) {
    let Some(missing) = sent.checked_sub(pair.last_number()).filter(|missing| *missing > 0) else { return };
    if pair.rates.last().is_none_or(|last| (last.rate_pps - rate_pps).abs() > rate_pps * 1e-6) {
        pair.rates.push(RateLosses { rate_pps, ..RateLosses::default() });
    }
    let range = (pair.last_number() + 1, sent);
    pair.counts.expected += missing;
    pair.counts.lost += missing;
    pair.counts.invalid += missing;
    let Some(rate) = pair.rates.last_mut() else { return };
    rate.expected += missing;
    rate.lost += missing;
    match pair.lost_ranges.last_mut().filter(|last| last.1 + 1 == range.0) {
        Some(last) => {
            rate.move_run(last.1 - last.0 + 1, range.1 - last.0 + 1);
            last.1 = range.1;
        }
        None => {
            rate.add_run(missing);
            pair.lost_ranges.push(range);
        }
    }
}

impl HostSummary {
    fn of(report: &HostReport) -> Self {
        let receiver = report.receiver.as_ref();
        Self {
            host: report.host.clone(),
            has_reported: true,
            is_met: report.is_met(),
            asked: report.senders.iter().map(|sender| sender.asked).sum(),
            sent: report.senders.iter().map(|sender| sender.sent).sum(),
            on_wire: report.on_wire,
            kernel_dropped: receiver.map_or(0, |receiver| receiver.kernel_dropped),
            interface_drops: report.interface_drops,
            foreign: receiver.map_or(0, |receiver| receiver.foreign),
            unaccounted: receiver.map_or(0, |receiver| receiver.unaccounted),
            clock_jumps: report.clock_jumps,
            warnings: report.warnings.clone(),
        }
    }
}

impl GroupMetrics {
    /// The metrics of one session, given its cells.
    fn of(cells: &[Cell]) -> Self {
        let others: Vec<&Cell> = cells.iter().filter(|cell| !cell.is_own).collect();
        let ratios: Vec<f64> = others.iter().map(|cell| cell.pair.loss_ratio()).collect();
        let delays: Vec<f64> =
            others.iter().filter_map(|cell| Some(cell.pair.delay.latency?.mean_us)).collect();
        let jitters: Vec<f64> =
            others.iter().filter_map(|cell| Some(cell.pair.delay.jitter?.mean_us)).collect();
        let first = cells.first().map(|cell| (cell.pair.sender, cell.pair.session, cell.sender_host.clone()));
        let (sender, session, sender_host) = first.unwrap_or((Ipv4Addr::UNSPECIFIED, None, None));
        Self {
            sender,
            session,
            sender_host,
            receivers: others.len(),
            loss_ratio: mean(&ratios).unwrap_or(0.0),
            loss_ratio_range: range(&ratios).unwrap_or(0.0),
            mean_delay_us: mean(&delays),
            mean_delay_range_us: range(&delays),
            max_mean_delay_us: delays.iter().copied().reduce(f64::max),
            mean_jitter_us: mean(&jitters),
            correlation: Correlation::of(&others),
        }
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn range(values: &[f64]) -> Option<f64> {
    let (min, max) = (values.iter().copied().reduce(f64::min), values.iter().copied().reduce(f64::max));
    Some(max? - min?)
}

impl Correlation {
    /// Counts how many of `cells` lack each packet, by going through the ends of all runs of losses in order.
    fn of(cells: &[&Cell]) -> Self {
        let mut ends: BTreeMap<u64, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        for (index, cell) in cells.iter().enumerate() {
            for (first, last) in &cell.pair.lost_ranges {
                ends.entry(*first).or_default().0.push(index);
                ends.entry(last + 1).or_default().1.push(index);
            }
        }
        let mut correlation =
            Self { is_cut: cells.iter().any(|cell| cell.pair.lost_ranges_cut), ..Self::default() };
        let (mut without, mut at) = (std::collections::BTreeSet::new(), 0);
        for (number, (begin, end)) in ends {
            correlation.add(cells, &without, number - at);
            for index in end {
                without.remove(&index);
            }
            without.extend(begin);
            at = number;
        }
        correlation
    }

    fn add(&mut self, cells: &[&Cell], without: &std::collections::BTreeSet<usize>, packets: u64) {
        match without.first() {
            None => {}
            Some(_) if without.len() == cells.len() && cells.len() > 1 => self.everywhere += packets,
            Some(one) if without.len() == 1 => {
                *self.at_one.entry(cells[*one].receiver.clone()).or_default() += packets;
            }
            Some(_) => self.at_some += packets,
        }
    }

    /// Packets that at least one receiver lacks.
    pub fn lost(&self) -> u64 {
        self.everywhere + self.at_some + self.at_one.values().sum::<u64>()
    }
}

impl Totals {
    fn of<'a>(cells: impl Iterator<Item = &'a Cell>, hosts: &[HostSummary]) -> Self {
        let mut totals = Self::default();
        for pair in cells.filter(|cell| !cell.is_own).map(|cell| &cell.pair) {
            totals.expected += pair.counts.expected;
            totals.received += pair.counts.received;
            totals.lost += pair.counts.lost;
            totals.late += pair.counts.late;
            totals.duplicates += pair.counts.duplicates;
            totals.reordered += pair.counts.reordered;
            totals.invalid += pair.counts.invalid;
        }
        let dropped: u64 = hosts.iter().map(|host| host.kernel_dropped).sum();
        totals.kernel_dropped = dropped.min(totals.lost);
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        packet::Format,
        report::{Counts, ReceiverReport},
    };

    fn host(name: &str, number: u8, sent: u64) -> HostReport {
        let source = ([10, 0, 0, number], 5000).into();
        let sender = SenderReport {
            sender: Ipv4Addr::new(10, 0, 0, number),
            session: Some(number.into()),
            source,
            asked: sent,
            sent,
            refused: 0,
            steps: Vec::new(),
            deadline_error: None,
        };
        HostReport {
            version: VERSION,
            host: name.into(),
            group: ([239, 1, 1, 1], 4321).into(),
            interface: "eth0".into(),
            packet: Format::Own,
            size_bytes: 32,
            began_unix_seconds: 0.0,
            loops_back: false,
            senders: if sent > 0 { vec![sender] } else { Vec::new() },
            on_wire: None,
            receiver: Some(ReceiverReport::default()),
            interface_drops: InterfaceDrops::default(),
            clock_jumps: 0,
            warnings: Vec::new(),
        }
    }

    /// Notes what a receiver heard of the sender of a host, up to packet `expected`.
    fn hear(receiver: &mut HostReport, sender: &HostReport, expected: u64, lost: &[(u64, u64)]) {
        let count = lost.iter().map(|(first, last)| last - first + 1).sum();
        let mut rate = RateLosses { expected, lost: count, ..RateLosses::default() };
        lost.iter().for_each(|(first, last)| rate.add_run(last - first + 1));
        let counts =
            Counts { expected, received: expected - count, lost: count, invalid: count, ..Counts::default() };
        let pair = PairReport {
            counts,
            lost_ranges: lost.to_vec(),
            rates: vec![rate],
            ..unheard(&sender.senders[0])
        };
        receiver.receiver.as_mut().unwrap().pairs.push(pair);
    }

    #[test]
    fn a_packet_is_lost_everywhere_at_some_or_at_one() {
        let sender = host("s", 1, 100);
        let mut receivers = [host("a", 2, 0), host("b", 3, 0), host("c", 4, 0)];
        hear(&mut receivers[0], &sender, 100, &[(5, 7), (20, 20)]);
        hear(&mut receivers[1], &sender, 100, &[(6, 7)]);
        hear(&mut receivers[2], &sender, 100, &[(7, 8)]);
        let reports = [vec![sender], receivers.to_vec()].concat();
        let combined = combine(&reports, &["a".into(), "gone".into()]);
        let correlation = &combined.groups[0].correlation;
        let at_one = BTreeMap::from([("a".to_owned(), 2), ("c".to_owned(), 1)]);
        assert_eq!((correlation.everywhere, correlation.at_some, &correlation.at_one), (1, 1, &at_one));
        assert_eq!(correlation.lost(), 5);
        assert_eq!((combined.totals.expected, combined.totals.lost), (300, 8));
        let gone: Vec<_> = combined.hosts.iter().filter(|host| !host.has_reported).collect();
        assert_eq!(gone[0].host, "gone");
        assert!((combined.groups[0].loss_ratio - 8.0 / 300.0).abs() < 1e-9);
        assert!((combined.groups[0].loss_ratio_range - 0.02).abs() < 1e-9);
    }

    #[test]
    fn what_was_sent_last_and_never_arrived_is_lost() {
        let (sender, silent) = (host("s", 1, 100), host("t", 9, 7));
        let mut receiver = host("a", 2, 0);
        hear(&mut receiver, &sender, 95, &[(94, 95)]);
        let combined = combine(&[sender, silent, receiver], &[]);
        let pair = &combined.matrix[0].pair;
        assert_eq!(
            (pair.counts.expected, pair.counts.lost, pair.counts.invalid, &pair.lost_ranges[..]),
            (100, 7, 7, &[(94, 100)][..])
        );
        assert_eq!(pair.rates[0].runs, BTreeMap::from([(7, 1)]), "the run that was known has become longer");
        let silent = combined.matrix.iter().find(|cell| cell.sender_host.as_deref() == Some("t")).unwrap();
        assert_eq!(
            (silent.pair.counts.expected, silent.pair.counts.lost, silent.pair.counts.lost_before_first),
            (7, 7, 7)
        );
    }

    #[test]
    fn what_was_sent_before_a_receiver_listened_is_not_lost() {
        let sender = host("s", 1, 100);
        let mut receivers = [host("a", 2, 0), host("b", 3, 0)];
        hear(&mut receivers[0], &sender, 90, &[(50, 50)]);
        hear(&mut receivers[1], &sender, 60, &[(50, 50)]);
        receivers[1].receiver.as_mut().unwrap().pairs[0].counts.missed = 40;
        assert_eq!(check(&receivers), Ok(()));
        let combined = combine(&[vec![sender], receivers.to_vec()].concat(), &[]);
        assert_eq!((combined.totals.expected, combined.totals.lost), (160, 12));
        assert_eq!(combined.groups[0].correlation.everywhere, 1);
        let late = combined.matrix.iter().find(|cell| cell.receiver == "b").unwrap();
        assert_eq!((late.pair.last_number(), late.pair.counts.expected), (100, 60));
    }

    #[test]
    fn hosts_of_one_name_are_two_hosts_and_cannot_be_told_apart() {
        let sender = host("debian", 1, 10);
        let mut receiver = host("debian", 2, 0);
        hear(&mut receiver, &sender, 10, &[(1, 5)]);
        let reports = [sender, receiver];
        assert_eq!(combine(&reports, &[]).totals.lost, 5);
        assert!(check(&reports).unwrap_err().contains("host debian"));
    }

    #[test]
    fn numbers_that_cannot_be_right_are_refused() {
        let sender = host("s", 1, 10);
        let refused = |range: (u64, u64)| {
            let mut receiver = host("a", 2, 0);
            hear(&mut receiver, &sender, 10, &[(1, 1)]);
            receiver.receiver.as_mut().unwrap().pairs[0].lost_ranges.push(range);
            check(&[receiver]).is_err()
        };
        assert!(refused((5, 3)) && refused((1, 2)) && refused((9, u64::MAX)) && !refused((9, 10)));
    }

    #[test]
    fn a_session_whose_host_vanished_is_as_long_as_anybody_heard() {
        let vanished = host("s", 1, 100);
        let mut receivers = [host("a", 2, 0), host("b", 3, 0)];
        hear(&mut receivers[0], &vanished, 95, &[]);
        hear(&mut receivers[1], &vanished, 100, &[(7, 7)]);
        let combined = combine(&receivers, &["a".into(), "b".into(), "s".into()]);
        assert_eq!((combined.totals.expected, combined.totals.lost), (200, 6));
        assert_eq!(combined.groups[0].correlation.at_one, BTreeMap::from([("a".into(), 5), ("b".into(), 1)]));
        let all = combine(&receivers, &["a".into(), "b".into()]);
        assert_eq!(all.totals, Totals::default(), "all hosts have reported, and none of them has sent it");
    }

    #[test]
    fn a_restart_without_a_session_is_another_session() {
        let mut sender = host("s", 1, 100);
        sender.senders[0].session = None;
        let mut receiver = host("a", 2, 0);
        hear(&mut receiver, &sender, 50, &[]);
        hear(&mut receiver, &sender, 100, &[]);
        receiver.receiver.as_mut().unwrap().pairs[1].restart = 1;
        let combined = combine(&[sender, receiver], &[]);
        let told: Vec<_> =
            combined.matrix.iter().map(|cell| (cell.pair.counts.expected, cell.pair.counts.lost)).collect();
        assert_eq!((told, combined.groups.len()), (vec![(50, 0), (100, 0)], 2));
    }

    #[test]
    fn a_host_that_hears_itself_is_no_part_of_the_network() {
        let mut sender = host("s", 1, 10);
        let heard = sender.clone();
        hear(&mut sender, &heard, 10, &[(1, 5)]);
        let combined = combine(&[sender], &[]);
        assert!(combined.matrix[0].is_own);
        assert_eq!((combined.totals, combined.groups[0].receivers), (Totals::default(), 0));
    }
}
