//! The workload `files`: one file, which everybody gets.

pub mod objects;
pub mod run;

use std::{sync::Arc, time::Duration};

use treecast_driver::send::Rates;
use treecast_lab::quantity::Size;

use self::objects::{ObjectKeys, Objects};
use crate::{
    Error, Kind, Network, Units, Work, Workload,
    cargo::Cargo,
    document::{
        delivery::{self, Delivery, Fanout, Program},
        network::Facts,
        rate::SendRate,
    },
    engine::runner::{Runner, Stage},
    filing::Filing,
    plan::{
        Planned, Scope, Wanted,
        estimate::{around_session, transfer_of},
    },
    read,
    schedule::Schedule,
    session,
    simulate::{self, Goods, Lacking, Made, Simulation},
};

pub const KIND: Kind = Kind {
    word: "files",
    read: |keys| read(keys, |keys: ObjectKeys, folder| Ok(Files(Arc::new(keys.complete(folder)?)))),
};

#[derive(Debug)]
struct Files(Arc<Objects>);

/// The delivery of one file.
#[derive(Debug)]
struct Delivered {
    objects: Arc<Objects>,
    size: Size,
}

impl Workload for Files {
    fn word(&self) -> &'static str {
        KIND.word
    }

    fn measures(&self) -> Units {
        session::MEASURES
    }

    fn series(&self) -> Units {
        session::SERIES
    }

    fn works<'w>(&'w self, at: &'w Scope) -> Result<Vec<Wanted<'w>>, Error> {
        let work = |size| Arc::new(Delivered { objects: Arc::clone(&self.0), size }) as Arc<dyn Work>;
        Ok(Wanted::repeated(self.0.sizes()?.into_iter().map(work), at.experiment))
    }

    fn check(&self, delivery: &Delivery, rate: Option<&SendRate>) -> Result<(), String> {
        check_session(delivery, rate)?;
        match delivery.program {
            Program::Uftp => Err("uftp is measured on a shared link alone".into()),
            _ => Ok(()),
        }
    }

    fn has_schedules(&self) -> bool {
        true
    }
}

impl Work for Delivered {
    fn size(&self) -> Option<Size> {
        Some(self.size)
    }

    fn words(&self, delivery: &str, schedule: Schedule) -> String {
        format!("{delivery} {} {}", schedule.name(), self.size)
    }

    fn parameters(&self, _: &Network, _: &mut dyn FnMut(&str, String)) {}

    fn is_told_a_rate(&self) -> bool {
        true
    }

    fn transfer(&self, planned: &Planned, facts: &Facts) -> Duration {
        transfer_of(planned, facts, self.size.0)
    }

    fn around(&self, planned: &Planned, settling: Duration) -> Duration {
        around_session(planned, settling)
    }

    fn play(&self, runner: &mut Runner, stage: &Stage) -> Result<(), Error> {
        let experiment = runner.experiment();
        let fits = |cargo: &Cargo| cargo.is_file_of(self.size);
        let cargo = runner.cargo(fits, |store| self.objects.cargo(store, self.size, experiment))?;
        run::play(runner, stage, &cargo, &[], &|_, _| Filing::default())
    }

    fn check_simulated(&self, simulation: &Simulation) -> Result<(), Lacking> {
        simulation.check_session()
    }

    fn simulate(&self, simulation: &Simulation) -> Result<Made, String> {
        simulate::deliver(simulation, &Goods::one(self.size.0), &|_, _| Filing::default())
    }
}

/// Refuses a delivery that cannot be a session that delivers files.
pub fn check_session(delivery: &Delivery, rate: Option<&SendRate>) -> Result<(), String> {
    rate.map_or(Ok(()), |rate| check_rate(delivery, rate))?;
    if delivery.fanout == Fanout::XcastPlus {
        return Err("xcast-plus delivers streams alone: take xcast or auto".into());
    }
    match delivery.options == delivery::Options::default() {
        true => Ok(()),
        false => Err("options are for streams: give a session's as arguments".into()),
    }
}

/// Refuses a rate that `treecast send` and `treecast unicast` would refuse in each run.
fn check_rate(delivery: &Delivery, rate: &SendRate) -> Result<(), String> {
    let is_udp = delivery.program == Program::Udp;
    match rate {
        SendRate::Auto | SendRate::Tfmcc if delivery.is_carousel() || is_udp => {
            Err("nobody answers it, and the rate needs answers: name a rate".into())
        }
        SendRate::Max if delivery.is_local() => {
            Err("a session with local groups begins at its highest rate: name it".into())
        }
        SendRate::Several(_) if delivery.is_local() => Err("local groups have one rate: name one".into()),
        SendRate::Several(_) if is_udp => Err("it has no groups for several rates: name one rate".into()),
        SendRate::Several(rates) if delivery.is_ours() => {
            let rates: Vec<u64> = rates.iter().map(|rate| rate.0).collect();
            let (is_multicast, repair) = (delivery.fanout == Fanout::Multicast, delivery.repair_in_ticket());
            Rates::check(&rates, is_multicast, repair).map_err(|why| format!("{why}: name one rate"))
        }
        _ => Ok(()),
    }
}
