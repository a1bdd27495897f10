//! Faults at certain times of a run, and on demand (meadcast-thesis-2024, 4.4.3: dynamic network environments,
//! anomalies).
//!
//! [`Event`] is an entry of a file, and [`agenda`] makes steps of a list of them; both need no network.
//! [`Lab::begin`] and [`Lab::end`] carry out one fault.

mod attack;
mod error;
mod fault;
mod list;
mod routers;
mod trace;

use std::net::Ipv6Addr;

pub use attack::Attack;
pub use error::EventError;
pub use fault::{Fault, Forgery};
pub use list::{Event, Step, agenda, check};
pub use trace::Trace;

use crate::error::{Error, Result};
use crate::lab::Lab;
use crate::topology::Loss;

impl Lab {
    /// Begins a fault. It is in effect when this returns. An attack goes on until the returned value is
    /// dropped.
    ///
    /// # Errors
    /// If the lab has no such link, node or interface, no router runs there, or the system refuses.
    pub fn begin(&self, fault: &Fault) -> Result<Option<Attack>> {
        self.change(fault, true)
    }

    /// Undoes a fault. (An attack ends when the value that [`Lab::begin`] returned is dropped.)
    ///
    /// # Errors
    /// The errors of [`Lab::begin`].
    pub fn end(&self, fault: &Fault) -> Result<()> {
        if fault.is_attack() { Ok(()) } else { self.change(fault, false).map(drop) }
    }

    fn change(&self, fault: &Fault, begins: bool) -> Result<Option<Attack>> {
        match fault {
            Fault::Down { link } => {
                let (_, [(node, interface), _]) = self.link(link)?;
                self.set_link_up(&node.name, &interface.name, !begins)?;
            }
            Fault::Fail { link } => {
                for (node, interface) in self.link(link)?.1 {
                    let loss = if begins { Loss::Uniform(1.0) } else { interface.quality.loss };
                    self.set_loss(&node.name, &interface.name, loss)?;
                }
            }
            Fault::Avoid { link } => self.set_avoided(link, begins)?,
            Fault::Unplug { node, interface } => {
                self.set_link_up(node, self.interface_or_first(node, interface)?, !begins)?;
            }
            Fault::Lose { node, interface, loss } => {
                let interface = self.interface_or_first(node, interface)?;
                let usual = self.interface(node, interface)?.quality.loss;
                self.set_loss(node, interface, if begins { *loss } else { usual })?;
            }
            Fault::Firewall { node, interface } => {
                self.set_firewall(node, self.interface_or_first(node, interface)?, begins)?;
            }
            Fault::RouterOff { node } => routers::enable(self, node, !begins)?,
            Fault::RouterKilled { node } if begins => routers::end(self, node, libc::SIGKILL)?,
            Fault::RouterGone { node } if begins => routers::end(self, node, libc::SIGTERM)?,
            Fault::RouterKilled { node } | Fault::RouterGone { node } => routers::start_again(self, node)?,
            Fault::Forge(forgery) => return attack::forge(self, forgery).map(Some),
            Fault::Replay { node, interface, after } => {
                let interface = self.interface_or_first(node, interface)?;
                return attack::replay(self, node, interface, *after).map(Some);
            }
        }
        Ok(None)
    }

    fn interface_or_first<'a>(&'a self, node: &str, name: &'a Option<String>) -> Result<&'a str> {
        if let Some(name) = name {
            return Ok(name);
        }
        let node = self.node(node)?;
        let first = node.interfaces.first().map(|interface| interface.name.as_str());
        first.ok_or_else(|| Error::NoInterface { node: node.name.clone() })
    }

    /// The address of a node, or the address that `name` itself is.
    fn address(&self, name: &str) -> Result<Ipv6Addr> {
        if let Ok(address) = name.parse() {
            return Ok(address);
        }
        let node = self.node(name)?;
        node.v6().ok_or_else(|| Error::NoInterface { node: node.name.clone() })
    }
}
