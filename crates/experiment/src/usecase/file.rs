//! The file of a use-case experiment (TOML); `labs/README.md` describes every key for people.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;

use super::{
    super::{
        Error,
        file::{candidates, one_line},
    },
    claims::Claim,
    delivery::{Delivery, Kind},
    figures::Figures,
    traffic::Load,
};
use treecast_lab::quantity::{Rate, Size, Time};
use treecast_lab::{
    Routing,
    mead_plan::{Participants, UseCase, thesis_payload},
    read_text,
};

/// What a file may say at its top level. The same keys may be set on the command line.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    title: Option<String>,
    topology: Option<String>,
    participants: Option<PathBuf>,
    use_case: Option<String>,
    figures: Option<PathBuf>,
    receivers: Option<Vec<usize>>,
    sizes: Option<Vec<Size>>,
    rates: Option<Vec<Rate>>,
    seconds: Option<u32>,
    payload: Option<usize>,
    link_rate: Option<Rate>,
    links: Option<Vec<String>>,
    routing: Option<Routing>,
    repeats: Option<u32>,
    settle: Option<Time>,
    sample: Option<Time>,
    deliveries: Option<Vec<String>>,
    delivery: Option<Vec<Delivery>>,
    claim: Option<Vec<Claim>>,
}

/// A use-case experiment, complete and consistent.
#[derive(Debug, Clone)]
pub struct UseCases {
    pub title: String,
    /// As `treecast lab up` takes it.
    pub topology: String,
    pub use_case: UseCase,
    /// What the thesis measured.
    pub figures: Figures,
    /// How many hosts of each network receive.
    pub receivers: Vec<usize>,
    pub loads: Vec<Load>,
    /// Data in a datagram.
    pub payload_bytes: usize,
    /// Of all links, where they are not as fast as the machine.
    pub link_rate: Option<Rate>,
    /// What these carry is shown over time.
    pub links: Vec<String>,
    /// Who says where packets go.
    pub routing: Routing,
    pub repeats: u32,
    pub settle: Duration,
    pub sample: Duration,
    pub deliveries: Vec<Delivery>,
    pub claims: Vec<Claim>,
}

/// More than any experiment needs.
const MAX_BYTES: u64 = 1 << 20;

/// Data in the shortest datagram: what is written into it for the measurement.
const MIN_PAYLOAD: usize = super::traffic::STAMP_LEN;

impl UseCases {
    /// Whether a file is one of this kind; a file that cannot be read is none.
    pub fn is_one(path: &Path) -> bool {
        let text = read_text(path, MAX_BYTES).unwrap_or_default();
        let keys = toml::from_str::<toml::Table>(&text).unwrap_or_default();
        // Participants and figures have something else under that name.
        keys.get("use_case").is_some_and(toml::Value::is_str)
    }

    /// Reads an experiment file; each of `settings` is a `key=value` that takes the place of the file's key.
    pub fn load(path: &Path, settings: &[String]) -> Result<Self, Error> {
        let text = read_text(path, MAX_BYTES)
            .map_err(|error| Error::Unreadable { path: path.to_path_buf(), error })?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::parse(&text, &path.display().to_string(), folder, settings)
    }

    fn parse(text: &str, name: &str, folder: &Path, settings: &[String]) -> Result<Self, Error> {
        let mut document: Document = toml::from_str(text).map_err(|error| Error::Syntax {
            name: name.into(),
            line: error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count()),
            what: one_line(error.message()),
        })?;
        for path in [&mut document.participants, &mut document.figures].into_iter().flatten() {
            *path = folder.join(&*path);
        }
        if let Some(topology) = &mut document.topology
            && let Some(file) = topology.strip_prefix("testbed:")
        {
            *topology = format!("testbed:{}", folder.join(file).display());
        }
        for setting in settings {
            document.set(setting)?;
        }
        let invalid = |what: String| Error::Invalid { name: name.into(), what };
        let experiment = document.complete().map_err(invalid)?;
        experiment.check().map_err(invalid)?;
        Ok(experiment)
    }

    /// Whether it has a delivery of this kind.
    pub(super) fn has(&self, kind: Kind) -> bool {
        self.deliveries.iter().any(|delivery| delivery.kind == kind)
    }

    fn check(&self) -> Result<(), String> {
        self.deliveries.iter().try_for_each(Delivery::check)?;
        self.claims.iter().try_for_each(Claim::check)?;
        for (index, delivery) in self.deliveries.iter().enumerate() {
            if self.deliveries[..index].iter().any(|other| other.name == delivery.name) {
                return Err(format!("delivery `{}` is there twice", delivery.name));
            }
        }
        if self.receivers.is_empty() || self.receivers.contains(&0) {
            return Err(
                "receivers: expected how many hosts of each network receive, such as [1, 3, 5]".into()
            );
        }
        if !(MIN_PAYLOAD..=1400).contains(&self.payload_bytes) {
            return Err(format!("payload is {}: expected {MIN_PAYLOAD} to 1400 bytes", self.payload_bytes));
        }
        match self.repeats {
            1..=1000 => Ok(()),
            repeats => Err(format!("repeats is {repeats}: expected 1 to 1000")),
        }
    }
}

impl Document {
    /// Lets one `key=value` take the place of the document's key.
    fn set(&mut self, setting: &str) -> Result<(), Error> {
        let refused = |what: String| Error::Setting { setting: setting.into(), what };
        let (key, value) =
            setting.split_once('=').ok_or_else(|| refused("expected key=value, such as repeats=2".into()))?;
        let over: Document = candidates(key.trim(), value.trim())
            .map(|line| toml::from_str(&line).map_err(|error| refused(one_line(error.message()))))
            .reduce(|first, second| first.or(second))
            .unwrap_or_else(|| Err(refused("expected a value".into())))?;
        macro_rules! take {
            ($($key:ident),*) => {$( if over.$key.is_some() { self.$key = over.$key; } )*};
        }
        take!(
            title,
            topology,
            participants,
            use_case,
            figures,
            receivers,
            payload,
            link_rate,
            links,
            routing,
            repeats,
            settle
        );
        take!(sample, deliveries, delivery, claim, sizes, rates, seconds);
        Ok(())
    }

    fn complete(self) -> Result<UseCases, String> {
        let missing = |what: &str| format!("`{what}` is missing");
        let wanted = self.use_case.ok_or_else(|| missing("use_case"))?;
        let participants = Participants::read(&self.participants.ok_or_else(|| missing("participants"))?)?;
        let mut known = participants.use_cases.into_iter();
        let use_case = known.find(|found| found.name == wanted);
        let use_case =
            use_case.ok_or_else(|| format!("use_case `{wanted}` is not among the participants'"))?;
        let figures = self.figures.map_or_else(|| Ok(Figures::default()), |path| Figures::read(&path))?;
        let loads = loads(self.sizes, self.rates, self.seconds)?;
        let all = self.delivery.unwrap_or_default();
        let mut deliveries: Vec<Delivery> = match self.deliveries {
            None => all,
            Some(names) => named(&all, &names)?,
        };
        let routing = self.routing.unwrap_or_default();
        if routing == Routing::Ospf {
            deliveries.iter_mut().try_for_each(Delivery::leave_routes)?;
        }
        if deliveries.is_empty() {
            return Err("no [[delivery]] to run".into());
        }
        let largest = deliveries.iter().map(|delivery| delivery.max(use_case.max)).max();
        Ok(UseCases {
            title: self.title.ok_or_else(|| missing("title"))?,
            topology: self.topology.ok_or_else(|| missing("topology"))?,
            payload_bytes: self.payload.unwrap_or_else(|| thesis_payload(largest.unwrap_or(use_case.max))),
            use_case,
            figures,
            receivers: self.receivers.ok_or_else(|| missing("receivers"))?,
            loads,
            link_rate: self.link_rate,
            links: self.links.unwrap_or_default(),
            routing,
            repeats: self.repeats.unwrap_or(1),
            settle: self.settle.map_or(Duration::from_secs(5), |settle| settle.0),
            sample: self.sample.map_or(Duration::from_secs(1), |sample| sample.0),
            deliveries,
            claims: self.claim.unwrap_or_default(),
        })
    }
}

/// The deliveries of these names, some of which may have been cut at the commas in them.
fn named(all: &[Delivery], mut names: &[String]) -> Result<Vec<Delivery>, String> {
    let mut chosen = Vec::new();
    while let [first, ..] = names {
        let known = |pieces: usize| {
            let name = names[..pieces].join(", ");
            all.iter().find(|delivery| delivery.name == name).map(|delivery| (delivery, pieces))
        };
        let Some((delivery, pieces)) = (1..=names.len()).rev().find_map(known) else {
            let known: Vec<_> = all.iter().map(|delivery| format!("`{}`", delivery.name)).collect();
            return Err(format!("delivery `{first}`: expected some of {}", known.join(", ")));
        };
        chosen.push(delivery.clone());
        names = &names[pieces..];
    }
    Ok(chosen)
}

fn loads(
    sizes: Option<Vec<Size>>,
    rates: Option<Vec<Rate>>,
    seconds: Option<u32>,
) -> Result<Vec<Load>, String> {
    let loads: Vec<Load> = match (sizes, rates, seconds) {
        (Some(sizes), None, None) => sizes.into_iter().map(|size| Load::File { bytes: size.0 }).collect(),
        (None, Some(rates), Some(seconds @ 1..=3600)) => {
            rates.into_iter().map(|rate| Load::Stream { rate_bps: rate.0, seconds }).collect()
        }
        _ => Vec::new(),
    };
    match loads.is_empty() {
        true => Err("expected `sizes`, or `rates` and `seconds` (1 to 3600), of what is sent".into()),
        false => Ok(loads),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
title = "small"
topology = "testbed:testbed.json"
participants = "participants.toml"
figures = "thesis.toml"
use_case = "uc2"
receivers = [1, 5]
sizes = ["1M"]
link_rate = "100M"

[[delivery]]
name = "unicast"
kind = "unicast"

[[delivery]]
name = "mead"
kind = "mead"
max = 24
"#;

    fn parse(text: &str, settings: &[&str]) -> Result<UseCases, String> {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/meadcast"));
        let settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        UseCases::parse(text, "x.toml", folder, &settings).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_take_the_place_of_keys_and_deliveries_are_named() {
        let small = parse(SMALL, &["receivers=3", "deliveries=mead", "payload=500"]).unwrap();
        assert_eq!((small.receivers, small.payload_bytes), (vec![3], 500));
        assert_eq!(small.deliveries.len(), 1);
        let text = SMALL.replace("name = \"mead\"", "name = \"mead, cost\"");
        for setting in ["deliveries=mead, cost,unicast", "deliveries=\"mead, cost\",\"unicast\""] {
            let chosen = parse(&text, &[setting]).unwrap().deliveries;
            assert_eq!(chosen.iter().map(|one| &*one.name).collect::<Vec<_>>(), ["mead, cost", "unicast"]);
        }
        let refused = parse(&text, &["deliveries=cost"]).unwrap_err();
        assert!(refused.contains("delivery `cost`: expected some of `unicast`, `mead, cost`"), "{refused}");
        let small = parse(SMALL, &[]).unwrap();
        assert_eq!((small.payload_bytes, small.loads[0].to_string()), (1048, "1M".to_owned()), "listing A.8");
    }

    #[test]
    fn with_ospf_nobody_else_changes_routes() {
        let events = "events = [{ at = \"1s\", link = \"r1-r3\", fault = \"fail\", noticed = \"2s\" }]\n";
        let noticed = |settings: &[&str]| {
            let experiment = parse(&format!("{SMALL}{events}"), settings).unwrap();
            experiment.deliveries[1].events[0].noticed
        };
        assert_eq!(noticed(&[]), Some(Duration::from_secs(2)));
        assert_eq!(noticed(&["routing=ospf"]), None);
        let avoid = events.replace("fail", "avoid").replace(", noticed = \"2s\"", "");
        assert_eq!(
            parse(&format!("{SMALL}{avoid}"), &["routing=ospf"]).unwrap_err(),
            "x.toml: delivery `mead`: OSPF avoids r1-r3 when it is down or fails: have that happen"
        );
        assert!(parse(SMALL, &["routing=rip"]).is_err());
    }

    #[test]
    fn each_mistake_is_one_line() {
        let broken = |from: &str, to: &str| {
            assert!(SMALL.contains(from));
            parse(&SMALL.replace(from, to), &[]).unwrap_err()
        };
        let cases = [
            (broken("\"uc2\"", "\"uc9\""), "x.toml: use_case `uc9` is not among the participants'"),
            (
                broken("sizes = [\"1M\"]", "rates = [\"1M\"]"),
                "x.toml: expected `sizes`, or `rates` and `seconds` (1 to 3600), of what is sent",
            ),
            (
                broken("[1, 5]", "[0]"),
                "x.toml: receivers: expected how many hosts of each network receive, such as [1, 3, 5]",
            ),
            (broken("max = 24", "max = 33"), "x.toml: delivery `mead`: max must be 2 to 32"),
            (
                broken("max = 24", "anonymous = true"),
                "x.toml: delivery `mead`: anonymous has no meaning for its kind",
            ),
            (
                broken("kind = \"mead\"\nmax = 24", "kind = \"send\"\nrate = \"10M\""),
                "x.toml: delivery `mead`: a session needs a rate and a size",
            ),
            (
                broken("max = 24", "size = \"1M\""),
                "x.toml: delivery `mead`: size has no meaning for its kind",
            ),
            (broken("name = \"mead\"", "name = \"unicast\""), "x.toml: delivery `unicast` is there twice"),
            (
                parse(SMALL, &["deliveries=fast"]).unwrap_err(),
                "x.toml: delivery `fast`: expected some of `unicast`, `mead`",
            ),
            (
                parse(SMALL, &["size=1M"])
                    .unwrap_err()
                    .split(", expected")
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
                "--set size=1M: unknown field `size`",
            ),
        ];
        for (found, expected) in cases {
            assert_eq!(found, expected);
        }
    }
}
