//! The reasons why a receiver is not admitted to a session.

use std::net::IpAddr;

use treecast_proto::object::{MAX_FROM_ONE_NETWORK, MAX_RECEIVERS, ReceiverId};
use treecast_wire::message::{Hello, PutOutCode};

use super::{
    super::{
        super::{PER_ADDRESS, Plan, lobby::place, peer::shown, who::Who},
        core::Core,
    },
    Peers,
};
use crate::{clock, connection::Connection};

/// The most receivers with one key, where no allow list says that there is one.
const MAX_FROM_ONE_KEY: usize = 16;

impl Peers {
    /// Decides whether a receiver is admitted. Returns the number that it has at present: it takes the place of its older connection.
    ///
    /// # Errors
    /// The reason why the receiver is not admitted.
    pub fn admit(
        &self,
        connection: &Connection,
        hello: &Hello,
        plan: &Plan,
        core: &mut Core<'_>,
    ) -> Result<Option<ReceiverId>, (PutOutCode, String)> {
        if let Some(reason) = expired(plan) {
            return Err((PutOutCode::Expired, reason));
        }
        if core.figures.closed {
            return Err((PutOutCode::Ended, "the session is over".to_owned()));
        }
        let who = Who::new(connection.peer_key(), hello);
        if let Some(reason) = objection_to_name(plan, &who, hello) {
            return Err((PutOutCode::NotMeant, reason));
        }
        let older = self.there().find(|(_, peer)| peer.who.is(&who)).map(|(receiver, _)| receiver);
        let objection = self.objection_to_key(plan, &who, older.is_some());
        match objection.or_else(|| self.objection_to_number(plan, connection.peer().ip(), older)) {
            Some(objection) => Err(objection),
            None => {
                self.warn_of_shared_key(&who, older.is_some(), core);
                Ok(older)
            }
        }
    }

    /// `comes_again`: whether it takes the place of its older connection.
    fn objection_to_key(&self, plan: &Plan, who: &Who, comes_again: bool) -> Option<(PutOutCode, String)> {
        let (key, allow) = (who.key?, plan.allow_list());
        if allow.is_some_and(|allow| !allow.admits(&key)) {
            let reason = format!("its key {key} is not on the sender's allow list");
            return Some((PutOutCode::NotListed, reason));
        }
        let mut others = self.there().filter(|(_, peer)| peer.who.key == Some(key));
        let most = if allow.is_some() { 1 } else { MAX_FROM_ONE_KEY };
        let (_, other) = others.nth(most - 1).filter(|_| !comes_again)?;
        let reason = match most {
            1 => format!("a receiver with its key is there already, called {}", other.name),
            most => format!("{most} receivers with its key are there already"),
        };
        Some((PutOutCode::KeyInUse, reason))
    }

    fn warn_of_shared_key(&self, who: &Who, comes_again: bool, core: &mut Core<'_>) {
        let Some(key) = who.key.filter(|_| !comes_again) else { return };
        let other = self.there().find(|(_, peer)| peer.who.key == Some(key));
        if let Some((_, other)) = other {
            let (name, other) = (shown(&who.name), &other.name);
            core.warn(format!(
                "{name} has the same key as {other}: two receivers should not share a key file; {key}"
            ));
        }
    }

    /// Whether there are too many, but for the one whose place it takes: here, or from its address.
    fn objection_to_number(
        &self,
        plan: &Plan,
        ip: IpAddr,
        older: Option<ReceiverId>,
    ) -> Option<(PutOutCode, String)> {
        let others = || self.there().filter(|(receiver, _)| Some(*receiver) != older);
        let full = |reason| Some((PutOutCode::Full, reason));
        if others().count() >= MAX_RECEIVERS {
            return full(format!("{MAX_RECEIVERS} receivers are there already"));
        }
        let count = |is_near: &dyn Fn(IpAddr) -> bool| {
            others().filter(|(_, peer)| is_near(peer.address.ip())).count()
        };
        let most = plan.options.connected().map_or(PER_ADDRESS, |connected| connected.per_address);
        if count(&|other| other.to_canonical() == ip.to_canonical()) >= most as usize {
            let are = if most == 1 { "receiver is" } else { "receivers are" };
            return full(format!("{most} {are} there already from its address (the sender's limit)"));
        }
        let network = place(ip);
        if count(&|other| place(other) == network) >= MAX_FROM_ONE_NETWORK {
            return full(format!("{MAX_FROM_ONE_NETWORK} receivers are there already from its network"));
        }
        None
    }
}

/// The reason why an expired ticket is refused. The sender's clock counts, whatever the receiver's says.
fn expired(plan: &Plan) -> Option<String> {
    let ago = clock::unix_seconds().checked_sub(plan.expires?.get())?;
    Some(format!("the ticket expired {} ago by the sender's clock", clock::duration_in_words(ago)))
}

/// The reason why a receiver is refused that the session is not for. People may have the ticket of a session that is
/// announced to them.
fn objection_to_name(plan: &Plan, who: &Who, hello: &Hello) -> Option<String> {
    let listed = plan.options.listed();
    let is_for_people = plan.options.announce.as_ref().is_some_and(|announce| announce.people);
    let is_person = is_for_people && !hello.role.is_standing;
    if listed.is_empty() || is_person || listed.iter().any(|listed| listed.is(who)) {
        return None;
    }
    Some(format!("the session is for other receivers than {}", shown(&who.name)))
}
