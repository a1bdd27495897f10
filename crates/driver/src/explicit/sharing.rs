//! Options for the way in which receivers share packets, for both senders: `treecast mead` and senders of sessions.

use std::net::Ipv6Addr;

use treecast_host::{interface::Interface, tun::MIN_MTU};
use treecast_proto::explicit::{
    authentication::DomainKey,
    lists::Form,
    mead::{
        grouping::Parameters,
        sender::{Algorithm, Counters},
        transmission,
    },
};
use treecast_wire::mead::Dialect;

use super::Error;
use crate::remedies::{Advised, Remedy};

/// The settings of routers and groupings. Names are those of listing A.3, if it has one.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Sharing {
    /// The largest number of addresses in a packet. `None`: as many as leave room for 1280 bytes.
    pub max: Option<usize>,
    /// The number of addresses from which on a list is not filled further. `None`: `max`.
    pub ok: Option<usize>,
    /// The other limits of groups. Their own `max` and `ok` are not used.
    pub parameters: Parameters,
    /// Whether to group so that the links carry the fewest bytes, and not as in the thesis.
    pub by_cost: bool,
    /// Order of the bits in headers.
    pub dialect: Dialect,
    /// Whether routers are told when not to replicate.
    pub dont_replicate: bool,
    /// Whether packets are addressed to routers.
    pub to_router: bool,
    /// Key of the routers' domain. `None` believes every router.
    pub key: Option<DomainKey>,
}

impl Default for Sharing {
    /// The options of a session that is not told any.
    fn default() -> Self {
        Self {
            max: None,
            ok: None,
            parameters: Parameters::default(),
            by_cost: true,
            dialect: Dialect::Rfc,
            dont_replicate: false,
            to_router: false,
            key: None,
        }
    }
}

impl Sharing {
    /// The form of packets from `source` by `interface`. Ports and groups are up to the caller.
    pub(crate) fn form(&self, source: Ipv6Addr, interface: &Interface) -> Form {
        Form {
            source,
            source_port: None,
            dialect: self.dialect,
            dont_replicate: self.dont_replicate,
            to_router: self.to_router,
            has_ports: false,
            group: None,
            xcast: None,
            key: self.key.as_ref().map(DomainKey::of_lists),
            mtu: interface.mtu as usize,
        }
    }

    /// The limits of groups, when they go together. As many addresses are in a packet as was asked for, or as leave room for
    /// the least that IPv6 needs.
    ///
    /// # Errors
    /// One line that says what does not fit.
    pub(crate) fn limits(&self, form: &Form, interface: &Interface) -> Result<Parameters, Error> {
        let needed = MIN_MTU + form.header_len(2) as u32;
        let too_small = || Error::Mtu { interface: interface.name.clone(), mtu: interface.mtu, needed };
        let max = self.max.unwrap_or(form.most_addresses().ok_or_else(too_small)?);
        let parameters = Parameters { max, ok: self.ok.unwrap_or(max), ..self.parameters };
        parameters.check()?;
        match self.ok {
            Some(ok) if !(2..=max).contains(&ok) => Err(Error::Ok { ok, max }),
            _ => Ok(parameters),
        }
    }

    /// The algorithm for packets that carry this many bytes behind their IPv6 header.
    pub(crate) fn algorithm(&self, form: &Form, payload_bytes: usize) -> Algorithm {
        match self.by_cost {
            true => Algorithm::Cost(transmission::model(form, payload_bytes)),
            false => Algorithm::Thesis,
        }
    }
}

/// Watches, where routers have to prove the domain's key, whether any router does. A router with another key does not answer.
#[derive(Debug, Default)]
pub(crate) struct KeyWatch {
    /// Responses that were refused, and believed, until the last discovery.
    answers: (u64, u64),
}

/// Warning for a user whose routers do not have the domain's key.
pub(crate) fn no_router_has_key() -> Advised {
    let line = "no router proves that it has the domain's key, and nobody is served by MEADcast: there is no router on the ways, \
                or all have another key or none; give them this one";
    Advised::by(Remedy::GiveRoutersKey, line)
}

impl KeyWatch {
    /// Returns whether the discovery that has just ended shows that no router has the key.
    pub fn misses_key(&mut self, counters: Counters) -> bool {
        let now = (counters.forged + counters.unproved, counters.responses);
        let (was_refused, was_believed) = std::mem::replace(&mut self.answers, now);
        (now.0 > was_refused || now.1 == 0) && now.1 <= was_believed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_domain_is_noticed_only_when_nobody_proves() {
        let counters = |forged, responses| Counters { forged, unproved: 0, responses, ..Counters::default() };
        assert!(KeyWatch::default().misses_key(counters(0, 0)), "routers with another key do not answer");
        let mut watch = KeyWatch::default();
        assert!(!watch.misses_key(counters(3, 1)));
        assert!(!watch.misses_key(counters(3, 1)), "a discovery without an answer");
        assert!(watch.misses_key(counters(5, 1)));
    }
}
