//! The messages of DNS-SD over mDNS: queries for a service, and answers with an instance of it.

use std::net::IpAddr;

use hickory_proto::{
    op::{Message, MessageType, OpCode, Query},
    rr::{
        Name, RData, Record, RecordType,
        rdata::{A, AAAA, PTR, SRV, TXT},
    },
};

/// The UDP port of mDNS (RFC 6762, section 3).
pub(super) const PORT: u16 = 5353;

/// The longest message that is read, in bytes (RFC 6762, section 17).
pub(super) const MAX_LEN: usize = 9000;

/// The longest string in a TXT record, in bytes, and in it the longest piece of a value.
const MAX_STRING: usize = 255;
const PIECE: usize = MAX_STRING - "a0=".len();

/// The most pieces that are put together.
const MAX_PIECES: usize = 8;

/// A service of treecast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    /// Sessions that are announced. The value is a signed announcement.
    Sessions,
    /// Senders from whom a code gets a ticket. The value is the code's tag.
    Codes,
}

impl Service {
    const ALL: [Self; 2] = [Self::Sessions, Self::Codes];

    fn name(self) -> Name {
        let text = match self {
            Self::Sessions => "_treecast._udp.local.",
            Self::Codes => "_treecast-code._tcp.local.",
        };
        Name::from_ascii(text).expect("it is a name")
    }

    fn of(name: &Name) -> Option<Self> {
        Self::ALL.into_iter().find(|service| service.name() == *name)
    }
}

/// An instance of a service, as its host tells of it.
#[derive(Debug, Clone)]
pub(super) struct Instance<'a> {
    pub service: Service,
    /// One label of a name: letters, digits and hyphens.
    pub label: &'a str,
    pub port: u16,
    pub addresses: &'a [IpAddr],
    pub value: &'a [u8],
    /// The time for which others may keep the instance, in seconds. 0 takes it back.
    pub ttl: u32,
}

/// The message that asks for all instances of a service.
pub(super) fn query(service: Service) -> Vec<u8> {
    let mut message = Message::new(0, MessageType::Query, OpCode::Query);
    message.add_query(Query::query(service.name(), RecordType::PTR));
    message.to_vec().unwrap_or_default()
}

/// The message that tells of instances. Empty if one cannot be told.
pub(super) fn answer(instances: &[Instance<'_>]) -> Vec<u8> {
    let mut message = Message::new(0, MessageType::Response, OpCode::Query);
    message.metadata.authoritative = true;
    for instance in instances {
        if add(&mut message, instance).is_none() {
            return Vec::new();
        }
    }
    message.to_vec().unwrap_or_default()
}

fn add(message: &mut Message, instance: &Instance<'_>) -> Option<()> {
    let Instance { service, label, port, addresses, value, ttl } = *instance;
    let name = service.name().prepend_label(label).ok()?;
    let host = Name::from_ascii(format!("{label}.local.")).ok()?;
    // Only this host has the name, so others forget what they knew (RFC 6762, section 10.2).
    let own = |name: &Name, data| {
        let mut record = Record::from_rdata(name.clone(), ttl, data);
        record.mdns_cache_flush = true;
        record
    };
    message.add_answer(Record::from_rdata(service.name(), ttl, RData::PTR(PTR(name.clone()))));
    message.add_answer(own(&name, RData::SRV(SRV::new(0, 0, port, host.clone()))));
    let pieces: Vec<Vec<u8>> = value
        .chunks(PIECE)
        .enumerate()
        .map(|(index, piece)| [format!("a{index}=").as_bytes(), piece].concat())
        .collect();
    if pieces.len() > MAX_PIECES {
        return None;
    }
    let strings = std::iter::once(&b"txtvers=1"[..]).chain(pieces.iter().map(Vec::as_slice));
    message.add_answer(own(&name, RData::TXT(TXT::from_bytes(strings.collect()))));
    for address in addresses {
        let data = match address {
            IpAddr::V4(address) => RData::A(A(*address)),
            IpAddr::V6(address) => RData::AAAA(AAAA(*address)),
        };
        message.add_additional(own(&host, data));
    }
    Some(())
}

/// The facts about treecast's services in a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// Services that somebody asks for.
    pub asked: Vec<Service>,
    pub found: Vec<Found>,
}

/// An instance in an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub service: Service,
    /// The label that tells the instance from others.
    pub label: String,
    pub port: u16,
    pub value: Vec<u8>,
}

/// Reads a message. Whatever is malformed, or of other services, says nothing.
pub(super) fn read(bytes: &[u8]) -> Heard {
    if !treecast_wire::dns::has_room(bytes) {
        return Heard::default();
    }
    let Ok(message) = Message::from_vec(bytes) else { return Heard::default() };
    if message.metadata.message_type == MessageType::Query {
        let asks = |query: &Query| matches!(query.query_type(), RecordType::PTR | RecordType::ANY);
        let asked =
            message.queries.iter().filter(|query| asks(query)).filter_map(|query| Service::of(query.name()));
        return Heard { asked: asked.collect(), found: Vec::new() };
    }
    let port = |name: &Name| {
        message.all_sections().find_map(|record| match &record.data {
            RData::SRV(srv) if record.name == *name => Some(srv.port),
            _ => None,
        })
    };
    let found = message.all_sections().filter_map(|record| {
        let RData::TXT(txt) = &record.data else { return None };
        // A goodbye says nothing that its signed value does not.
        let service = Service::of(&record.name.base_name())?;
        let label = record.name.iter().next().map(|label| String::from_utf8_lossy(label).into_owned())?;
        Some(Found { service, label, port: port(&record.name).unwrap_or(0), value: value(txt) })
    });
    Heard { asked: Vec::new(), found: found.take(MAX_PIECES).collect() }
}

/// The pieces of a value, put together.
fn value(txt: &TXT) -> Vec<u8> {
    let piece = |index: usize| {
        let key = format!("a{index}=");
        txt.txt_data.iter().find_map(|string| string.strip_prefix(key.as_bytes()))
    };
    (0..MAX_PIECES).map_while(piece).flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_told_and_read_in_one_packet() {
        let label = "treecast-0123456789abcdef";
        let value: Vec<u8> = (0..859).map(|at| at as u8).collect();
        let addresses = ["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        let instance = Instance {
            service: Service::Sessions,
            label,
            port: 7,
            addresses: &addresses,
            value: &value,
            ttl: 120,
        };
        let offer = Instance { service: Service::Codes, value: &[9], port: 8, ..instance.clone() };
        let alone = answer(std::slice::from_ref(&instance)).len();
        assert!(alone <= 1280 - 48, "{alone}");
        let message = answer(&[instance, offer]);
        let expected = [
            Found { service: Service::Sessions, label: label.into(), port: 7, value },
            Found { service: Service::Codes, label: label.into(), port: 8, value: vec![9] },
        ];
        assert_eq!(read(&message).found, expected);
        assert_eq!(read(&query(Service::Codes)), Heard { asked: vec![Service::Codes], found: Vec::new() });
    }

    #[test]
    fn what_is_no_message_says_nothing() {
        let message = query(Service::Sessions);
        for len in 0..message.len() {
            assert_eq!(read(&message[..len]), Heard::default(), "{len}");
        }
        assert!(treecast_wire::dns::has_room(&message));
        let too_long = Instance {
            service: Service::Sessions,
            label: "x",
            port: 0,
            addresses: &[],
            value: &[0; PIECE * MAX_PIECES + 1],
            ttl: 1,
        };
        assert!(answer(&[too_long]).is_empty());
    }
}
