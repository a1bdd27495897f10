//! `treecast lab fault`: what goes wrong in a network while it is used.

use std::process::ExitCode;

use clap::Subcommand;
use treecast_lab::{Lab, Loss, Options};

use crate::Outcome;

/// Break a node's cable or programs while the network is used, and mend them
#[derive(clap::Args)]
pub struct FaultArgs {
    /// The lab's name, as `lab list` shows it
    lab: String,
    /// The node's name, such as client0
    node: String,
    #[command(subcommand)]
    fault: Fault,
}

#[derive(Subcommand)]
enum Fault {
    /// Pull the cable out
    Unplug(Interface),
    /// Put the cable back
    Plug(Interface),
    /// Lose so much of what the node is sent, from now on
    Lose {
        /// 5%, or gilbert:TO_BAD:TO_GOOD[:IN_BAD[:IN_GOOD]] for bursts; 0% ends it
        #[arg(value_parser = Loss::parse)]
        loss: Loss,
        #[command(flatten)]
        interface: Interface,
    },
    /// End all programs in the node
    Kill,
    /// Show what the node has lost so far
    Show,
}

#[derive(clap::Args)]
struct Interface {
    /// Which cable [default: the node's first]
    #[arg(long, value_name = "IF")]
    interface: Option<String>,
}

pub fn run(args: FaultArgs) -> Outcome {
    let lab = Lab::open(&args.lab, &Options::default())?;
    let node = lab.node(&args.node)?;
    let first = || node.interfaces.first().map_or(String::new(), |interface| interface.name.clone());
    let name = |interface: Interface| interface.interface.unwrap_or_else(first);
    match args.fault {
        Fault::Unplug(interface) => lab.set_link_up(&node.name, &name(interface), false)?,
        Fault::Plug(interface) => lab.set_link_up(&node.name, &name(interface), true)?,
        Fault::Lose { loss, interface } => lab.set_loss(&node.name, &name(interface), loss)?,
        Fault::Kill => lab.kill(&node.name)?,
        Fault::Show => {
            for interface in &node.interfaces {
                let counters = lab.loss_counters(&node.name, &interface.name)?;
                say!("{}: {} passed, {} lost on purpose", interface.name, counters.passed, counters.dropped);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
