//! The BGP tables of routers: how many of their prefixes are providers' blocks, and how many belong to stubs.

use std::{
    collections::HashSet,
    io, thread,
    time::{Duration, Instant},
};

use treecast_lab::{BgpRoutes, Relation, Speaker, Topology};

use crate::site::Site;

/// The table of a router, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    pub prefixes: usize,
    /// Prefixes that providers announce as their own.
    pub blocks: usize,
    /// Prefixes that stubs announce.
    pub stub_prefixes: usize,
    /// Routes to prefixes that stubs announce. A prefix may have several.
    pub stub_routes: usize,
}

impl Count {
    /// Returns the larger count of each kind.
    pub fn max(self, other: Self) -> Self {
        Self {
            prefixes: self.prefixes.max(other.prefixes),
            blocks: self.blocks.max(other.blocks),
            stub_prefixes: self.stub_prefixes.max(other.stub_prefixes),
            stub_routes: self.stub_routes.max(other.stub_routes),
        }
    }
}

/// The routers of providers, and what stubs announce.
pub struct Tables<'a> {
    site: &'a dyn Site,
    blocks: HashSet<String>,
    stubs: HashSet<String>,
}

impl<'a> Tables<'a> {
    pub fn of(site: &'a dyn Site) -> Self {
        let announced = |is_wanted: fn(&Speaker) -> bool| {
            let speakers = site.topology().bgp.iter().filter(move |speaker| is_wanted(speaker));
            speakers.flat_map(Speaker::announced).map(|prefix| prefix.to_string()).collect()
        };
        let (blocks, stubs) = (announced(Speaker::is_provider), announced(|speaker| !speaker.is_provider()));
        Self { site, blocks, stubs }
    }

    /// Counts the tables of all tier-1 networks: those without a provider.
    pub fn global(&self) -> io::Result<Vec<(String, Count)>> {
        self.count(|speaker| !has_provider(speaker))
    }

    /// Counts the tables of all providers that have one themselves.
    pub fn access(&self) -> io::Result<Vec<(String, Count)>> {
        self.count(|speaker| has_provider(speaker) && speaker.is_provider())
    }

    /// Waits until no table of a provider or tier-1 network changes any more.
    pub fn wait_until_quiet(&self, stop: &(dyn Fn() -> bool + Sync)) -> io::Result<()> {
        const LOOK: Duration = Duration::from_millis(500);
        const QUIET: u32 = 4;
        const LONGEST: Duration = Duration::from_secs(60);
        let end = Instant::now() + LONGEST;
        let (mut before, mut same) = (self.count(Speaker::is_provider)?, 0);
        while same < QUIET && Instant::now() < end && !stop() {
            thread::sleep(LOOK);
            let now = self.count(Speaker::is_provider)?;
            same = if now == before { same + 1 } else { 0 };
            before = now;
        }
        Ok(())
    }

    fn count(&self, is_wanted: impl Fn(&Speaker) -> bool) -> io::Result<Vec<(String, Count)>> {
        let topology: &Topology = self.site.topology();
        let speakers = topology.bgp.iter().filter(|speaker| is_wanted(speaker));
        let of = |speaker: &Speaker| {
            let name = topology.nodes[speaker.router].name.clone();
            let table = self.site.bgp_table(&name)?;
            Ok((name, self.of_table(&table)))
        };
        speakers.map(of).collect()
    }

    fn of_table(&self, table: &[BgpRoutes]) -> Count {
        let mut count = Count { prefixes: table.len(), ..Count::default() };
        for BgpRoutes { prefix, routes } in table {
            count.blocks += usize::from(self.blocks.contains(prefix));
            if self.stubs.contains(prefix) {
                count.stub_prefixes += 1;
                count.stub_routes += routes;
            }
        }
        count
    }
}

fn has_provider(speaker: &Speaker) -> bool {
    speaker.neighbours.iter().any(|neighbour| neighbour.relation == Relation::Provider)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::tests::Bare;

    #[test]
    fn prefixes_are_told_apart_by_who_announces_them() {
        let site = Bare(Topology::parse("interdomain:stubs=3").unwrap());
        let tables = Tables::of(&site);
        assert_eq!((tables.blocks.len(), tables.stubs.len()), (6, 6));
        let routes = |prefix: &str, routes| BgpRoutes { prefix: prefix.into(), routes };
        let table = [routes("2001:db8:4000::/36", 1), routes("2001:db8:4000:100::/56", 2), routes("::/0", 1)];
        let expected = Count { prefixes: 3, blocks: 1, stub_prefixes: 1, stub_routes: 2 };
        assert_eq!(tables.of_table(&table), expected);
    }
}
