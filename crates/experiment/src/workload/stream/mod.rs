//! The workloads `stream` and `conference`: numbered datagrams at an even pace, to the receivers of one sender or among all
//! members of a conference (meadcast-thesis-2024, 4.4).
//!
//! In a lab, senders and receivers are sockets of this process at the nodes, so what is sent and what comes have one clock. On hosts
//! far away, they are programs, and clocks are corrected. Packets of MEADcast and Xcast are made by `treecast mead` at the sender's
//! node.

mod ends;
mod keys;
mod measures;
mod plan;
mod play;
mod run;
mod sender;
mod simulated;
pub mod traffic;

use std::{sync::Arc, time::Duration};

use treecast_lab::Trees;

use self::{
    keys::{Load, Stream, StreamKeys},
    plan::PlannedStream,
};
use crate::{
    Error, Kind, Network, Units, Work, Workload,
    document::{
        delivery::{Delivery, Fanout, Program, Repair},
        network::Facts,
        rate::SendRate,
    },
    engine::runner::{Runner, Stage},
    filing::Filing,
    plan::{Group, Planned, Scope, Wanted},
    read,
    schedule::Schedule,
    simulate::{Lacking, Made, Simulation},
};

pub const KIND: Kind =
    Kind { word: "stream", read: |keys| read(keys, |keys: StreamKeys, _| keys.complete(false)) };

pub const CONFERENCE: Kind =
    Kind { word: "conference", read: |keys| read(keys, |keys: StreamKeys, _| keys.complete(true)) };

/// The share of a file that may be lost when it is sent as a stream, as in the MEADcast thesis (4.4.3).
const MAX_LOSS: f64 = 0.015;

/// The number of times that such a file is sent slower than before.
const MAX_SLOWER: u32 = 4;

impl Workload for Stream {
    fn word(&self) -> &'static str {
        if self.all_send { CONFERENCE.word } else { KIND.word }
    }

    fn measures(&self) -> Units {
        measures::MEASURES
    }

    fn series(&self) -> Units {
        measures::SERIES
    }

    fn works<'w>(&'w self, at: &'w Scope) -> Result<Vec<Wanted<'w>>, Error> {
        let wanted = |load, repeat| Wanted {
            repeat,
            size: None,
            groups: None,
            work: Box::new(move |delivery: &Delivery, groups: &[Group]| {
                let planned = plan::plan(self, at, delivery, load, groups)?;
                Ok(Arc::new(planned) as Arc<dyn Work>)
            }),
        };
        let of_load = |load| (1..=at.experiment.habits.repeats).map(move |repeat| wanted(load, repeat));
        Ok(self.loads.iter().copied().flat_map(of_load).collect())
    }

    fn check(&self, delivery: &Delivery, _: Option<&SendRate>) -> Result<(), String> {
        check_stream(delivery)?;
        check_conference(self.all_send, delivery)
    }

    fn trees(&self) -> Option<Trees> {
        Some(Trees::SourceSpecific)
    }

    fn all_send(&self) -> bool {
        self.all_send
    }
}

impl Work for PlannedStream {
    fn words(&self, delivery: &str, _: Schedule) -> String {
        format!("{}, {delivery}", self.load)
    }

    fn parameters(&self, _: &Network, set: &mut dyn FnMut(&str, String)) {
        set("load", self.load.to_string());
        set("payload", self.payload_bytes.to_string());
        set("size", (u64::from(self.packets) * self.payload_bytes as u64).to_string());
    }

    fn transfer(&self, _: &Planned, _: &Facts) -> Duration {
        self.duration()
    }

    fn around(&self, planned: &Planned, settling: Duration) -> Duration {
        let asks_routers = matches!(planned.delivery.fanout, Fanout::Mead | Fanout::XcastPlus);
        Duration::from_millis(if asks_routers { 5500 } else { 3500 }) + 2 * settling
    }

    fn play(&self, runner: &mut Runner, stage: &Stage) -> Result<(), Error> {
        run::play(runner, stage, self)
    }

    fn check_simulated(&self, simulation: &Simulation) -> Result<(), Lacking> {
        simulation.check_delivery()?;
        simulated::check(simulation.planned, self).map_err(Lacking::Delivery)
    }

    fn simulate(&self, simulation: &Simulation) -> Result<Made, String> {
        simulated::play(simulation, self)
    }
}

/// Refuses a delivery that cannot send a stream.
pub fn check_stream(delivery: &Delivery) -> Result<(), String> {
    let Delivery { program, fanout, repair, fec, rate, options, .. } = delivery;
    if *program != Program::Treecast {
        return Err(format!("{} delivers files, and no streams", program.word()));
    }
    if repair.is_some_and(|repair| repair != Repair::None) || fec.is_some() {
        return Err("nothing mends a stream: leave out repair and fec".into());
    }
    if rate.is_some() {
        return Err("the workload says the rate of a stream".into());
    }
    let has_sender = matches!(fanout, Fanout::Mead | Fanout::Xcast | Fanout::XcastPlus);
    let is_mead = *fanout == Fanout::Mead;
    let without_meaning = [
        ("max", options.max.is_some() && !has_sender),
        ("discovery", options.discovery.is_some() && !is_mead),
        ("key", options.key && !matches!(fanout, Fanout::Mead | Fanout::XcastPlus)),
        ("designated", options.designated && !is_mead),
        ("anonymous", options.anonymous && !delivery.is_xcast()),
    ];
    if *fanout == Fanout::Auto {
        return Err("auto needs receivers that answer, and those of a stream do not: send files".into());
    }
    match without_meaning.iter().find(|(_, is_set)| *is_set) {
        Some((key, _)) => Err(format!("{key} has no meaning for {fanout}")),
        None => Ok(()),
    }
}

/// A group of source-specific multicast has one sender, and in a conference all members send.
fn check_conference(all_send: bool, delivery: &Delivery) -> Result<(), String> {
    let has_group = matches!(delivery.fanout, Fanout::Multicast | Fanout::XcastPlus);
    match all_send && has_group {
        true => Err(format!(
            "in a conference all members send, and {}'s group is for one sender: take unicast, mead or xcast",
            delivery.fanout
        )),
        false => Ok(()),
    }
}

/// Returns why a stream is to be sent once more, and slower: it was a file of which too much was lost. `slower` is how often that has
/// been done.
fn too_much_lost(stream: &PlannedStream, filing: &Filing, slower: u32) -> Option<String> {
    let lost = measures::lost(filing);
    let is_too_much = matches!(stream.load, Load::Bytes(_)) && lost > MAX_LOSS && slower < MAX_SLOWER;
    is_too_much.then(|| format!("{:.2} % lost: once more, slower", lost * 100.0))
}
