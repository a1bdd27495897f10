//! Source filters, which say which sources of a group are wanted (RFC 9777, section 3; RFC 9776, section 3).

use std::{collections::BTreeSet, fmt, net::IpAddr};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The listener wants only the listed sources.
    Include,
    /// All but the listed sources.
    Exclude,
}

/// The wanted sources of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    pub mode: Mode,
    pub sources: BTreeSet<IpAddr>,
}

impl Filter {
    /// The filter that wants nothing, because nobody listens.
    pub const NOTHING: Self = Self { mode: Mode::Include, sources: BTreeSet::new() };

    /// The filter that wants every source.
    pub const EVERYTHING: Self = Self { mode: Mode::Exclude, sources: BTreeSet::new() };

    pub fn include(sources: impl IntoIterator<Item = IpAddr>) -> Self {
        Self { mode: Mode::Include, sources: sources.into_iter().collect() }
    }

    pub fn exclude(sources: impl IntoIterator<Item = IpAddr>) -> Self {
        Self { mode: Mode::Exclude, sources: sources.into_iter().collect() }
    }

    pub fn passes(&self, source: IpAddr) -> bool {
        self.sources.contains(&source) == (self.mode == Mode::Include)
    }

    pub fn is_nothing(&self) -> bool {
        self.mode == Mode::Include && self.sources.is_empty()
    }

    /// Adds the sources that another filter wants (RFC 9777, section 4.2; RFC 9776, section 3.2).
    pub fn merge(&mut self, other: &Self) {
        match (self.mode, other.mode) {
            (Mode::Include, Mode::Include) => self.sources.extend(&other.sources),
            (Mode::Include, Mode::Exclude) => {
                *self = Self::exclude(other.sources.difference(&self.sources).copied());
            }
            (Mode::Exclude, Mode::Include) => {
                self.sources.retain(|source| !other.sources.contains(source));
            }
            (Mode::Exclude, Mode::Exclude) => self.sources.retain(|source| other.sources.contains(source)),
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.mode == Mode::Exclude && self.sources.is_empty() {
            return f.write_str("any");
        }
        f.write_str(if self.mode == Mode::Include { "only" } else { "all but" })?;
        for (index, source) in self.sources.iter().enumerate() {
            write!(f, "{} {source}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(last_bytes: &[u8]) -> Vec<IpAddr> {
        last_bytes.iter().map(|last| IpAddr::from([192, 0, 2, *last])).collect()
    }

    /// Merging is "or": for every pair of filters over three sources, and every source.
    #[test]
    fn a_merged_filter_passes_what_either_passes() {
        let filters: Vec<Filter> = (0..8u8)
            .flat_map(|bits| {
                let listed: Vec<u8> = (0..3).filter(|bit| bits >> bit & 1 == 1).collect();
                [Filter::include(addresses(&listed)), Filter::exclude(addresses(&listed))]
            })
            .collect();
        for one in &filters {
            for other in &filters {
                let mut merged = one.clone();
                merged.merge(other);
                for source in addresses(&[0, 1, 2, 3]) {
                    let either = one.passes(source) || other.passes(source);
                    assert_eq!(merged.passes(source), either, "{one} or {other}: {source}");
                }
            }
        }
    }

    #[test]
    fn nothing_and_everything() {
        assert!(Filter::NOTHING.is_nothing() && !Filter::EVERYTHING.is_nothing());
        assert!(Filter::EVERYTHING.passes(IpAddr::from([192, 0, 2, 1])));
        assert_eq!(Filter::EVERYTHING.to_string(), "any");
        assert_eq!(Filter::include(addresses(&[1, 2])).to_string(), "only 192.0.2.1, 192.0.2.2");
    }
}
