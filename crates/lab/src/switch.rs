//! The switches of a lab: what their cables dropped, and whether they snoop.

use treecast_host::{
    namespace::Namespace,
    netlink::{Batch, Netlink, counters::QueueState, requests},
};

use crate::error::{Error, Result};
use crate::fault::run_in;
use crate::lab::Lab;
use crate::parallel;
use crate::plan::{CableEnd, Plan};

/// The queue in front of one direction of a cable that has a rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CableQueue {
    /// The node or switch that sends. A switch has the name of its LAN, and the second one that name and `-2`.
    pub from: String,
    /// The node or switch at the other end.
    pub to: String,
    /// Packets that passed the queue since the lab was built.
    pub passed_packets: u64,
    /// Packets that the queue dropped because it was full.
    pub dropped_packets: u64,
}

impl Lab {
    /// Reads the queues of all cables that have a rate.
    pub fn queues(&self) -> Result<Vec<CableQueue>> {
        let plan = self.plan();
        let namespaces: Vec<&str> = plan.namespaces().collect();
        let states = parallel::map(namespaces.len(), |index| {
            let name = namespaces[index];
            queues_of(name).map_err(Error::system(format!("read the queues of {name}")))
        })?;
        let mut queues = Vec::new();
        for cable in &plan.cables {
            for end in 0..2 {
                let (name, index) = place(plan, &cable.ends[end]);
                let (to, _) = place(plan, &cable.ends[1 - end]);
                let of = |state: &&QueueState| state.index == index;
                // Numbers of interfaces are unique in the lab.
                let Some(state) = states.iter().flatten().find(of) else { continue };
                let [passed_packets, dropped_packets, _] = state.values;
                queues.push(CableQueue { from: name.into(), to: to.into(), passed_packets, dropped_packets });
            }
        }
        Ok(queues)
    }

    /// Makes all switches send a group only to its listeners, or to all ports.
    pub fn set_snooping(&self, is_on: bool) -> Result<()> {
        let mut batch = Batch::default();
        self.plan().bridges.iter().for_each(|bridge| requests::set_snooping(&mut batch, bridge.index, is_on));
        run_in(&self.plan().switch, batch)
    }
}

/// Returns the name of the node or switch at an end of a cable, and the number of its interface. A relay has no name.
fn place<'a>(plan: &'a Plan, end: &CableEnd) -> (&'a str, u32) {
    match end {
        CableEnd::Node(node, interface) => {
            (&plan.nodes[*node].name, plan.nodes[*node].interfaces[*interface].index)
        }
        CableEnd::Switch(port) => {
            (port.bridge.map_or("", |bridge| plan.bridges[bridge].name.as_str()), port.index)
        }
    }
}

fn queues_of(namespace: &str) -> std::io::Result<Vec<QueueState>> {
    parallel::aside(|| {
        Namespace::open(namespace)?.enter()?;
        let mut queues = Vec::new();
        Netlink::open()?.queues(&mut queues)?;
        Ok(queues)
    })
}
