//! A snapshot as metrics. Names and units are Prometheus': base units, `_total` for what only grows.

use std::{collections::BTreeMap, fmt};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, text::encode},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};

use crate::{
    send::ReceiverProgress,
    status::{Phase, Role, Snapshot},
};

/// The most receivers that have series of their own: those that came first, so that there are never more. The others
/// are summed up.
const MAX_NAMED: usize = 100;

/// What the others' series are called.
const OTHERS: &str = "(others)";

/// Writes snapshots of one session.
#[derive(Debug, Default)]
pub(super) struct Figures {
    /// Receivers with series of their own, as they were last seen.
    named: BTreeMap<String, ReceiverProgress>,
}

impl Figures {
    pub fn render(&mut self, snapshot: &Snapshot) -> String {
        for receiver in &snapshot.receivers {
            if self.named.len() < MAX_NAMED || self.named.contains_key(&receiver.name) {
                self.named.insert(receiver.name.clone(), receiver.clone());
            }
        }
        let mut registry = Registry::with_prefix("treecast");
        let view = View { snapshot: snapshot.clone(), receivers: self.named.clone() };
        registry.register_collector(Box::new(view));
        let mut text = String::new();
        // Writing to a string does not fail.
        _ = encode(&mut text, &registry);
        text
    }
}

/// What one answer holds.
#[derive(Debug)]
struct View {
    snapshot: Snapshot,
    receivers: BTreeMap<String, ReceiverProgress>,
}

impl Collector for View {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_session(&mut encoder)?;
        self.encode_progress(&mut encoder)?;
        if self.snapshot.role == Role::Send {
            self.encode_receivers(&mut encoder)?;
        }
        Ok(())
    }
}

impl View {
    fn encode_session(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let snapshot = &self.snapshot;
        let role = if snapshot.role == Role::Send { "send" } else { "receive" };
        let labels = [
            ("session", snapshot.session.as_str()),
            ("role", role),
            ("group", &snapshot.group),
            ("repair", &snapshot.repair),
        ];
        let mut info =
            encoder.encode_descriptor("session", "What the session is", None, MetricType::Gauge)?;
        ConstGauge::new(1_i64).encode(info.encode_family(&labels)?)?;
        let is_running = i64::from(snapshot.phase == Phase::Running);
        gauge(encoder, "running", "Whether it has begun: 0 while it waits", None, is_running)?;
        gauge(encoder, "elapsed", "Since the start", Some(Unit::Seconds), snapshot.seconds)?;
        match snapshot.seconds_left {
            Some(left) => gauge(
                encoder,
                "left",
                "Time left, by the slowest receiver that is waited for; absent while unknown",
                Some(Unit::Seconds),
                left,
            ),
            None => Ok(()),
        }
    }

    fn encode_progress(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let snapshot = &self.snapshot;
        let bytes = || Some(Unit::Bytes);
        gauge(encoder, "objects", "Files known so far", None, signed(snapshot.objects))?;
        counter(encoder, "objects_done", "Files that are done", None, snapshot.objects_done)?;
        counter(encoder, "objects_failed", "Files that failed here", None, snapshot.objects_failed)?;
        gauge(encoder, "size", "Size of all files known so far", bytes(), signed(snapshot.total_bytes))?;
        let help = "Distinct bytes of files received, by receivers on average";
        gauge(encoder, "received", help, bytes(), signed(snapshot.done_bytes))?;
        counter(encoder, "sent", "Bytes of files sent to the group", bytes(), snapshot.sent_bytes)?;
        let help = "Bytes of files sent again over connections";
        counter(encoder, "retransmitted", help, bytes(), snapshot.retransmitted_bytes)?;
        counter(encoder, "retransmission_requests", "Requests for them", None, snapshot.requests)?;
        gauge(
            encoder,
            "duplicate_ratio",
            "The share of blocks that came twice",
            None,
            snapshot.duplicate_share,
        )?;
        let help = "Packets dropped because a receive buffer was full";
        counter(encoder, "dropped_packets", help, None, snapshot.dropped_packets)
    }

    fn encode_receivers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let snapshot = &self.snapshot;
        gauge(encoder, "receivers", "Receivers that are there", None, i64::from(snapshot.joined))?;
        gauge(encoder, "receivers_wanted", "What the start waits for", None, i64::from(snapshot.wanted))?;
        let done = i64::from(snapshot.receivers_done);
        gauge(encoder, "receivers_done", "Receivers that have every file that they want", None, done)?;
        let failed = i64::from(snapshot.receivers_failed);
        gauge(encoder, "receivers_failed", "Receivers that have ended without some file", None, failed)?;
        let gone = i64::from(snapshot.receivers_gone);
        let help = "Receivers that have broken off before they had every file, and have not come again";
        gauge(encoder, "receivers_gone", help, None, gone)?;
        let help = "Moves of receivers from one group to another, where there are several";
        counter(encoder, "moves", help, None, snapshot.moves)?;
        let help = "Moves that were refused or not even answered";
        counter(encoder, "refused_moves", help, None, snapshot.refused_moves)?;
        let all = snapshot.receivers_not_shown + snapshot.receivers.len() as u64;
        let has_others = all > self.receivers.len() as u64;
        let received = |receiver: &ReceiverProgress| receiver.received_bytes;
        let help = "Distinct bytes of files that a receiver has";
        let mut series =
            encoder.encode_descriptor("receiver_received", help, Some(&Unit::Bytes), MetricType::Gauge)?;
        let total = snapshot.done_bytes.saturating_mul(all);
        for (name, value) in self.by_receiver(has_others.then_some(total), received) {
            ConstGauge::new(signed(value)).encode(series.encode_family(&[("receiver", escaped(name))])?)?;
        }
        let again = |receiver: &ReceiverProgress| receiver.retransmitted_bytes;
        let help = "Bytes of files sent again to a receiver";
        let mut series = encoder.encode_descriptor(
            "receiver_retransmitted",
            help,
            Some(&Unit::Bytes),
            MetricType::Counter,
        )?;
        for (name, value) in self.by_receiver(has_others.then_some(snapshot.retransmitted_bytes), again) {
            ConstCounter::new(value).encode(series.encode_family(&[("receiver", escaped(name))])?)?;
        }
        let mut series = encoder.encode_descriptor(
            "receiver_silent",
            "Since a receiver's last word",
            Some(&Unit::Seconds),
            MetricType::Gauge,
        )?;
        for receiver in self.receivers.values().filter(|receiver| receiver.is_connected) {
            let labels = [("receiver", escaped(&receiver.name))];
            ConstGauge::new(receiver.silent_seconds).encode(series.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// Each named receiver's value, and what is left of the sum for the others, if there are any.
    fn by_receiver(
        &self,
        all: Option<u64>,
        value: impl Fn(&ReceiverProgress) -> u64,
    ) -> impl Iterator<Item = (&str, u64)> {
        let named: u64 = self.receivers.values().map(&value).fold(0, u64::saturating_add);
        let others = all.map(|all| (OTHERS, all.saturating_sub(named)));
        self.receivers.iter().map(move |(name, receiver)| (name.as_str(), value(receiver))).chain(others)
    }
}

fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<Unit>,
    value: u64,
) -> fmt::Result {
    let metric = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
    ConstCounter::new(value).encode(metric)
}

fn gauge<V>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<Unit>,
    value: V,
) -> fmt::Result
where
    ConstGauge<V>: EncodeMetric,
{
    let metric = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
    ConstGauge::new(value).encode(metric)
}

/// As a label's value: the encoder writes it as it is, and receivers choose their names.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// What gauges are made of.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use openmetrics_parser::openmetrics;

    use super::*;

    fn snapshot(receivers: usize) -> Snapshot {
        let receiver = |number: usize| ReceiverProgress {
            name: format!("client \"{number}\"\\\n"),
            is_connected: true,
            received_bytes: 10,
            retransmitted_bytes: 2,
            ..ReceiverProgress::default()
        };
        Snapshot {
            session: "0000feed".into(),
            objects: 3,
            objects_done: 1,
            sent_bytes: 1 << 40,
            done_bytes: 10,
            retransmitted_bytes: 2 * receivers as u64,
            duplicate_share: 0.25,
            joined: receivers as u32,
            receivers: (0..receivers).map(receiver).collect(),
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_parser_reads_what_is_there() {
        let text = Figures::default().render(&snapshot(2));
        let parsed = openmetrics::parse_openmetrics(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        for (name, samples, unit) in [
            ("treecast_sent_bytes", 1, Some("bytes")),
            ("treecast_objects", 1, None),
            ("treecast_receiver_retransmitted_bytes", 2, Some("bytes")),
            ("treecast_duplicate_ratio", 1, None),
            ("treecast_refused_moves", 1, None),
        ] {
            let family = parsed.families.get(name).unwrap_or_else(|| panic!("{name}\n{text}"));
            assert_eq!(family.iter_samples().count(), samples, "{name}");
            assert_eq!(Some(family.unit.as_str()).filter(|unit| !unit.is_empty()), unit, "{name}");
            assert!(!family.help.is_empty(), "{name}");
        }
    }

    #[test]
    fn however_many_receivers_there_are_few_have_series_of_their_own() {
        let mut figures = Figures::default();
        figures.render(&snapshot(3));
        let text = figures.render(&snapshot(1000));
        let parsed = openmetrics::parse_openmetrics(&text).unwrap();
        let family = &parsed.families["treecast_receiver_retransmitted_bytes"];
        assert_eq!(family.iter_samples().count(), MAX_NAMED + 1);
        let line = text.lines().find(|line| line.contains(OTHERS) && line.contains("retransmitted")).unwrap();
        assert!(line.ends_with(&format!(" {}", 2 * (1000 - MAX_NAMED))), "{line}");
    }
}
