//! Reads the settings of repair `local`: who mends losses, and who is in which local group.

use std::collections::BTreeSet;

use serde::Deserialize;
use treecast_lab::quantity::{Rate, Time};
use treecast_proto::local::Mode;

use super::network::Share;

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
    /// The time for which the sender waits for more receivers after the first.
    pub settling: Option<Time>,
    /// The number of controllers that die, each at a random time.
    pub deaths: u32,
    /// The time, counted from the moment when all receivers are there, in which controllers die.
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
            (0, Some(_)) => Err("within has no meaning without deaths".into()),
            (1.., None) => Err("deaths needs within: the time in which controllers die".into()),
            _ => Ok(()),
        }
    }

    /// The key that only the simulator carries out. `None` where programs on a network do all.
    pub fn only_simulated(&self) -> Option<&'static str> {
        [
            (!self.groups.is_empty(), "`groups` of repair local"),
            (self.deaths > 0, "`deaths` of repair local"),
            (self.repair_rate.is_some(), "`repair_rate` of repair local"),
            (self.congestion_loss.is_some(), "`congestion_loss` of repair local"),
            (self.settling.is_some(), "`settling` of repair local"),
        ]
        .into_iter()
        .find_map(|(is_there, key)| is_there.then_some(key))
    }

    /// The arguments of `treecast send` for these settings.
    pub fn words(&self) -> Vec<String> {
        let mode = match self.mode {
            LocalMode::Sender => Some("sender"),
            LocalMode::Hierarchical => Some("hierarchical"),
            LocalMode::Local => None,
        };
        let mode = mode.map(|mode| ["--local-mode".to_owned(), mode.to_owned()]);
        let floor = self.minimum_rate.map(|rate| ["--rate-floor".to_owned(), rate.0.to_string()]);
        let deadline =
            self.deadline.map(|time| ["--deadline".to_owned(), format!("{}ms", time.0.as_millis())]);
        mode.into_iter().chain(floor).chain(deadline).flatten().collect()
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
    fn programs_are_told_what_they_can_do_and_the_rest_is_simulated() {
        let local = read("mode = \"hierarchical\"\nminimum_rate = \"64k\"\ndeadline = \"500ms\"");
        let words = ["--local-mode", "hierarchical", "--rate-floor", "64000", "--deadline", "500ms"];
        assert_eq!((local.words(), local.only_simulated()), (words.map(str::to_owned).to_vec(), None));
        for text in ["groups = [[\"a\"]]", "deaths = 1", "repair_rate = \"1M\"", "settling = \"1s\""] {
            let key = text.split(' ').next().unwrap();
            assert!(read(text).only_simulated().unwrap().contains(key), "{text}");
        }
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
            ("deaths = 2", "deaths needs within: the time in which controllers die"),
        ];
        for (text, expected) in refused {
            assert_eq!(read(text).check().unwrap_err(), expected);
        }
    }
}
