//! Sessions in which things go wrong: a sender, a router and five receivers in a lab of their own, and faults
//! that are drawn from seeds. Every receiver that runs at the end must have every file right, and must have
//! fetched hardly anything twice.

mod fetched;
mod files;
mod network;
mod play;
mod program;
mod schedule;

use std::path::{Path, PathBuf};

use schedule::RECEIVERS;
use treecast_lab::{Error, Lab, Options, Result, Topology};

pub use play::Outcome;
pub use schedule::{Fault, Schedule};

/// The sessions to play.
#[derive(Debug)]
pub struct Order {
    /// The first seed. The others follow: `first` + 1, and so on.
    pub first: u64,
    pub seeds: u64,
    /// The path of the treecast program.
    pub treecast: PathBuf,
    /// The folder for the files and logs of sessions that fail. `None`: they are removed.
    pub out: Option<PathBuf>,
    pub options: Options,
}

/// Plays sessions until all are over or `stop` is requested. Calls `tell` with the outcome of each.
///
/// # Errors
/// If the lab cannot be built or used. A session that fails is no error.
pub fn run(
    order: &Order,
    tell: &mut (dyn FnMut(&Schedule, &Outcome) + Send),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<()> {
    let topology = Topology::parse(&format!("tree:levels=1,clients={RECEIVERS}"))?;
    let lab = Lab::up(&topology, &format!("faults{}", std::process::id()), &order.options)?;
    let result = in_lab(order, &lab, tell, stop);
    lab.down()?;
    result
}

fn in_lab(
    order: &Order,
    lab: &Lab,
    tell: &mut (dyn FnMut(&Schedule, &Outcome) + Send),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<()> {
    lab.start_mead_routers(&order.treecast, |_| {})?;
    // Mounts are visible only to this thread and the programs that it starts, and go with the thread.
    let result = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                treecast_host::mount::own_mounts(false)
                    .map_err(Error::system("mount file systems of its own"))?;
                play_all(order, lab, tell, stop)
            })
            .join()
    });
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn play_all(
    order: &Order,
    lab: &Lab,
    tell: &mut (dyn FnMut(&Schedule, &Outcome) + Send),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<()> {
    let base = order.out.clone().unwrap_or_else(std::env::temp_dir);
    for seed in (order.first..).take(usize::try_from(order.seeds).unwrap_or(usize::MAX)) {
        if stop() {
            break;
        }
        let schedule = Schedule::draw(seed);
        let folder = base.join(format!("treecast-faults-{}-{seed}", std::process::id()));
        let made = std::fs::create_dir_all(&folder);
        made.map_err(Error::system(format!("make the folder {}", folder.display())))?;
        let outcome = play::play(lab, &order.treecast, &schedule, &folder);
        let keeps = order.out.is_some() && outcome.as_ref().is_ok_and(|outcome| !outcome.failures.is_empty());
        if !keeps {
            remove(&folder);
        }
        tell(&schedule, &outcome?);
    }
    Ok(())
}

fn remove(folder: &Path) {
    // Files that cannot be removed are in the folder for temporary files.
    _ = std::fs::remove_dir_all(folder);
}
