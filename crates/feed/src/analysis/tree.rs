//! The feed tree: who feeds whom (tables 2.1 and 2.2), and the load of the links that this puts on sites.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::too_many;
use crate::line::LineError;

/// The largest number of pairs of hosts that are kept of a feed.
const MAX_PAIRS: usize = 100_000;

/// Table 2.1 or 2.2.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tree {
    pub nodes: usize,
    /// Hosts that feed others and that nobody feeds.
    pub roots: usize,
    /// Hosts that are fed and feed others.
    pub middles: usize,
    /// Hosts that are fed and feed nobody.
    pub leaves: usize,
    /// The largest number of receivers that are connected to one site.
    pub maximum_fanout: usize,
    /// That site. Empty if there is none.
    pub maximum_fanout_site: String,
}

/// The link of a site that feeds others by a connection to each.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AccessLink {
    pub site: String,
    /// The number of receivers.
    pub fanout: usize,
    /// The rate out of the site in the busiest minute, in bits a second.
    pub peak_bps: f64,
}

#[derive(Debug, Default)]
pub(super) struct Links {
    downstream: BTreeMap<String, BTreeSet<String>>,
    pairs: usize,
}

impl Links {
    pub fn add(&mut self, upstream: &str, downstream: &str) -> Result<(), LineError> {
        if self.downstream.get(upstream).is_some_and(|hosts| hosts.contains(downstream)) {
            return Ok(());
        }
        if self.pairs == MAX_PAIRS {
            return Err(too_many("the downstream host", downstream, "no more than 100000 pairs of hosts"));
        }
        self.downstream.entry(upstream.to_owned()).or_default().insert(downstream.to_owned());
        self.pairs += 1;
        Ok(())
    }

    pub fn pairs(&self) -> Vec<(String, String)> {
        let pairs = |(up, hosts): (&String, &BTreeSet<String>)| {
            hosts.iter().map(|down| (up.clone(), down.clone())).collect::<Vec<_>>()
        };
        self.downstream.iter().flat_map(pairs).collect()
    }

    pub fn tree(&self) -> Tree {
        let fed: BTreeSet<&String> = self.downstream.values().flatten().collect();
        let middles = self.downstream.keys().filter(|host| fed.contains(host)).count();
        let (roots, leaves) = (self.downstream.len() - middles, fed.len() - middles);
        let widest = self.fanouts().into_iter().max_by_key(|(_, hosts)| hosts.len());
        Tree {
            nodes: roots + middles + leaves,
            roots,
            middles,
            leaves,
            maximum_fanout: widest.as_ref().map_or(0, |(_, hosts)| hosts.len()),
            maximum_fanout_site: widest.map_or(String::new(), |(site, _)| site.to_owned()),
        }
    }

    /// The links of all sites that feed others, the busiest first.
    pub fn access_links(&self, peak_minute_bytes: f64) -> Vec<AccessLink> {
        let link = |(site, hosts): (&str, BTreeSet<&String>)| AccessLink {
            site: site.to_owned(),
            fanout: hosts.len(),
            peak_bps: hosts.len() as f64 * peak_minute_bytes * 8.0 / 60.0,
        };
        let mut links: Vec<_> = self.fanouts().into_iter().map(link).collect();
        links.sort_by(|a, b| b.fanout.cmp(&a.fanout).then_with(|| a.site.cmp(&b.site)));
        links
    }

    /// The receivers outside of each site that the site's hosts feed.
    fn fanouts(&self) -> BTreeMap<&str, BTreeSet<&String>> {
        let mut sites: BTreeMap<&str, BTreeSet<&String>> = BTreeMap::new();
        for (upstream, hosts) in &self.downstream {
            let site = site(upstream);
            sites.entry(site).or_default().extend(hosts.iter().filter(|host| self::site(host) != site));
        }
        sites
    }
}

/// The site of a host: the last two labels of its name, or three where the last two are those of a country, as in
/// `met.example.ac.uk`.
fn site(host: &str) -> &str {
    let dots: Vec<usize> = host.rmatch_indices('.').map(|(at, _)| at).collect();
    let Some(&last) = dots.first() else { return host };
    let second = dots.get(1).map_or(0, |at| at + 1);
    let is_country = host.len() - last - 1 == 2 && last - second <= 3;
    match dots.get(if is_country { 2 } else { 1 }) {
        Some(at) => &host[at + 1..],
        None => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_the_domain_of_its_hosts() {
        let sites =
            ["idd.unidata.example.edu", "example.edu", "ldm.met.example.ac.uk", "localhost"].map(site);
        assert_eq!(sites, ["example.edu", "example.edu", "example.ac.uk", "localhost"]);
    }

    #[test]
    fn hosts_of_one_site_have_one_fanout() {
        let mut links = Links::default();
        for (up, down) in [
            ("a.up.org", "x.b.org"),
            ("b.up.org", "x.c.org"),
            ("b.up.org", "x.b.org"),
            ("x.b.org", "x.d.org"),
        ] {
            links.add(up, down).unwrap();
        }
        let expected = Tree {
            nodes: 5,
            roots: 2,
            middles: 1,
            leaves: 2,
            maximum_fanout: 2,
            maximum_fanout_site: "up.org".into(),
        };
        assert_eq!(links.tree(), expected);
        let access = links.access_links(60.0);
        assert_eq!((access[0].site.as_str(), access[0].peak_bps), ("up.org", 16.0));
    }
}
