//! Packets for several receivers in MEADcast: their address lists of routers and receivers, and the header that
//! carries one.

use std::{collections::BTreeMap, net::Ipv6Addr};

use treecast_wire::{
    ipv6::next_header,
    list_proof::OPTION_LEN,
    mead::{FIXED_LEN, Header, Options},
};

use super::{
    cost::Model,
    grouping::{AddressList, Grouping},
    tree::Tree,
};
use crate::explicit::{
    list_proof::{self, Listed},
    lists::{Form, List, TransmissionGroup},
};

const ADDRESS_LEN: usize = 16;

/// The length in bytes of the option that names a group, without padding (`wire::mead::Options`).
const GROUP_OPTION_LEN: usize = 19;
/// The length in bytes of the option with ports besides them.
const PORTS_OPTION_LEN: usize = 3;

impl TransmissionGroup {
    pub(super) fn new(tree: &Tree, grouping: &Grouping, ports: &BTreeMap<Ipv6Addr, u16>) -> Self {
        let lists = grouping.lists.iter().flat_map(|list| List::of_group(tree, list)).collect();
        let (unicast, ports) = (grouping.unicast.clone(), ports.clone());
        Self { lists, unicast, ports, ..Self::default() }
    }
}

impl List {
    fn new(tree: &Tree, list: &AddressList) -> Self {
        let (mut entries, mut designated) = (Vec::new(), Vec::new());
        for entry in &list.entries {
            let by_group = |receiver: &&Ipv6Addr| entry.is_designated(tree, **receiver);
            let (of_group, listed): (Vec<_>, Vec<_>) = entry.receivers.iter().partition(by_group);
            for (receivers, to) in [(listed, &mut entries), (of_group, &mut designated)] {
                if !receivers.is_empty() {
                    to.push((entry.router, receivers));
                }
            }
        }
        Self { entries, designated, dont_replicate: list.dont_replicate(tree) }
    }

    /// The lists of a group: two where a router serves some receivers by unicast and others by multicast, for no address may
    /// stand in a list twice.
    fn of_group(tree: &Tree, list: &AddressList) -> Vec<Self> {
        let Self { entries, designated, dont_replicate } = Self::new(tree, list);
        let is_listed = |(router, _): &(Ipv6Addr, _)| entries.iter().any(|(other, _)| other == router);
        let (second, designated): (Vec<_>, Vec<_>) = designated.into_iter().partition(is_listed);
        let second = Self { entries: Vec::new(), designated: second, dont_replicate };
        let first = Self { entries, designated, dont_replicate };
        [first, second].into_iter().filter(|list| list.len() > 0).collect()
    }
}

/// Bytes of the headers for so many addresses.
pub(in crate::explicit) fn header_len(form: &Form, addresses: usize) -> usize {
    let ports = if form.has_ports { PORTS_OPTION_LEN + 2 * addresses } else { 0 };
    let group = if form.group.is_some() { GROUP_OPTION_LEN } else { 0 };
    let proof = if form.key.is_some() { OPTION_LEN } else { 0 };
    let options = ports + group + proof;
    let options = if options > 0 { (2 + options).next_multiple_of(8) } else { 0 };
    FIXED_LEN + ADDRESS_LEN * addresses + options
}

/// The routing header for a list, and the options behind it. None, when it names what no header may.
pub(in crate::explicit) fn header(
    form: &Form,
    list: &List,
    ports_of: &BTreeMap<Ipv6Addr, u16>,
    upper_layer: u8,
    epoch: u64,
) -> Option<Vec<u8>> {
    let designated = list.designated.iter().map(|(router, _)| (*router, Vec::new()));
    let entries: Vec<_> = list.entries.iter().cloned().chain(designated).collect();
    let mut header = Header::data(upper_layer, &entries).ok()?;
    header.dont_replicate = if form.dont_replicate { list.dont_replicate } else { 0 };
    let port = |address| ports_of.get(address).copied().unwrap_or(0);
    // A router's place has the port of the group.
    let listed = header.addresses[..header.addresses.len() - list.designated.len()].iter().map(port);
    let ports = listed.chain(list.designated.iter().map(|(_, receivers)| port(&receivers[0])));
    let ports = form.has_ports.then(|| ports.collect());
    let group = form.group.filter(|_| !list.designated.is_empty());
    let listed = Listed {
        kind: list_proof::Kind::Mead,
        source: form.source,
        group: group.unwrap_or(Ipv6Addr::UNSPECIFIED),
        routers: header.routers,
        addresses: &header.addresses,
    };
    let list_proof = form.key.map(|key| key.prove(epoch, &listed));
    let options = Options { ports, group, list_proof, ..Options::default() }.to_bytes(upper_layer);
    if !options.is_empty() {
        header.next_header = next_header::DESTINATION_OPTIONS;
    }
    let mut bytes = header.to_bytes(form.dialect);
    bytes.extend_from_slice(&options);
    Some(bytes)
}

/// Returns the settings by which the cost of a grouping is computed for packets of this size.
pub fn model(form: &Form, payload_bytes: usize) -> Model {
    Model { payload_bytes, dont_replicate: form.dont_replicate, designated: form.group.is_some() }
}
