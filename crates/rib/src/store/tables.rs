//! The tables of a store, and how a dump becomes rows of them.
//!
//! | table | a row is |
//! |---|---|
//! | dumps | a file that was read |
//! | faults | how often one reason kept something from being used |
//! | peers | a router that sent routes to the collector |
//! | paths | a distinct AS path, as announced |
//! | routes | a prefix as one origin announces it through one upstream |
//! | relations | two ASes and their relation |
//! | delegations | a run of ASNs or addresses, and its holder |
//!
//! The column `dump` of all tables is the number of the file in `dumps`.

use std::{
    fmt::Display,
    sync::mpsc::{SendError, SyncSender, sync_channel},
    thread,
};

use super::{Column, StoreError, Table, Texts, Values};
use crate::{
    Dump, DumpKind, Family,
    delegations::{Delegation, Delegations, Resource},
    dump::{PathCount, Peer, Route},
    fault::{Fault, Faults},
    relations::{Relation, Relations},
};

/// The content of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    Dump(Box<Dump>),
    Relations(Relations),
    Delegations(Delegations),
}

/// The number of parts that wait to be written.
const WAITING: usize = 4;

/// The names of all tables.
pub const NAMES: [&str; 7] = ["dumps", "faults", "peers", "paths", "routes", "relations", "delegations"];

/// A row of the table `dumps`, which says what a store holds without reading all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    pub dump: i64,
    /// Seconds since 1970.
    pub time: i64,
    /// `table`, `updates`, `relations` or `delegations`.
    pub kind: String,
    pub view: String,
    pub file: String,
    /// A number that two tables share if they come from the same peers, so from one collector. 0: no table or updates.
    pub collector: i64,
}

impl Content {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Dump(dump) => dump.kind.name(),
            Self::Relations(_) => "relations",
            Self::Delegations(_) => "delegations",
        }
    }

    /// Seconds since 1970. 0: the file does not say.
    pub fn time(&self) -> i64 {
        match self {
            Self::Dump(dump) => dump.time,
            Self::Relations(relations) => relations.time,
            Self::Delegations(delegations) => delegations.time,
        }
    }

    pub fn file(&self) -> &str {
        match self {
            Self::Dump(dump) => &dump.file,
            Self::Relations(relations) => &relations.file,
            Self::Delegations(delegations) => &delegations.file,
        }
    }

    pub fn faults(&self) -> &Faults {
        match self {
            Self::Dump(dump) => &dump.faults,
            Self::Relations(relations) => &relations.faults,
            Self::Delegations(delegations) => &delegations.faults,
        }
    }

    /// The row that this content will have.
    pub fn heading(&self, dump: i64) -> Heading {
        let (view, collector) = match self {
            Self::Dump(dump) => (dump.view.clone(), collector(&dump.peers)),
            _ => (String::new(), 0),
        };
        Heading {
            dump,
            time: self.time(),
            kind: self.kind().into(),
            view,
            file: self.file().into(),
            collector,
        }
    }

    /// Hands the rows of all tables, with the number `dump`, to `take`, at most `rows` rows at once. The parts of a table
    /// follow one another, and a table without rows is one empty part. The next parts are made while `take` runs.
    pub fn each_part<E>(
        &self,
        dump: i64,
        rows: usize,
        take: impl FnMut(Table) -> Result<(), E>,
    ) -> Result<(), E> {
        thread::scope(|scope| {
            let (sender, receiver) = sync_channel(WAITING);
            // It ends early only if `take` fails, because nobody receives then.
            scope.spawn(move || self.send_parts(dump, rows, &sender));
            receiver.into_iter().try_for_each(take)
        })
    }

    fn send_parts(&self, dump: i64, rows: usize, sender: &SyncSender<Table>) -> Result<(), SendError<Table>> {
        sender.send(self.dumps(dump))?;
        sender.send(faults(self.faults(), dump))?;
        match self {
            Self::Dump(content) => {
                sender.send(peers(&content.peers, dump))?;
                parts(&content.paths, rows).try_for_each(|part| sender.send(paths(part, dump)))?;
                parts(&content.routes, rows).try_for_each(|part| sender.send(routes(part, dump)))
            }
            Self::Relations(relations) => sender.send(relations_table(relations, dump)),
            Self::Delegations(delegations) => {
                let mut parts = parts(&delegations.all, rows);
                parts.try_for_each(|part| sender.send(delegations_table(part, dump)))
            }
        }
    }

    fn dumps(&self, dump: i64) -> Table {
        let heading = self.heading(dump);
        let empty = Dump { kind: DumpKind::Table, ..empty() };
        let of = if let Self::Dump(dump) = self { dump } else { &empty };
        let columns = vec![
            numbers("dump", vec![dump]),
            numbers("time", vec![heading.time]),
            texts("kind", [heading.kind]),
            texts("view", [heading.view]),
            texts("file", [heading.file]),
            numbers("collector", vec![heading.collector]),
            numbers("last_time", vec![of.last_time]),
            numbers("out_of_order", vec![of.out_of_order as i64]),
            numbers("records", vec![of.records as i64]),
            numbers("bytes", vec![of.bytes as i64]),
            numbers("withdrawals", vec![of.withdrawals as i64]),
            numbers("entries", vec![of.entries() as i64]),
        ];
        Table { name: "dumps", columns }
    }
}

/// A hash of the peers' addresses and ASNs.
fn collector(peers: &[Peer]) -> i64 {
    super::hash(&peers.iter().map(|peer| format!("{} {}\n", peer.address, peer.asn)).collect::<String>())
}

fn empty() -> Dump {
    Dump {
        file: String::new(),
        kind: DumpKind::Table,
        view: String::new(),
        time: 0,
        last_time: 0,
        out_of_order: 0,
        records: 0,
        bytes: 0,
        withdrawals: 0,
        peers: Vec::new(),
        paths: Vec::new(),
        routes: Vec::new(),
        faults: Faults::default(),
    }
}

fn numbers(name: &str, values: Vec<i64>) -> Column {
    Column { name: name.into(), values: Values::Numbers(values) }
}

fn texts<T: Display>(name: &str, values: impl IntoIterator<Item = T>) -> Column {
    Column { name: name.into(), values: Values::Texts(values.into_iter().collect()) }
}

/// Slices of at most `rows` items. No items are one empty slice.
fn parts<T>(all: &[T], rows: usize) -> impl Iterator<Item = &[T]> {
    all.is_empty().then_some(all).into_iter().chain(all.chunks(rows))
}

fn same(dump: i64, rows: usize) -> Column {
    numbers("dump", vec![dump; rows])
}

fn faults(faults: &Faults, dump: i64) -> Table {
    let columns = vec![
        same(dump, faults.0.len()),
        texts("reason", faults.0.keys().map(|fault| fault.words())),
        numbers("count", faults.0.values().map(|count| *count as i64).collect()),
    ];
    Table { name: "faults", columns }
}

fn peers(peers: &[Peer], dump: i64) -> Table {
    let columns = vec![
        same(dump, peers.len()),
        texts("address", peers.iter().map(|peer| peer.address)),
        numbers("asn", peers.iter().map(|peer| peer.asn.into()).collect()),
        numbers("entries", peers.iter().map(|peer| peer.entries as i64).collect()),
    ];
    Table { name: "peers", columns }
}

fn paths(paths: &[PathCount], dump: i64) -> Table {
    let columns = vec![
        same(dump, paths.len()),
        numbers("family", paths.iter().map(|path| path.family.version().into()).collect()),
        texts("path", paths.iter().map(|path| &path.path)),
        numbers("entries", paths.iter().map(|path| path.entries as i64).collect()),
    ];
    Table { name: "paths", columns }
}

fn routes(routes: &[Route], dump: i64) -> Table {
    // The first bits of the address in hexadecimal let SQL compare prefixes.
    let hexadecimal = |route: &Route| match route.prefix.family() {
        Family::V4 => format!("{:08x}", route.prefix.bits() >> 96),
        Family::V6 => format!("{:032x}", route.prefix.bits()),
    };
    let columns = vec![
        same(dump, routes.len()),
        numbers("family", routes.iter().map(|route| route.prefix.family().version().into()).collect()),
        texts("prefix", routes.iter().map(|route| route.prefix)),
        texts("address", routes.iter().map(hexadecimal)),
        numbers("length", routes.iter().map(|route| route.prefix.length().into()).collect()),
        numbers("origin", routes.iter().map(|route| route.origin.into()).collect()),
        numbers("upstream", routes.iter().map(|route| route.upstream.into()).collect()),
        numbers("entries", routes.iter().map(|route| route.entries as i64).collect()),
    ];
    Table { name: "routes", columns }
}

fn relations_table(relations: &Relations, dump: i64) -> Table {
    let pairs = || relations.pairs.iter();
    let columns = vec![
        same(dump, relations.pairs.len()),
        numbers("first", pairs().map(|(pair, _)| pair.0.into()).collect()),
        numbers("second", pairs().map(|(pair, _)| pair.1.into()).collect()),
        numbers("relation", pairs().map(|(_, relation)| relation.number()).collect()),
    ];
    Table { name: "relations", columns }
}

fn delegations_table(all: &[Delegation], dump: i64) -> Table {
    let columns = vec![
        same(dump, all.len()),
        texts("resource", all.iter().map(|one| one.resource.name())),
        // 128 bits do not fit into a number of a database.
        texts("first", all.iter().map(|one| format!("{:032x}", one.first))),
        texts("last", all.iter().map(|one| format!("{:032x}", one.last))),
        texts("registry", all.iter().map(|one| &one.registry)),
        texts("country", all.iter().map(|one| &one.country)),
        numbers("time", all.iter().map(|one| one.time).collect()),
        texts("status", all.iter().map(|one| &one.status)),
        texts("holder", all.iter().map(|one| &one.holder)),
    ];
    Table { name: "delegations", columns }
}

/// The rows of a table, to be read column by column.
pub struct Rows {
    table: Table,
    /// The texts of a table without rows, whose columns do not tell what they hold.
    no_texts: Texts,
}

impl Rows {
    pub fn new(table: Table) -> Self {
        Self { table, no_texts: Texts::default() }
    }

    fn column(&self, name: &str) -> Result<&Values, String> {
        let column = self.table.columns.iter().find(|column| column.name == name);
        column.map(|column| &column.values).ok_or_else(|| format!("{} has no column {name}", self.table.name))
    }

    fn numbers(&self, name: &str) -> Result<&[i64], String> {
        match self.column(name)? {
            Values::Numbers(values) => Ok(values),
            Values::Texts(_) => Err(format!("{}.{name} holds texts", self.table.name)),
        }
    }

    fn texts(&self, name: &str) -> Result<&Texts, String> {
        match self.column(name)? {
            Values::Texts(values) => Ok(values),
            Values::Numbers(values) if values.is_empty() => Ok(&self.no_texts),
            Values::Numbers(_) => Err(format!("{}.{name} holds numbers", self.table.name)),
        }
    }

    /// One item a row. `make` returns `None` for a row that makes no sense.
    fn each<T>(&self, make: impl Fn(usize) -> Option<T>) -> Result<Vec<T>, String> {
        let wrong = |row: usize| format!("row {row} of {} makes no sense", self.table.name);
        (0..self.table.rows()).map(|row| make(row).ok_or_else(|| wrong(row))).collect()
    }

    /// The rows of `dumps`.
    pub fn headings(&self) -> Result<Vec<Heading>, String> {
        let (dump, time) = (self.numbers("dump")?, self.numbers("time")?);
        let (kind, view, file) = (self.texts("kind")?, self.texts("view")?, self.texts("file")?);
        let collector = self.numbers("collector")?;
        self.each(|row| {
            Some(Heading {
                dump: dump[row],
                time: time[row],
                kind: kind[row].into(),
                view: view[row].into(),
                file: file[row].into(),
                collector: collector[row],
            })
        })
    }
}

/// Puts a content together from its tables. `table` returns the rows that have the number of `heading`.
pub(crate) fn from_tables(
    heading: &Heading,
    mut table: impl FnMut(&'static str) -> Result<Table, StoreError>,
    damaged: impl Fn(String) -> StoreError,
) -> Result<Content, StoreError> {
    let mut rows = |name| table(name).map(Rows::new);
    let found_faults = read_faults(&rows("faults")?).map_err(&damaged)?;
    Ok(match heading.kind.as_str() {
        "relations" => Content::Relations(Relations {
            file: heading.file.clone(),
            time: heading.time,
            pairs: read_relations(&rows("relations")?).map_err(&damaged)?.into_iter().collect(),
            faults: found_faults,
        }),
        "delegations" => Content::Delegations(Delegations {
            file: heading.file.clone(),
            time: heading.time,
            all: read_delegations(&rows("delegations")?).map_err(&damaged)?,
            faults: found_faults,
        }),
        kind => {
            let dumps = rows("dumps")?;
            let number = |name| dumps.numbers(name).and_then(first).map_err(&damaged);
            let kinds = [DumpKind::Table, DumpKind::Updates];
            Content::Dump(Box::new(Dump {
                file: heading.file.clone(),
                kind: kinds.into_iter().find(|known| known.name() == kind).ok_or_else(|| {
                    damaged(format!("dump {} is of the unknown kind `{kind}`", heading.dump))
                })?,
                view: heading.view.clone(),
                time: heading.time,
                last_time: number("last_time")?,
                out_of_order: number("out_of_order")? as u64,
                records: number("records")? as u64,
                bytes: number("bytes")? as u64,
                withdrawals: number("withdrawals")? as u64,
                peers: read_peers(&rows("peers")?).map_err(&damaged)?,
                paths: read_paths(&rows("paths")?).map_err(&damaged)?,
                routes: read_routes(&rows("routes")?).map_err(&damaged)?,
                faults: found_faults,
            }))
        }
    })
}

fn first(values: &[i64]) -> Result<i64, String> {
    values.first().copied().ok_or_else(|| "dumps has no such row".into())
}

fn read_faults(rows: &Rows) -> Result<Faults, String> {
    let (reason, count) = (rows.texts("reason")?, rows.numbers("count")?);
    let fault = |row: usize| {
        let fault = Fault::ALL.iter().find(|fault| fault.words() == &reason[row])?;
        Some((*fault, count[row] as u64))
    };
    Ok(Faults(rows.each(fault)?.into_iter().collect()))
}

fn read_peers(rows: &Rows) -> Result<Vec<Peer>, String> {
    let (address, asn, entries) = (rows.texts("address")?, rows.numbers("asn")?, rows.numbers("entries")?);
    rows.each(|row| {
        let asn = u32::try_from(asn[row]).ok()?;
        Some(Peer { address: address[row].parse().ok()?, asn, entries: entries[row] as u64 })
    })
}

fn read_paths(rows: &Rows) -> Result<Vec<PathCount>, String> {
    let (family, path, entries) = (rows.numbers("family")?, rows.texts("path")?, rows.numbers("entries")?);
    let mut paths = rows.each(|row| {
        let (family, path) = (Family::of_version(family[row])?, path[row].parse().ok()?);
        Some(PathCount { family, path, entries: entries[row] as u64 })
    })?;
    paths.sort_unstable();
    Ok(paths)
}

fn read_routes(rows: &Rows) -> Result<Vec<Route>, String> {
    let (prefix, origin) = (rows.texts("prefix")?, rows.numbers("origin")?);
    let (upstream, entries) = (rows.numbers("upstream")?, rows.numbers("entries")?);
    let mut routes = rows.each(|row| {
        let (origin, upstream) = (u32::try_from(origin[row]).ok()?, u32::try_from(upstream[row]).ok()?);
        Some(Route { prefix: prefix[row].parse().ok()?, origin, upstream, entries: entries[row] as u64 })
    })?;
    routes.sort_unstable();
    Ok(routes)
}

/// Two ASes and their relation.
type Pair = ((u32, u32), Relation);

fn read_relations(rows: &Rows) -> Result<Vec<Pair>, String> {
    let (first, second, relation) =
        (rows.numbers("first")?, rows.numbers("second")?, rows.numbers("relation")?);
    rows.each(|row| {
        let pair = (u32::try_from(first[row]).ok()?, u32::try_from(second[row]).ok()?);
        Some((pair, Relation::of_number(relation[row])?))
    })
}

fn read_delegations(rows: &Rows) -> Result<Vec<Delegation>, String> {
    let (resource, first, last) = (rows.texts("resource")?, rows.texts("first")?, rows.texts("last")?);
    let (registry, country) = (rows.texts("registry")?, rows.texts("country")?);
    let (time, status, holder) = (rows.numbers("time")?, rows.texts("status")?, rows.texts("holder")?);
    rows.each(|row| {
        Some(Delegation {
            resource: Resource::of_name(&resource[row])?,
            first: u128::from_str_radix(&first[row], 16).ok()?,
            last: u128::from_str_radix(&last[row], 16).ok()?,
            registry: registry[row].into(),
            country: country[row].into(),
            time: time[row],
            status: status[row].into(),
            holder: holder[row].into(),
        })
    })
}
