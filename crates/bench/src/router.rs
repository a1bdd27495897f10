//! The cost of the MEADcast router, beside the kernel's own forwarding.
//!
//! One sender, one router and ten receivers, each on a link of its own, in one run on one machine. One program
//! sends all packets in the same way: whole frames into the sender's link, super-packets undivided. These are
//! measured in turn:
//!
//! - super-packets: multicast by the kernel (`treecast mroute`), beside MEADcast and Xcast turned into unicast
//!   by the router (M2U and X2U);
//! - single packets: unicast forwarded by the kernel, beside M2U, counted in packets that come out;
//! - plain traffic, datagrams and a TCP connection: without the router's program and with it, in short turns;
//! - M2U of lists that carry a proof, by a router with a key (`--key`), beside M2U without;
//! - frames that the router ignores, which show the cost of the sender alone.
//!
//! The machine has few processors, and all nodes share them. So each measurement gives two figures: the packets
//! that arrive in a second, and the processor time for each of them without the sender's.

mod frames;
mod network;
mod report;
mod slice;

use std::time::Duration;

use treecast_host::stop::Stop;

use crate::{Result, Tell};
pub use report::Report;

use frames::{Flow, Size};
use network::{Mead, Network};
use report::{Plain, Run};
use slice::{Connection, Slice};

/// The number of pairs of plain traffic in each run. A slice of a pair takes a fourth of the time of other
/// measurements.
const PAIRS_A_RUN: u32 = 8;
const SLICES_A_SECOND: u32 = 4;

/// The measurements of the router.
#[derive(Debug, Clone)]
pub struct Scope {
    /// The number of times that each measurement is made. Medians count.
    pub runs: u32,
    /// The time that each measurement takes.
    pub slice: Duration,
    /// Number of receivers, each on a link of its own.
    pub receivers: u32,
    /// Whether the router in user space is measured, too.
    pub user_space: bool,
}

/// Makes the measurements of `scope`. The network is removed when this returns.
///
/// # Errors
/// One line if the network cannot be made, a packet does not arrive as it should, or `stop` is requested.
pub fn measure(scope: &Scope, stop: Stop, tell: Tell) -> Result<Report> {
    let number = |number: u32, what: &str| tell(&format!("run {number} of {}: {what}", scope.runs));
    let mut network = Network::set(scope.receivers, stop, tell)?;
    let flows = Flows::of(&network)?;
    let mut report = Report::new(scope.receivers, scope.slice);
    tell("checking that all of it arrives");
    flows.check(&mut network, scope.user_space)?;
    for run in 1..=scope.runs {
        number(run, "against the kernel's forwarding");
        report.runs.push(flows.measure(&mut network, scope.slice, run.is_multiple_of(2))?);
    }
    for run in 1..=scope.runs {
        number(run, "plain traffic");
        for pair in 0..PAIRS_A_RUN {
            let duration = scope.slice / SLICES_A_SECOND;
            report.plain.push(flows.measure_plain(&mut network, duration, pair.is_multiple_of(2))?);
        }
    }
    if scope.user_space {
        network.attach(Mead::UserSpace)?;
        for run in 1..=scope.runs {
            number(run, "in user space");
            report.user_space.push(slice::send(&mut network, &flows.mead_single, scope.slice)?);
        }
    }
    Ok(report)
}

/// All flows that are sent.
struct Flows {
    multicast_super: Flow,
    mead_super: Flow,
    xcast_super: Flow,
    unicast_single: Flow,
    mead_single: Flow,
    proved_super: Flow,
    proved_single: Flow,
    stray_super: Flow,
    stray_single: Flow,
}

impl Flows {
    fn of(network: &Network) -> Result<Self> {
        let addresses = &network.addresses;
        let (key, epoch) = Network::lists()?;
        Ok(Self {
            multicast_super: addresses.multicast(Size::Super),
            mead_super: addresses.mead(Size::Super)?,
            xcast_super: addresses.xcast(Size::Super)?,
            unicast_single: addresses.unicast(Size::Single),
            mead_single: addresses.mead(Size::Single)?,
            proved_super: addresses.proved(Size::Super, key, epoch)?,
            proved_single: addresses.proved(Size::Single, key, epoch)?,
            stray_super: addresses.stray(Size::Super),
            stray_single: addresses.stray(Size::Single),
        })
    }

    /// Checks that each receiver gets the right bytes of each flow. After that, neighbours and listeners are
    /// known, too.
    fn check(&self, network: &mut Network, in_user_space: bool) -> Result<()> {
        let failed = |what: &str, error| format!("{what}: {error}");
        network.check(&self.multicast_super).map_err(|error| failed("multicast by the kernel", error))?;
        network.check(&self.unicast_single).map_err(|error| failed("unicast by the kernel", error))?;
        network.attach(Mead::Keyed)?;
        for flow in [&self.proved_super, &self.proved_single] {
            network.check(flow).map_err(|error| failed("MEADcast with a proof", error))?;
        }
        let planes = [(Mead::Program, "MEADcast"), (Mead::UserSpace, "MEADcast in user space")];
        for (plane, what) in planes.into_iter().take(if in_user_space { 2 } else { 1 }) {
            network.attach(plane).map_err(|error| failed(what, error))?;
            for flow in [&self.mead_super, &self.xcast_super, &self.mead_single] {
                network.check(flow).map_err(|error| failed(what, error))?;
            }
        }
        Ok(())
    }

    /// Measures each flow once. `mead_first` swaps the order, in case it matters.
    fn measure(&self, network: &mut Network, duration: Duration, mead_first: bool) -> Result<Run> {
        let mut run = Run::default();
        for is_mead in [mead_first, !mead_first] {
            network.attach(if is_mead { Mead::Program } else { Mead::Detached })?;
            let mut send = |flow| slice::send(network, flow, duration);
            if is_mead {
                run.mead_super = send(&self.mead_super)?;
                run.xcast_super = send(&self.xcast_super)?;
                run.mead_single = send(&self.mead_single)?;
                network.attach(Mead::Keyed)?;
                let mut send = |flow| slice::send(network, flow, duration);
                run.proved_super = send(&self.proved_super)?;
                run.proved_single = send(&self.proved_single)?;
            } else {
                run.stray_super = send(&self.stray_super)?;
                run.multicast_super = send(&self.multicast_super)?;
                run.stray_single = send(&self.stray_single)?;
                run.unicast_single = send(&self.unicast_single)?;
            }
        }
        Ok(run)
    }

    fn measure_plain(&self, network: &mut Network, duration: Duration, mead_first: bool) -> Result<Plain> {
        let mut connection = Connection::open(network)?;
        let mut plain = Plain::default();
        for is_mead in [mead_first, !mead_first] {
            network.attach(if is_mead { Mead::Program } else { Mead::Detached })?;
            let udp = slice::send(network, &self.unicast_single, duration)?;
            let tcp = connection.send(network, duration)?;
            let place = if is_mead { &mut plain.with } else { &mut plain.without };
            *place = [udp, tcp];
        }
        Ok(plain)
    }
}
