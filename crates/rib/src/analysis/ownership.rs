//! The holders of the prefixes that ASes announce (interdomain-2013, 6.2.1 and 6.4).
//!
//! Providers also announce prefixes of customers that have no ASN of their own. Under MAST these would leave the global
//! table, so figure 6.4's first plot counts only the prefixes that the announcing provider holds.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Analysis;
use crate::{
    Prefix,
    delegations::{Delegation, Delegations, Resource, last_address},
};

/// Whether the announcer of a prefix holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Holder {
    /// The registry names the same holder for the prefix and for the ASN.
    Same,
    /// The registry names another holder.
    Other,
    /// The files name no holders. Registry and country of both are the same, so the holder may be.
    SameCountry,
    /// The files name no holders. Registry or country differ.
    OtherCountry,
    /// No file has the prefix, or the ASN.
    NotDelegated,
}

impl Holder {
    /// The words of a table's row.
    pub fn words(self) -> &'static str {
        match self {
            Self::Same => "held by the announcing AS",
            Self::Other => "held by somebody else",
            Self::SameCountry => "holder not named; same registry and country",
            Self::OtherCountry => "holder not named; other registry or country",
            Self::NotDelegated => "prefix or ASN not in the files",
        }
    }
}

/// The announcements of stubs and of providers, by the holder of the prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Ownership {
    pub of_providers: BTreeMap<Holder, u64>,
    pub of_stubs: BTreeMap<Holder, u64>,
}

impl Ownership {
    /// The size of the global table if only providers' own prefixes are in it: figure 6.4's first plot. `None`: the
    /// files name no holders.
    pub fn held_by_providers(&self) -> Option<u64> {
        let named = [Holder::Same, Holder::Other].iter().any(|holder| self.of_providers.contains_key(holder));
        named.then(|| self.of_providers.get(&Holder::Same).copied().unwrap_or(0))
    }
}

/// Delegations of all registries, to be searched.
pub struct Registry<'d> {
    /// The delegations, sorted by resource and first number.
    all: Vec<&'d Delegation>,
    /// The last number, for each delegation, of those that follow one another from it on and have one holder.
    ends: Vec<u128>,
}

impl<'d> Registry<'d> {
    pub fn new(files: &'d [Delegations]) -> Self {
        let mut all: Vec<_> = files.iter().flat_map(|file| &file.all).collect();
        all.sort_unstable();
        let mut ends: Vec<u128> = all.iter().map(|one| one.last).collect();
        for at in (1..all.len()).rev() {
            let (before, next) = (all[at - 1], all[at]);
            let is_same = (before.resource, &before.registry, &before.holder, &before.country)
                == (next.resource, &next.registry, &next.holder, &next.country);
            if is_same && next.first.checked_sub(1) == Some(before.last) {
                ends[at - 1] = ends[at];
            }
        }
        Self { all, ends }
    }

    /// The delegation that holds all numbers from `first` to `last`, or the first of several that follow one another and
    /// have one holder.
    fn find(&self, resource: Resource, first: u128, last: u128) -> Option<&'d Delegation> {
        let behind = self.all.partition_point(|one| (one.resource, one.first) <= (resource, first));
        let at = behind.checked_sub(1)?;
        let found = self.all[at];
        let is_held = found.resource == resource && found.last >= first && self.ends[at] >= last;
        is_held.then_some(found)
    }

    /// Whether the holder of `asn` holds `prefix`, or a block around it.
    pub fn holder(&self, asn: u32, prefix: Prefix) -> Holder {
        let resource = Resource::Addresses(prefix.family());
        let block = self.find(resource, prefix.bits(), last_address(prefix));
        let network = self.find(Resource::Asn, asn.into(), asn.into());
        let Some((block, network)) = block.zip(network) else { return Holder::NotDelegated };
        let is_named = !block.holder.is_empty() && !network.holder.is_empty();
        match is_named {
            true if (&block.registry, &block.holder) == (&network.registry, &network.holder) => Holder::Same,
            true => Holder::Other,
            false if (&block.registry, &block.country) == (&network.registry, &network.country) => {
                Holder::SameCountry
            }
            false => Holder::OtherCountry,
        }
    }
}

/// Looks up the holder of each announced prefix.
pub fn ownership(analysis: &Analysis, files: &[Delegations]) -> Ownership {
    let registry = Registry::new(files);
    let mut ownership = Ownership::default();
    for (asn, found) in &analysis.ases {
        let counts = if found.is_inside { &mut ownership.of_providers } else { &mut ownership.of_stubs };
        for prefix in &found.prefixes {
            *counts.entry(registry.holder(*asn, *prefix)).or_default() += 1;
        }
    }
    ownership
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Family, analysis::tests::small};

    #[test]
    fn a_prefix_is_held_by_the_holder_of_its_asn() {
        let text = "r|US|asn|10|1|20000101|allocated|ten\nr|US|asn|20|1|20000101|allocated|twenty\n\
            r|US|asn|100|201|20000101|assigned\nr|US|ipv4|10.0.0.0|16777216|20000101|allocated|ten\n\
            r|US|ipv4|20.0.0.0|65536|20000101|allocated|twenty\nr|CA|ipv4|30.0.0.0|65536|20000101|assigned\n\
            r|US|ipv4|33.3.0.0|65536|20000101|assigned\n\
            r|US|ipv4|40.0.0.0|65536|20000101|allocated|ten\nr|US|ipv4|40.1.0.0|65536|20010101|allocated|ten\n";
        let files = [Delegations::read(text.as_bytes(), "x").unwrap()];
        let registry = Registry::new(&files);
        for (asn, prefix, expected) in [
            (10, "10.0.0.0/8", Holder::Same),
            (10, "10.7.0.0/16", Holder::Same),
            (20, "10.7.0.0/16", Holder::Other),
            (20, "20.0.0.0/8", Holder::NotDelegated),
            (200, "30.0.0.0/24", Holder::OtherCountry),
            (300, "33.3.0.0/24", Holder::SameCountry),
            (7, "10.0.0.0/8", Holder::NotDelegated),
            (10, "40.0.0.0/15", Holder::Same),
            (10, "40.0.0.0/14", Holder::NotDelegated),
        ] {
            assert_eq!(registry.holder(asn, prefix.parse().unwrap()), expected, "{asn} {prefix}");
        }
        let ownership = ownership(&Analysis::new(&small(), Family::V4), &files);
        assert_eq!(ownership.held_by_providers(), Some(1), "{ownership:?}");
    }
}
