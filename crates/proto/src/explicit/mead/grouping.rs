//! The choice of receivers that share a packet: the grouping of meadcast-thesis-2024, 4.3.2.
//!
//! It follows examples 1 to 5. Algorithm 1, as printed, cannot be followed where it says otherwise: a router that
//! does not fit sends it back to the same router for ever (lines 9 and 10), and nothing is ever merged. The examples
//! leave open, and here it is so:
//! - The search takes children by address, not in the order in which they were discovered.
//! - `min_leaves` and `min_routers`: one that is not given is not asked about (example 5 gives one); with both, a
//!   router must have fewer than either says, as listing A.3 has it.
//! - Merging takes the nearest common router, which need not have receivers of its own; the range is counted from it
//!   to each router whose receivers it takes. Receivers on whose way it did not answer are not merged.
//! - A list with one receiver only is none: unicast to it is shorter.

use std::net::Ipv6Addr;

use thiserror::Error;
use treecast_wire::mead::MAX_ADDRESSES;

use super::tree::Tree;

/// The sender's parameters, with the names of listing A.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameters {
    /// The most addresses in a list, routers included: 2 to 32.
    pub max: usize,
    /// The number of addresses from which on a list is not filled any further.
    pub ok: usize,
    /// The most hops between a router and another one whose receivers it takes over. 0: no router takes over
    /// receivers.
    pub merge: u8,
    /// The receivers of a router that has fewer receivers than this get unicast.
    pub min_leaves: Option<usize>,
    /// The receivers of a router that has fewer routers than this behind it get unicast.
    pub min_routers: Option<usize>,
    /// Whether the receivers of one router may be spread over several lists to fill them. Receivers that do not
    /// fit into one list are spread in any case.
    pub split: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            max: MAX_ADDRESSES,
            ok: MAX_ADDRESSES,
            merge: 0,
            min_leaves: None,
            min_routers: None,
            split: false,
        }
    }
}

/// The error that a list cannot hold this number of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "a packet can have 2 addresses (a router and a receiver) to 32 (its maps have no more bits), and not {0}"
)]
pub struct NoMax(pub usize);

impl Parameters {
    /// Checks the parameters.
    ///
    /// # Errors
    /// When `max` is a number of addresses that no list can hold.
    pub fn check(&self) -> Result<(), NoMax> {
        if (2..=MAX_ADDRESSES).contains(&self.max) { Ok(()) } else { Err(NoMax(self.max)) }
    }
}

/// A router in an address list, and the receivers that it serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The index of the router's node in the tree.
    pub node: usize,
    /// The address of the router.
    pub router: Ipv6Addr,
    /// The receivers that the list names behind this router.
    pub receivers: Vec<Ipv6Addr>,
}

impl Entry {
    /// Whether this router serves a receiver by a group, as it has offered.
    pub fn is_designated(&self, tree: &Tree, receiver: Ipv6Addr) -> bool {
        tree.is_designated(receiver) && tree.last_router(receiver) == self.node
    }
}

/// The routers and receivers that the header of one packet names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AddressList {
    /// The routers and their receivers, in the order in which the header names them.
    pub entries: Vec<Entry>,
}

/// The result of grouping: which receivers share a packet and which get unicast.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grouping {
    /// The address lists. Each becomes one packet.
    pub lists: Vec<AddressList>,
    /// The receivers that are served by unicast, sorted by address.
    pub unicast: Vec<Ipv6Addr>,
}

impl AddressList {
    /// Returns how many addresses the list names, routers and receivers together.
    pub fn len(&self) -> usize {
        self.entries.iter().map(|entry| 1 + entry.receivers.len()).sum()
    }

    /// Whether the list names no address.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Iterates over all receivers of the list, in their order.
    pub fn receivers(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.entries.iter().flat_map(|entry| entry.receivers.iter().copied())
    }

    /// Returns the node up to which one copy is enough: the last node that is on the path to every router of
    /// the list.
    pub fn branching(&self, tree: &Tree) -> usize {
        let nodes = self.entries.iter().map(|entry| entry.node);
        nodes.reduce(|one, other| tree.common_ancestor(one, other)).unwrap_or(Tree::ROOT)
    }

    /// Returns how many routers shall pass the packet on whole (5.2.4): those before the node where the paths
    /// part.
    pub fn dont_replicate(&self, tree: &Tree) -> u8 {
        tree.node(self.branching(tree)).hops.saturating_sub(1)
    }
}

/// Groups the receivers of a tree by the algorithm of the thesis. The caller has checked `parameters`.
pub fn group(tree: &Tree, parameters: &Parameters) -> Grouping {
    let mut search = Search::new(tree, parameters);
    while let Some(start) = search.start(Tree::ROOT) {
        let list = search.fill(start);
        search.grouping.lists.push(list);
    }
    finish(search.grouping)
}

/// Turns lists with one receiver into unicast, and sorts that.
pub(super) fn finish(mut grouping: Grouping) -> Grouping {
    let (lists, single): (Vec<_>, Vec<_>) =
        std::mem::take(&mut grouping.lists).into_iter().partition(|list| list.receivers().count() > 1);
    grouping.lists = lists;
    grouping.unicast.extend(single.iter().flat_map(AddressList::receivers));
    grouping.unicast.sort_unstable();
    grouping
}

struct Search<'a> {
    tree: &'a Tree,
    parameters: &'a Parameters,
    /// Receivers of each node that are in no list yet.
    free: Vec<Vec<Ipv6Addr>>,
    /// The number of such receivers at each node and behind it.
    below: Vec<usize>,
    grouping: Grouping,
}

/// The outcome of grouping a router's receivers.
#[derive(PartialEq)]
enum Added {
    All,
    /// The list has no room for them, or not for all.
    Full,
}

impl<'a> Search<'a> {
    fn new(tree: &'a Tree, parameters: &'a Parameters) -> Self {
        let free = tree.nodes().iter().map(|node| node.leaves.clone()).collect::<Vec<_>>();
        let below = vec![0; free.len()];
        let mut search = Self { tree, parameters, free, below, grouping: Grouping::default() };
        search.remove_small();
        for index in 0..search.free.len() {
            let count = search.free[index].len();
            tree.ancestors(index).for_each(|ancestor| search.below[ancestor] += count);
        }
        search
    }

    /// Leaves to unicast what stands behind no router, or behind one that has too few behind it.
    fn remove_small(&mut self) {
        let Parameters { min_leaves, min_routers, .. } = *self.parameters;
        let limits = [min_leaves, min_routers];
        for (index, node) in self.tree.nodes().iter().enumerate() {
            let counts = [node.leaves.len(), node.children.len()];
            let is_below = |(limit, count): (&Option<usize>, usize)| limit.is_none_or(|limit| count < limit);
            let is_small = limits != [None; 2] && limits.iter().zip(counts).all(is_below);
            if index == Tree::ROOT || is_small {
                self.grouping.unicast.append(&mut self.free[index]);
            }
        }
    }

    /// The router whose list is begun next: depth first, routers before the one that they are behind.
    fn start(&self, from: usize) -> Option<usize> {
        if self.below[from] == 0 {
            return None;
        }
        let mut children = self.tree.node(from).children.iter();
        Some(children.find_map(|child| self.start(*child)).unwrap_or(from))
    }

    /// One list: from `start` on, down before up, and never beyond what is behind one neighbour of the sender.
    fn fill(&mut self, start: usize) -> AddressList {
        let mut list = AddressList::default();
        let mut at = start;
        loop {
            if !self.free[at].is_empty() && self.add(at, &mut list) == Added::Full || self.is_enough(&list) {
                return list;
            }
            let children = &self.tree.node(at).children;
            match children.iter().find(|child| self.below[**child] > 0) {
                Some(child) => at = *child,
                None => match self.tree.node(at).parent {
                    None | Some(Tree::ROOT) => return list,
                    Some(parent) => at = parent,
                },
            }
        }
    }

    /// One place alone takes no router with a receiver.
    fn is_enough(&self, list: &AddressList) -> bool {
        list.len() >= self.parameters.ok || list.len() + 1 >= self.parameters.max
    }

    fn add(&mut self, at: usize, list: &mut AddressList) -> Added {
        let room = self.parameters.max - list.len();
        let count = self.free[at].len();
        if let Some((entry, router)) = self.merging(at, list).filter(|_| count <= room) {
            let receivers = self.take(at, count);
            let entry = &mut list.entries[entry];
            (entry.node, entry.router) = (router, self.tree.node(router).address);
            entry.receivers.extend(receivers);
            return Added::All;
        }
        let fitting = match count < room {
            true => count,
            false if self.parameters.split || list.is_empty() => room.saturating_sub(1),
            false => return Added::Full,
        };
        if fitting > 0 {
            let (receivers, router) = (self.take(at, fitting), self.tree.node(at).address);
            list.entries.push(Entry { node: at, router, receivers });
        }
        if fitting == count { Added::All } else { Added::Full }
    }

    /// An entry that may take the receivers at a node as well, and the router that is to serve both.
    fn merging(&self, at: usize, list: &AddressList) -> Option<(usize, usize)> {
        let range = self.parameters.merge;
        let candidates = list.entries.iter().enumerate().rev();
        candidates.filter(|_| range > 0).find_map(|(index, entry)| {
            let router = self.tree.common_ancestor(entry.node, at);
            let address = self.tree.node(router).address;
            let all = || entry.receivers.iter().chain(&self.free[at]);
            let in_range = |receiver: &Ipv6Addr| {
                let way = self.tree.way(*receiver);
                let place = way.iter().position(|on_way| *on_way == address);
                place.is_some_and(|place| way.len() - 1 - place <= usize::from(range))
            };
            (router != Tree::ROOT && all().all(in_range)).then_some((index, router))
        })
    }

    fn take(&mut self, at: usize, count: usize) -> Vec<Ipv6Addr> {
        self.tree.ancestors(at).for_each(|ancestor| self.below[ancestor] -= count);
        self.free[at].drain(..count).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::{
        super::tree::{
            Answers,
            tests::{SENDER, e, r, tree_of},
        },
        *,
    };

    /// Figure 4.6: R1 with E4 and E5; behind it R2 with E1 to E3, and R3 with E6 to E8.
    fn figure_4_6() -> Tree {
        tree_of(&[
            (1, &[1, 2]),
            (2, &[1, 2]),
            (3, &[1, 2]),
            (4, &[1]),
            (5, &[1]),
            (6, &[1, 3]),
            (7, &[1, 3]),
            (8, &[1, 3]),
        ])
    }

    /// The lists as the thesis writes them, and then those who get unicast.
    fn written(parameters: Parameters) -> String {
        let grouping = group(&figure_4_6(), &parameters);
        let name = |address: Ipv6Addr| {
            let segments = address.segments();
            format!("{}{}", if segments[5] == 1 { 'R' } else { 'E' }, segments[7])
        };
        let list = |list: &AddressList| {
            let entries = list.entries.iter();
            let addresses =
                entries.flat_map(|entry| std::iter::once(entry.router).chain(entry.receivers.clone()));
            format!("{{{}}}", addresses.map(name).collect::<Vec<_>>().join(", "))
        };
        let mut lists = grouping.lists.iter().map(list).collect::<Vec<_>>();
        lists.extend(grouping.unicast.into_iter().map(name));
        lists.join(", ")
    }

    #[test]
    fn example_1() {
        let parameters = Parameters { max: 5, ..Parameters::default() };
        assert_eq!(written(parameters), "{R2, E1, E2, E3}, {R3, E6, E7, E8}, {R1, E4, E5}");
    }

    #[test]
    fn example_2() {
        let parameters = Parameters { max: 10, ..Parameters::default() };
        assert_eq!(written(parameters), "{R2, E1, E2, E3, R1, E4, E5}, {R3, E6, E7, E8}");
    }

    #[test]
    fn example_3() {
        let parameters = Parameters { max: 10, merge: 1, ..Parameters::default() };
        assert_eq!(written(parameters), "{R1, E1, E2, E3, E4, E5, E6, E7, E8}");
    }

    #[test]
    fn example_4() {
        let parameters = Parameters { max: 12, ok: 7, ..Parameters::default() };
        assert_eq!(written(parameters), "{R2, E1, E2, E3, R1, E4, E5}, {R3, E6, E7, E8}");
        let parameters = Parameters { ok: 12, ..parameters };
        assert_eq!(written(parameters), "{R2, E1, E2, E3, R1, E4, E5, R3, E6, E7, E8}");
    }

    #[test]
    fn example_5() {
        let parameters = Parameters { max: 10, min_leaves: Some(3), ..Parameters::default() };
        assert_eq!(written(parameters), "{R2, E1, E2, E3, R3, E6, E7, E8}, E4, E5");
        let with_routers = |min_routers| Parameters { min_routers: Some(min_routers), ..parameters };
        assert_eq!(written(with_routers(3)), "{R2, E1, E2, E3, R3, E6, E7, E8}, E4, E5");
        let both = "{R2, E1, E2, E3, R1, E4, E5}, {R3, E6, E7, E8}";
        assert_eq!(written(with_routers(2)), both, "R1 has two routers behind it");
    }

    #[test]
    fn a_router_s_receivers_are_split_when_asked_for_or_when_there_are_too_many() {
        let split = Parameters { max: 6, split: true, ..Parameters::default() };
        assert_eq!(written(split), "{R2, E1, E2, E3, R1, E4}, {R3, E6, E7, E8, R1, E5}");
        let small = Parameters { max: 3, ..Parameters::default() };
        assert_eq!(written(small), "{R2, E1, E2}, {R3, E6, E7}, {R1, E4, E5}, E3, E8");
    }

    /// Between the access routers and the sender stands one that has no receivers of its own.
    #[test]
    fn a_router_without_receivers_takes_over_those_of_two_within_the_range() {
        let tree =
            tree_of(&[(1, &[1, 2, 3]), (2, &[1, 2, 3]), (3, &[1, 2, 4]), (4, &[1, 2, 4]), (5, &[1, 5])]);
        let lists = |merge| group(&tree, &Parameters { merge, ..Parameters::default() }).lists;
        let routers = |merge| lists(merge)[0].entries.iter().map(|entry| entry.router).collect::<Vec<_>>();
        assert_eq!(routers(0), [r(3), r(4), r(5)]);
        assert_eq!(routers(1), [r(2), r(5)]);
        assert_eq!(routers(2), [r(1)]);
        assert_eq!([0, 2].map(|merge| lists(merge)[0].dont_replicate(&tree)), [0, 0]);
        let near = tree_of(&[(1, &[1, 2, 3]), (2, &[1, 2, 3]), (3, &[1, 2, 4]), (4, &[1, 2, 4])]);
        let list = &group(&near, &Parameters::default()).lists[0];
        assert_eq!((list.dont_replicate(&near), near.node(list.branching(&near)).address), (1, r(2)));
    }

    #[test]
    fn parameters_that_cannot_be_are_refused() {
        for (max, is_good) in [(0, false), (1, false), (2, true), (32, true), (33, false)] {
            assert_eq!(Parameters { max, ..Parameters::default() }.check().is_ok(), is_good, "{max}");
        }
    }

    prop_compose! {
        fn any_parameters()(
            max in 2usize..=32, ok in 1usize..=32, merge in 0u8..4, split in any::<bool>(),
            min_leaves in prop::option::of(0usize..4), min_routers in prop::option::of(0usize..4),
        ) -> Parameters {
            Parameters { max, ok, merge, min_leaves, min_routers, split }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn every_receiver_is_served_once_by_a_router_on_its_way(
            answered in prop::collection::vec((0u16..12, 0u16..40, 1u8..6), 0..300),
            parameters in any_parameters(),
        ) {
            let mut answers = Answers::new(SENDER, (0..40).map(e));
            for (router, receiver, hops) in answered {
                // Contradictions are part of it.
                let _ = answers.add(r(router), e(receiver), hops);
            }
            let tree = Tree::new(&answers);
            let grouping = group(&tree, &parameters);
            check(&tree, &grouping, parameters.max)?;
        }
    }

    /// Checks the rules that hold of every grouping, however it was found.
    pub(in crate::explicit::mead) fn check(
        tree: &Tree,
        grouping: &Grouping,
        max: usize,
    ) -> Result<(), TestCaseError> {
        let in_lists = grouping.lists.iter().flat_map(AddressList::receivers);
        let served: Vec<_> = in_lists.chain(grouping.unicast.iter().copied()).collect();
        let all: BTreeSet<_> = tree.ways().map(|(receiver, _)| receiver).collect();
        prop_assert_eq!(served.len(), all.len());
        prop_assert_eq!(served.into_iter().collect::<BTreeSet<_>>(), all);
        for list in &grouping.lists {
            prop_assert!(list.len() <= max && list.receivers().count() > 1);
            for entry in &list.entries {
                prop_assert_eq!(tree.node(entry.node).address, entry.router);
                prop_assert!(!entry.receivers.is_empty());
                for receiver in &entry.receivers {
                    prop_assert!(tree.is_on_way(entry.router, *receiver));
                }
            }
        }
        Ok(())
    }
}
