//! Faults at given times of a run, and on demand (meadcast-thesis-2024, 4.4.3: dynamic network environments, anomalies).
//!
//! [`Event`] is what a file says, [`agenda`] what that means when, both without a network; [`Lab::begin`] and [`Lab::end`]
//! carry one fault out, and [`Player`] a whole list by the clock.

mod attack;
mod fault;
mod list;
mod routers;

use std::collections::VecDeque;
use std::net::Ipv6Addr;
use std::time::Duration;

pub use attack::Attack;
pub use fault::{Fault, Forgery};
pub use list::{Event, Step, agenda, check};

use crate::error::{Error, Result};
use crate::lab::Lab;
use crate::topology::Loss;

impl Lab {
    /// Has something go wrong. It has begun when this returns; an attack goes on until what is returned is dropped.
    ///
    /// # Errors
    /// When the lab has no such link, node or interface, no router runs there, or the system refuses.
    pub fn begin(&self, fault: &Fault) -> Result<Option<Attack>> {
        self.change(fault, true)
    }

    /// Undoes a fault. An attack ends when what [`Lab::begin`] returned is dropped, and not by this.
    ///
    /// # Errors
    /// As for [`Lab::begin`].
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

    /// The address of a node, or one that is written out.
    fn address(&self, name: &str) -> Result<Ipv6Addr> {
        if let Ok(address) = name.parse() {
            return Ok(address);
        }
        let node = self.node(name)?;
        node.v6().ok_or_else(|| Error::NoInterface { node: node.name.clone() })
    }
}

/// Plays a list of events in a lab.
pub struct Player<'a> {
    lab: &'a Lab,
    agenda: VecDeque<Step>,
    /// What has begun and not ended, in that order.
    ongoing: Vec<(Fault, Option<Attack>)>,
}

impl<'a> Player<'a> {
    pub fn new(lab: &'a Lab, events: &[Event]) -> Self {
        Self { lab, agenda: agenda(events).into(), ongoing: Vec::new() }
    }

    /// Does all that is to be done until `since_start`, and calls `told` with each when it is done. Returns when there is
    /// something to do next.
    ///
    /// # Errors
    /// As for [`Lab::begin`]; what was to be done is not tried again.
    pub fn act(&mut self, since_start: Duration, told: &mut dyn FnMut(&Step)) -> Result<Option<Duration>> {
        let due = self.agenda.partition_point(|step| step.at <= since_start);
        for step in self.agenda.drain(..due).collect::<Vec<_>>() {
            if step.begins {
                let attack = self.lab.begin(&step.fault)?;
                self.ongoing.push((step.fault.clone(), attack));
            } else {
                self.lab.end(&step.fault)?;
                self.ongoing.retain(|(fault, _)| *fault != step.fault);
            }
            told(&step);
        }
        Ok(self.agenda.front().map(|step| step.at))
    }

    /// Undoes what still goes on, in the order in which it began: a link is up before routes take it.
    ///
    /// # Errors
    /// The first that could not be undone; the others are undone all the same.
    pub fn end(self) -> Result<()> {
        let mut outcome = Ok(());
        for (fault, attack) in self.ongoing {
            drop(attack);
            outcome = outcome.and(self.lab.end(&fault));
        }
        outcome
    }
}
