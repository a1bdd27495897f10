//! Reads the workload `shared`: a file that takes longer than the time in which flows share a link.

use serde::Deserialize;
use treecast_lab::quantity::{Size, Time};

use crate::document::sharing::{Congestion, Sharing};

/// What an experiment file says of a shared link, as it is written.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharingKeys {
    pub link: Option<String>,
    pub lasts: Option<Time>,
    pub queue: Option<Size>,
    pub congestion: Option<String>,
    pub sizes: Option<Vec<Size>>,
    pub file: Option<String>,
}

impl SharingKeys {
    /// Checks the values and returns the shared link.
    pub fn complete(self) -> Result<Sharing, String> {
        let sharing = Sharing {
            link: self.link.unwrap_or_else(|| "shared".into()),
            lasts: self.lasts.ok_or("workload: `lasts` is missing: how long the flows run, such as `60s`")?,
            queue: self.queue,
            congestion: Congestion::try_from(self.congestion.unwrap_or_else(|| "cubic".into()))
                .map_err(|what| format!("workload: {what}"))?,
        };
        let seconds = sharing.lasts.0.as_secs();
        if !(1..=3600).contains(&seconds) {
            return Err(format!("workload: lasts {seconds} s: expected 1 s to 60 m"));
        }
        Ok(sharing)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Experiment, Lab, preview};

    const SMALL: &str = r#"
title = "small"
deliveries = ["nack"]
rate = "auto"

[workload]
kind = "shared"
sizes = ["80M"]
lasts = "10s"

[[network]]
name = "against"
topology = "shared:clients=2,rivals=1,rate=50M,delay=20ms"
rival = { kind = "tcp" }

[[network]]
name = "slower"
topology = "shared:clients=2,rate=50M"
changes = [{ after = "5s", rate = "5M" }]

[[claim]]
says = "fair"
holds = 'share{network = "against"} >= 0.5'
"#;

    fn parse(text: &str, settings: &[&str]) -> Result<Experiment, String> {
        let settings: Vec<String> = settings.iter().map(|setting| setting.to_string()).collect();
        Experiment::parse(text, "x.toml", Path::new("labs"), &settings).map_err(|error| error.to_string())
    }

    /// Replaces `from` in the small file and returns the error, of its planning at the latest.
    fn broken(from: &str, to: &str) -> String {
        assert!(SMALL.contains(from));
        let parsed = parse(&SMALL.replace(from, to), &[]);
        parsed.map_or_else(|error| error, |experiment| preview(&Lab, &experiment).unwrap_err().to_string())
    }

    #[test]
    fn what_is_left_out_is_cubic_on_a_link_called_shared() {
        let small = parse(SMALL, &["queue=500000B"]).unwrap();
        let sharing = small.workload.sharing().unwrap();
        assert_eq!((sharing.link.as_str(), sharing.congestion.0.as_str()), ("shared", "cubic"));
        assert_eq!((sharing.lasts.0.as_secs(), sharing.queue), (10, Some(Size(500_000))));
        let runs = preview(&Lab, &small).unwrap().runs;
        assert_eq!(runs, ["against nack immediate 80M #1", "slower nack immediate 80M #1"]);
    }

    #[test]
    fn a_network_leaves_out_deliveries_that_are_not_chosen() {
        let listed = SMALL.replace("rival =", "deliveries = [\"nack\", \"tcp\"]\nrival =");
        let runs = |setting: &str| {
            preview(&Lab, &parse(&listed, &[setting])?).map(|preview| preview.runs).map_err(|e| e.to_string())
        };
        let against = "against tcp immediate 80M #1".to_owned();
        assert_eq!(runs("deliveries=tcp"), Ok(vec![against, "slower tcp immediate 80M #1".to_owned()]));
        assert_eq!(runs("deliveries=after"), Ok(vec!["slower after immediate 80M #1".to_owned()]));
        let wrong = parse(&listed.replace("\"tcp\"]", "\"tpc\"]"), &[]).unwrap_err();
        assert!(wrong.contains("network `against` is to run tpc, which is none"), "{wrong}");
    }

    #[test]
    fn each_mistake_is_one_line() {
        let cases = [
            (
                broken("lasts = \"10s\"", ""),
                "x.toml: workload: `lasts` is missing: how long the flows run, such as `60s`",
            ),
            (broken("\"10s\"", "\"0s\""), "x.toml: workload: lasts 0 s: expected 1 s to 60 m"),
            (
                broken("lasts", "congestion = \"../x\"\nlasts"),
                "x.toml: workload: congestion `../x`: expected the name of one, such as `cubic`",
            ),
            (
                broken(
                    "kind = \"shared\"\nsizes = [\"80M\"]\nlasts = \"10s\"",
                    "kind = \"files\"\nsizes = [\"80M\"]",
                ),
                "x.toml: network `against` has a rival, but no link to share: take a workload of kind \"shared\"",
            ),
            (
                broken("kind = \"tcp\"", "kind = \"session\", congestion = \"bbr\""),
                "x.toml: network `against`: a rival session has no congestion: leave it out",
            ),
            (broken("\"tcp\"", "\"udp\""), "x.toml:14: unknown variant `udp`, expected `tcp` or `session`"),
            (broken("\"5s\"", "\"10s\""), "x.toml: network `slower`: a change after 10s comes after the end"),
            (
                broken("deliveries = [\"nack\"]\nrate = \"auto\"", "deliveries = [\"nack\", \"udp\"]"),
                "x.toml: udp in against cannot be: a link is shared by sessions, tcp and uftp alone",
            ),
            (
                broken("clients=2,rate=50M\"", "clients=2\""),
                "network slower: `shared` has no rate: nobody has to share it",
            ),
            (
                broken("\"80M\"", "\"20M\""),
                "network against: 20M are over before 10 s are: send at least 60M (--set sizes=...)",
            ),
        ];
        for (found, expected) in cases {
            assert_eq!(found, expected);
        }
    }
}
