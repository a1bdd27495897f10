//! The computed costs of a use case on a testbed, for each way of grouping receivers (`proto::explicit::plan`).
//! They follow from the lab's topologies and routes.

mod participants;
mod ways;

use std::collections::BTreeSet;

use treecast_measure::tables::Table;
use treecast_proto::explicit::{mead::grouping::Parameters, plan};

pub use self::participants::{Participants, Reduction, UseCase};
use self::ways::Ways;
use treecast_lab::Topology;

pub use treecast_proto::explicit::plan::{Cost, Group, Scheme};

/// The options of the comparison.
#[derive(Debug, Clone)]
pub struct Options {
    /// The largest number of addresses in a packet. `None`: that of the use case.
    pub max: Option<usize>,
    /// The data in a datagram, in bytes. `None`: as in the thesis, the bytes that an MTU of 1484 leaves beside
    /// its header.
    pub payload_bytes: Option<usize>,
    /// The routers that speak MEADcast, by name. `None`: all.
    pub support: Option<BTreeSet<String>>,
}

/// One way of serving one group of a use case.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub use_case: String,
    pub receivers_per_network: usize,
    pub receivers: usize,
    pub max: usize,
    /// The cost, relative to unicast.
    pub share: plan::Share,
}

/// The MTU in listing A.8 of the thesis: `-l $(1484 - 20 * 16 - 52)`.
const THESIS_MTU: usize = 1484;
const THESIS_HEADERS: usize = 52;

/// Compares all ways of grouping for a use case with this many receivers in each network.
///
/// # Errors
/// One line if the use case names something that the topology does not have.
pub fn plan(
    topology: &Topology,
    use_case: &UseCase,
    receivers_per_network: usize,
    options: &Options,
) -> Result<Vec<Row>, String> {
    let max = options.max.unwrap_or(use_case.max);
    Parameters { max, ..Parameters::default() }.check().map_err(|error| error.to_string())?;
    let payload_bytes = options.payload_bytes.unwrap_or_else(|| thesis_payload(max));
    if receivers_per_network == 0 || use_case.networks.is_empty() {
        return Err(format!(
            "{}: there is nobody to send to: name at least one receiver in a network",
            use_case.name
        ));
    }
    let groups = use_case.groups(receivers_per_network);
    // The first sender stands for all that send to each other.
    let group = groups.first().ok_or("there is nobody to send")?;
    let shares = plan::compare(&Ways::of(topology), group, options.support.as_ref(), (max, payload_bytes));
    let row = |share| Row {
        use_case: use_case.name.clone(),
        receivers_per_network,
        receivers: group.receivers.len(),
        max,
        share,
    };
    let shares = shares.map_err(|what| format!("{}: {what}", use_case.name))?;
    Ok(shares.into_iter().map(row).collect())
}

/// The group of a use case: the first host of the sender's network, and this many hosts of each other network.
pub fn group_of(use_case: &UseCase, receivers_per_network: usize) -> Group {
    let clients = 1..=receivers_per_network;
    let of_network = |network: &u16| {
        let network = *network;
        clients.clone().map(move |client| host(network, client))
    };
    let receivers = use_case.networks.iter().flat_map(of_network);
    Group { sender: host(use_case.sender, 1), receivers: receivers.collect() }
}

/// The name of a host of a testbed.
pub fn host(network: u16, client: usize) -> String {
    format!("c{network}-{client}")
}

/// The cost of one datagram with this many data bytes to a group, with packets of at most `max` addresses.
///
/// # Errors
/// One line if the group names something that the topology does not have.
pub fn cost(
    topology: &Topology,
    group: &Group,
    support: Option<&BTreeSet<String>>,
    max_and_data_bytes: (usize, usize),
    scheme: &Scheme,
) -> Result<Cost, String> {
    plan::cost(&Ways::of(topology), group, support, max_and_data_bytes, scheme)
}

/// The routers on the receivers' links.
///
/// # Errors
/// One line if the group names something that the topology does not have.
pub fn last_routers(topology: &Topology, group: &Group) -> Result<BTreeSet<String>, String> {
    plan::last_routers(&Ways::of(topology), group)
}

/// The data bytes in a datagram that leave room for this many addresses, as in the thesis (listing A.8).
pub fn thesis_payload(max: usize) -> usize {
    THESIS_MTU.saturating_sub(16 * max + THESIS_HEADERS)
}

/// Formats the rows as a table. Below the rows of each use case stand the thesis' figures for it.
pub fn table(rows: &[Row], use_cases: &[UseCase]) -> Table {
    let columns = [
        "<USE CASE",
        "A NET",
        "RECEIVERS",
        "MAX",
        "<DELIVERY",
        "PACKETS",
        "UNICAST",
        "NETWORK %",
        "SENDER %",
    ];
    let mut table = Table::new("Bytes of one datagram to everybody, of those that unicast takes", &columns);
    for row in rows {
        let share = |share: f64| format!("{:.2}", share * 100.0);
        let cells = [
            row.use_case.clone(),
            row.receivers_per_network.to_string(),
            row.receivers.to_string(),
            row.max.to_string(),
            row.share.delivery.clone(),
            row.share.packets.to_string(),
            row.share.unicast.to_string(),
            share(row.share.network_share),
            share(row.share.sender_share),
        ];
        table.rows.push(cells.into_iter().map(Into::into).collect());
    }
    for UseCase { name, reduction, .. } in use_cases {
        if let Some(Reduction { network, sender }) = reduction {
            let (network, sender) = (100.0 - network, 100.0 - sender);
            let note = format!(
                "{name} in the thesis, measured, 5 a network: {network:.2} % of the network's bytes, {sender:.2} % of the sender's."
            );
            table.notes.push(note);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn testbed() -> Topology {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/meadcast/testbed.json");
        Topology::parse(&format!("testbed:{path}")).expect("the testbed")
    }

    fn use_case(name: &str) -> UseCase {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/meadcast/participants.toml");
        let participants = Participants::read(std::path::Path::new(path)).expect("the participants");
        participants.use_cases.into_iter().find(|found| found.name == name).expect("the use case")
    }

    fn rows(name: &str, options: &Options) -> BTreeMap<String, Row> {
        let rows = plan(&testbed(), &use_case(name), 5, options).expect("a plan");
        rows.into_iter().map(|row| (row.share.delivery.clone(), row)).collect()
    }

    const ALL: Options = Options { max: None, payload_bytes: None, support: None };

    /// The shares of traffic that the testbed allows at all.
    #[test]
    fn uc2_keeps_to_what_the_thesis_measured_and_the_revision_to_less() {
        let rows = rows("uc2", &ALL);
        assert_eq!(rows["thesis"].receivers, 45);
        assert!(rows["thesis"].share.network_share <= 0.286 && rows["thesis"].share.sender_share <= 0.137);
        assert!(rows["cost, don't replicate"].share.network_share <= 0.25);
        assert!(rows["cost, designated routers"].share.network_share <= 0.12);
        assert!(
            rows["IP multicast (the floor)"].share.network_share
                < rows["cost, designated routers"].share.network_share
        );
    }

    /// The share of the network's and of the sender's bytes that the thesis' algorithm saves, in per cent, with lists
    /// of 10 (`ok` 8).
    fn saved(name: &str, receivers: usize, merge: u8, support: Option<&BTreeSet<String>>) -> [f64; 2] {
        let (testbed, group) = (testbed(), group_of(&use_case(name), receivers));
        let parameters = Parameters { max: 10, ok: 8, merge, ..Parameters::default() };
        let mead = Scheme::Mead { grouping: Some(parameters), dont_replicate: false, designated: false };
        let cost = |support, way| {
            cost(&testbed, &group, support, (10, thesis_payload(10)), &way).expect("a group of the testbed")
        };
        let (ours, unicast) = (cost(support, mead), cost(None, Scheme::Unicast));
        let part = |one: u64, all: u64| 100.0 - 100.0 * one as f64 / all as f64;
        [part(ours.network_bytes, unicast.network_bytes), part(ours.sender_bytes, unicast.sender_bytes)]
    }

    fn assert_near(ours: [f64; 2], thesis: [f64; 2], most: f64) {
        let is_near = ours.iter().zip(thesis).all(|(ours, thesis)| (ours - thesis).abs() <= most);
        assert!(is_near, "{ours:?} is not what the thesis measured, {thesis:?}");
    }

    /// The expected values are those that the thesis measured of single configurations; tables 5.1 to 5.3 are means
    /// of such.
    #[test]
    fn the_algorithm_saves_what_tables_b1_and_b2_say() {
        let core: BTreeSet<String> = ["r1", "r2", "r3", "r4"].map(String::from).into();
        assert_near(saved("uc2", 1, 0, None), [29.46, 75.62], 0.7);
        assert_near(saved("uc2", 1, 1, None), [46.82, 76.59], 0.7);
        assert_near(saved("uc2", 1, 0, Some(&core)), [50.05, 87.31], 0.7);
        // "100%", one to four receivers in a network: with five the thesis' testbed was at its limit.
        let of_uc1 = [[19.15, 76.19], [51.29, 80.36], [62.02, 79.57], [65.85, 84.09]];
        for (receivers, thesis) in (1..).zip(of_uc1) {
            assert_near(saved("uc1", receivers, 0, None), thesis, if receivers == 3 { 2.1 } else { 0.4 });
        }
    }

    #[test]
    fn grouping_by_cost_takes_no_more_than_any_of_the_thesis() {
        for name in ["uc1", "uc2", "uc4"] {
            let rows = rows(name, &ALL);
            for revision in ["", ", don't replicate", ", designated routers"] {
                let cost = rows[&format!("cost{revision}")].share.network_share;
                assert!(cost <= rows[&format!("thesis{revision}")].share.network_share, "{name}{revision}");
            }
        }
    }

    #[test]
    fn without_any_router_everybody_gets_unicast() {
        let rows = rows("uc2", &Options { support: Some(BTreeSet::new()), ..ALL });
        assert_eq!((rows["cost"].share.unicast, rows["cost"].share.network_share), (45, 1.0));
    }

    #[test]
    fn xcast_parts_where_routers_know_it_and_is_lost_where_they_do_not() {
        let (testbed, group) = (testbed(), group_of(&use_case("uc2"), 5));
        let cost = |support: Option<&BTreeSet<String>>, max, way| {
            cost(&testbed, &group, support, (max, 1000), &way).expect("a group of the testbed")
        };
        let [unicast, multicast, all, plus] =
            [Scheme::Unicast, Scheme::Multicast, Scheme::Xcast, Scheme::XcastPlus]
                .map(|way| cost(None, 23, way).network_bytes);
        assert!(multicast < plus && plus < all && all < unicast);
        assert_eq!(last_routers(&testbed, &group).expect("routers").len(), 6);
        // 45 receivers in two lists, and the six routers of their nine networks in one.
        assert_eq!(cost(None, 23, Scheme::Xcast).sender_bytes, 2 * (1048 + 32) + 45 * 16);
        assert_eq!(cost(None, 23, Scheme::XcastPlus).sender_bytes, 1048 + 32 + 6 * 16);
        // Only the first of each list is reached.
        let nowhere = BTreeSet::new();
        let alone = cost(Some(&nowhere), 23, Scheme::Xcast);
        assert!(
            alone.network_bytes < all && alone.sender_bytes == cost(None, 23, Scheme::Xcast).sender_bytes
        );
    }

    #[test]
    fn what_the_topology_has_not_is_named() {
        let wrong = UseCase { sender: 99, ..use_case("uc1") };
        let error = plan(&testbed(), &wrong, 5, &ALL).expect_err("no such network");
        assert_eq!(error, "uc1: the network has no node c99-1");
        let refused = |count| plan(&testbed(), &use_case("uc1"), count, &ALL).is_err();
        assert!(refused(6) && refused(0));
    }
}
