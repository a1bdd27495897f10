//! Grouping by what it costs: the bytes on all links, as far as the sender knows them.
//!
//! Between two MEADcast routers, and between the last one and its receivers, the sender counts one link: what else is on the
//! way it cannot see. A packet goes whole to where its ways part (without the don't-replicate counter of 5.2.4: to the first
//! router, which makes a copy for each router named), each copy keeps the whole list, and unicast goes on from the routers.
//!
//! [`group`] goes from the leaves up. At each router it joins, of all lists that have come up, the two that save most, until
//! none saves anything: side by side, or at the nearest router that they share. The result is compared with the thesis'
//! grouping, and the cheaper one is taken. It is a heuristic: to find the best is bin packing.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv6Addr,
};

use treecast_wire::{ipv6, mead::FIXED_LEN};

use super::{
    grouping::{self, AddressList, Entry, Grouping, Parameters},
    tree::Tree,
};

const ADDRESS_LEN: usize = 16;

/// The options that carry the group of designated routers (`wire::mead::Options`).
const GROUP_OPTION_LEN: usize = 24;

/// The number of lists that are compared with each other at once. Where more meet, each lot is compared for
/// itself.
const LOT: usize = 48;

/// The settings that decide what a packet costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Model {
    /// The number of bytes that follow the IPv6 header of a packet to a single receiver: the UDP header and
    /// its data.
    pub payload_bytes: usize,
    /// Whether routers heed the don't-replicate counter.
    pub dont_replicate: bool,
    /// Whether routers serve receivers by a group where they have offered it. Packets do not list those
    /// receivers then.
    pub designated: bool,
}

impl Model {
    /// Returns how many addresses the packet of a list names.
    pub fn addresses(&self, tree: &Tree, list: &AddressList) -> usize {
        let addresses =
            |entry: &Entry| match (self.has_designated(tree, entry), self.listed(tree, entry).count()) {
                (is_designated, 0) => usize::from(is_designated),
                (is_designated, listed) => usize::from(is_designated) + 1 + listed,
            };
        list.entries.iter().map(addresses).sum()
    }

    /// Whether the router of an entry serves a receiver by the group.
    pub fn is_designated(&self, tree: &Tree, entry: &Entry, receiver: Ipv6Addr) -> bool {
        self.designated && entry.is_designated(tree, receiver)
    }

    fn has_designated(&self, tree: &Tree, entry: &Entry) -> bool {
        entry.receivers.iter().any(|receiver| self.is_designated(tree, entry, *receiver))
    }

    /// The receivers that stand in the packet.
    fn listed<'a>(&'a self, tree: &'a Tree, entry: &'a Entry) -> impl Iterator<Item = Ipv6Addr> + 'a {
        entry.receivers.iter().copied().filter(|receiver| !self.is_designated(tree, entry, *receiver))
    }

    /// Returns how many bytes one packet to every receiver puts on all links together.
    pub fn total_bytes(&self, tree: &Tree, grouping: &Grouping) -> u64 {
        let lists = grouping.lists.iter().map(|list| self.list_bytes(tree, list));
        lists.chain([self.unicast_bytes(tree, grouping.unicast.iter().copied())]).sum()
    }

    /// Returns how many bytes leave the sender for one packet to every receiver.
    pub fn sender_bytes(&self, tree: &Tree, grouping: &Grouping) -> u64 {
        let lists = grouping.lists.iter().map(|list| self.packet_bytes(tree, list));
        lists.sum::<u64>() + grouping.unicast.len() as u64 * self.single_bytes()
    }

    fn single_bytes(&self) -> u64 {
        (ipv6::HEADER_LEN + self.payload_bytes) as u64
    }

    fn packet_bytes(&self, tree: &Tree, list: &AddressList) -> u64 {
        let has_group = list.entries.iter().any(|entry| self.has_designated(tree, entry));
        let options = if has_group { GROUP_OPTION_LEN } else { 0 };
        let header = FIXED_LEN + ADDRESS_LEN * self.addresses(tree, list) + options;
        self.single_bytes() + header as u64
    }

    fn unicast_bytes(&self, tree: &Tree, receivers: impl Iterator<Item = Ipv6Addr>) -> u64 {
        let links = receivers.map(|receiver| u64::from(tree.node(tree.last_router(receiver)).hops) + 1);
        links.sum::<u64>() * self.single_bytes()
    }

    fn list_bytes(&self, tree: &Tree, list: &AddressList) -> u64 {
        let branching = list.branching(tree);
        let parts_at = match self.dont_replicate {
            true => branching,
            false => {
                tree.ancestors(branching).take_while(|node| *node != Tree::ROOT).last().unwrap_or(Tree::ROOT)
            }
        };
        let parts_at = u64::from(tree.node(parts_at).hops);
        let copies = list.entries.iter().map(|entry| u64::from(tree.node(entry.node).hops) - parts_at);
        let in_lists = self.packet_bytes(tree, list) * (parts_at + copies.sum::<u64>());
        in_lists + list.entries.iter().map(|entry| self.behind_bytes(tree, entry)).sum::<u64>()
    }

    /// The number of bytes on the links from an entry's router to its receivers.
    fn behind_bytes(&self, tree: &Tree, entry: &Entry) -> u64 {
        let hops = |node: usize| u64::from(tree.node(node).hops);
        let links = |receiver| hops(tree.last_router(receiver)).saturating_sub(hops(entry.node)) + 1;
        let designated = u64::from(self.has_designated(tree, entry));
        self.single_bytes() * (designated + self.listed(tree, entry).map(links).sum::<u64>())
    }
}

/// Groups the receivers so that few bytes are on all links together. Of `parameters`, which the caller has
/// checked, only `max` counts here. The other parameters belong to the thesis' algorithm, with whose result
/// this one is compared.
pub fn group(tree: &Tree, parameters: &Parameters, model: &Model) -> Grouping {
    let mut search = Search { tree, model, max: parameters.max, reached: BTreeMap::new() };
    // Nodes stand behind their parents, so this goes from the leaves up.
    for node in (1..tree.nodes().len()).rev() {
        search.join_at(node);
    }
    let unicast = tree.node(Tree::ROOT).leaves.clone();
    let mut found = Grouping { lists: Vec::new(), unicast };
    for bundle in search.reached.remove(&Tree::ROOT).unwrap_or_default() {
        match bundle.is_unicast {
            true => found.unicast.extend(bundle.list.receivers()),
            false => found.lists.push(bundle.list),
        }
    }
    let found = grouping::finish(found);
    let by_thesis = grouping::group(tree, parameters);
    let cost = |grouping: &Grouping| model.total_bytes(tree, grouping);
    if cost(&found) <= cost(&by_thesis) { found } else { by_thesis }
}

/// Receivers that are served together so far.
#[derive(Clone)]
struct Bundle {
    list: AddressList,
    /// Bytes on all links: as a list or by unicast, whichever is less.
    bytes: u64,
    is_unicast: bool,
}

struct Search<'a> {
    tree: &'a Tree,
    model: &'a Model,
    max: usize,
    /// The bundles that have come up to each node from those behind it.
    reached: BTreeMap<usize, Vec<Bundle>>,
}

impl Search<'_> {
    fn join_at(&mut self, node: usize) {
        let mut bundles = self.of_leaves(node);
        bundles.append(&mut self.reached.remove(&node).unwrap_or_default());
        let joined: Vec<_> = bundles.chunks(LOT).flat_map(|lot| self.join(lot)).collect();
        let parent = self.tree.node(node).parent.unwrap_or(Tree::ROOT);
        self.reached.entry(parent).or_default().extend(joined);
    }

    /// The receivers directly behind a router.
    fn of_leaves(&self, node: usize) -> Vec<Bundle> {
        let leaves = self.tree.node(node).leaves.iter().copied();
        let router = self.tree.node(node).address;
        let is_designated = |receiver: &Ipv6Addr| self.model.designated && self.tree.is_designated(*receiver);
        let (designated, listed): (Vec<_>, Vec<_>) = leaves.partition(is_designated);
        let lots = listed.chunks(self.max - 1).chain([&designated[..]]).filter(|lot| !lot.is_empty());
        lots.map(|lot| self.bundle(vec![Entry { node, router, receivers: lot.to_vec() }])).collect()
    }

    fn bundle(&self, entries: Vec<Entry>) -> Bundle {
        let list = AddressList { entries };
        let as_list = self.model.list_bytes(self.tree, &list);
        let as_unicast = self.model.unicast_bytes(self.tree, list.receivers());
        Bundle { bytes: as_list.min(as_unicast), is_unicast: as_unicast <= as_list, list }
    }

    /// Joins those that save most, until nothing is saved.
    fn join(&self, lot: &[Bundle]) -> Vec<Bundle> {
        let mut bundles: BTreeMap<usize, Bundle> = lot.iter().cloned().enumerate().collect();
        let mut pairs: BTreeMap<(usize, usize), (u64, Bundle)> = BTreeMap::new();
        let indices: Vec<_> = bundles.keys().copied().collect();
        for one in &indices {
            pairs.extend(self.pairs_with(&bundles, *one, |other| other > *one));
        }
        for next in lot.len().. {
            let best = pairs.iter().max_by_key(|(pair, (saved, _))| (*saved, std::cmp::Reverse(**pair)));
            let Some(((one, other), _)) = best.map(|(pair, found)| (*pair, found)) else { break };
            let (_, joined) = pairs.remove(&(one, other)).expect("it was found there");
            pairs.retain(|pair, _| ![pair.0, pair.1].iter().any(|index| [one, other].contains(index)));
            bundles.retain(|index, _| ![one, other].contains(index));
            bundles.insert(next, joined);
            pairs.extend(self.pairs_with(&bundles, next, |other| other != next));
        }
        bundles.into_values().collect()
    }

    /// The savings by joining `one` with each of those chosen.
    fn pairs_with(
        &self,
        bundles: &BTreeMap<usize, Bundle>,
        one: usize,
        is_chosen: impl Fn(usize) -> bool,
    ) -> Vec<((usize, usize), (u64, Bundle))> {
        let others = bundles.iter().filter(|(index, _)| is_chosen(**index));
        let saving = |(index, other): (&usize, &Bundle)| {
            let before = bundles[&one].bytes + other.bytes;
            let joined = self.joined(&bundles[&one], other)?;
            let saved = before.checked_sub(joined.bytes).filter(|saved| *saved > 0)?;
            Some(((one.min(*index), one.max(*index)), (saved, joined)))
        };
        others.filter_map(saving).collect()
    }

    /// Both in one list; routers give way to one that they share while that is cheaper, or needed for all to fit.
    fn joined(&self, one: &Bundle, other: &Bundle) -> Option<Bundle> {
        if self.least_addresses(one) + self.least_addresses(other) > self.max + 1 {
            return None;
        }
        let entries = one.list.entries.iter().chain(&other.list.entries).cloned();
        let mut joined = self.bundle(side_by_side(entries));
        loop {
            let fits = self.model.addresses(self.tree, &joined.list) <= self.max;
            let lifted = self.lifts(&joined.list).min_by_key(|lifted| lifted.bytes);
            match lifted.filter(|lifted| !fits || lifted.bytes < joined.bytes) {
                Some(lifted) => joined = lifted,
                None => return fits.then_some(joined),
            }
        }
    }

    /// Behind whichever router: those whom none serves by a group, and one router.
    fn least_addresses(&self, bundle: &Bundle) -> usize {
        let is_listed = |receiver: &Ipv6Addr| !(self.model.designated && self.tree.is_designated(*receiver));
        1 + bundle.list.receivers().filter(is_listed).count()
    }

    /// The list with two of its routers replaced by the nearest that they share, for each two.
    fn lifts(&self, list: &AddressList) -> impl Iterator<Item = Bundle> {
        let count = list.entries.len();
        let pairs = (0..count).flat_map(move |one| (one + 1..count).map(move |other| (one, other)));
        pairs.filter_map(move |(one, other)| {
            let entries = &list.entries;
            let node = self.tree.common_ancestor(entries[one].node, entries[other].node);
            let router = self.tree.node(node).address;
            let receivers = [&entries[one].receivers[..], &entries[other].receivers].concat();
            let is_on_all_ways = receivers.iter().all(|receiver| self.tree.is_on_way(router, *receiver));
            let rest = entries.iter().enumerate().filter(|(index, _)| ![one, other].contains(index));
            let rest = rest.map(|(_, entry)| entry.clone());
            (node != Tree::ROOT && is_on_all_ways)
                .then(|| self.bundle(side_by_side(rest.chain([Entry { node, router, receivers }]))))
        })
    }
}

/// Each router once.
fn side_by_side(entries: impl Iterator<Item = Entry>) -> Vec<Entry> {
    let mut by_node: BTreeMap<usize, (Ipv6Addr, BTreeSet<Ipv6Addr>)> = BTreeMap::new();
    for Entry { node, router, receivers } in entries {
        by_node.entry(node).or_insert((router, BTreeSet::new())).1.extend(receivers);
    }
    let entry = |(node, (router, receivers)): (usize, (Ipv6Addr, BTreeSet<Ipv6Addr>))| Entry {
        node,
        router,
        receivers: receivers.into_iter().collect(),
    };
    by_node.into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::{
            grouping::tests::check,
            tree::{
                Answers,
                tests::{SENDER, e, r, tree_of},
            },
        },
        *,
    };

    const MODEL: Model = Model { payload_bytes: 1008, dont_replicate: true, designated: false };

    /// Two access routers with three receivers each, three routers away from the sender.
    fn two_far_routers() -> Tree {
        let ways: [(u16, &[u16]); 6] = [
            (1, &[1, 2, 3]),
            (2, &[1, 2, 3]),
            (3, &[1, 2, 3]),
            (4, &[1, 2, 4]),
            (5, &[1, 2, 4]),
            (6, &[1, 2, 4]),
        ];
        tree_of(&ways)
    }

    /// The same, where some have joined a group.
    fn offered(receivers: &[u16]) -> Tree {
        let mut answers = Answers::new(SENDER, (1..=6).map(e));
        for (receiver, way) in two_far_routers().ways() {
            for (hops, router) in (1..).zip(way) {
                let has_joined = receivers.iter().any(|number| e(*number) == receiver);
                let add = if has_joined { Answers::add_offer } else { Answers::add };
                add(&mut answers, *router, receiver, hops).expect("it fits");
            }
        }
        Tree::new(&answers)
    }

    #[test]
    fn bytes_are_counted_by_hand() {
        let tree = two_far_routers();
        let unicast = Grouping { lists: Vec::new(), unicast: (1..=6).map(e).collect() };
        assert_eq!(MODEL.total_bytes(&tree, &unicast), 6 * 4 * 1048);
        assert_eq!(MODEL.sender_bytes(&tree, &unicast), 6 * 1048);
        let grouping = grouping::group(&tree, &Parameters::default());
        let packet = 1048 + 16 + 8 * 16;
        assert_eq!(MODEL.sender_bytes(&tree, &grouping), packet);
        assert_eq!(MODEL.total_bytes(&tree, &grouping), packet * (2 + 1 + 1) + 6 * 1048);
        let first_replicates = Model { dont_replicate: false, ..MODEL };
        assert_eq!(first_replicates.total_bytes(&tree, &grouping), packet * (1 + 2 + 2) + 6 * 1048);
        let designated = Model { designated: true, ..MODEL };
        assert_eq!(
            designated.total_bytes(&tree, &grouping),
            MODEL.total_bytes(&tree, &grouping),
            "no offers"
        );
        let all = offered(&[1, 2, 3, 4, 5, 6]);
        let packet = 1048 + 16 + 2 * 16 + 24;
        assert_eq!(designated.total_bytes(&all, &grouping), packet * 4 + 2 * 1048);
        let some = offered(&[1, 2, 4, 5, 6]);
        let packet = 1048 + 16 + 4 * 16 + 24;
        assert_eq!(
            designated.total_bytes(&some, &grouping),
            packet * 4 + 3 * 1048,
            "R3 alone, R3 with E3, R4"
        );
        let found = group(&some, &Parameters::default(), &designated);
        assert_eq!(found.lists.iter().map(|list| designated.addresses(&some, list)).sum::<usize>(), 4);
    }

    #[test]
    fn large_payloads_are_replicated_late_and_small_ones_leave_routers_out() {
        let tree = two_far_routers();
        let routers = |payload_bytes, max| {
            let model = Model { payload_bytes, ..MODEL };
            let grouping = group(&tree, &Parameters { max, ..Parameters::default() }, &model);
            assert!(grouping.unicast.is_empty());
            let lists = grouping.lists.iter();
            lists.map(|list| list.entries.iter().map(|entry| entry.router).collect()).collect::<Vec<Vec<_>>>()
        };
        assert_eq!(routers(1008, 32), [[r(3), r(4)]]);
        assert_eq!(routers(1008, 7), [[r(4)], [r(3)]], "both have no room");
        assert_eq!(routers(8, 32), [[r(2)]]);
    }

    #[test]
    fn a_receiver_alone_gets_unicast() {
        let grouping = group(&tree_of(&[(1, &[1, 2])]), &Parameters::default(), &MODEL);
        assert_eq!(grouping, Grouping { lists: Vec::new(), unicast: vec![e(1)] });
    }

    /// The cheapest of all ways to put a few receivers into lists and behind routers on their ways.
    fn cheapest(tree: &Tree, max: usize, model: &Model) -> u64 {
        fn place(
            tree: &Tree,
            max: usize,
            model: &Model,
            left: &[(Ipv6Addr, &[Ipv6Addr])],
            lists: &mut Vec<Vec<Entry>>,
            unicast: &mut Vec<Ipv6Addr>,
        ) -> u64 {
            let Some(((receiver, way), left)) = left.split_first() else {
                let lists = lists
                    .iter()
                    .map(|entries| AddressList { entries: side_by_side(entries.iter().cloned()) });
                let lists: Vec<_> = lists.collect();
                let fits = |list: &AddressList| {
                    model.addresses(tree, list) <= max && list.branching(tree) != Tree::ROOT
                };
                let is_good = lists.iter().all(fits);
                let grouping = Grouping { lists, unicast: unicast.clone() };
                return if is_good { model.total_bytes(tree, &grouping) } else { u64::MAX };
            };
            unicast.push(*receiver);
            let mut best = place(tree, max, model, left, lists, unicast);
            unicast.pop();
            for router in *way {
                let node = tree.nodes().iter().position(|node| node.address == *router).expect("it is there");
                let entry = Entry { node, router: *router, receivers: vec![*receiver] };
                for at in 0..=lists.len() {
                    if at == lists.len() {
                        lists.push(Vec::new())
                    }
                    lists[at].push(entry.clone());
                    best = best.min(place(tree, max, model, left, lists, unicast));
                    lists[at].pop();
                    if lists[at].is_empty() {
                        lists.pop();
                    }
                }
            }
            best
        }
        let ways: Vec<_> = tree.ways().collect();
        place(tree, max, model, &ways, &mut Vec::new(), &mut Vec::new())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Against all groupings of small trees, and against the thesis' grouping of larger ones.
        #[test]
        fn it_is_near_the_cheapest_and_never_worse_than_the_thesis(
            ways in prop::collection::vec((0u16..2, 0u16..2, 0u16..2, any::<bool>()), 4),
            answered in prop::collection::vec((0u16..12, 0u16..40, 1u8..6), 0..200),
            max in 3usize..=12, dont_replicate in any::<bool>(), designated in any::<bool>(),
            payload_bytes in 20usize..1400,
        ) {
            let model = Model { payload_bytes, dont_replicate, designated };
            let parameters = Parameters { max, ..Parameters::default() };
            let mut answers = Answers::new(SENDER, (0..4).map(e));
            for (receiver, (one, two, three, has_joined)) in (0..).zip(&ways) {
                let way = [*one, 2 + 2 * one + two, 8 + 4 * one + 2 * two + three];
                for (hops, router) in (1..).zip(way) {
                    let add = if *has_joined { Answers::add_offer } else { Answers::add };
                    add(&mut answers, r(router), e(receiver), hops).expect("it fits");
                }
            }
            let tree = Tree::new(&answers);
            let found = group(&tree, &parameters, &model);
            let (ours, best) = (model.total_bytes(&tree, &found), cheapest(&tree, max, &model));
            prop_assert!(ours >= best && ours as f64 <= 1.12 * best as f64, "{} of {}", ours, best);

            let mut answers = Answers::new(SENDER, (0..40).map(e));
            for (router, receiver, hops) in answered {
                // Contradictions are part of it.
                let _ = answers.add(r(router), e(receiver), hops);
            }
            let tree = Tree::new(&answers);
            let found = group(&tree, &parameters, &model);
            if !designated { check(&tree, &found, max)?; }
            let by_thesis = grouping::group(&tree, &parameters);
            prop_assert!(model.total_bytes(&tree, &found) <= model.total_bytes(&tree, &by_thesis));
        }
    }
}
