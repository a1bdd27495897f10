//! Reads the workload `multihoming`: a stub with several providers, whose access link is cut during a TCP transfer
//! (interdomain-2013, chapter 6). The tables of routers are counted, with or without a transfer.

use std::time::Duration;

use serde::Deserialize;
use treecast_lab::{
    events::{Event, Fault},
    quantity::{Rate, Time},
};

use crate::document::several::Several;

/// The keys of a workload `multihoming`, as they are written.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MultihomingKeys {
    lasts: Option<Time>,
    inside: Option<String>,
    outside: Option<String>,
    rate: Option<Rate>,
    link: Option<String>,
    #[serde(default, deserialize_with = "Several::read")]
    cuts: Vec<Time>,
    outage: Option<Time>,
    fault: Option<Break>,
    forge: Option<bool>,
}

/// How an access link is cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Break {
    /// Both ends see that the link is down.
    #[default]
    Down,
    /// The link loses all packets, and both ends seem up.
    Fail,
}

/// The workload `multihoming`.
#[derive(Debug, Clone, PartialEq)]
pub struct Multihoming {
    /// The host of the stub, which gets the data.
    pub inside: String,
    /// The host elsewhere, which sends the data.
    pub outside: String,
    /// `None`: the tables of routers are counted, and nothing is sent.
    pub transfer: Option<Transfer>,
}

/// A TCP transfer during which an access link is cut.
#[derive(Debug, Clone, PartialEq)]
pub struct Transfer {
    /// How long data is sent.
    pub lasts: Duration,
    /// The pace of the data, in bits a second.
    pub rate_bps: u64,
    /// The name of the access link.
    pub link: String,
    /// When the link is cut, counted from the begin of the transfer, in order.
    pub cuts: Vec<Duration>,
    /// How long each cut lasts.
    pub outage: Duration,
    pub fault: Break,
    /// Whether somebody without a key tries to change what the stub's systems believe.
    pub forges: bool,
}

/// The hosts of the topology `interdomain:` that take part unless the file names others.
const INSIDE: &str = "client0";
const OUTSIDE: &str = "far0";

const DEFAULT_RATE: Rate = Rate(10_000_000);

/// The shortest time between the end of an outage and what comes next.
const LEAST_REST: Duration = Duration::from_secs(1);

impl MultihomingKeys {
    /// Checks the values and returns the workload.
    pub fn complete(self) -> Result<Multihoming, String> {
        let inside = self.inside.clone().unwrap_or_else(|| INSIDE.into());
        let outside = self.outside.clone().unwrap_or_else(|| OUTSIDE.into());
        if inside == outside {
            return Err(format!("workload: {inside} is inside and outside: expected two hosts"));
        }
        let transfer = self.lasts.map(|lasts| self.transfer(lasts.0)).transpose()?;
        let without_meaning = [
            ("rate", self.rate.is_some()),
            ("link", self.link.is_some()),
            ("cuts", !self.cuts.is_empty()),
            ("outage", self.outage.is_some()),
            ("fault", self.fault.is_some()),
            ("forge", self.forge.is_some()),
        ];
        match without_meaning.iter().find(|(_, is_set)| *is_set && transfer.is_none()) {
            Some((key, _)) => Err(format!("workload: {key} is for a transfer: say how long it `lasts`")),
            None => Ok(Multihoming { inside, outside, transfer }),
        }
    }

    fn transfer(&self, lasts: Duration) -> Result<Transfer, String> {
        let transfer = Transfer {
            lasts,
            rate_bps: self.rate.unwrap_or(DEFAULT_RATE).0,
            link: self.link.clone().ok_or("workload: `link` is missing: the access link that is cut")?,
            cuts: self.cuts.iter().map(|cut| cut.0).collect(),
            outage: self
                .outage
                .ok_or("workload: `outage` is missing: how long a cut lasts, such as `10s`")?
                .0,
            fault: self.fault.unwrap_or_default(),
            forges: self.forge.unwrap_or(false),
        };
        if !(1..=3600).contains(&lasts.as_secs()) {
            return Err(format!("workload: lasts {lasts:?}: expected 1 s to 60 m"));
        }
        if !(80_000..=1_000_000_000).contains(&transfer.rate_bps) {
            return Err(format!("workload: rate {} bit/s: expected 80k to 1G", transfer.rate_bps));
        }
        if transfer.outage < LEAST_REST {
            return Err(format!("workload: outage {:?}: expected 1 s or more", transfer.outage));
        }
        // Each outage is over for a while before the next one, or the end.
        let ends = transfer.cuts.iter().skip(1).copied().chain([lasts]);
        let late =
            transfer.cuts.iter().zip(ends).find(|(cut, end)| **cut + transfer.outage + LEAST_REST > *end);
        match late {
            Some((cut, end)) => Err(format!(
                "workload: the cut at {cut:?} for {:?} is not over 1 s before {end:?}, when the next one or the end comes",
                transfer.outage
            )),
            None if transfer.cuts.is_empty() => Err("workload: cuts: expected one time at least".into()),
            None => Ok(transfer),
        }
    }
}

impl Transfer {
    /// Returns the cuts as events.
    pub fn events(&self) -> Vec<Event> {
        let event = |cut: &Duration| {
            let link = self.link.clone();
            let fault = match self.fault {
                Break::Down => Fault::Down { link },
                Break::Fail => Fault::Fail { link },
            };
            Event { at: *cut, until: Some(*cut + self.outage), fault, noticed: None, trace: None }
        };
        self.cuts.iter().map(event).collect()
    }
}

impl Break {
    pub fn word(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Fail => "fail",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Multihoming, String> {
        let keys: MultihomingKeys = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        keys.complete()
    }

    #[test]
    fn a_transfer_has_cuts_and_a_count_has_none() {
        assert_eq!(read("").unwrap().transfer, None);
        let text = "lasts = \"60s\"\nlink = \"a-stub\"\ncuts = [\"20s\", \"40s\"]\noutage = \"10s\"";
        let transfer = read(text).unwrap().transfer.unwrap();
        assert_eq!((transfer.rate_bps, transfer.fault, transfer.forges), (10_000_000, Break::Down, false));
        let events = transfer.events();
        assert_eq!((events.len(), events[1].until), (2, Some(Duration::from_secs(50))));
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_key() {
        let refused = |text: &str| read(text).unwrap_err();
        assert!(refused("cuts = [\"1s\"]").contains("cuts is for a transfer"));
        let transfer = |rest: &str| format!("lasts = \"20s\"\nlink = \"a-stub\"\n{rest}");
        assert!(refused(&transfer("outage = \"5s\"")).contains("expected one time at least"));
        assert!(refused(&transfer("cuts = [\"1s\"]")).contains("`outage` is missing"));
        let late = transfer("outage = \"5s\"\ncuts = [\"2s\", \"16s\"]");
        assert!(refused(&late).contains("the cut at 16s for 5s is not over 1 s before 20s"));
        let close = transfer("outage = \"5s\"\ncuts = [\"5s\", \"2s\"]");
        assert!(refused(&close).contains("the cut at 5s"));
        assert!(refused("inside = \"far0\"").contains("far0 is inside and outside"));
        assert!(refused(&transfer("outage = \"5s\"\ncuts = [\"2s\"]\nrate = \"1k\"")).contains("80k to 1G"));
    }
}
