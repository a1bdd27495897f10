//! `dns`: mDNS of MAST as a program: the name server of the stub's zone.

use std::{
    collections::{BTreeMap, HashSet},
    net::{IpAddr, UdpSocket},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use hickory_proto::{
    rr::{Name, Record, RecordType},
    serialize::binary::{BinDecodable, BinEncodable},
};
use serde::{Deserialize, Serialize};
use treecast_host::clock;

use crate::dns::{
    keys::{self, Keys},
    records::{APL, InterfaceId, ListedPrefix, listed_prefixes},
    server::{Counts, Server, Transport},
    zone::Zone,
};

use super::{
    Error, Event, Tell,
    config::{self, Config},
    event::Drops,
    name_streams::Streams,
    sockets,
    status::{self, Status},
    store::Store,
    unix_us,
};

/// The name of the file that outlives a restart.
const RECORDS: &str = "dns-records";

/// The shortest time between two writes of the records.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);

/// The changes by updates, against the configured zone. Each record is a DNS record in its wire format.
#[derive(Default, Serialize, Deserialize)]
struct Kept {
    serial: u32,
    added: Vec<Vec<u8>>,
    removed: Vec<Vec<u8>>,
    /// The time of each key's newest update, in seconds since 1970.
    #[serde(default)]
    newest: BTreeMap<String, u64>,
}

/// The sockets and machine of the name server.
pub struct Daemon {
    server: Server,
    /// The records of the configured zone, in their wire format.
    configured: HashSet<Vec<u8>>,
    datagrams: Vec<UdpSocket>,
    streams: Streams,
    /// The counts that were told last.
    told: Counts,
    write_due: Option<Duration>,
    store: Store,
    drops: Drops,
}

impl Daemon {
    pub fn new(config: &Config, tell: Tell<'_>) -> Result<Self, Error> {
        let dns = config.file.dns.as_ref();
        let dns = dns.ok_or_else(|| Error::new("the file has no section [dns]".into()))?;
        let store = Store::open(config.state())?;
        let kept: Kept = store.load(RECORDS, tell);
        let now = unix_us() / 1_000_000;
        // The number grows over restarts, also if nothing is kept: no zone changes more than once a second for long.
        let mut zone = zone(config, dns, (now as u32).max(kept.serial.wrapping_add(1)))?;
        let configured = zone.records().filter(is_kept).filter_map(|record| record.to_bytes().ok()).collect();
        restore(&mut zone, &kept);
        let mut all_keys = Keys::default();
        for key in &dns.keys {
            let signer = keys::signer(&key.name, &key.secret(config)?).map_err(Error::new)?;
            // One that is far ahead was kept before the clock was set back. It must not silence the key's owner.
            let newest = kept.newest.get(&signer.signer_name().to_string()).copied();
            let newest = newest.filter(|newest| *newest <= now + u64::from(keys::FUDGE_SECONDS));
            all_keys.add(signer, key.may, now.max(newest.unwrap_or(0)));
        }
        if dns.listen.is_empty() {
            return Err(Error::new("[dns] listens nowhere: give at least one address in listen".into()));
        }
        Ok(Self {
            server: Server::new(zone, all_keys),
            configured,
            datagrams: dns.listen.iter().map(|address| sockets::open(*address)).collect::<Result<_, _>>()?,
            streams: Streams::open(&dns.listen)?,
            told: Counts::default(),
            write_due: None,
            store,
            drops: Drops::default(),
        })
    }

    /// Tells what requests have done.
    fn look(&mut self, from: IpAddr, tell: Tell<'_>) {
        let (counts, told) = (self.server.counts, self.told);
        let now = clock::monotonic();
        if counts.updates != told.updates {
            tell(Event::Update { serial: self.server.zone().serial(), updates: counts.updates });
            self.write_due = self.write_due.or(Some(now + BETWEEN_WRITES));
        }
        let reasons = [
            ("refused-update", counts.refused_updates - told.refused_updates),
            ("wrong-signature", counts.wrong_signatures - told.wrong_signatures),
            ("malformed", counts.malformed - told.malformed),
        ];
        for dropped in reasons.into_iter().filter(|(_, new)| *new > 0) {
            self.drops.add_many(now, dropped, from, tell);
        }
        self.told = counts;
    }

    fn keep(&mut self, tell: Tell<'_>) {
        self.write_due = None;
        let now: HashSet<Vec<u8>> = self
            .server
            .zone()
            .records()
            .filter(is_kept)
            .filter_map(|record| record.to_bytes().ok())
            .collect();
        let kept = Kept {
            serial: self.server.zone().serial(),
            added: now.difference(&self.configured).cloned().collect(),
            removed: self.configured.difference(&now).cloned().collect(),
            newest: self.server.keys().newest().collect(),
        };
        if let Err(error) = self.store.save(RECORDS, &kept) {
            tell(Event::Failed { what: "cannot keep the zone's records".into(), error: error.to_string() });
        }
    }
}

impl super::Daemon for Daemon {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let datagrams = self.datagrams.iter().map(AsFd::as_fd);
        [self.streams.as_fd()].into_iter().chain(datagrams).collect()
    }

    fn read(&mut self, index: usize, tell: Tell<'_>) -> Result<(), Error> {
        let now = unix_us() / 1_000_000;
        let mut answers = Vec::new();
        match index.checked_sub(1).and_then(|at| self.datagrams.get(at)) {
            None => {
                for request in self.streams.requests() {
                    let answer = self.server.answer(now, &request.bytes, Transport::Tcp);
                    let from = request.from;
                    request.answer(answer);
                    self.look(from, tell);
                }
                return Ok(());
            }
            Some(socket) => sockets::read(socket, |bytes, from| {
                answers.push((self.server.answer(now, bytes, Transport::Udp), from));
            }),
        }
        for (answer, from) in answers {
            if let Some(answer) = answer {
                sockets::answer(&self.datagrams[index - 1], &answer, from);
            }
            self.look(from.from.ip(), tell);
        }
        Ok(())
    }

    fn work(&mut self, tell: Tell<'_>) -> Result<Option<Duration>, Error> {
        if self.write_due.is_some_and(|due| due <= clock::monotonic()) {
            self.keep(tell);
        }
        Ok(self.write_due)
    }

    fn status(&self) -> Status {
        let zone = self.server.zone();
        let mut networks: BTreeMap<String, status::Network> = BTreeMap::new();
        for record in zone.records().filter(|record| record.record_type() == APL) {
            let name = record.name.to_string();
            let empty = status::Network { name: name.clone(), prefixes: vec![], discouraged: vec![] };
            let network = networks.entry(name).or_insert(empty);
            for item in listed_prefixes(&record.data).unwrap_or_default() {
                let list = if item.is_negated { &mut network.discouraged } else { &mut network.prefixes };
                list.push(item.prefix);
            }
        }
        Status::Dns {
            zone: zone.origin().to_string(),
            serial: zone.serial(),
            networks: networks.into_values().collect(),
            newest_updates: self.server.keys().newest().collect(),
        }
    }

    fn end(&mut self, tell: Tell<'_>) {
        if self.write_due.is_some() {
            self.keep(tell);
        }
    }
}

/// Whether a record is the users' and not the server's own.
fn is_kept(record: &Record) -> bool {
    record.record_type() != RecordType::SOA
}

fn restore(zone: &mut Zone, kept: &Kept) {
    let read = |bytes: &Vec<u8>| Record::from_bytes(bytes).ok().filter(is_kept);
    for record in kept.removed.iter().filter_map(read) {
        zone.remove(&record.name, record.record_type(), |data| *data == record.data);
    }
    for record in
        kept.added.iter().filter_map(read).filter(|record| zone.contains(&record.name)).collect::<Vec<_>>()
    {
        zone.add(&record.name, record.ttl, record.data);
    }
}

/// The zone that the file describes: its links' prefixes and its hosts' interface identifiers.
fn zone(config: &Config, dns: &config::Dns, serial: u32) -> Result<Zone, Error> {
    let origin = zone_name(&dns.zone)?;
    let name_server = match &dns.name_server {
        Some(name) => zone_name(name)?,
        None => name_in("ns", &origin)?,
    };
    let mut zone = Zone::new(origin.clone(), name_server, serial, dns.ttl_s);
    for link in &config.file.links {
        let network = name_in(&link.name, &origin)?;
        for prefix in config.prefixes_of(link)? {
            zone.add(&network, dns.ttl_s, ListedPrefix { prefix, is_negated: false }.to_data());
        }
    }
    for host in &dns.hosts {
        let network = name_in(&config.link(&host.link)?.name, &origin)?;
        let id = InterfaceId { ifid: host.ifid(), network };
        zone.add(&name_in(&host.name, &origin)?, dns.ttl_s, id.to_data());
    }
    Ok(zone)
}

/// Reads the full name of a zone or host; the dot at its end may be missing.
pub fn zone_name(text: &str) -> Result<Name, Error> {
    let mut name = Name::from_ascii(text).map_err(|error| Error::new(format!("name {text:?}: {error}")))?;
    name.set_fqdn(true);
    Ok(name.to_lowercase())
}

/// The name of something in a zone.
pub fn name_in(label: &str, zone: &Name) -> Result<Name, Error> {
    let wrong = |error: String| Error::new(format!("name {label:?} in the zone {zone}: {error}"));
    let name = Name::from_ascii(label).map_err(|error| wrong(error.to_string()))?;
    if name.is_fqdn() {
        return Err(wrong("it ends with a dot".into()));
    }
    name.append_domain(zone).map(|name| name.to_lowercase()).map_err(|error| wrong(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dns::zone::Found;

    fn name(text: &str) -> Name {
        zone_name(text).unwrap()
    }

    #[test]
    fn names_are_in_the_zone() {
        let zone = name("Stub.Example");
        assert_eq!(zone.to_string(), "stub.example.");
        assert_eq!(name_in("www", &zone).unwrap().to_string(), "www.stub.example.");
        assert!(name_in("www.", &zone).unwrap_err().to_string().contains("it ends with a dot"));
    }

    #[test]
    fn what_updates_have_changed_is_there_after_a_restart() {
        let fresh = || {
            let mut zone = Zone::new(name("stub.example."), name("ns.stub.example."), 1, 5);
            for host in ["one.stub.example.", "two.stub.example."] {
                let id = InterfaceId { ifid: 1, network: name("lan.stub.example.") };
                zone.add(&name(host), 5, id.to_data());
            }
            zone
        };
        let bytes = |zone: &Zone| {
            zone.records().filter(is_kept).map(|it| it.to_bytes().unwrap()).collect::<HashSet<_>>()
        };
        let configured = bytes(&fresh());
        let mut changed = fresh();
        let three = InterfaceId { ifid: 3, network: name("lan.stub.example.") };
        changed.add(&name("three.stub.example."), 9, three.to_data());
        changed.remove(&name("one.stub.example."), three.to_data().record_type(), |_| true);
        let now = bytes(&changed);
        let kept = Kept {
            serial: 2,
            added: now.difference(&configured).cloned().collect(),
            removed: configured.difference(&now).cloned().collect(),
            newest: BTreeMap::new(),
        };
        let mut restored = fresh();
        restore(&mut restored, &kept);
        assert_eq!(bytes(&restored), now);
        assert_eq!(restored.find(&name("one.stub.example."), three.to_data().record_type()), Found::NoName);
    }
}
