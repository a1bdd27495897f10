//! Which routers speak MEADcast (meadcast-thesis-2024, 4.4.3): all, those of some layers, or those named.

use std::collections::BTreeSet;

use serde::Deserialize;

use treecast_lab::{Role, Topology};

/// What an experiment file says of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Support {
    One(String),
    Several(Vec<String>),
}

impl Default for Support {
    fn default() -> Self {
        Self::One("all".into())
    }
}

impl Support {
    fn words(&self) -> &[String] {
        match self {
            Self::One(word) => std::slice::from_ref(word),
            Self::Several(words) => words,
        }
    }

    /// The names of the routers; none means all.
    pub fn routers(&self, topology: &Topology) -> Result<Option<BTreeSet<String>>, String> {
        let mut named = BTreeSet::new();
        for word in self.words() {
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

/// The thesis' L1, L2 and L3: its routers have one, two and three digits.
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

    fn routers(words: &[&str]) -> Result<Option<BTreeSet<String>>, String> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/meadcast/testbed.json");
        let testbed = Topology::parse(&format!("testbed:{path}")).expect("the testbed");
        Support::Several(words.iter().map(|word| (*word).to_owned()).collect()).routers(&testbed)
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
