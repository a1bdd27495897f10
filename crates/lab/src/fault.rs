//! Faults on demand while a lab is used. Each is in effect before the call returns.

use std::io;

use treecast_host::{
    namespace::Namespace,
    netlink::{self, Batch, Netlink, requests},
};

use crate::error::{Error, Result};
use crate::lab::{Lab, list};
use crate::links;
use crate::loss::{LossCounters, Losses};
use crate::parallel;
use crate::plan::{CableEnd, Interface, LabNode};
use crate::routes::{self, Route};
use crate::state::{self, Locked, Record};
use crate::topology::{Loss, Member, NetworkKind, Quality};
use crate::up;

impl Lab {
    /// Unplugs a cable from a node, or plugs it in again. The node sees that there is no carrier, but keeps its
    /// addresses and routes, because it is the other end that goes down.
    pub fn set_link_up(&self, node: &str, interface: &str, is_up: bool) -> Result<()> {
        let (cable, end) = self.interface(node, interface)?.cable;
        let (namespace, index) = self.far_end(self.interface(node, interface)?);
        let mut batch = Batch::default();
        requests::set_up(&mut batch, index, is_up);
        if let CableEnd::Node(far, _) = self.plan().cables[cable].ends[1 - end]
            && is_up
        {
            // The kernel has removed the other node's routes and addresses on this link.
            let record = self.record()?;
            let routes = routes::given(self.topology(), self.routing(), &record.avoided);
            up::configure(&mut batch, self.plan(), &self.plan().nodes[far], &routes[far]);
        }
        run_in(namespace, batch)
    }

    /// Makes `node` lose packets that come by `interface`, from now on.
    pub fn set_loss(&self, node: &str, interface: &str, loss: Loss) -> Result<()> {
        let it = self.interface(node, interface)?;
        // If all packets or none are lost, their kind does not matter.
        let is_partial = !matches!(loss, Loss::None | Loss::Uniform(1.0));
        if is_partial && it.quality.loss.is_none() {
            let (namespace, far_index) = self.far_end(it);
            let mut batch = Batch::default();
            requests::set_splitting(&mut batch, far_index, true);
            run_in(namespace, batch)?;
        }
        self.change_losses(node, it, |losses| losses.set(it.index, loss))
    }

    /// Makes `node` drop IPv6 packets with a routing header that come by `interface`, or stop doing so
    /// (meadcast-thesis-2024, 4.4.3 and listing A.5).
    pub fn set_firewall(&self, node: &str, interface: &str, is_on: bool) -> Result<()> {
        let it = self.interface(node, interface)?;
        self.change_losses(node, it, |losses| losses.set_firewall(it.index, is_on))
    }

    /// Changes the lab's loss program, which sees packets that arrive at `interface` from then on.
    fn change_losses(
        &self,
        node: &str,
        interface: &Interface,
        change: impl FnOnce(&mut Losses) -> Result<()>,
    ) -> Result<()> {
        let locked = Locked::open(self.state_directory(), self.name())?;
        let mut record = self.unless_unfinished(locked.read()?)?;
        let known = record.loss.map(Losses::open).transpose()?;
        let mut losses = known.map_or_else(|| Losses::load(self.plan().interfaces_end()), Ok)?;
        change(&mut losses)?;
        let losing = &mut record.losing;
        if !losing.contains(&interface.index) && interface.quality.loss.is_none() {
            let namespace = &self.node(node)?.namespace;
            let lose = || up::lose(&Namespace::open(namespace)?, interface.index, &losses);
            lose().map_err(Error::system(format!("lose packets in {namespace}")))?;
            losing.push(interface.index);
        }
        record.loss = Some(losses.objects());
        locked.write(&record)
    }

    /// Makes all routes avoid a link between two nodes, or use it again, as a routing protocol does when it has
    /// noticed a change. A node gets its new routes before its old ones are removed.
    pub fn set_avoided(&self, link: &str, is_avoided: bool) -> Result<()> {
        let (index, _) = self.link(link)?;
        if let Some(protocol) = self.routing().protocol() {
            let (lab, link) = (self.name().to_owned(), link.to_owned());
            return Err(Error::RoutesOfProtocol { lab, protocol: protocol.word(), link });
        }
        let locked = Locked::open(self.state_directory(), self.name())?;
        let mut record = self.unless_unfinished(locked.read()?)?;
        let before = routes::avoiding(self.topology(), &record.avoided);
        match is_avoided {
            true => _ = record.avoided.insert(index),
            false => _ = record.avoided.remove(&index),
        }
        let after = routes::avoiding(self.topology(), &record.avoided);
        locked.write(&record)?;
        parallel::map(self.nodes().len(), |node| self.replace_routes(node, &before[node], &after[node]))?;
        Ok(())
    }

    fn replace_routes(&self, node: usize, before: &[Route], after: &[Route]) -> Result<()> {
        let node = &self.nodes()[node];
        if before == after {
            return Ok(());
        }
        let is_kept =
            |route: &&Route| after.iter().any(|new| (new.prefix, new.length) == (route.prefix, route.length));
        let mut batch = Batch::default();
        for route in after.iter().filter(|route| !before.contains(route)) {
            let index = node.interfaces[route.interface].index;
            requests::add_route(&mut batch, route.prefix, route.length, route.gateway, index);
        }
        run_in(&node.namespace, batch)?;
        for route in before.iter().filter(|route| !is_kept(route)) {
            let mut batch = Batch::default();
            requests::delete_route(&mut batch, route.prefix, route.length);
            match change_in(&node.namespace, batch) {
                // The route went with its interface.
                Err(error) if netlink::is_refused_with(&error, libc::ESRCH) => {}
                deleted => deleted.map_err(Error::system(changing(&node.namespace)))?,
            }
        }
        Ok(())
    }

    /// Finds a link between two nodes by its name. Returns its index in the topology, and the node and
    /// interface at each end.
    pub fn link(&self, name: &str) -> Result<(usize, [(&LabNode, &Interface); 2])> {
        let networks = || self.topology().networks.iter().enumerate();
        let found = networks().find(|(_, network)| network.name == name && network.kind == NetworkKind::Link);
        let ends = found.and_then(|(index, network)| {
            let end = |member: &Member| {
                let node = self.nodes().get(member.node)?;
                Some((node, node.interface(&member.interface)?))
            };
            Some((index, [end(network.members.first()?)?, end(network.members.get(1)?)?]))
        });
        ends.ok_or_else(|| {
            let links = networks().filter(|(_, network)| network.kind == NetworkKind::Link);
            let known = list(links.map(|(_, network)| network.name.as_str()));
            let known = if known.is_empty() { "none".to_owned() } else { known };
            let (lab, name) = (self.name().to_owned(), name.to_owned());
            match self.node(&name) {
                Ok(_) => Error::NodeForLink { lab, node: name, known },
                Err(_) => Error::NoSuchLink { lab, link: name, known },
            }
        })
    }

    fn record(&self) -> Result<Record> {
        self.unless_unfinished(state::peek(self.state_directory(), self.name())?)
    }

    fn unless_unfinished(&self, record: Option<Record>) -> Result<Record> {
        record.ok_or_else(|| Error::Unfinished { name: self.name().to_owned() })
    }

    /// Changes the rate at which `node` sends over `interface`. The queue keeps its length.
    pub fn set_rate(&self, node: &str, interface: &str, rate_bps: u64) -> Result<()> {
        let interface = self.interface(node, interface)?;
        let quality = self.plan().sends_with(interface);
        let queue_bytes = Some(quality.queue_bytes());
        let changed = Quality { rate_bps: Some(rate_bps), queue_bytes, ..quality.clone() };
        let mut batch = Batch::default();
        links::hold_back(&mut batch, interface.index, &changed);
        run_in(&self.node(node)?.namespace, batch)
    }

    /// The packets that `node` has received and lost over `interface` since it began to lose packets. Zero
    /// before that.
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

/// Carries out a batch in a namespace of the lab.
pub(crate) fn run_in(namespace: &str, batch: Batch) -> Result<()> {
    change_in(namespace, batch).map_err(Error::system(changing(namespace)))
}

fn change_in(namespace: &str, batch: Batch) -> io::Result<()> {
    parallel::aside(|| {
        Namespace::open(namespace)?.enter()?;
        Netlink::open()?.run(batch)
    })
}

fn changing(namespace: &str) -> String {
    format!("change a link of {namespace}")
}
