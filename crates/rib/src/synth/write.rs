//! Writes a model as the table of a collector, and as the delegations of a registry.

use std::{
    collections::BTreeSet,
    io::{self, Write},
};

use super::model::{Model, Peer};
use crate::{
    Family, Prefix, date,
    dump::SYNTHETIC,
    mrt::{Header, types},
    path::Path,
};

/// The format of a table (RFC 6396).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One record for a prefix, with the routes of all peers.
    TableDumpV2,
    /// One record for a route, with ASNs of 2 octets, and an AS4_PATH where these do not suffice.
    TableDump,
    /// An update for each route.
    Bgp4mp,
}

/// The counts of a table that is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    pub entries: u64,
    pub prefixes: u64,
    pub private_asns: BTreeSet<u32>,
    pub private_entries: u64,
    pub set_entries: u64,
    pub prepended_entries: u64,
}

/// The announcer of a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Origin {
    Provider(usize),
    /// A customer of a provider, with a private ASN that the provider forgot to remove.
    Customer(usize, u32),
    /// The stub, and the number of the prefix among its prefixes.
    Stub(usize, usize),
    /// Two stubs, by a provider that made one prefix of theirs.
    Set(usize, [usize; 2]),
}

/// Writes the table, sorted by prefix.
pub fn write(model: &Model, format: Format, out: &mut impl Write) -> io::Result<Tally> {
    let mut writer = Writer { model, format, out, tally: Tally::default(), paths: paths(model) };
    if format == Format::TableDumpV2 {
        writer.peer_table()?;
    }
    let mut announced = announcements(model);
    announced.sort_unstable();
    for (number, (prefix, origin)) in announced.into_iter().enumerate() {
        writer.prefix(number as u32, prefix, origin)?;
    }
    Ok(writer.tally)
}

fn announcements(model: &Model) -> Vec<(Prefix, Origin)> {
    let mut announced = Vec::with_capacity(model.spec.prefixes);
    for (at, provider) in model.providers.iter().enumerate() {
        announced.extend(
            [provider.block].iter().chain(&provider.held).map(|prefix| (*prefix, Origin::Provider(at))),
        );
        announced.extend(provider.of_customers.iter().map(|customer| {
            let origin = customer.leaked.map_or(Origin::Provider(at), |asn| Origin::Customer(at, asn));
            (customer.prefix, origin)
        }));
    }
    for (at, stub) in model.stubs.iter().enumerate() {
        announced.extend(
            stub.prefixes.iter().enumerate().map(|(number, (prefix, _))| (*prefix, Origin::Stub(at, number))),
        );
    }
    announced.extend(model.aggregates.iter().map(|(prefix, at, pair)| (*prefix, Origin::Set(*at, *pair))));
    announced
}

/// The path from each peer to each provider.
fn paths(model: &Model) -> Vec<Vec<Vec<u32>>> {
    let of_peer = |peer: &Peer| (0..model.providers.len()).map(|at| model.path(*peer, at)).collect();
    model.peers.iter().map(of_peer).collect()
}

struct Writer<'m, W> {
    model: &'m Model,
    format: Format,
    out: &'m mut W,
    tally: Tally,
    /// The AS path of each peer through each provider, by peer and provider.
    paths: Vec<Vec<Vec<u32>>>,
}

impl<W: Write> Writer<'_, W> {
    fn record(&mut self, kind: u16, subtype: u16, body: &[u8]) -> io::Result<()> {
        let header = Header { time: self.model.time as u32, kind, subtype, length: body.len() };
        self.out.write_all(&header.to_wire())?;
        self.out.write_all(body)
    }

    fn peer_table(&mut self) -> io::Result<()> {
        const AS_HAS_4_OCTETS: u8 = 2;
        let mut body = vec![192, 0, 2, 1];
        body.extend((SYNTHETIC.len() as u16).to_be_bytes());
        body.extend(SYNTHETIC.as_bytes());
        body.extend((self.model.peers.len() as u16).to_be_bytes());
        for (at, peer) in self.model.peers.iter().enumerate() {
            body.push(AS_HAS_4_OCTETS);
            body.extend(peer_address(at));
            body.extend(peer_address(at));
            body.extend(self.model.peer_asn(*peer).to_be_bytes());
        }
        self.record(types::TABLE_DUMP_V2, types::PEER_INDEX_TABLE, &body)
    }

    fn prefix(&mut self, number: u32, prefix: Prefix, origin: Origin) -> io::Result<()> {
        self.tally.prefixes += 1;
        let is_v6 = prefix.family() == Family::V6;
        let mut entries = Vec::new();
        for at in 0..self.model.peers.len() {
            let path = self.path(at, origin);
            match self.format {
                Format::TableDumpV2 => {
                    let attributes = attributes(path.to_wire(), None, is_v6);
                    entries.extend((at as u16).to_be_bytes());
                    entries.extend((self.model.time as u32).to_be_bytes());
                    entries.extend((attributes.len() as u16).to_be_bytes());
                    entries.extend(attributes);
                }
                Format::TableDump => self.table_dump(number, at, prefix, &path)?,
                Format::Bgp4mp => self.update(at, prefix, &path)?,
            }
        }
        if self.format != Format::TableDumpV2 {
            return Ok(());
        }
        let mut body = number.to_be_bytes().to_vec();
        body.push(prefix.length());
        body.extend(prefix.to_wire());
        body.extend((self.model.peers.len() as u16).to_be_bytes());
        body.extend(entries);
        self.record(types::TABLE_DUMP_V2, if is_v6 { 4 } else { 2 }, &body)
    }

    /// The path of a peer to an origin, counted in the tally.
    fn path(&mut self, at: usize, origin: Origin) -> Path {
        self.tally.entries += 1;
        let model = self.model;
        match origin {
            Origin::Provider(provider) => Path::of_sequence(&self.paths[at][provider]),
            Origin::Customer(provider, private) => {
                self.tally.private_asns.insert(private);
                self.tally.private_entries += 1;
                Path::of_sequence(&[&self.paths[at][provider][..], &[private]].concat())
            }
            Origin::Set(provider, pair) => {
                self.tally.set_entries += 1;
                Path::of_sequence(&self.paths[at][provider]).with_set(&pair.map(|stub| model.stubs[stub].asn))
            }
            Origin::Stub(place, number) => {
                let stub = &model.stubs[place];
                self.tally.prepended_entries += u64::from(stub.prepends > 0);
                let own = vec![stub.asn; 1 + stub.prepends];
                if model.peers[at] == Peer::Stub(place) {
                    return Path::of_sequence(&own);
                }
                // Each provider is on the paths of some peers, whatever the prefix.
                let upstream = stub.upstreams[(at + number) % stub.upstreams.len()];
                Path::of_sequence(&[&self.paths[at][upstream][..], &own[..]].concat())
            }
        }
    }

    fn table_dump(&mut self, number: u32, at: usize, prefix: Prefix, path: &Path) -> io::Result<()> {
        let is_v6 = prefix.family() == Family::V6;
        let octets = usize::from(prefix.family().address_bits()) / 8;
        let (narrow, wide) = narrow(path);
        let attributes = attributes(&narrow, wide, is_v6);
        let asn = self.model.peer_asn(self.model.peers[at]);
        let mut body = vec![0, 0];
        body.extend((number as u16).to_be_bytes());
        body.extend(&prefix.bits().to_be_bytes()[..octets]);
        body.extend([prefix.length(), 1]);
        body.extend((self.model.time as u32).to_be_bytes());
        if is_v6 {
            // ::ffff:198.18.0.0
            body.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
        }
        body.extend(peer_address(at));
        body.extend(two_octets(asn).to_be_bytes());
        body.extend((attributes.len() as u16).to_be_bytes());
        body.extend(attributes);
        self.record(types::TABLE_DUMP, if is_v6 { 2 } else { 1 }, &body)
    }

    fn update(&mut self, at: usize, prefix: Prefix, path: &Path) -> io::Result<()> {
        const MESSAGE_AS4: u16 = 4;
        const UPDATE: u8 = 2;
        let is_v6 = prefix.family() == Family::V6;
        let wire = [&[prefix.length()][..], &prefix.to_wire()].concat();
        let mut attributes = attributes(path.to_wire(), None, false);
        if is_v6 {
            // MP_REACH_NLRI: family, next hop, and the prefix.
            let mut value = vec![0, 2, 1, 16];
            value.extend([0x20; 16]);
            value.push(0);
            value.extend(&wire);
            attributes.extend([0x80, 14, value.len() as u8]);
            attributes.extend(value);
        }
        let mut update = vec![0, 0];
        update.extend((attributes.len() as u16).to_be_bytes());
        update.extend(attributes);
        update.extend(if is_v6 { Vec::new() } else { wire });
        let mut body = self.model.peer_asn(self.model.peers[at]).to_be_bytes().to_vec();
        body.extend([0, 0, 0xfd, 0xe8, 0, 0, 0, 1]);
        body.extend(peer_address(at));
        body.extend([192, 0, 2, 1]);
        body.extend([0xff; 16]);
        body.extend((19 + update.len() as u16).to_be_bytes());
        body.push(UPDATE);
        body.extend(update);
        self.record(types::BGP4MP, MESSAGE_AS4, &body)
    }
}

fn peer_address(at: usize) -> [u8; 4] {
    [198, 18, (at >> 8) as u8, at as u8]
}

/// AS_TRANS for an ASN that does not fit (RFC 6793).
fn two_octets(asn: u32) -> u16 {
    u16::try_from(asn).unwrap_or(23_456)
}

/// ORIGIN, AS_PATH, the next hop, and AS4_PATH if there is one.
fn attributes(path: &[u8], wide: Option<&[u8]>, is_v6: bool) -> Vec<u8> {
    let mut octets = vec![0x40, 1, 1, 0];
    octets.extend([0x50, 2]);
    octets.extend((path.len() as u16).to_be_bytes());
    octets.extend(path);
    match is_v6 {
        false => octets.extend([0x40, 3, 4, 192, 0, 2, 2]),
        // In tables, MP_REACH_NLRI is its next hop alone (RFC 6396, 4.3.4).
        true => {
            octets.extend([0x80, 14, 17, 16]);
            octets.extend([0x20; 16]);
        }
    }
    if let Some(wide) = wide {
        octets.extend([0xd0, 17]);
        octets.extend((wide.len() as u16).to_be_bytes());
        octets.extend(wide);
    }
    octets
}

/// The path with ASNs of 2 octets, and the AS4_PATH if it is needed.
fn narrow(path: &Path) -> (Vec<u8>, Option<&[u8]>) {
    let wire = path.to_wire();
    let (mut narrow, mut at, mut is_wide) = (Vec::with_capacity(wire.len()), 0, false);
    while let Some([kind, count]) = wire.get(at..at + 2) {
        narrow.extend([kind, count]);
        at += 2;
        for asn in wire[at..at + usize::from(*count) * 4].chunks_exact(4) {
            let asn = u32::from_be_bytes([asn[0], asn[1], asn[2], asn[3]]);
            is_wide |= asn > u32::from(u16::MAX);
            narrow.extend(two_octets(asn).to_be_bytes());
        }
        at += usize::from(*count) * 4;
    }
    (narrow, is_wide.then_some(wire))
}

/// Writes the delegations of a registry, in the extended form: all ASNs, and the blocks of providers and of their
/// customers.
pub fn delegations(model: &Model, out: &mut impl Write) -> io::Result<()> {
    let day = date::day(model.time).replace('-', "");
    writeln!(out, "2|{SYNTHETIC}|{day}|0|19930101|{day}|+0000")?;
    let mut block = |prefix: Prefix, holder: &str| {
        let value = match prefix.family() {
            Family::V4 => format!("ipv4|{}|{}", prefix.address(), 1u64 << (32 - prefix.length())),
            Family::V6 => format!("ipv6|{}|{}", prefix.address(), prefix.length()),
        };
        writeln!(out, "{SYNTHETIC}|ZZ|{value}|{day}|allocated|{holder}")
    };
    for (at, provider) in model.providers.iter().enumerate() {
        for prefix in [provider.block].iter().chain(&provider.held) {
            block(*prefix, &format!("provider{at}"))?;
        }
        for (number, customer) in provider.of_customers.iter().enumerate() {
            block(customer.prefix, &format!("customer{at}-{number}"))?;
        }
    }
    let providers = model.providers.iter().enumerate().map(|(at, one)| (one.asn, format!("provider{at}")));
    let stubs = model.stubs.iter().enumerate().map(|(at, one)| (one.asn, format!("stub{at}")));
    for (asn, holder) in providers.chain(stubs) {
        writeln!(out, "{SYNTHETIC}|ZZ|asn|{asn}|1|{day}|assigned|{holder}")?;
    }
    Ok(())
}
