//! The commands that an endpoint has not: routers, the lab, the simulator, and measurements. Devices need none of them, so
//! `treecast-endpoint` is built without the feature `suite`.

use clap::Subcommand;

use crate::{
    Outcome, bench, doctor, fleet, lab, load, mast, mead, monitor, mroute, package_files, rib, router, sim,
    unicast,
};

#[derive(Subcommand)]
pub enum Command {
    Unicast(unicast::Args),
    Lab(lab::Args),
    Sim(sim::Args),
    Mroute(mroute::Args),
    Mead(Box<mead::Args>),
    Router(router::Args),
    Monitor(monitor::Args),
    Load(load::Args),
    Doctor(doctor::Args),
    Bench(bench::Args),
    Rib(rib::Args),
    Mast(mast::Args),
    Manager(fleet::ManagerArgs),
    Agent(fleet::AgentArgs),
    Fleet(fleet::Args),
    #[command(hide = true)]
    PackageFiles(package_files::Args),
}

pub fn run(command: Command) -> Outcome {
    match command {
        Command::Unicast(args) => unicast::run(args),
        Command::Lab(args) => lab::run(args),
        Command::Sim(args) => sim::run(args),
        Command::Mroute(args) => mroute::run(args),
        Command::Mead(args) => mead::run(&args),
        Command::Router(args) => router::run(args),
        Command::Monitor(args) => monitor::run(args),
        Command::Load(args) => load::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Rib(args) => rib::run(args),
        Command::Mast(args) => mast::run(args),
        Command::Manager(args) => fleet::run_manager(args),
        Command::Agent(args) => fleet::run_agent(args),
        Command::Fleet(args) => fleet::run(args),
        Command::PackageFiles(args) => package_files::run(&args, crate::command()),
    }
}
