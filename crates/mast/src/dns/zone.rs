//! A zone in memory: its records, and the AAAA records that it makes of prefixes and interface identifiers.

use std::collections::BTreeMap;

use hickory_proto::rr::{
    Name, RData, Record, RecordType,
    rdata::{AAAA, NS, SOA},
};

use crate::Prefix;

use super::records::{APL, IFID, InterfaceId, ListedPrefix, listed_prefixes};

/// The most records that a zone holds.
pub(crate) const MAX_RECORDS: usize = 10_000;

/// The times of a SOA record that only secondary servers use, in seconds. mDNS has none of these.
const REFRESH: i32 = 3_600;
const RETRY: i32 = 600;
const EXPIRE: i32 = 86_400;

/// The records of one name and type.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordSet {
    /// The time for which others may keep the records, in seconds.
    pub ttl: u32,
    pub data: Vec<RData>,
}

/// The records of one name, by the number of their type.
type Node = BTreeMap<u16, RecordSet>;

/// The answer of a zone about a name and type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    Records(Vec<Record>),
    /// The name exists, but has no record of this type.
    NoRecord,
    NoName,
}

/// A zone, for which this server alone answers. Names are compared without regard to case.
#[derive(Debug, Clone)]
pub struct Zone {
    origin: Name,
    nodes: BTreeMap<Name, Node>,
    records: usize,
    /// The time for which others may keep an answer that something does not exist, in seconds.
    negative_ttl: u32,
}

impl Zone {
    /// Creates a zone with a SOA and an NS record at its origin.
    pub fn new(origin: Name, name_server: Name, serial: u32, ttl: u32) -> Self {
        let mut zone = Self { origin: origin.clone(), nodes: BTreeMap::new(), records: 0, negative_ttl: ttl };
        let mailbox = origin.prepend_label("hostmaster").unwrap_or_else(|_| origin.clone());
        let soa = SOA::new(name_server.clone(), mailbox, serial, REFRESH, RETRY, EXPIRE, ttl);
        zone.add(&origin, ttl, RData::SOA(soa));
        zone.add(&origin, ttl, RData::NS(NS(name_server)));
        zone
    }

    pub fn origin(&self) -> &Name {
        &self.origin
    }

    /// The number of records that the zone still has room for.
    pub fn room(&self) -> usize {
        MAX_RECORDS.saturating_sub(self.records)
    }

    pub fn contains(&self, name: &Name) -> bool {
        self.origin.zone_of(name)
    }

    /// Whether the name, or a name below it, has a record.
    pub fn has_name(&self, name: &Name) -> bool {
        // In the order of names, those below a name follow it at once (RFC 4034, 6.1).
        self.nodes.range(name..).next().is_some_and(|(next, _)| name.zone_of(next))
    }

    /// The records of a name, as they are stored.
    pub fn set(&self, name: &Name, record_type: RecordType) -> Option<&RecordSet> {
        self.nodes.get(name)?.get(&record_type.into())
    }

    /// Whether the name itself has a record.
    pub fn is_in_use(&self, name: &Name) -> bool {
        self.nodes.contains_key(name)
    }

    /// Adds a record, unless the name has it already. All records of a set get the newest TTL. Returns whether the
    /// zone has changed.
    pub fn add(&mut self, name: &Name, ttl: u32, data: RData) -> bool {
        let set = self.nodes.entry(name.to_lowercase()).or_default();
        let set = set.entry(data.record_type().into()).or_default();
        let mut has_changed = set.ttl != ttl;
        set.ttl = ttl;
        if !set.data.contains(&data) {
            set.data.push(data);
            self.records += 1;
            has_changed = true;
        }
        has_changed
    }

    /// Removes the records of a name and type that `is_meant` picks. Returns whether the zone has changed.
    pub fn remove(
        &mut self,
        name: &Name,
        record_type: RecordType,
        is_meant: impl Fn(&RData) -> bool,
    ) -> bool {
        let Some(node) = self.nodes.get_mut(name) else { return false };
        let Some(set) = node.get_mut(&record_type.into()) else { return false };
        let before = set.data.len();
        set.data.retain(|data| !is_meant(data));
        let removed = before - set.data.len();
        self.records -= removed;
        if set.data.is_empty() {
            node.remove(&record_type.into());
        }
        if node.is_empty() {
            self.nodes.remove(name);
        }
        removed > 0
    }

    /// All records.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        let sets = self.nodes.iter().flat_map(|(name, node)| node.values().map(move |set| (name, set)));
        sets.flat_map(|(name, set)| {
            set.data.iter().map(|data| Record::from_rdata(name.clone(), set.ttl, data.clone()))
        })
    }

    /// The zone's serial number.
    pub fn serial(&self) -> u32 {
        let set = self.set(&self.origin, RecordType::SOA);
        match set.and_then(|set| set.data.first()) {
            Some(RData::SOA(soa)) => soa.serial,
            _ => 0,
        }
    }

    /// The types of the records of a name.
    pub fn types(&self, name: &Name) -> Vec<RecordType> {
        let node = self.nodes.get(name);
        node.into_iter().flat_map(Node::keys).map(|number| RecordType::from(*number)).collect()
    }

    /// The SOA record, whose TTL is that of answers that something does not exist (RFC 2308, section 3).
    pub fn authority(&self) -> Option<Record> {
        let set = self.set(&self.origin, RecordType::SOA)?;
        let data = set.data.first()?.clone();
        Some(Record::from_rdata(self.origin.clone(), set.ttl.min(self.negative_ttl), data))
    }

    /// Counts the zone's serial number up (RFC 2136, 3.6; RFC 1982).
    pub fn count_up(&mut self) {
        let node = self.nodes.get_mut(&self.origin);
        let set = node.and_then(|node| node.get_mut(&RecordType::SOA.into()));
        if let Some(RData::SOA(soa)) = set.and_then(|set| set.data.first_mut()) {
            // Zero means an unknown serial number to some.
            soa.serial = soa.serial.wrapping_add(1).max(1);
        }
    }

    /// Answers a question. AAAA records are those that are stored, and those that are joined.
    pub fn find(&self, name: &Name, record_type: RecordType) -> Found {
        let Some(node) = self.nodes.get(name) else {
            return if self.has_name(name) { Found::NoRecord } else { Found::NoName };
        };
        let stored = |wanted: RecordType| {
            let set = node.get(&wanted.into());
            let set = set.map(|set| set.data.iter().map(|data| (set.ttl, data.clone())).collect::<Vec<_>>());
            set.unwrap_or_default()
        };
        let mut found = match record_type {
            // One set is an answer to a question for all (RFC 8482, 4.1), and gives no one many bytes for few.
            RecordType::ANY => node.keys().next().map(|number| stored((*number).into())).unwrap_or_default(),
            RecordType::AAAA => [stored(RecordType::AAAA), self.joined(node)].concat(),
            record_type => stored(record_type),
        };
        if found.is_empty() {
            found = stored(RecordType::CNAME);
        }
        if found.is_empty() {
            return Found::NoRecord;
        }
        let record = |(ttl, data)| Record::from_rdata(name.clone(), ttl, data);
        Found::Records(found.into_iter().map(record).collect())
    }

    /// The addresses of a name by its IFID records: one for each prefix of the network that is not discouraged. If
    /// all are discouraged, all are given, because discouraged addresses are reachable still (6.3.2 of the paper).
    fn joined(&self, node: &Node) -> Vec<(u32, RData)> {
        let mut addresses = Vec::new();
        for (ttl, data) in
            node.get(&IFID.into()).into_iter().flat_map(|set| set.data.iter().map(|it| (set.ttl, it)))
        {
            let Some(id) = InterfaceId::from_data(data) else { continue };
            let Some(network) = self.set(&id.network, APL) else { continue };
            for prefix in usable(&network.data) {
                if let Some(address) = prefix.join(id.ifid) {
                    addresses.push((ttl.min(network.ttl), RData::AAAA(AAAA(address))));
                }
            }
        }
        addresses
    }
}

/// The prefixes of a network's APL records that are not discouraged, or all if all are.
fn usable(data: &[RData]) -> Vec<Prefix> {
    let items: Vec<ListedPrefix> = data.iter().filter_map(listed_prefixes).flatten().collect();
    let (discouraged, listed): (Vec<_>, Vec<_>) = items.into_iter().partition(|item| item.is_negated);
    let listed: Vec<_> = listed.into_iter().map(|item| item.prefix).collect();
    let is_usable = |prefix: &&Prefix| !discouraged.iter().any(|item| item.prefix.covers(**prefix));
    let usable: Vec<_> = listed.iter().filter(is_usable).copied().collect();
    if usable.is_empty() { listed } else { usable }
}
