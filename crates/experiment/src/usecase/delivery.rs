//! The ways in which an experiment delivers its traffic.

use std::net::Ipv6Addr;

use serde::Deserialize;
use treecast_measure::db::ThesisLevels;
use treecast_proto::explicit::mead::grouping::Parameters;
use treecast_wire::mead::MAX_ADDRESSES;

use super::support::Support;
use treecast_lab::{
    events::{self, Fault},
    mead_plan::Way,
    quantity::{Rate, Size, Time},
};

/// What receivers join for designated routers.
pub const GROUP: Ipv6Addr = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 0x4242);

/// One way, as the file has it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delivery {
    /// What tables call it.
    pub name: String,
    pub kind: Kind,
    /// The ways that the thesis' figures are of, which stand beside this one's.
    #[serde(default)]
    pub thesis: Vec<String>,
    /// The most addresses in a packet; none: the use case's, or with Xcast one less: the rest of its header is longer by one.
    pub max: Option<usize>,
    /// As `treecast mead --ok`, as a part of `max`; the thesis took 80 % (4.4.3).
    pub ok: Option<f64>,
    #[serde(default)]
    pub merge: u8,
    pub min_leaves: Option<usize>,
    pub min_routers: Option<usize>,
    #[serde(default)]
    pub split: bool,
    #[serde(default)]
    pub grouping: Grouping,
    #[serde(default)]
    pub dont_replicate: bool,
    #[serde(default)]
    pub to_router: bool,
    /// Receivers join a group, and routers serve those on their own links by one multicast packet.
    #[serde(default)]
    pub designated: bool,
    /// Discoveries begin so often, the first one with the traffic. None: one, which is over before it is measured.
    pub discovery: Option<Time>,
    /// The delivery without discoveries that this one's figures are compared with.
    pub base: Option<String>,
    #[serde(default)]
    pub support: Support,
    /// What goes wrong; times are since the traffic's beginning.
    #[serde(default)]
    pub events: Vec<events::Event>,
    /// What the thesis read of the same events.
    pub thesis_levels: Option<ThesisLevels>,
    /// Whether the sender believes only routers that prove what they answer (5.2.4).
    #[serde(default)]
    pub key: bool,
    /// Whether Xcast's routers overwrite the addresses of those whom a copy is not for (RFC 5058, the A bit).
    #[serde(default)]
    pub anonymous: bool,
    /// Of the packets that a session sends: each copy has it.
    pub rate: Option<Rate>,
    /// Of the file that a session delivers, in place of the experiment's load.
    pub size: Option<Size>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A copy for each receiver.
    Unicast,
    /// Source-specific multicast, by `treecast mroute`.
    Multicast,
    /// `treecast mead`.
    Mead,
    /// `treecast send --fanout auto`, to `treecast receive`.
    Send,
    /// `treecast mead --xcast`: all receivers stand in lists.
    Xcast,
    /// `treecast mead --xcast --group`: the routers of those who have joined stand in lists, and multicast on their own links.
    XcastPlus,
}

impl Kind {
    /// Whether receivers join a group with the sender as its source.
    pub fn is_source_specific(self) -> bool {
        matches!(self, Self::Multicast | Self::XcastPlus)
    }

    /// Whether routers of MEADcast or Xcast can serve its receivers.
    pub fn needs_routers(self) -> bool {
        self == Self::Send || self.has_sender()
    }

    /// Whether its packets leave by a `treecast mead`.
    pub fn has_sender(self) -> bool {
        matches!(self, Self::Mead | Self::Xcast | Self::XcastPlus)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grouping {
    #[default]
    Thesis,
    Cost,
}

impl Delivery {
    /// The most addresses in a packet.
    pub fn max(&self, of_use_case: usize) -> usize {
        // Xcast's header, and the proof of a list, are as long as an address or shorter.
        match usize::from(self.is_xcast()) + usize::from(self.key) {
            0 => self.max.unwrap_or(of_use_case),
            fewer => self.max.unwrap_or(of_use_case.saturating_sub(fewer).max(2)),
        }
    }

    fn is_xcast(&self) -> bool {
        matches!(self.kind, Kind::Xcast | Kind::XcastPlus)
    }

    pub fn check(&self) -> Result<(), String> {
        let name = &self.name;
        if !(2..=MAX_ADDRESSES).contains(&self.max(MAX_ADDRESSES)) {
            return Err(format!("delivery `{name}`: max must be 2 to {MAX_ADDRESSES}"));
        }
        if !self.ok.is_none_or(|ok| (0.1..=1.0).contains(&ok)) {
            return Err(format!("delivery `{name}`: ok is a part of max, 0.1 to 1"));
        }
        let kind = self.kind;
        if kind == Kind::Send && (self.rate.is_none() || self.size.is_none()) {
            return Err(format!("delivery `{name}`: a session needs a rate and a size"));
        }
        let without_meaning = [
            ("max", self.max.is_some() && !kind.has_sender()),
            ("discovery", self.discovery.is_some() && kind != Kind::Mead),
            ("key", self.key && !matches!(kind, Kind::Mead | Kind::XcastPlus)),
            ("designated", self.designated && kind != Kind::Mead),
            ("anonymous", self.anonymous && !self.is_xcast()),
            ("rate", self.rate.is_some() && kind != Kind::Send),
            ("size", self.size.is_some() && kind != Kind::Send),
        ];
        match without_meaning.iter().find(|(_, is_set)| *is_set) {
            Some((key, _)) => Err(format!("delivery `{name}`: {key} has no meaning for its kind")),
            None => Ok(()),
        }
    }

    /// Leaves it to a routing protocol when routes avoid a link.
    pub fn leave_routes(&mut self) -> Result<(), String> {
        for event in &mut self.events {
            event.noticed = None;
            if let Fault::Avoid { link } = &event.fault {
                let name = &self.name;
                return Err(format!(
                    "delivery `{name}`: OSPF avoids {link} when it is down or fails: have that happen"
                ));
            }
        }
        Ok(())
    }

    /// As `mead_plan` calls it.
    pub fn way(&self, max: usize) -> Way {
        let ok = self.ok(max);
        let (merge, split) = (self.merge, self.split);
        let (min_leaves, min_routers) = (self.min_leaves, self.min_routers);
        let thesis = Parameters { max, ok, merge, min_leaves, min_routers, split };
        match self.kind {
            Kind::Unicast => Way::Unicast,
            Kind::Multicast => Way::Multicast,
            Kind::Mead | Kind::Send => Way::Mead {
                grouping: (self.grouping == Grouping::Thesis).then_some(thesis),
                dont_replicate: self.dont_replicate,
                designated: self.designated,
            },
            Kind::Xcast => Way::Xcast,
            Kind::XcastPlus => Way::XcastPlus,
        }
    }

    fn ok(&self, max: usize) -> usize {
        self.ok.map_or(max, |ok| (max as f64 * ok).round() as usize)
    }

    /// The options of `treecast mead`, but for addresses.
    pub fn arguments(&self, max: usize, data_bytes: usize) -> Vec<String> {
        let mut words: Vec<String> = vec!["--max".into(), max.to_string()];
        match self.is_xcast() {
            true => {
                words.push("--xcast".into());
                words.extend(self.anonymous.then(|| "--anonymous".into()));
            }
            false => words.extend(self.mead_arguments(max, data_bytes)),
        }
        words
    }

    fn mead_arguments(&self, max: usize, data_bytes: usize) -> Vec<String> {
        let mut words: Vec<String> = vec!["--print-tree".into()];
        let mut add = |option: &str, value: Option<String>| {
            words.push(option.into());
            words.extend(value);
        };
        add("--ok", Some(self.ok(max).to_string()));
        add("--merge", Some(self.merge.to_string()));
        if let Some(leaves) = self.min_leaves {
            add("--min-leaves", Some(leaves.to_string()));
        }
        if let Some(routers) = self.min_routers {
            add("--min-routers", Some(routers.to_string()));
        }
        if self.grouping == Grouping::Cost {
            add("--grouping", Some("cost".into()));
            add("--payload", Some(data_bytes.to_string()));
        }
        let flags = [
            ("--split", self.split),
            ("--dont-replicate", self.dont_replicate),
            ("--to-router", self.to_router),
        ];
        flags.iter().filter(|(_, is_set)| *is_set).for_each(|(flag, _)| add(flag, None));
        if self.designated {
            add("--designated", Some(GROUP.to_string()));
        }
        match self.discovery {
            Some(interval) => {
                add("--interval", Some(interval.0.as_secs_f64().to_string()));
                add("--wait", None);
            }
            // Longer than any run.
            None => add("--interval", Some("86400".into())),
        }
        words
    }
}
