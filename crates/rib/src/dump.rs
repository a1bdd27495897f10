//! One routing table, or the updates of a while, as the analysis needs it.

use std::net::IpAddr;

use serde::Serialize;

use super::{Family, Prefix, fault::Faults, path::Path};

/// The kind of content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DumpKind {
    /// A whole routing table.
    Table,
    /// Updates. The analysis counts each announced route as an entry, and shows what these updates tell.
    Updates,
}

impl DumpKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Updates => "updates",
        }
    }
}

/// A router that sent its routes to the collector.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer {
    pub address: IpAddr,
    pub asn: u32,
    /// The number of routes that it sent. 0: the file names the peer, and has no route of it.
    pub entries: u64,
}

/// An AS path, and the number of entries that have it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathCount {
    pub family: Family,
    pub path: Path,
    pub entries: u64,
}

/// A prefix as one origin announces it through one upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    pub prefix: Prefix,
    /// The AS at the end of the path. 0: the path ends in a set of ASes, or in a number that names no AS.
    pub origin: u32,
    /// The AS before the origin. 0: there is none, or it is not known.
    pub upstream: u32,
    pub entries: u64,
}

/// One routing table, or the updates of a while.
#[derive(Debug, Clone, PartialEq)]
pub struct Dump {
    /// The name of the file, without its folder.
    pub file: String,
    pub kind: DumpKind,
    /// The collector's name for this view. It may be empty. `rib synth` writes [`SYNTHETIC`] here.
    pub view: String,
    /// The time of the first record, in seconds since 1970.
    pub time: i64,
    /// The time of the latest record, in seconds since 1970.
    pub last_time: i64,
    /// The number of records that say a time before that of the record before them.
    pub out_of_order: u64,
    pub records: u64,
    /// The length of the file, unpacked, in bytes.
    pub bytes: u64,
    /// The number of withdrawn prefixes, which only updates have.
    pub withdrawals: u64,
    /// The peers, sorted by address and ASN.
    pub peers: Vec<Peer>,
    /// The paths, sorted by family and path. No path is there twice.
    pub paths: Vec<PathCount>,
    /// The routes, sorted by prefix, origin and upstream. No route is there twice.
    pub routes: Vec<Route>,
    pub faults: Faults,
}

/// The name of the view of dumps that `rib synth` made.
pub const SYNTHETIC: &str = "synthetic";

impl Dump {
    /// Whether `rib synth` made this dump: the view says it, or, in formats without a view, the peers. Their addresses are
    /// in 198.18.0.0/15, which is for tests (RFC 2544) and has no routers of the Internet.
    pub fn is_synthetic(&self) -> bool {
        let is_for_tests = |peer: &Peer| match peer.address.to_canonical() {
            IpAddr::V4(address) => matches!(address.octets(), [198, 18 | 19, ..]),
            IpAddr::V6(_) => false,
        };
        self.view == SYNTHETIC || (!self.peers.is_empty() && self.peers.iter().all(is_for_tests))
    }

    /// The number of routes that all peers sent together.
    pub fn entries(&self) -> u64 {
        self.paths.iter().map(|path| path.entries).sum()
    }

    /// The families that have routes.
    pub fn families(&self) -> Vec<Family> {
        let has = |family: &Family| self.routes.iter().any(|route| route.prefix.family() == *family);
        Family::ALL.into_iter().filter(has).collect()
    }

    /// The routes of one family. They stand together because a prefix's family is the first thing it is sorted by.
    pub fn routes_of(&self, family: Family) -> &[Route] {
        let start = self.routes.partition_point(|route| route.prefix.family() < family);
        let end = self.routes.partition_point(|route| route.prefix.family() <= family);
        &self.routes[start..end]
    }
}

/// Sorts routes, and adds up the entries of equal ones. Runs that are sorted already are merged fast.
pub(crate) fn sort_routes(routes: &mut Vec<Route>) {
    fn key(route: &Route) -> (Prefix, u32, u32) {
        (route.prefix, route.origin, route.upstream)
    }
    routes.sort_by_key(key);
    routes.dedup_by(|next, first| {
        let is_same = key(next) == key(first);
        first.entries += if is_same { next.entries } else { 0 };
        is_same
    });
}

/// Sorts paths, and adds up the entries of equal ones. Runs that are sorted already are merged fast.
pub(crate) fn sort_paths(paths: &mut Vec<PathCount>) {
    paths.sort_by(|one, other| (one.family, &one.path).cmp(&(other.family, &other.path)));
    paths.dedup_by(|next, first| {
        let is_same = (next.family, &next.path) == (first.family, &first.path);
        first.entries += if is_same { next.entries } else { 0 };
        is_same
    });
}
