//! The events that the programs tell, for people and for other programs.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{
    Prefix,
    message::{Preference, Refusal, TunnelKind},
};

/// The shortest time between two events about drops for the same reason.
const BETWEEN_DROPS: Duration = Duration::from_secs(1);

/// The part that a server plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Dhcp,
    Dns,
    Tms,
}

/// Something that has happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The program serves.
    Ready,
    /// A message was not believed, or could not be read. `count`: so many for this reason since the start.
    Dropped {
        reason: &'static str,
        from: String,
        count: u64,
    },
    /// Something went wrong. The program goes on, and tries it again where that makes sense.
    Failed {
        what: String,
        error: String,
    },
    /// An access link is up or down.
    Link {
        provider: String,
        is_up: bool,
    },
    /// New connections use a prefix, or avoid it.
    Preference {
        provider: String,
        prefix: Prefix,
        preference: Preference,
    },
    /// A server has taken note of the newest states of all prefixes.
    Told {
        server: String,
        role: Role,
    },
    /// A server has not answered several times. It is asked again and again.
    NoAnswer {
        server: String,
        role: Role,
    },
    /// A tunnel has its end on this host.
    Tunnel(TunnelEnd),
    TunnelRemoved {
        peer: String,
        prefix: Prefix,
        interface: String,
    },
    /// The provider makes no tunnel, or this TMS makes none.
    TunnelRefused {
        peer: String,
        prefix: Option<Prefix>,
        reason: Refusal,
    },
    /// A TMS has answered with a tunnel that was not asked for.
    WrongTunnel {
        peer: String,
    },
    /// The states that the SRMS has told.
    States {
        prefixes: Vec<(Prefix, Preference)>,
    },
    /// A Broadcast Prefix Push went out.
    Push {
        link: String,
    },
    /// The number of clients that have a lease.
    Leases {
        link: String,
        leases: usize,
    },
    /// An address was set. New connections use it, or avoid it.
    Address {
        interface: String,
        address: Ipv6Addr,
        preferred: bool,
    },
    AddressRemoved {
        interface: String,
        address: Ipv6Addr,
    },
    /// The name server has carried out updates. `serial`: the zone's number.
    Update {
        serial: u32,
        updates: u64,
    },
}

/// An end of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelEnd {
    /// The provider or the stub at the other end.
    pub peer: String,
    pub prefix: Prefix,
    pub interface: String,
    pub kind: TunnelKind,
    pub id: u32,
    pub inner_own: Ipv6Addr,
    pub inner_peer: Ipv6Addr,
}

/// Counts the messages that were dropped, and tells about them now and then.
#[derive(Debug, Default)]
pub struct Drops(BTreeMap<&'static str, (u64, Duration)>);

impl Drops {
    /// Takes note of a message that was dropped.
    pub fn add(&mut self, now: Duration, reason: &'static str, from: IpAddr, tell: super::Tell<'_>) {
        self.add_many(now, (reason, 1), from, tell);
    }

    /// Takes note of so many messages that were dropped for one reason.
    pub fn add_many(
        &mut self,
        now: Duration,
        (reason, dropped): (&'static str, u64),
        from: IpAddr,
        tell: super::Tell<'_>,
    ) {
        let (count, quiet_until) = self.0.entry(reason).or_default();
        *count += dropped;
        if now >= *quiet_until {
            *quiet_until = now + BETWEEN_DROPS;
            tell(Event::Dropped { reason, from: from.to_canonical().to_string(), count: *count });
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dhcp => "mDHCPv6 server",
            Self::Dns => "name server",
            Self::Tms => "TMS",
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::Dropped { reason, from, count } => {
                write!(f, "message from {from} dropped: {reason} ({count} so far)")
            }
            Self::Failed { what, error } => write!(f, "{what}: {error}"),
            Self::Link { provider, is_up } => {
                write!(f, "the link to {provider} is {}", if *is_up { "up" } else { "down" })
            }
            Self::Preference { provider, prefix, preference } => {
                write!(f, "prefix {prefix} of {provider} is {preference}")
            }
            Self::Told { server, role } => write!(f, "{role} {server} knows the states of all prefixes"),
            Self::NoAnswer { server, role } => write!(
                f,
                "{role} {server} does not answer: is it running and reachable, are the secrets the same, and the clocks right? It is asked again"
            ),
            Self::Tunnel(end) => write!(
                f,
                "tunnel {} ({} {}) to {} for {}: {} here, {} there",
                end.interface, end.kind, end.id, end.peer, end.prefix, end.inner_own, end.inner_peer
            ),
            Self::TunnelRemoved { peer, prefix, interface } => {
                write!(f, "tunnel {interface} to {peer} for {prefix} is removed")
            }
            Self::TunnelRefused { peer, reason, .. } => write!(f, "no tunnel with {peer}: {reason}"),
            Self::WrongTunnel { peer } => {
                write!(
                    f,
                    "{peer} has answered with a tunnel that was not asked for: compare the two configurations"
                )
            }
            Self::States { prefixes } => {
                let texts = prefixes.iter().map(|(prefix, preference)| format!("{prefix} {preference}"));
                write!(f, "prefixes: {}", texts.collect::<Vec<_>>().join(", "))
            }
            Self::Push { link } => write!(f, "prefixes pushed to all hosts of {link}"),
            Self::Leases { link, leases } => write!(f, "{leases} leases on {link}"),
            Self::Address { interface, address, preferred } => {
                let status = if *preferred { "preferred" } else { "discouraged" };
                write!(f, "{address} on {interface} is {status}")
            }
            Self::AddressRemoved { interface, address } => write!(f, "{address} on {interface} is removed"),
            Self::Update { serial, updates } => write!(f, "{updates} updates carried out, serial {serial}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_counted_and_told_once_a_second_for_each_reason() {
        let mut told = Vec::new();
        let mut drops = Drops::default();
        for (millis, reason) in
            [(0, "wrong-code"), (10, "wrong-code"), (20, "replayed"), (1_000, "wrong-code")]
        {
            let from = "2001:db8::1".parse().unwrap();
            drops.add(Duration::from_millis(millis), reason, from, &mut |event| told.push(event));
        }
        let counts: Vec<_> = told
            .iter()
            .map(|event| match event {
                Event::Dropped { reason, count, .. } => (*reason, *count),
                _ => ("", 0),
            })
            .collect();
        assert_eq!(counts, [("wrong-code", 1), ("replayed", 1), ("wrong-code", 3)]);
    }

    #[test]
    fn an_event_is_one_json_object_with_its_name() {
        let prefix = "2001:db8:a::/48".parse().unwrap();
        let event = Event::Preference { provider: "A".into(), prefix, preference: Preference::Discouraged };
        let expected =
            r#"{"event":"preference","provider":"A","prefix":"2001:db8:a::/48","preference":"discouraged"}"#;
        assert_eq!(serde_json::to_string(&event).unwrap(), expected);
    }
}
