//! Flows that share a link for a while: what an experiment file says of them, and whether it can be.

mod connection;
mod contest;
mod path;
mod scene;

use serde::Deserialize;

pub use contest::{Contest, Flow, Outcome};
pub use path::SharedPath;
pub use scene::Scene;

use super::{
    Error,
    delivery::Delivery,
    file::{Claim, Experiment, Measure, Network, Objects},
    schedule::Schedule,
};
use treecast_lab::Topology;
use treecast_lab::quantity::{Rate, Size, Time};

/// What an experiment file says of a shared link.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharingKeys {
    link: Option<String>,
    lasts: Option<Time>,
    queue: Option<Size>,
    congestion: Option<String>,
}

/// A link that all flows of a run cross, and for how long.
#[derive(Debug, Clone, PartialEq)]
pub struct Sharing {
    /// Its name in the topologies.
    pub link: String,
    /// How long all flows run together.
    pub lasts: Time,
    /// What may wait in front of the link, in place of what the topology says.
    pub queue: Option<Size>,
    /// The congestion control of TCP flows, as the kernel calls it.
    pub congestion: String,
}

/// Another flow on the link.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rival {
    pub kind: RivalKind,
    /// How long after the first flow has begun.
    pub after: Option<Time>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RivalKind {
    /// One TCP connection that always has something to send.
    Tcp,
    /// A session like the first.
    Session,
}

/// The link gets another rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// How long after all flows run.
    pub after: Time,
    pub rate: Rate,
}

/// What the names of the nodes begin with that a rival sends to.
pub const RIVAL: &str = "rival";

impl SharingKeys {
    /// Lets each key that `over` has take the place of this one's.
    pub fn take(&mut self, over: SharingKeys) {
        self.link = over.link.or(self.link.take());
        self.lasts = over.lasts.or(self.lasts);
        self.queue = over.queue.or(self.queue);
        self.congestion = over.congestion.or(self.congestion.take());
    }

    /// The link, its values checked.
    pub fn complete(self) -> Result<Sharing, String> {
        let sharing = Sharing {
            link: self.link.unwrap_or_else(|| "shared".into()),
            lasts: self.lasts.ok_or("sharing: `lasts` is missing: how long the flows run, such as `60s`")?,
            queue: self.queue,
            congestion: self.congestion.unwrap_or_else(|| "cubic".into()),
        };
        let seconds = sharing.lasts.0.as_secs();
        if !(1..=3600).contains(&seconds) {
            return Err(format!("sharing: lasts {seconds} s: expected 1 s to 60 m"));
        }
        // The kernel's TCP_CA_NAME_MAX.
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        match sharing.congestion.as_str() {
            name if (1..16).contains(&name.len()) && name.bytes().all(is_plain) => Ok(sharing),
            name => Err(format!("sharing: congestion `{name}`: expected the name of one, such as `cubic`")),
        }
    }
}

/// Prepares the topologies of an experiment whose flows share a link, and finds that link in each.
pub fn paths(experiment: &Experiment, topologies: &mut [Topology]) -> Result<Vec<Option<SharedPath>>, Error> {
    let Some(sharing) = &experiment.sharing else { return Ok(vec![None; topologies.len()]) };
    let find = |(topology, description): (&mut Topology, &Network)| {
        path::prepare(topology, sharing);
        let path = SharedPath::of(topology, sharing, description);
        path.map(Some).map_err(|what| Error::Network { name: description.name.clone(), what })
    };
    topologies.iter_mut().zip(&experiment.networks).map(find).collect()
}

/// What is sent must not end before the time is over.
pub fn check_sizes(
    experiment: &Experiment,
    sizes: &[Size],
    paths: &[Option<SharedPath>],
) -> Result<(), Error> {
    let Some(sharing) = &experiment.sharing else { return Ok(()) };
    for (network, path) in experiment.networks.iter().zip(paths) {
        let seconds = sharing.lasts.0.as_secs();
        let rate_bps = path.as_ref().and_then(|path| path.quality.rate_bps).unwrap_or_default();
        let most = Size(rate_bps / 8 * seconds);
        if let Some(size) = sizes.iter().find(|size| **size < most) {
            let enough = Size((most.0 | ((1 << 20) - 1)) + 1);
            let what =
                format!("{size} are over before {seconds} s are: send at least {enough} (--set sizes=...)");
            return Err(Error::Network { name: network.name.clone(), what });
        }
    }
    Ok(())
}

/// Whether the kernel has the congestion control that TCP flows are to follow.
pub fn check_kernel(experiment: &Experiment) -> Result<(), Error> {
    let Some(Sharing { congestion, .. }) = &experiment.sharing else { return Ok(()) };
    let is_tcp = |network: &Network| matches!(&network.rival, Some(rival) if rival.kind == RivalKind::Tcp);
    if !experiment.deliveries.contains(&Delivery::Tcp) && !experiment.networks.iter().any(is_tcp) {
        return Ok(());
    }
    match contest::is_available(congestion).map_err(Error::Machine)? {
        true => Ok(()),
        false => {
            let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
            let available = known.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(", ");
            Err(Error::Congestion { name: congestion.clone(), available })
        }
    }
}

/// What no single key can show to be wrong.
pub fn check(experiment: &Experiment) -> Result<(), String> {
    experiment.networks.iter().try_for_each(|network| check_network(experiment, network))?;
    experiment.claims.iter().try_for_each(|claim| check_claim(experiment, claim))?;
    if experiment.sharing.is_none() {
        return Ok(());
    }
    let can_share = |delivery: &Delivery| delivery.has_sessions() || *delivery == Delivery::Tcp;
    if let Some(other) = experiment.deliveries.iter().find(|delivery| !can_share(delivery)) {
        return Err(format!(
            "a link cannot be shared by {}: expected tcp, nack, after or nack-fec",
            other.name()
        ));
    }
    if matches!(experiment.objects, Objects::Feed(_)) {
        return Err("a feed's objects end by themselves: share a link with `sizes` or `file`".into());
    }
    match experiment.schedules[..] {
        [Schedule::Immediate] => Ok(()),
        _ => Err("flows that share a link begin together: schedules must be `immediate`".into()),
    }
}

fn check_network(experiment: &Experiment, network: &Network) -> Result<(), String> {
    let name = &network.name;
    let Some(sharing) = &experiment.sharing else {
        return match (&network.rival, network.changes.is_empty()) {
            (None, true) => Ok(()),
            (Some(_), _) => Err(format!("network `{name}` has a rival, but no link to share: add [sharing]")),
            (None, false) => {
                Err(format!("network `{name}` has changes, but no link to change: add [sharing]"))
            }
        };
    };
    if let Some(stopped) = &network.stopped {
        return Err(format!(
            "network `{name}`: client {} cannot be stopped while a link is shared",
            stopped.client
        ));
    }
    if let Some(late) = network.changes.iter().find(|change| change.after >= sharing.lasts) {
        return Err(format!("network `{name}`: a change after {:?} comes after the end", late.after.0));
    }
    if !network.changes.is_sorted_by(|one, next| one.after < next.after) {
        return Err(format!("network `{name}`: changes must be in the order of their times"));
    }
    Ok(())
}

fn check_claim(experiment: &Experiment, claim: &Claim) -> Result<(), String> {
    let says = &claim.says;
    let is_of_links = matches!(claim.measure, Measure::Share | Measure::Used | Measure::Calm | Measure::Loss);
    match (is_of_links, &experiment.sharing) {
        (false, None) => return Ok(()),
        (false, Some(_)) => {
            return Err(format!(
                "claim `{says}`: expected the measure share, used, calm or loss of a shared link"
            ));
        }
        (true, None) => return Err(format!("claim `{says}` is about a shared link, but nothing is shared")),
        (true, Some(_)) => {}
    }
    let of =
        |which: &super::file::Which| experiment.networks.iter().find(|network| network.name == which.network);
    for network in std::iter::once(&claim.of).chain(&claim.to).filter_map(of) {
        let name = &network.name;
        match claim.measure {
            Measure::Share if network.rival.is_none() => {
                return Err(format!("claim `{says}` compares with a rival, which network `{name}` has not"));
            }
            Measure::Calm | Measure::Loss if network.changes.is_empty() => {
                return Err(format!("claim `{says}` is about a change, which network `{name}` has not"));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::preview;

    const SMALL: &str = r#"
title = "small"
deliveries = ["nack"]
rate = "auto"
sizes = ["80M"]

[sharing]
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
measure = "share"
of = { network = "against", delivery = "nack" }
at_least = 0.5
"#;

    fn parse(text: &str, settings: &[&str]) -> Result<Experiment, String> {
        let settings: Vec<String> = settings.iter().map(|setting| setting.to_string()).collect();
        Experiment::parse(text, "x.toml", Path::new("labs"), &settings).map_err(|error| error.to_string())
    }

    /// Replaces `from` in the small file and returns the error, of its planning at the latest.
    fn broken(from: &str, to: &str) -> String {
        assert!(SMALL.contains(from));
        let parsed = parse(&SMALL.replace(from, to), &[]);
        parsed.map_or_else(|error| error, |experiment| preview(&experiment).unwrap_err().to_string())
    }

    #[test]
    fn what_is_left_out_is_cubic_on_a_link_called_shared() {
        let small = parse(SMALL, &["sharing.queue=500000"]).unwrap();
        let sharing = small.sharing.as_ref().unwrap();
        assert_eq!((sharing.link.as_str(), sharing.congestion.as_str()), ("shared", "cubic"));
        assert_eq!((sharing.lasts.0.as_secs(), sharing.queue), (10, Some(Size(500_000))));
        assert_eq!(
            preview(&small).unwrap().runs,
            ["against nack immediate 80M #1", "slower nack immediate 80M #1"]
        );
    }

    #[test]
    fn each_mistake_is_one_line() {
        let cases = [
            (
                broken("lasts = \"10s\"", ""),
                "x.toml: sharing: `lasts` is missing: how long the flows run, such as `60s`",
            ),
            (broken("\"10s\"", "\"0s\""), "x.toml: sharing: lasts 0 s: expected 1 s to 60 m"),
            (
                broken("lasts", "length = 3\nlasts"),
                "x.toml:8: unknown field `length`, expected one of `link`, `lasts`, `queue`, `congestion`",
            ),
            (
                broken("lasts", "congestion = \"../x\"\nlasts"),
                "x.toml: sharing: congestion `../x`: expected the name of one, such as `cubic`",
            ),
            (
                broken("[sharing]\nlasts = \"10s\"", ""),
                "x.toml: network `against` has a rival, but no link to share: add [sharing]",
            ),
            (broken("\"tcp\"", "\"udp\""), "x.toml:13: unknown variant `udp`, expected `tcp` or `session`"),
            (broken("\"5s\"", "\"10s\""), "x.toml: network `slower`: a change after 10s comes after the end"),
            (
                broken("deliveries = [\"nack\"]\nrate = \"auto\"", "deliveries = [\"nack\", \"udp\"]"),
                "x.toml: a link cannot be shared by udp: expected tcp, nack, after or nack-fec",
            ),
            (
                broken("network = \"against\"", "network = \"slower\""),
                "x.toml: claim `fair` compares with a rival, which network `slower` has not",
            ),
            (
                broken("\"share\"", "\"calm\""),
                "x.toml: claim `fair` is about a change, which network `against` has not",
            ),
            (
                broken("measure = \"share\"", ""),
                "x.toml: claim `fair`: expected the measure share, used, calm or loss of a shared link",
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
