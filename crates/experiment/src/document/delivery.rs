//! Reads a delivery of an experiment file: a fanout together with a repair, or another program to compare with.

use std::{collections::BTreeSet, fmt, path::PathBuf};

use serde::Deserialize;
use treecast_lab::{
    Role, Topology,
    events::{self, Fault},
    quantity::Time,
};
use treecast_proto::explicit::mead::grouping::Parameters;
use treecast_wire::{mead::MAX_ADDRESSES, ticket};

use super::{local::LocalGroups, other::Other, rate::SendRate, several::Several, sharing::Congestion};
use crate::mead_plan::Scheme;

/// A `[[delivery]]` of a file as it is written. Fanouts and repairs may be lists: then it stands for each
/// combination.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeliveryKeys {
    /// What tables call it. Without, it is called by its fanout and repair.
    name: Option<String>,
    program: Option<Program>,
    #[serde(default)]
    send: Vec<String>,
    #[serde(default)]
    receive: Vec<String>,
    #[serde(default)]
    files: Vec<PathBuf>,
    fanout: Option<Several<Fanout>>,
    repair: Option<Several<Repair>>,
    fec: Option<String>,
    congestion: Option<Congestion>,
    rate: Option<SendRate>,
    plain: Option<bool>,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    options: Options,
    #[serde(default)]
    support: Support,
    local: Option<LocalGroups>,
    #[serde(default)]
    events: Vec<events::Event>,
}

/// One way to deliver.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Delivery {
    /// The name of the delivery in tables.
    pub name: String,
    pub program: Program,
    /// The command lines of [`Program::Other`].
    pub other: Other,
    pub fanout: Fanout,
    /// How losses are mended; `None` where the file does not say it.
    pub repair: Option<Repair>,
    /// The value of `--fec`; `None` where the program decides.
    pub fec: Option<String>,
    /// The congestion control of the program `tcp`; `None` for the kernel's, or for that of a shared link.
    pub congestion: Option<Congestion>,
    /// The rate of the sender; `None` for the experiment's rate.
    pub rate: Option<SendRate>,
    /// Whether the delivery runs without security; `None` for what the experiment says.
    pub plain: Option<bool>,
    /// Further words for the sender's command line.
    pub arguments: Vec<String>,
    /// The settings by which MEADcast and Xcast serve their receivers.
    pub options: Options,
    /// Which routers speak MEADcast and Xcast.
    pub support: Support,
    /// The settings of repair `local`.
    pub local: LocalGroups,
    /// The events of a run, such as faults. Their times count from the beginning of the delivery.
    pub events: Vec<events::Event>,
}

/// The program that delivers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Program {
    #[default]
    Treecast,
    /// `treecast unicast tcp`: a TCP stream for each client.
    Tcp,
    /// `treecast unicast udp`: UDP, and ranges that are asked for again.
    Udp,
    /// OpenSSH's scp.
    Scp,
    /// uftp with its own congestion control, to all receivers by multicast.
    Uftp,
    /// A program of somebody else, by the experiment's own command lines.
    Other,
}

/// How one packet reaches many receivers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fanout {
    #[default]
    Multicast,
    Mead,
    Xcast,
    /// Xcast between routers, and multicast on the last links; for streams.
    XcastPlus,
    Unicast,
    /// The sender chooses the way for each receiver by what the receiver hears.
    Auto,
}

/// How losses are mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Repair {
    Nack,
    After,
    Carousel,
    /// Receivers mend losses among themselves, in local groups.
    Local,
    None,
}

/// The settings by which MEADcast and Xcast serve their receivers.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// The most addresses in a packet. `None` for the use case's, with Xcast one less: the rest of its header is longer.
    pub max: Option<usize>,
    /// The value of `treecast mead --ok`, as a fraction of `max`.
    pub ok: Option<f64>,
    pub merge: u8,
    pub min_leaves: Option<usize>,
    pub min_routers: Option<usize>,
    pub split: bool,
    pub grouping: Grouping,
    pub dont_replicate: bool,
    pub to_router: bool,
    /// Whether receivers join a group, and routers serve those on their own links by one multicast packet.
    pub designated: bool,
    /// The time between two discoveries, the first of which begins with the traffic. `None` for a single discovery, which is
    /// over before anything is measured.
    pub discovery: Option<Time>,
    /// Whether the sender believes only routers that prove what they answer.
    pub key: bool,
    /// Whether Xcast's routers overwrite the addresses of receivers that a copy is not for (RFC 5058, the A bit).
    pub anonymous: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grouping {
    /// The grouping algorithm of the MEADcast thesis.
    #[default]
    Thesis,
    /// The grouping that looks for the fewest bytes on all links.
    Cost,
}

/// Which routers speak MEADcast and Xcast: `all`, `none`, a layer of the thesis' testbed, or names.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "Several<String>")]
pub struct Support(Vec<String>);

impl From<Several<String>> for Support {
    fn from(words: Several<String>) -> Self {
        Self(words.0)
    }
}

impl Default for Support {
    fn default() -> Self {
        Self(vec!["all".into()])
    }
}

impl DeliveryKeys {
    /// Returns all deliveries that this entry stands for.
    pub fn expand(self) -> Result<Vec<Delivery>, String> {
        let program = self.program.unwrap_or_default();
        let is_ours = program == Program::Treecast;
        let said = self.name.clone().unwrap_or_else(|| program.word().into());
        if !is_ours && (self.fanout.is_some() || self.repair.is_some() || self.fec.is_some()) {
            let program = program.word();
            return Err(format!("delivery `{said}`: {program} has no fanout, repair or fec: leave them out"));
        }
        let other = Other { send: self.send, receive: self.receive, files: self.files };
        match program {
            Program::Other => other.check().map_err(|what| format!("delivery `{said}`: {what}"))?,
            _ if other != Other::default() => {
                return Err(format!(
                    "delivery `{said}`: send, receive and files are for the program other alone"
                ));
            }
            _ => {}
        }
        if self.congestion.is_some() && program != Program::Tcp {
            return Err(format!("delivery `{said}`: only the program tcp has a congestion: leave it out"));
        }
        let default = if is_ours || program == Program::Uftp { Fanout::Multicast } else { Fanout::Unicast };
        let fanouts = self.fanout.map_or(vec![default], |several| several.0);
        let repairs = self.repair.map_or(vec![None], |several| several.0.into_iter().map(Some).collect());
        if self.name.is_some() && fanouts.len() * repairs.len() != 1 {
            return Err(format!("delivery `{said}` is several: leave out its name"));
        }
        if self.local.is_some() && !repairs.contains(&Some(Repair::Local)) {
            return Err(format!("delivery `{said}`: `local` has a meaning for repair local alone"));
        }
        let Self { name, fec, congestion, rate, plain, arguments, options, support, local, events, .. } =
            self;
        let local = local.unwrap_or_default();
        local.check().map_err(|what| format!("delivery `{said}`: {what}"))?;
        let one = Delivery {
            program,
            other,
            fec,
            congestion,
            rate,
            plain,
            arguments,
            options,
            support,
            local,
            events,
            ..Delivery::default()
        };
        let mut all = Vec::new();
        for &fanout in &fanouts {
            for &repair in &repairs {
                let mut delivery = Delivery { fanout, repair, ..one.clone() };
                delivery.name = name.clone().unwrap_or_else(|| delivery.own_name());
                delivery.check_local().map_err(|what| format!("delivery `{}`: {what}", delivery.name))?;
                delivery.options.check().map_err(|what| format!("delivery `{}`: {what}", delivery.name))?;
                all.push(delivery);
            }
        }
        Ok(all)
    }
}

impl Delivery {
    /// Returns the delivery of this name that files may use without describing it.
    pub fn known(name: &str) -> Option<Self> {
        let (program, fanout) = match name {
            "tcp" => (Program::Tcp, Fanout::Unicast),
            "udp" => (Program::Udp, Fanout::Unicast),
            "scp" => (Program::Scp, Fanout::Unicast),
            "uftp" => (Program::Uftp, Fanout::Multicast),
            _ => (Program::Treecast, Fanout::Multicast),
        };
        let (repair, fec) = match name {
            "tcp" | "udp" | "scp" | "uftp" | "default" => (None, None),
            "carousel" => (Some(Repair::Carousel), None),
            "local" => (Some(Repair::Local), None),
            "after" => (Some(Repair::After), None),
            "nack" => (Some(Repair::Nack), Some("none")),
            "nack-fec" => (Some(Repair::Nack), Some("auto")),
            "carousel-fec" => (Some(Repair::Carousel), Some("auto")),
            _ => return None,
        };
        Some(Self {
            name: name.into(),
            program,
            fanout,
            repair,
            fec: fec.map(str::to_owned),
            ..Self::default()
        })
    }

    /// The names that [`Delivery::known`] knows.
    pub const KNOWN: &str =
        "tcp, udp, scp, uftp, carousel, local, after, nack, default, nack-fec or carousel-fec";

    /// Refuses what local groups cannot be combined with.
    fn check_local(&self) -> Result<(), String> {
        match self.repair {
            Some(Repair::Local) if self.has_fec() => Err("repair local has no fec: leave it out".into()),
            _ => Ok(()),
        }
    }

    fn own_name(&self) -> String {
        if self.program != Program::Treecast {
            return self.program.word().into();
        }
        let repair = self.repair.map(|repair| format!(" {}", repair.word())).unwrap_or_default();
        let fec = if self.has_fec() { " with FEC" } else { "" };
        format!("{}{repair}{fec}", self.fanout.word())
    }

    pub fn is_ours(&self) -> bool {
        self.program == Program::Treecast
    }

    /// Whether repair symbols are sent from the start on.
    pub fn has_fec(&self) -> bool {
        self.fec.as_deref().is_some_and(|fec| fec != "none")
    }

    pub fn is_carousel(&self) -> bool {
        self.repair == Some(Repair::Carousel)
    }

    /// Whether receivers mend losses among themselves.
    pub fn is_local(&self) -> bool {
        self.repair == Some(Repair::Local)
    }

    /// Whether a session begins with its receivers and ends when all of them have everything.
    pub fn has_sessions(&self) -> bool {
        self.is_ours() && !self.is_carousel()
    }

    /// Whether nothing mends what is lost of a file.
    pub fn may_lack(&self) -> bool {
        self.repair == Some(Repair::None)
    }

    /// Returns the repair as a session's ticket has it.
    pub fn repair_in_ticket(&self) -> ticket::Repair {
        match self.repair {
            None | Some(Repair::Nack) => ticket::Repair::Nack,
            Some(Repair::After) => ticket::Repair::After,
            Some(Repair::Carousel) => ticket::Repair::Carousel,
            Some(Repair::Local) => ticket::Repair::Local,
            Some(Repair::None) => ticket::Repair::None,
        }
    }

    /// Whether the delivery sends to a multicast group, at least at first.
    pub fn is_multicast(&self) -> bool {
        matches!(self.fanout, Fanout::Multicast | Fanout::Auto)
    }

    /// Whether routers of MEADcast or Xcast can serve the delivery's receivers.
    pub fn is_explicit(&self) -> bool {
        self.is_ours() && !matches!(self.fanout, Fanout::Multicast | Fanout::Unicast)
    }

    /// Returns the words by which tables and plots call the repair, with forward error correction.
    pub fn repair_words(&self) -> String {
        let repair = match (self.program, self.repair) {
            (Program::Treecast, Some(repair)) => repair.word(),
            (Program::Treecast, None) => "nack",
            (other, _) => other.word(),
        };
        if self.has_fec() { format!("{repair} with FEC") } else { repair.into() }
    }

    /// Refuses events that a routing protocol takes care of, and lets the protocol notice what happens.
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

    /// Returns the most addresses in a packet.
    pub fn max(&self, of_use_case: usize) -> usize {
        // Xcast's header, and the proof of a list, are as long as an address or shorter.
        match usize::from(self.is_xcast()) + usize::from(self.options.key) {
            0 => self.options.max.unwrap_or(of_use_case),
            fewer => self.options.max.unwrap_or(of_use_case.saturating_sub(fewer).max(2)),
        }
    }

    pub fn is_xcast(&self) -> bool {
        matches!(self.fanout, Fanout::Xcast | Fanout::XcastPlus)
    }

    /// Returns the way of serving receivers for which the cost is computed from the network's tree.
    pub fn scheme(&self, max: usize) -> Scheme {
        let Options { merge, min_leaves, min_routers, split, grouping, dont_replicate, designated, .. } =
            self.options;
        match self.fanout {
            Fanout::Unicast => Scheme::Unicast,
            Fanout::Multicast => Scheme::Multicast,
            Fanout::Mead | Fanout::Auto => Scheme::Mead {
                grouping: (grouping == Grouping::Thesis).then(|| Parameters {
                    max,
                    ok: self.options.ok(max),
                    merge,
                    min_leaves,
                    min_routers,
                    split,
                }),
                dont_replicate,
                designated,
            },
            Fanout::Xcast => Scheme::Xcast,
            Fanout::XcastPlus => Scheme::XcastPlus,
        }
    }
}

impl Program {
    pub fn word(self) -> &'static str {
        match self {
            Self::Treecast => "treecast",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Scp => "scp",
            Self::Uftp => "uftp",
            Self::Other => "other",
        }
    }
}

impl Fanout {
    pub fn word(self) -> &'static str {
        match self {
            Self::Multicast => "multicast",
            Self::Mead => "mead",
            Self::Xcast => "xcast",
            Self::XcastPlus => "xcast-plus",
            Self::Unicast => "unicast",
            Self::Auto => "auto",
        }
    }
}

impl Repair {
    pub fn word(self) -> &'static str {
        match self {
            Self::Nack => "nack",
            Self::After => "after",
            Self::Carousel => "carousel",
            Self::Local => "local",
            Self::None => "none",
        }
    }
}

impl fmt::Display for Fanout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Options {
    fn check(&self) -> Result<(), String> {
        if let Some(max) = self.max.filter(|max| !(2..=MAX_ADDRESSES).contains(max)) {
            return Err(format!("max is {max}: expected 2 to {MAX_ADDRESSES}"));
        }
        match self.ok.filter(|ok| !(0.1..=1.0).contains(ok)) {
            Some(ok) => Err(format!("ok is {ok}: expected a share of max, 0.1 to 1")),
            None => Ok(()),
        }
    }

    /// `--ok`, as a number of addresses.
    pub fn ok(&self, max: usize) -> usize {
        self.ok.map_or(max, |ok| (max as f64 * ok).round() as usize)
    }

    /// Returns the options of `treecast mead` for a stream whose datagrams carry `data_bytes` bytes of data,
    /// without addresses.
    pub fn words(&self, fanout: Fanout, max: usize, data_bytes: usize) -> Vec<String> {
        let mut words: Vec<String> = vec!["--max".into(), max.to_string()];
        if matches!(fanout, Fanout::Xcast | Fanout::XcastPlus) {
            words.push("--xcast".into());
            words.extend(self.anonymous.then(|| "--anonymous".into()));
            return words;
        }
        let mut add = |option: &str, value: Option<String>| {
            words.push(option.into());
            words.extend(value);
        };
        add("--print-tree", None);
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

impl Support {
    /// Returns the names of the routers; `None` for all.
    pub fn routers(&self, topology: &Topology) -> Result<Option<BTreeSet<String>>, String> {
        let mut named = BTreeSet::new();
        for word in &self.0 {
            if word == "all" {
                return Ok(None);
            }
            let routers = topology.nodes.iter().filter(|node| node.role == Role::Router);
            let of_word =
                routers.filter(|node| node.name == *word || layer(&node.name) == Some(word.as_str()));
            let before = named.len();
            named.extend(of_word.map(|node| node.name.clone()));
            if named.len() == before && word != "none" {
                let expected = "all, none, core, distribution, access or the names of routers";
                return Err(format!("support `{word}`: expected {expected}"));
            }
        }
        Ok(Some(named))
    }
}

/// The layer of a router of the thesis' testbed (L1, L2 and L3), whose names have one, two and three digits.
fn layer(router: &str) -> Option<&'static str> {
    let digits = router.strip_prefix('r')?;
    match (digits.bytes().all(|byte| byte.is_ascii_digit()), digits.len()) {
        (true, 1) => Some("core"),
        (true, 2) => Some("distribution"),
        (true, 3) => Some("access"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<Vec<Delivery>, String> {
        toml::from_str::<DeliveryKeys>(text).map_err(|error| error.to_string())?.expand()
    }

    #[test]
    fn lists_stand_for_every_combination() {
        let all = expanded("fanout = [\"mead\", \"unicast\"]\nrepair = [\"nack\", \"none\"]\nfec = \"auto\"")
            .unwrap();
        let names: Vec<&str> = all.iter().map(|delivery| delivery.name.as_str()).collect();
        let expected =
            ["mead nack with FEC", "mead none with FEC", "unicast nack with FEC", "unicast none with FEC"];
        assert_eq!(names, expected);
        assert!(all.iter().all(|delivery| delivery.fec.as_deref() == Some("auto")));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |text: &str| expanded(text).unwrap_err();
        assert_eq!(
            refused("name = \"x\"\nfanout = [\"mead\", \"xcast\"]"),
            "delivery `x` is several: leave out its name"
        );
        assert_eq!(
            refused("program = \"tcp\"\nrepair = \"nack\""),
            "delivery `tcp`: tcp has no fanout, repair or fec: leave them out"
        );
        assert_eq!(
            refused("fanout = \"unicast\"\ncongestion = \"bbr\""),
            "delivery `treecast`: only the program tcp has a congestion: leave it out"
        );
        let max = refused("fanout = \"mead\"\noptions = { max = 33 }");
        assert_eq!(max, "delivery `mead`: max is 33: expected 2 to 32");
    }

    fn routers(words: &[&str]) -> Result<Option<BTreeSet<String>>, String> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/meadcast/testbed.json");
        let testbed = Topology::parse(&format!("testbed:{path}")).expect("the testbed");
        Support(words.iter().map(|word| (*word).to_owned()).collect()).routers(&testbed)
    }

    #[test]
    fn layers_and_names_may_be_mixed() {
        assert_eq!(routers(&["all"]), Ok(None));
        assert_eq!(routers(&["core"]).unwrap().unwrap().len(), 4);
        assert_eq!(routers(&["distribution", "access"]).unwrap().unwrap().len(), 35);
        assert_eq!(routers(&["r31", "core"]).unwrap().unwrap().len(), 5);
        assert_eq!(routers(&["none"]).unwrap().unwrap().len(), 0);
        assert!(routers(&["r999"]).unwrap_err().starts_with("support `r999`: expected all, none"));
    }
}
