//! The workload `shared`: flows that share a link for a while, and how they share it.

mod connection;
mod contest;
mod keys;
mod measures;
mod run;
mod simulated;
mod uftp;

use std::{sync::Arc, time::Duration};

use treecast_lab::{Topology, quantity::Size};

use self::keys::SharingKeys;
use super::files::{
    check_session,
    objects::{ObjectKeys, Objects},
};
use crate::{
    Error, Kind, Network, Units, Work, Workload,
    cargo::Cargo,
    document::{
        delivery::{Delivery, Program},
        network::Facts,
        rate::SendRate,
        sharing::Sharing,
    },
    engine::runner::{Runner, Stage},
    plan::{
        Planned, Scope, Wanted,
        estimate::around_session,
        path::{self, SharedPath},
    },
    read,
    schedule::Schedule,
    simulate::{Lacking, Made, Simulation},
    site::Need,
};

pub const KIND: Kind = Kind {
    word: "shared",
    read: |keys| {
        read(keys, |mut keys: SharingKeys, folder| {
            let objects = ObjectKeys { sizes: keys.sizes.take(), file: keys.file.take() };
            Ok(Flows(Arc::new((keys.complete()?, objects.complete(folder)?))))
        })
    },
};

#[derive(Debug)]
struct Flows(Arc<(Sharing, Objects)>);

/// A file that takes longer than the time in which flows share the link.
#[derive(Debug)]
struct Shared {
    of: Arc<(Sharing, Objects)>,
    size: Size,
}

impl Workload for Flows {
    fn word(&self) -> &'static str {
        KIND.word
    }

    fn measures(&self) -> Units {
        measures::MEASURES
    }

    fn series(&self) -> Units {
        measures::SERIES
    }

    fn works<'w>(&'w self, at: &'w Scope) -> Result<Vec<Wanted<'w>>, Error> {
        let (sharing, objects) = &*self.0;
        let sizes = objects.sizes()?;
        check_sizes(sharing, &sizes, at.at.path.as_ref()).map_err(|what| at.refused(what))?;
        let work = |size| Arc::new(Shared { of: Arc::clone(&self.0), size }) as Arc<dyn Work>;
        Ok(Wanted::repeated(sizes.into_iter().map(work), at.experiment))
    }

    fn check(&self, delivery: &Delivery, rate: Option<&SendRate>) -> Result<(), String> {
        check_session(delivery, rate)?;
        match delivery.has_sessions() || matches!(delivery.program, Program::Tcp | Program::Uftp) {
            true => Ok(()),
            false => Err("a link is shared by sessions, tcp and uftp alone".into()),
        }
    }

    fn prepare(&self, network: &Network, topology: &mut Topology) -> Result<Option<SharedPath>, String> {
        let (sharing, _) = &*self.0;
        path::prepare(topology, sharing);
        SharedPath::of(topology, sharing, network).map(Some)
    }

    fn sharing(&self) -> Option<&Sharing> {
        Some(&self.0.0)
    }
}

impl Work for Shared {
    fn size(&self) -> Option<Size> {
        Some(self.size)
    }

    fn words(&self, delivery: &str, schedule: Schedule) -> String {
        format!("{delivery} {} {}", schedule.name(), self.size)
    }

    fn parameters(&self, _: &Network, set: &mut dyn FnMut(&str, String)) {
        set("lasts", self.of.0.lasts.0.as_secs_f64().to_string());
    }

    fn is_told_a_rate(&self) -> bool {
        true
    }

    fn needs(&self, _: &Network) -> Vec<Need> {
        vec![Need::Sockets, Need::Rates]
    }

    fn transfer(&self, _: &Planned, _: &Facts) -> Duration {
        self.of.0.lasts.0
    }

    fn around(&self, planned: &Planned, settling: Duration) -> Duration {
        around_session(planned, settling)
    }

    fn play(&self, runner: &mut Runner, stage: &Stage) -> Result<(), Error> {
        let experiment = runner.experiment();
        let (sharing, objects) = &*self.of;
        let fits = |cargo: &Cargo| cargo.is_file_of(self.size);
        let cargo = runner.cargo(fits, |store| objects.cargo(store, self.size, experiment))?;
        run::play(runner, stage, sharing, &cargo)
    }

    fn check_simulated(&self, simulation: &Simulation) -> Result<(), Lacking> {
        simulated::scenario(simulation, &self.of.0).map(drop).map_err(Lacking::Delivery)
    }

    fn simulate(&self, simulation: &Simulation) -> Result<Made, String> {
        simulated::play(simulation, &self.of.0)
    }
}

/// Refuses a file that would be delivered before the time is over.
fn check_sizes(sharing: &Sharing, sizes: &[Size], path: Option<&SharedPath>) -> Result<(), String> {
    let seconds = sharing.lasts.0.as_secs();
    let rate_bps = path.and_then(|path| path.quality.rate_bps).unwrap_or_default();
    let most = Size(rate_bps / 8 * seconds);
    match sizes.iter().find(|size| **size < most) {
        None => Ok(()),
        Some(size) => {
            let enough = Size((most.0 | ((1 << 20) - 1)) + 1);
            Err(format!("{size} are over before {seconds} s are: send at least {enough} (--set sizes=...)"))
        }
    }
}
