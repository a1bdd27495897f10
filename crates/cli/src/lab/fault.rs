//! `treecast lab fault`: breaks parts of a network while it is used.

use std::{process::ExitCode, time::Duration};

use clap::Subcommand;
use treecast_host::stop::Stop;
use treecast_lab::{
    Lab, Loss, Options, Routing,
    events::{Fault, Forgery},
    quantity::Time,
};

use crate::{Outcome, arguments::counted};

/// Break a node's cable or programs, or a link, while the network is used, and mend them
#[derive(clap::Args)]
pub struct FaultArgs {
    /// The lab's name, as `lab list` shows it
    lab: String,
    /// The node's name, such as client0, or the name of a link between two nodes, such as r1-r3
    #[arg(value_name = "NODE|LINK")]
    place: String,
    #[command(subcommand)]
    fault: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Unplug the node's cable
    Unplug(Interface),
    /// Put the cable back
    Plug(Interface),
    /// Lose a share of the packets to the node, from now on
    Lose {
        /// 5%, or gilbert:TO_BAD:TO_GOOD[:IN_BAD[:IN_GOOD]] for bursts; 0% ends the loss
        #[arg(value_parser = Loss::parse)]
        loss: Loss,
        #[command(flatten)]
        interface: Interface,
    },
    /// End all programs in the node
    Kill,
    /// Show how many packets to the node were lost so far
    Show,
    /// Take the link down; routes avoid it at once
    Down,
    /// Take the link up again; routes use it again
    Up,
    /// Have the link lose all packets while both of its ends seem up
    ///
    /// Routes do not change.
    Fail,
    /// Have the failed link carry packets again
    Mend,
    /// Have all routes avoid the link
    Avoid,
    /// Have routes use the link again
    Take,
    /// Drop IPv6 packets with a routing header that come to the node
    Firewall(Interface),
    /// Stop dropping them
    NoFirewall(Interface),
    /// Switch the node's MEADcast router off
    ///
    /// It makes no copies and passes everything on.
    RouterOff,
    /// Switch the node's MEADcast router on again
    RouterOn,
    /// Kill the node's MEADcast router
    ///
    /// Its program in the kernel goes on for 10 s, but discovery is not answered.
    RouterKill,
    /// End the node's MEADcast router, with its program in the kernel
    RouterGone,
    /// Start the node's MEADcast router again, as it was started before
    RouterStart,
    /// Send forged discovery responses from the node, until SIGINT or SIGTERM
    Forge(Forged),
    /// Record discovery responses that come to the node, and send each one again later, until SIGINT or SIGTERM
    Replay {
        /// The time until a response is sent again
        #[arg(long, value_name = "TIME", default_value = "5s")]
        after: Time,
        #[command(flatten)]
        interface: Interface,
    },
}

#[derive(clap::Args)]
struct Interface {
    /// The interface of the cable [default: the node's first]
    #[arg(long, value_name = "IF")]
    interface: Option<String>,
}

#[derive(clap::Args)]
struct Forged {
    /// The MEADcast sender: a node or an IPv6 address
    #[arg(long, value_name = "NODE|ADDR")]
    to: String,
    /// The router that seems to send the responses
    #[arg(long, value_name = "NODE|ADDR")]
    router: String,
    /// The receivers that the router claims to serve
    #[arg(long, value_name = "NODE|ADDR", required = true, num_args = 1..)]
    receivers: Vec<String>,
    /// The place that the router claims. 1 is the first MEADcast router after the sender
    #[arg(long, default_value_t = 1)]
    hops: u8,
    /// Time between two responses
    #[arg(long, value_name = "TIME", default_value = "200ms")]
    every: Time,
}

pub fn run(args: FaultArgs) -> Outcome {
    let lab = Lab::open(&args.lab, &Options::default())?;
    let node = args.place.clone();
    let link = args.place;
    let begin = |fault: Fault| lab.begin(&fault).map(drop);
    let avoid = Fault::Avoid { link: link.clone() };
    let is_ours = lab.routing() == Routing::Computed;
    match args.fault {
        Command::Unplug(Interface { interface }) => begin(Fault::Unplug { node, interface })?,
        Command::Plug(Interface { interface }) => lab.end(&Fault::Unplug { node, interface })?,
        Command::Lose { loss, interface: Interface { interface } } => {
            begin(Fault::Lose { node, interface, loss })?;
        }
        Command::Kill => lab.kill(&node)?,
        Command::Show => show(&lab, &node)?,
        Command::Down => {
            begin(Fault::Down { link })?;
            // OSPF routes around the link by itself.
            if is_ours {
                begin(avoid)?;
            }
        }
        Command::Up => {
            lab.end(&Fault::Down { link })?;
            if is_ours {
                lab.end(&avoid)?;
            }
        }
        Command::Fail => begin(Fault::Fail { link })?,
        Command::Mend => lab.end(&Fault::Fail { link })?,
        Command::Avoid => begin(avoid)?,
        Command::Take => lab.end(&avoid)?,
        Command::Firewall(Interface { interface }) => begin(Fault::Firewall { node, interface })?,
        Command::NoFirewall(Interface { interface }) => lab.end(&Fault::Firewall { node, interface })?,
        Command::RouterOff => begin(Fault::RouterOff { node })?,
        Command::RouterOn => lab.end(&Fault::RouterOff { node })?,
        Command::RouterKill => begin(Fault::RouterKilled { node })?,
        Command::RouterGone => begin(Fault::RouterGone { node })?,
        Command::RouterStart => lab.end(&Fault::RouterGone { node })?,
        Command::Forge(Forged { to, router, receivers, hops, every }) => {
            let forgery = Forgery { node, to, router, receivers, hops, every: every.0 };
            attack(&lab, &Fault::Forge(forgery))?;
        }
        Command::Replay { after, interface: Interface { interface } } => {
            attack(&lab, &Fault::Replay { node, interface, after: after.0 })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show(lab: &Lab, node: &str) -> treecast_lab::Result<()> {
    for interface in &lab.node(node)?.interfaces {
        let counters = lab.loss_counters(node, &interface.name)?;
        say!("{}: {} passed, {} lost on purpose", interface.name, counters.passed, counters.dropped);
    }
    Ok(())
}

fn attack(lab: &Lab, fault: &Fault) -> Result<(), Box<dyn std::error::Error>> {
    const LOOK: Duration = Duration::from_millis(50);
    let stop = Stop::on_signals()?;
    let attack = lab.begin(fault)?;
    say!("ready");
    while !stop.is_requested() {
        std::thread::sleep(LOOK);
    }
    say!("{} sent", counted(attack.map_or(0, |attack| attack.sent()) as usize, "packet"));
    Ok(())
}
