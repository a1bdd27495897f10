//! Faults on demand while a run goes on. Each takes effect before the call returns.

use crate::error::{Error, Result};
use crate::lab::Lab;
use crate::links;
use crate::loss::{LossCounters, Losses};
use crate::namespace::Namespace;
use crate::netlink::{self, Batch, Netlink};
use crate::parallel;
use crate::plan::{CableEnd, Interface};
use crate::routes;
use crate::state::{self, Locked};
use crate::topology::{Loss, Quality};
use crate::up;

impl Lab {
    /// Pulls a cable out of a node, or puts it back. The node sees that there is no carrier but keeps
    /// its addresses and routes: it is the other end that goes down.
    pub fn set_link_up(&self, node: &str, interface: &str, is_up: bool) -> Result<()> {
        let (cable, end) = self.interface(node, interface)?.cable;
        let (namespace, index) = self.far_end(self.interface(node, interface)?);
        let mut batch = Batch::default();
        netlink::set_up(&mut batch, index, is_up);
        if let CableEnd::Node(far, _) = self.plan().cables[cable].ends[1 - end]
            && is_up
        {
            // The kernel has forgotten what the other node had on this link.
            let routes = routes::compute(self.topology());
            up::configure(&mut batch, self.plan(), &self.plan().nodes[far], &routes[far]);
        }
        run_in(namespace, batch)
    }

    /// Has `node` lose what it is sent over `interface` so from now on.
    pub fn set_loss(&self, node: &str, interface: &str, loss: Loss) -> Result<()> {
        let interface = self.interface(node, interface)?;
        let locked = Locked::open(self.state_directory(), self.name())?;
        let unfinished = || Error::Unfinished { name: self.name().to_owned() };
        let mut record = locked.read()?.ok_or_else(unfinished)?;
        let known = record.loss.map(Losses::open).transpose()?;
        let mut losses = known.map_or_else(|| Losses::load(self.plan().interfaces_end()), Ok)?;
        losses.set(interface.index, loss)?;
        let losing = &mut record.losing;
        if !losing.contains(&interface.index) && interface.quality.loss.is_none() {
            let (namespace, far_index) = self.far_end(interface);
            let mut batch = Batch::default();
            netlink::set_splitting(&mut batch, far_index, true);
            run_in(namespace, batch)?;
            let mut batch = Batch::default();
            up::lose(&mut batch, interface.index, &losses);
            run_in(&self.node(node)?.namespace, batch)?;
            losing.push(interface.index);
        }
        record.loss = Some(losses.objects());
        locked.write(&record)
    }

    /// Has what `node` sends over `interface` go at another rate from now on. The queue stays as long as it was.
    pub fn set_rate(&self, node: &str, interface: &str, rate_bps: u64) -> Result<()> {
        let interface = self.interface(node, interface)?;
        let quality = self.plan().sends_with(interface);
        let queue_bytes = Some(quality.queue_bytes());
        let changed = Quality { rate_bps: Some(rate_bps), queue_bytes, ..quality.clone() };
        let mut batch = Batch::default();
        links::hold_back(&mut batch, interface.index, &changed);
        run_in(&self.node(node)?.namespace, batch)
    }

    /// What `node` has received and lost over `interface` since that loses anything; before, zero.
    pub fn loss_counters(&self, node: &str, interface: &str) -> Result<LossCounters> {
        let index = self.interface(node, interface)?.index;
        let record = state::peek(self.state_directory(), self.name())?;
        match record.and_then(|record| record.loss) {
            Some(objects) => Losses::open(objects)?.counters(index),
            None => Ok(LossCounters::default()),
        }
    }

    /// The namespace and number of the interface at the other end of the cable.
    fn far_end(&self, interface: &Interface) -> (&str, u32) {
        let plan = self.plan();
        let (cable, end) = interface.cable;
        match &plan.cables[cable].ends[1 - end] {
            CableEnd::Node(node, interface) => {
                let node = &plan.nodes[*node];
                (&node.namespace, node.interfaces[*interface].index)
            }
            CableEnd::Switch(port) => (&plan.switch, port.index),
        }
    }
}

fn run_in(namespace: &str, batch: Batch) -> Result<()> {
    let run = || {
        Namespace::open(namespace)?.enter()?;
        Netlink::open()?.run(batch)
    };
    parallel::aside(run).map_err(Error::system(format!("change a link of {namespace}")))
}
