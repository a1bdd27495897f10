//! Plans a run of the workload `load`: which hosts take part, and what the links allow.

use std::{net::IpAddr, sync::Arc, time::Duration};

use treecast_lab::{Role, Topology};
use treecast_load::threshold::Layout;

use super::keys::{Ask, Loading};
use crate::plan::Group;

/// The plan of a run, or of all trials of a search.
#[derive(Debug, Clone)]
pub struct PlannedLoad {
    pub loading: Arc<Loading>,
    pub ask: Ask,
    pub group: IpAddr,
    /// The number of hosts that take part; for a search over hosts, the most that may.
    pub hosts: usize,
    /// The number of groups that each receiver joins.
    pub memberships: usize,
    /// The hosts of the network by switch, in order.
    by_switch: Vec<Vec<String>>,
    /// The layout of all hosts of the network.
    whole: Layout,
}

/// The hosts of a trial, in their order, and what lies between them.
#[derive(Debug, Clone)]
pub struct Cast {
    pub hosts: Vec<String>,
    pub layout: Layout,
}

/// The bytes of a frame beside the UDP payload: the headers of Ethernet, IP and UDP. Links of a lab count no padding, checksum,
/// preamble or gap.
pub fn frame_bytes(group: IpAddr, payload_bytes: usize) -> usize {
    const ETHERNET: usize = 14;
    const UDP: usize = 8;
    let ip = if group.is_ipv4() { 20 } else { 40 };
    ETHERNET + ip + UDP + payload_bytes
}

impl PlannedLoad {
    /// Plans every run of a network, repeats aside: each group, number of hosts, number of memberships and rate.
    pub fn all(loading: &Arc<Loading>, topology: &Topology) -> Result<Vec<Self>, String> {
        let by_switch = by_switch(topology);
        let most = by_switch.iter().map(Vec::len).sum::<usize>();
        if let Some(hosts) = loading.hosts.iter().find(|hosts| **hosts > most) {
            return Err(format!("workload: hosts: {hosts} are to take part, and it has {most}"));
        }
        for ask in &loading.asks {
            let Ask::SearchHosts(bounds, _) = ask else { continue };
            let range = bounds.hosts(most);
            if range.lowest < 2.0 || range.highest > most as f64 {
                return Err(format!(
                    "workload: search: hosts: expected bounds from 2 to {most}, which it has"
                ));
            }
        }
        if most < 2 {
            return Err("the workload load needs two hosts at least".into());
        }
        let numbers = if loading.hosts.is_empty() { vec![most] } else { loading.hosts.clone() };
        let mut all = Vec::new();
        for &group in &loading.groups {
            let whole = whole(loading, topology, &by_switch, group);
            for (&hosts, &memberships) in
                numbers.iter().flat_map(|hosts| loading.memberships.iter().map(move |count| (hosts, count)))
            {
                for &ask in &loading.asks {
                    let (by_switch, whole) = (by_switch.clone(), whole.clone());
                    let loading = Arc::clone(loading);
                    let planned = Self { loading, ask, group, hosts, memberships, by_switch, whole };
                    if matches!(ask, Ask::Share(_)) && planned.cast(hosts).layout.predicted_rate().is_none() {
                        return Err(
                            "shares are of the rate that its links allow, and they have none: name the \
                                    network's `link_rate`"
                                .into(),
                        );
                    }
                    all.push(planned);
                }
            }
        }
        Ok(all)
    }

    /// Returns the hosts of a trial with so many: evenly from all switches, as far as each has them.
    pub fn cast(&self, hosts: usize) -> Cast {
        let mut counts = vec![0; self.by_switch.len()];
        let mut left = hosts;
        while left > 0 {
            let with_room = |(switch, count): &(usize, &usize)| **count < self.by_switch[*switch].len();
            // Of equal counts, the last switch is filled first: the paper's second one has a host more.
            let fewest = counts.iter().enumerate().filter(with_room).rev().min_by_key(|(_, count)| **count);
            let Some((switch, _)) = fewest else { break };
            counts[switch] += 1;
            left -= 1;
        }
        let chosen =
            self.by_switch.iter().zip(&counts).flat_map(|(names, count)| names[..*count].iter().cloned());
        let layout = Layout { switches: counts.clone(), ..self.whole.clone() };
        Cast { hosts: chosen.collect(), layout }
    }

    /// Returns the receivers of the run, with the first of its senders.
    pub fn group_of_hosts(&self) -> Group {
        let Cast { hosts, layout } = self.cast(self.hosts);
        let numbered = || hosts.iter().enumerate();
        let sender = numbered().find(|(host, _)| layout.pattern.sends(*host)).map(|(_, name)| name.clone());
        let receivers = numbered().filter(|(host, _)| layout.pattern.receives(*host));
        Group {
            sender: sender.unwrap_or_default(),
            receivers: receivers.map(|(_, name)| name.clone()).collect(),
        }
    }

    /// Returns the number of hosts that send.
    pub fn senders(&self) -> usize {
        (0..self.hosts).filter(|host| self.whole.pattern.sends(*host)).count()
    }

    /// Returns the words that tell this run from others of its network.
    pub fn words(&self) -> String {
        let groups =
            if self.memberships > 1 { format!(" and {} more", self.memberships - 1) } else { String::new() };
        let hosts = match self.ask {
            Ask::SearchHosts(..) => String::new(),
            _ => format!("{} hosts ", self.hosts),
        };
        format!("{}{groups} {hosts}{}", self.group, self.ask)
    }

    /// Sets the parameters of the run.
    pub fn parameters(&self, set: &mut dyn FnMut(&str, String)) {
        set("group", self.group.to_string());
        set("ip", if self.group.is_ipv4() { "IPv4" } else { "IPv6" }.into());
        set("hosts", self.hosts.to_string());
        set("senders", self.senders().to_string());
        set("pattern", self.whole.pattern.word().into());
        set("frame", self.frame_bytes().to_string());
        set("memberships", self.memberships.to_string());
        if let Some(rate) = self.whole.trunk_bps {
            set("trunk_rate", rate.to_string());
        }
        match self.ask {
            Ask::Rate(rate) | Ask::SearchHosts(_, rate) => set("rate", rate.to_string()),
            // A percentage divided by 100 has no more digits than this.
            Ask::Share(share) => set("share", ((share * 1e8).round() / 1e8).to_string()),
            Ask::SearchRate(_) => {}
        }
    }

    /// Returns the length of a frame as the links count it, in bytes.
    pub fn frame_bytes(&self) -> usize {
        self.whole.frame_bytes
    }

    /// Returns about how long the run takes: its trials, each with the start of its programs.
    pub fn duration(&self) -> Duration {
        /// The trials that a search takes when its prediction is good.
        const TRIALS: u32 = 7;
        let trials = if self.ask.is_search() { TRIALS } else { 1 };
        (self.loading.lasts + lead(self.hosts) + LINGER) * trials
    }
}

/// The time for which hosts listen after the last sender has ended.
pub const LINGER: Duration = Duration::from_secs(1);

/// Returns how long so many programs take to start and to join their group.
pub fn lead(hosts: usize) -> Duration {
    Duration::from_millis(1000 + 40 * hosts as u64)
}

fn whole(loading: &Loading, topology: &Topology, by_switch: &[Vec<String>], group: IpAddr) -> Layout {
    let hosts = topology.members().filter(|member| topology.nodes[member.node].role != Role::Router);
    let trunk = topology.networks.iter().find_map(|network| network.trunk.as_ref());
    Layout {
        pattern: loading.pattern,
        switches: by_switch.iter().map(Vec::len).collect(),
        frame_bytes: frame_bytes(group, loading.payload_bytes),
        link_bps: hosts.filter_map(|member| member.quality.rate_bps).min(),
        trunk_bps: trunk.and_then(|trunk| trunk.quality.rate_bps),
    }
}

/// Returns the names of all hosts, by the switch that they are on. Each network of the topology has one switch, or two.
fn by_switch(topology: &Topology) -> Vec<Vec<String>> {
    let mut switches = Vec::new();
    for network in &topology.networks {
        let mut members = network.members.iter();
        for count in network.members_by_switch() {
            let hosts = members.by_ref().take(count).map(|member| &topology.nodes[member.node]);
            let names = hosts.filter(|node| node.role != Role::Router).map(|node| node.name.clone());
            let names: Vec<String> = names.collect();
            if !names.is_empty() {
                switches.push(names);
            }
        }
    }
    switches
}

#[cfg(test)]
mod tests {
    use treecast_load::{packet::Format, threshold::Pattern};

    use super::*;
    use crate::workload::load::keys::Bounds;

    fn loading() -> Arc<Loading> {
        Arc::new(Loading {
            groups: vec!["239.3.2.2".parse().unwrap(), "ff15::8".parse().unwrap()],
            hosts: vec![2, 95],
            asks: vec![Ask::Share(0.5)],
            lasts: Duration::from_secs(5),
            pattern: Pattern::ManyToMany,
            packet: Format::Paper,
            payload_bytes: 8,
            memberships: vec![1, 1000],
            agents: Vec::new(),
        })
    }

    #[test]
    fn every_combination_is_planned_and_hosts_come_from_both_switches() {
        let topology = Topology::parse("switches:clients=47+48,rate=200k").unwrap();
        let all = PlannedLoad::all(&loading(), &topology).unwrap();
        assert_eq!(all.len(), 8);
        assert_eq!([all[0].frame_bytes(), all[4].frame_bytes()], [50, 70]);
        let cast = all[0].cast(2);
        assert_eq!(
            (cast.hosts, cast.layout.switches),
            (vec!["client0".to_owned(), "client47".into()], vec![1, 1])
        );
        assert_eq!(all[2].cast(95).layout.switches, [47, 48]);
        assert_eq!(all[2].cast(3).layout.switches, [1, 2]);
        // 200 kbit/s are 500 frames of 50 bytes a second, from 94 others.
        let predicted = all[2].cast(95).layout.predicted_rate().unwrap();
        assert!((predicted - 500.0 / 94.0).abs() < 1e-9, "{predicted}");
        assert_eq!((all[2].senders(), all[2].group_of_hosts().receivers.len()), (95, 95));
    }

    #[test]
    fn more_hosts_than_there_are_and_shares_of_nothing_are_refused() {
        let small = Topology::parse("switches:clients=3+2,rate=200k").unwrap();
        let refused = PlannedLoad::all(&loading(), &small).unwrap_err();
        assert_eq!(refused, "workload: hosts: 95 are to take part, and it has 5");
        let bounds = Bounds { lowest: None, highest: Some(200.0), precision: 0.02, lost: 0.0 };
        let asks = vec![Ask::SearchHosts(bounds, 5.0)];
        let search = Arc::new(Loading { hosts: Vec::new(), asks, ..(*loading()).clone() });
        let refused = PlannedLoad::all(&search, &small).unwrap_err();
        assert!(refused.contains("expected bounds from 2 to 5"), "{refused}");
        let free = Topology::parse("lan:clients=94").unwrap();
        assert!(PlannedLoad::all(&loading(), &free).unwrap_err().contains("name the network's `link_rate`"));
    }
}
