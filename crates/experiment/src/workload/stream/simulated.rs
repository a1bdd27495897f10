//! Turns a planned stream into one of the simulator, and reads what it came to.

use std::time::Duration;

use crate::mead_plan::Group;
use treecast_proto::{Instant, explicit::mead::grouping::Parameters};
use treecast_sim::session::{self, Came, Lists, StreamPlan, StreamRun, run_stream};

use super::{
    measures::{rows, sentence},
    plan::{HEADERS_LEN, PlannedStream},
    play::{Discovery, Played},
    too_much_lost,
    traffic::{Sent, Stamp, Tally},
};
use crate::{
    carried::Carried,
    document::delivery::{Delivery, Fanout, Grouping},
    engine::book::Outcome,
    plan::Planned,
    receivers,
    simulate::{
        Made, Simulation,
        scenario::{self, MTU},
    },
};

/// The time for which `treecast mead` gathers responses in a discovery.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(2);

/// The time between two discoveries where there is only one: longer than any run.
const NEVER: Duration = Duration::from_secs(86_400);

/// Makes a run of a stream. A file that loses too much is sent again more slowly, as in a lab.
///
/// # Errors
/// The thing that the network lacks.
pub fn play(simulation: &Simulation, stream: &PlannedStream) -> Result<Made, String> {
    let planned = simulation.planned;
    let receivers = receivers(&planned.groups);
    let (mut stream, mut again) = (stream.clone(), Vec::new());
    loop {
        let (played, carried) = attempt(simulation, &stream, &receivers)?;
        let began = simulation.experiment.habits.sample;
        let filing = rows(planned, &stream, &receivers, &played, &carried, began);
        if let Some(why) = too_much_lost(&stream, &filing, again.len() as u32) {
            again.push(why);
            stream = stream.slower();
            continue;
        }
        let outcome = Outcome {
            sentence: sentence(&filing, &carried, &played),
            carried: Some(carried),
            filing,
            duration: played.sent.lasted,
            ..Outcome::default()
        };
        return Ok(Made { clients: Vec::new(), again, outcome });
    }
}

/// Refuses a delivery that the simulator cannot make of a stream.
pub fn check(planned: &Planned, stream: &PlannedStream) -> Result<(), String> {
    let delivery = planned.delivery;
    let options = &delivery.options;
    if delivery.fanout == Fanout::Multicast && planned.groups.len() > 1 {
        return Err("no group with several senders".into());
    }
    let lacking = [("designated", options.designated), ("key", options.key)];
    if let Some((option, _)) = lacking.iter().find(|(_, is_set)| *is_set) {
        return Err(format!("no option `{option}`"));
    }
    let is_listed = matches!(delivery.fanout, Fanout::Mead | Fanout::Xcast);
    let room = lists(delivery, stream).room(scenario::fanout(delivery), MTU) as u64;
    match room.checked_sub(HEADERS_LEN) {
        Some(room) if is_listed && room < stream.payload_bytes as u64 => Err(format!(
            "no room for a payload of {} bytes beside a whole list of addresses, and for {room} at most",
            stream.payload_bytes
        )),
        _ => Ok(()),
    }
}

/// Sends the stream once.
fn attempt(
    simulation: &Simulation,
    stream: &PlannedStream,
    receivers: &[String],
) -> Result<(Played, Carried), String> {
    let Simulation { experiment, planned, .. } = *simulation;
    let flow = |group: &Group| {
        let members: Vec<&String> = group.receivers.iter().collect();
        let mut placed = scenario::placed(simulation, (&group.sender, &members), None, 0)?;
        if planned.delivery.fanout == Fanout::Auto {
            // Nobody tells what it hears of a stream.
            (placed.fanout, placed.explicit) = (session::Fanout::Unicast, None);
        }
        if let Some(explicit) = &mut placed.explicit {
            explicit.lists = lists(planned.delivery, stream);
        }
        Ok(placed)
    };
    let plan = StreamPlan {
        seed: simulation.seed(),
        flows: planned.groups.iter().map(flow).collect::<Result<_, String>>()?,
        payload_bytes: stream.payload_bytes as u16,
        packets: stream.packets,
        interval: stream.interval,
        begins_unprepared: planned.delivery.options.discovery.is_some(),
    };
    let index = |name: &String| receivers.iter().position(|other| other == name).unwrap_or_default();
    let places: Vec<Vec<usize>> =
        planned.groups.iter().map(|group| group.receivers.iter().map(index).collect()).collect();
    let mut tallies: Vec<Tally> = receivers.iter().map(|_| Tally::new(planned.groups.len())).collect();
    let run = run_stream(&plan, &mut |came: Came| {
        let stamp = Stamp { run: 0, flow: came.flow as u32, number: came.number, sent: came.sent };
        let tally = &mut tallies[places[came.flow][came.receiver]];
        tally.note(&stamp, came.at, Duration::ZERO, stream.packets);
    });
    let carried = Carried::of_samples(&run.samples, experiment.habits.sample);
    Ok((played(&run, tallies, stream), carried))
}

fn played(run: &StreamRun, tallies: Vec<Tally>, stream: &PlannedStream) -> Played {
    Played {
        sent: Sent { packets: stream.packets, lasted: run.lasted, ..Sent::default() },
        tallies,
        sender_cpu: None,
        happened: Vec::new(),
        discovery: run.search.map(|search| Discovery {
            groups: search.groups,
            discoveries: search.discoveries,
            bytes: search.bytes,
            refused: 0,
            first_over: search.first_over.map_or(Duration::ZERO, |at| at - Instant::ZERO),
        }),
    }
}

/// The settings for finding routers and making lists, by the delivery's options: what `treecast mead` does with them.
fn lists(delivery: &Delivery, stream: &PlannedStream) -> Lists {
    let options = &delivery.options;
    Lists {
        limits: Some(Parameters {
            max: stream.max,
            ok: options.ok(stream.max),
            merge: options.merge,
            min_leaves: options.min_leaves,
            min_routers: options.min_routers,
            split: options.split,
        }),
        by_cost: options.grouping == Grouping::Cost,
        dont_replicate: options.dont_replicate,
        to_router: options.to_router,
        is_anonymous: options.anonymous,
        delay: Duration::ZERO,
        timeout: DISCOVERY_TIMEOUT,
        interval: options.discovery.map_or(NEVER, |interval| interval.0.max(DISCOVERY_TIMEOUT)),
        waits_for_traffic: options.discovery.is_some(),
    }
}
