//! Turns a run in which flows share a link into a scenario of congestion control, and reads what it came to.
//!
//! The flows are congestion controls that always have something to send: nobody keeps a copy of a file.

use std::time::Duration;

use treecast_lab::{NetworkKind, Quality, Topology};
use treecast_measure::rates::{Rate, growth_within};
use treecast_proto::tfmcc::Control;
use treecast_sim::tfmcc::{Faults, Figures, Flow, PACKET_BYTES, SPAN, Scenario, Span, run};

use super::measures::{self, Shared};
use crate::{
    document::{
        delivery::{Delivery, Fanout, Program, Repair},
        rate::SendRate,
        sharing::{RivalKind, Sharing},
    },
    engine::book::Outcome,
    plan::{self, path::SharedPath},
    simulate::{Made, Simulation, network},
};

/// Makes a run of flows on a shared link.
///
/// # Errors
/// The thing that the simulator does not have, as [`scenario`] says it.
pub fn play(simulation: &Simulation, sharing: &Sharing) -> Result<Made, String> {
    let (scenario, path) = scenario(simulation, sharing)?;
    let from = scenario.flows.iter().map(|(_, start)| *start).max().unwrap_or_default();
    let shared = shared(&scenario, &run(&scenario), path, from);
    let senders: Vec<&str> = simulation.planned.groups.iter().map(|group| group.sender.as_str()).collect();
    let filing = measures::filing(&shared, path, &senders, Some((from, scenario.length)));
    let outcome = Outcome {
        sentence: measures::sentence(&filing),
        filing,
        duration: scenario.length,
        ..Outcome::default()
    };
    Ok(Made { clients: Vec::new(), again: Vec::new(), outcome })
}

/// The flows of a run and the link that they share.
///
/// # Errors
/// The thing that the simulator does not have.
pub fn scenario<'p>(
    simulation: &Simulation<'p>,
    sharing: &Sharing,
) -> Result<(Scenario, &'p SharedPath), String> {
    let Simulation { experiment, plan, planned, .. } = *simulation;
    let description = &experiment.networks[planned.network];
    let understood = &plan.networks[planned.network];
    let path = understood.path.as_ref().ok_or("no link that flows share")?;
    check_links(&understood.topology, &sharing.link)?;
    let rate = plan::rate(experiment, description, planned.delivery, &understood.topology);
    let receivers = |flow: usize| planned.groups[flow].receivers.len();
    let session = |flow| session(planned.delivery, &rate, receivers(flow));
    let first = match planned.delivery.program {
        Program::Tcp => tcp(experiment.congestion_of(planned.delivery).unwrap_or_default())?,
        _ => session(0)?,
    };
    let mut flows = vec![(first, Duration::ZERO)];
    for (index, rival) in (1..).zip(&description.rivals) {
        let flow = match rival.kind {
            RivalKind::Tcp => tcp(rival.congestion_in(sharing))?,
            RivalKind::Session => session(index)?,
        };
        // Each rival follows the one before it.
        let start = flows[index - 1].1 + rival.after.map_or(Duration::ZERO, |after| after.0);
        flows.push((flow, start));
    }
    let from = flows.last().map_or(Duration::ZERO, |(_, start)| *start);
    let changes = description.changes.iter().map(|change| (from + change.after.0, change.rate.0));
    let begin = (Duration::ZERO, path.quality.rate_bps.unwrap_or_default());
    let scenario = Scenario {
        seed: simulation.seed(),
        flows,
        rates_bps: std::iter::once(begin).chain(changes).collect(),
        queue_bytes: path.quality.queue_bytes(),
        round_trip: path.round_trip,
        length: from + sharing.lasts.0,
        floor_bps: None,
        retransmits: None,
        control: Control::Tfmcc,
        round_trips: Vec::new(),
        faults: Faults { loss: network::lost(path.loss), ..Faults::default() },
    };
    Ok((scenario, path))
}

/// Refuses links that do what the simulated link cannot.
fn check_links(topology: &Topology, shared: &str) -> Result<(), String> {
    let plain = Quality { single_packets: true, ..Quality::default() };
    for network in &topology.networks {
        let is_shared = network.kind == NetworkKind::Link && network.name == shared;
        let qualities = || network.members.iter().map(|member| &member.quality);
        if !is_shared && (network.trunk.is_some() || qualities().any(|quality| *quality != plain)) {
            let name = &network.name;
            return Err(format!("no rate, delay or loss on `{name}` beside that of the link `{shared}`"));
        }
        let lacking = [
            ("jitter", qualities().any(|quality| !quality.jitter.is_zero())),
            ("background", qualities().any(|quality| quality.background_bps.is_some())),
            ("drop", qualities().any(|quality| quality.drops_early)),
        ];
        if let Some((key, _)) = lacking.iter().find(|(_, is_set)| *is_set) {
            return Err(format!("no `{key}` on a link that flows share"));
        }
    }
    Ok(())
}

/// The flow of a session.
fn session(delivery: &Delivery, rate: &SendRate, receivers: usize) -> Result<Flow, String> {
    if delivery.program != Program::Treecast {
        return Err(format!("no session of the program {} on a shared link", delivery.program.word()));
    }
    if delivery.fanout != Fanout::Multicast {
        return Err(format!("no fanout {} on a shared link", delivery.fanout));
    }
    if let Some(repair @ (Repair::Local | Repair::Carousel)) = delivery.repair {
        return Err(format!("no repair {} on a shared link", repair.word()));
    }
    if let [option, ..] = delivery.arguments.as_slice() {
        return Err(format!("no argument {option}"));
    }
    if let Some(event) = delivery.events.first() {
        return Err(format!("no event `{}` on a shared link", event.fault));
    }
    match rate {
        SendRate::Auto => Ok(Flow::Model { receivers }),
        SendRate::Tfmcc => Ok(Flow::Auto { receivers }),
        _ => Err("no rate but auto and tfmcc on a shared link".into()),
    }
}

/// The flow of a TCP connection.
fn tcp(congestion: &str) -> Result<Flow, String> {
    match congestion {
        "cubic" => Ok(Flow::Cubic),
        "bbr" => Ok(Flow::Bbr),
        other => Err(format!("no congestion control {other} but cubic and bbr")),
    }
}

/// The samples that the lab's counters would have of the flows, which all run from `from` on. Each is counted behind
/// the random losses.
fn shared(scenario: &Scenario, figures: &[Figures], path: &SharedPath, from: Duration) -> Shared {
    let arriving = 1.0 - path.loss.mean();
    let spans = scenario.length.as_nanos().div_ceil(SPAN.as_nanos()) as usize;
    let flow = |of: &Figures| -> Vec<Rate> {
        rates(of.spans.iter().take(spans).map(|span| span.passed_bytes as f64 * arriving))
    };
    let sums = |of_span: &dyn Fn(&Span) -> u64| {
        let sum = |index: usize| figures.iter().map(|of| of_span(&of.spans[index])).sum::<u64>() as f64;
        (0..spans).map(sum).collect::<Vec<_>>()
    };
    let packets = |bytes: Vec<f64>| rates(bytes.into_iter().map(|bytes| bytes / f64::from(PACKET_BYTES)));
    // Little's law: as many wait as come in the time that each of them waits.
    let waiting = |queued_ns: &f64| (queued_ns / SPAN.as_nanos() as f64 * f64::from(PACKET_BYTES)) as i64;
    let waiting_bytes = sums(&|span| span.queued_ns);
    let flows: Vec<Vec<Rate>> = figures.iter().map(flow).collect();
    let seconds = (scenario.length - from).as_secs_f64();
    Shared {
        passed: packets(sums(&|span| span.delivered_bytes)),
        dropped: packets(sums(&|span| span.sent_bytes - span.delivered_bytes)),
        waiting: (0..).map(|span| SPAN * span).zip(waiting_bytes.iter().map(waiting)).collect(),
        rates: scenario.rates_bps.clone(),
        receivers_bps: flows
            .iter()
            .map(|rates| growth_within(rates, from, scenario.length) * 8.0 / seconds)
            .collect(),
        flows,
    }
}

/// Growth in each span as rates.
fn rates(growths: impl Iterator<Item = f64>) -> Vec<Rate> {
    let rate = |(index, growth): (u32, f64)| Rate {
        from: SPAN * index,
        to: SPAN * (index + 1),
        per_second: growth / SPAN.as_secs_f64(),
    };
    (0..).zip(growths).map(rate).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Experiment, Simulator, check, plan::Plan};

    const SMALL: &str = r#"
title = "small"
deliveries = ["nack", "tcp"]
rate = "auto"

[workload]
kind = "shared"
sizes = ["80M"]
lasts = "5s"

[[network]]
name = "one"
topology = "shared:clients=3,rivals=1,rate=20M,delay=20ms,loss=1%"
"#;

    fn experiment(text: &str) -> Experiment {
        Experiment::parse(text, "x.toml", Path::new("."), &[]).unwrap()
    }

    /// The outcomes of all runs, in order.
    fn played(text: &str) -> Vec<Outcome> {
        let experiment = experiment(text);
        check(&Simulator, &experiment).unwrap();
        let plan = Plan::new(&experiment, "lab", u64::MAX).unwrap();
        let made = |planned| {
            let simulation = Simulation { experiment: &experiment, plan: &plan, planned, waits: &[] };
            planned.work.simulate(&simulation).unwrap().outcome
        };
        plan.runs.iter().map(made).collect()
    }

    #[test]
    fn auto_fills_a_lossy_link_that_cubic_does_not_and_a_seed_gives_the_same_rows() {
        let (once, again) = (played(SMALL), played(SMALL));
        let rows = |of: &[Outcome]| of.iter().map(|of| of.filing.rows.clone()).collect::<Vec<_>>();
        assert_eq!(rows(&once), rows(&again));
        let used: Vec<f64> = once.iter().map(|of| of.filing.value("used").unwrap()).collect();
        assert!(used[0] > 0.8 && used[0] <= 0.99 && used[1] < 0.5, "{used:?}");
        let plan_of = experiment(SMALL);
        let parameters = Plan::new(&plan_of, "lab", u64::MAX).unwrap().runs[0].parameters.clone();
        assert_eq!((parameters["loss"].as_str(), parameters["round_trip"].as_str()), ("0.01", "0.04"));
    }

    #[test]
    fn rivals_share_the_link_and_a_change_is_one_of_the_link() {
        let text = format!(
            "{SMALL}rival = {{ kind = \"session\", after = \"1s\" }}\nchanges = [{{ after = \"2s\", rate = \"10M\" }}]\n"
        );
        let outcome = &played(&text.replace("\"nack\", \"tcp\"", "\"nack\"").replace(",loss=1%", ""))[0];
        let value = |measure: &str| outcome.filing.value(measure).unwrap();
        // What waited when the link changed left at its old rate.
        assert!((0.8..=1.01).contains(&value("used")), "{}", value("used"));
        assert!(value("flow_rate") > 2e6 && value("rival_rate") > 2e6);
        assert_eq!(outcome.duration, Duration::from_secs(6));
    }

    #[test]
    fn what_cannot_be_simulated_is_named() {
        let refused = |from: &str, to: &str| {
            assert!(SMALL.contains(from), "{from}");
            let error = check(&Simulator, &experiment(&SMALL.replace(from, to))).unwrap_err().to_string();
            assert!(error.ends_with("or take `treecast lab run`"), "{error}");
            error
        };
        let cases = [
            ("\"nack\", \"tcp\"", "\"uftp\"", "no session of the program uftp on a shared link"),
            ("lasts", "congestion = \"reno\"\nlasts", "no congestion control reno but cubic and bbr"),
            ("\"auto\"", "\"5M\"", "no rate but auto and tfmcc on a shared link"),
            ("\"nack\"", "\"local\"", "no repair local on a shared link"),
            (",loss=1%", ",jitter=1ms", "no `jitter` on a link that flows share"),
            (
                "loss=1%\"",
                "loss=1%\"\nloss = [{ rate = \"1%\" }]",
                "no rate, delay or loss on `clients` beside that of the link `shared`",
            ),
        ];
        for (from, to, expected) in cases {
            let error = refused(from, to);
            assert!(error.contains(&format!("the simulator has {expected}: ")), "{error}");
        }
    }
}
