//! Reads the settings of repair `local`: who mends losses, and who is in which local group.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use serde::{Deserialize, Deserializer, de};
use treecast_lab::quantity::{Rate, Share, Time};
use treecast_proto::local::Mode;
use treecast_sim::session::{Deaths, Dying};

/// The key `local` of a delivery.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LocalGroups {
    pub mode: LocalMode,
    /// The groups that are made by hand: the names of nodes, each group's controller first. Empty where groups form
    /// by themselves.
    pub groups: Vec<Vec<String>>,
    /// The lowest rate of the sender. `None`: nobody has to leave because it is too slow.
    pub minimum_rate: Option<Rate>,
    /// The highest rate at which one member repairs.
    pub repair_rate: Option<Rate>,
    /// The share of packets that a receiver loses when it is congested.
    pub congestion_loss: Option<Share>,
    /// The time after which a late object is given up.
    pub deadline: Option<Time>,
    /// The controllers that die, each at a random time.
    #[serde(deserialize_with = "dying")]
    pub deaths: Dying,
    /// The time, counted from the session's beginning, in which controllers die.
    pub within: Option<Time>,
}

/// Who mends losses (lgmp-mbone-1999, 4.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LocalMode {
    Sender,
    Hierarchical,
    #[default]
    Local,
}

/// Reads the key `deaths`: a number, or `"all"`.
fn dying<'de, D: Deserializer<'de>>(value: D) -> Result<Dying, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Key {
        Count(u32),
        Word(String),
    }
    match Key::deserialize(value) {
        Ok(Key::Count(count)) => Ok(Dying::Count(count)),
        Ok(Key::Word(word)) if word == "all" => Ok(Dying::EachGroup),
        _ => Err(de::Error::custom("expected a number, or \"all\" for one in each group")),
    }
}

impl From<LocalMode> for Mode {
    fn from(mode: LocalMode) -> Self {
        match mode {
            LocalMode::Sender => Self::Sender,
            LocalMode::Hierarchical => Self::Hierarchical,
            LocalMode::Local => Self::Local,
        }
    }
}

impl LocalGroups {
    /// Refuses settings that do not fit together.
    pub fn check(&self) -> Result<(), String> {
        if self.mode == LocalMode::Sender && !self.groups.is_empty() {
            return Err("mode sender has no local groups: leave out groups".into());
        }
        if let Some(position) = self.groups.iter().position(Vec::is_empty) {
            return Err(format!("group {} is empty: name its controller first", position + 1));
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = self.groups.iter().flatten().find(|name| !seen.insert(*name)) {
            return Err(format!("{twice} is in groups twice: name each receiver once"));
        }
        match (self.deaths, self.within) {
            (Dying::Count(0), Some(_)) => Err("within has no meaning without deaths".into()),
            (Dying::Count(1..) | Dying::EachGroup, None) => {
                Err("deaths needs within: the time in which controllers die".into())
            }
            _ => Ok(()),
        }
    }

    /// The arguments of `treecast send` for these settings, but for the file of groups.
    pub fn words(&self) -> Vec<String> {
        let mode = match self.mode {
            LocalMode::Sender => Some("sender"),
            LocalMode::Hierarchical => Some("hierarchical"),
            LocalMode::Local => None,
        };
        let options = [
            ("--local-mode", mode.map(str::to_owned)),
            ("--rate-floor", self.minimum_rate.map(|rate| rate.0.to_string())),
            ("--repair-rate", self.repair_rate.map(|rate| rate.0.to_string())),
            ("--congestion-loss", self.congestion_loss.map(|share| format!("{}%", share.0 * 100.0))),
            ("--deadline", self.deadline.map(|time| format!("{}ms", time.0.as_millis()))),
        ];
        let given = options.into_iter().filter_map(|(option, value)| Some([option.to_owned(), value?]));
        given.flatten().collect()
    }

    /// The text of the file that fixes the groups (`--local-groups`): a line for each group. `address` gives the address of
    /// a node.
    ///
    /// # Errors
    /// The first error of `address`.
    pub fn file<E>(&self, address: impl Fn(&str) -> Result<IpAddr, E>) -> Result<String, E> {
        let mut text = String::new();
        for group in &self.groups {
            let members = group.iter().map(|name| Ok(address(name)?.to_string()));
            text += &format!("{}: {}\n", group[0], members.collect::<Result<Vec<_>, E>>()?.join(" "));
        }
        Ok(text)
    }

    /// Draws who dies in a session, and when, from the seed of its run.
    pub fn deaths(&self, seed: u64) -> Deaths {
        Deaths::new(self.deaths, self.within.map_or(Duration::ZERO, |within| within.0), seed)
    }

    /// Refuses groups that are not the session's receivers, each once.
    pub fn check_receivers(&self, receivers: &[String]) -> Result<(), String> {
        let grouped: BTreeSet<&String> = self.groups.iter().flatten().collect();
        if let Some(unknown) = grouped.iter().find(|name| !receivers.contains(name)) {
            return Err(format!("groups name {unknown}, which is no receiver"));
        }
        match receivers.iter().find(|name| !grouped.contains(name)) {
            Some(lacking) if !grouped.is_empty() => {
                Err(format!("groups do not name {lacking}: each receiver needs a group"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> LocalGroups {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn programs_are_told_all_settings() {
        let local = read(
            "mode = \"hierarchical\"\nminimum_rate = \"64k\"\nrepair_rate = \"1M\"\ncongestion_loss = \"25%\"\ndeadline = \"500ms\"",
        );
        let words = "--local-mode hierarchical --rate-floor 64000 --repair-rate 1000000 --congestion-loss 25% --deadline 500ms";
        assert_eq!(local.words().join(" "), words);
        let groups = read("groups = [[\"a\", \"b\"], [\"c\"]]");
        let address = |name: &str| format!("fd00::{name}").parse::<IpAddr>();
        assert_eq!(groups.file(address).unwrap(), "a: fd00::a fd00::b\nc: fd00::c\n");
        assert!(groups.file(|_| "nowhere".parse::<IpAddr>()).is_err());
    }

    #[test]
    fn so_many_controllers_die_or_one_in_each_group() {
        assert_eq!(read("deaths = 3\nwithin = \"8s\"").deaths, Dying::Count(3));
        assert_eq!(read("deaths = \"all\"\nwithin = \"8s\"").deaths, Dying::EachGroup);
        assert!(read("").deaths(1).are_over(Duration::ZERO));
        let refused = toml::from_str::<LocalGroups>("deaths = \"some\"").unwrap_err().to_string();
        assert!(refused.contains("expected a number, or \"all\" for one in each group"), "{refused}");
    }

    #[test]
    fn groups_that_cannot_be_are_refused() {
        let groups = read("groups = [[\"a\", \"b\"], [\"c\"]]");
        assert_eq!(groups.check(), Ok(()));
        let receivers = ["a", "b", "c"].map(String::from);
        assert_eq!(groups.check_receivers(&receivers), Ok(()));
        assert_eq!(read("").check_receivers(&receivers), Ok(()));
        let unknown = groups.check_receivers(&receivers[..2]).unwrap_err();
        assert_eq!(unknown, "groups name c, which is no receiver");
        let lacking = read("groups = [[\"a\"]]").check_receivers(&receivers[..2]).unwrap_err();
        assert_eq!(lacking, "groups do not name b: each receiver needs a group");
        let refused = [
            ("groups = [[\"a\"], [\"b\", \"a\"]]", "a is in groups twice: name each receiver once"),
            ("groups = [[\"a\"], []]", "group 2 is empty: name its controller first"),
            ("mode = \"sender\"\ngroups = [[\"a\"]]", "mode sender has no local groups: leave out groups"),
            ("deaths = \"all\"", "deaths needs within: the time in which controllers die"),
            ("deaths = 2", "deaths needs within: the time in which controllers die"),
        ];
        for (text, expected) in refused {
            assert_eq!(read(text).check().unwrap_err(), expected);
        }
    }
}
