//! The topology tree (meadcast-thesis-2024, 2.1.4 and 4.3.1): the sender is the root, routers stand where their hop
//! counts put them, receivers are leaves.
//!
//! [`Answers`] gathers what comes in one discovery and [`Tree`] is made of all of it at once, so that the order in which
//! responses arrive changes nothing. What does not fit together is resolved so:
//! - Two routers at the same hop on the way to one receiver: neither is used, for one of them is not on the way now.
//! - A router at several hops of one way: the first is its place; packets meet it there.
//! - A router that is the sender or a receiver, hops of 0 or above 63, a receiver that nobody asked about: passed over.
//! - A router whose hops differ between receivers has those that most of them say; of equally many, the fewest.
//! - A router's parent is the nearest to it of those that come before it on the way to any receiver, so that a lost
//!   response does not hide it; of equally near ones the one that most say; of equally many, the lowest address.
//!
//! A receiver's own way is kept: it is never put behind a router that did not answer for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv6Addr,
};

use thiserror::Error;
use treecast_wire::mead::MAX_HOPS;

/// A response that was passed over, or that contradicts another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Anomaly {
    /// The address in the response is not one of a receiver.
    #[error("{0} is no receiver")]
    NoReceiver(Ipv6Addr),
    /// The number of hops is 0, or greater than the field can hold.
    #[error("{0} hops, expected 1 to 63")]
    Hops(u8),
    /// The sender or a receiver answered as if it were a router.
    #[error("{0} answers as a router and is the sender or a receiver")]
    Member(Ipv6Addr),
    /// Another router has already answered for the same place on the path.
    #[error("{0} answers from a place where there is another router")]
    Contradiction(Ipv6Addr),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Router(Ipv6Addr),
    Contradictory,
}

/// The responses of routers in one discovery. At most 63 places are kept for each receiver, whatever routers
/// respond.
#[derive(Debug, Clone)]
pub struct Answers {
    sender: Ipv6Addr,
    ways: BTreeMap<Ipv6Addr, BTreeMap<u8, Place>>,
    /// Each receiver with the routers that would serve it by a group.
    offers: BTreeMap<Ipv6Addr, BTreeSet<Ipv6Addr>>,
}

impl Answers {
    /// Begins to collect the responses of a discovery that asks about these receivers.
    pub fn new(sender: Ipv6Addr, receivers: impl IntoIterator<Item = Ipv6Addr>) -> Self {
        let ways = receivers.into_iter().map(|receiver| (receiver, BTreeMap::new())).collect();
        Self { sender, ways, offers: BTreeMap::new() }
    }

    /// Takes note that `router` is at `hops` on the path to `receiver`. The same response again changes
    /// nothing.
    ///
    /// # Errors
    /// When the response is passed over, or contradicts another one, which then does not count either.
    pub fn add(&mut self, router: Ipv6Addr, receiver: Ipv6Addr, hops: u8) -> Result<(), Anomaly> {
        if router == self.sender || self.ways.contains_key(&router) {
            return Err(Anomaly::Member(router));
        }
        if !(1..=MAX_HOPS).contains(&hops) {
            return Err(Anomaly::Hops(hops));
        }
        let way = self.ways.get_mut(&receiver).ok_or(Anomaly::NoReceiver(receiver))?;
        let place = way.entry(hops).or_insert(Place::Router(router));
        if *place != Place::Router(router) {
            *place = Place::Contradictory;
            return Err(Anomaly::Contradiction(router));
        }
        Ok(())
    }

    /// Takes note that a router on the path to `receiver` would serve the receiver by a group: the receiver has
    /// joined it, and is on a link of the router.
    ///
    /// # Errors
    /// The same as those of [`Self::add`], which is to be called first.
    pub fn add_offer(&mut self, router: Ipv6Addr, receiver: Ipv6Addr, hops: u8) -> Result<(), Anomaly> {
        self.add(router, receiver, hops)?;
        self.offers.entry(receiver).or_default().insert(router);
        Ok(())
    }

    /// Whether the last router on the way to `receiver` would serve it by a group.
    pub fn is_offered(&self, receiver: Ipv6Addr) -> bool {
        let last = self.way(receiver).last().map(|(_, router)| *router);
        last.zip(self.offers.get(&receiver)).is_some_and(|(last, offers)| offers.contains(&last))
    }

    /// Forgets a receiver that leaves, and the path to it.
    pub fn forget(&mut self, receiver: Ipv6Addr) {
        self.ways.remove(&receiver);
        self.offers.remove(&receiver);
    }

    /// Adds a receiver that the discovery asks about from now on, too.
    pub fn expect(&mut self, receiver: Ipv6Addr) {
        self.ways.entry(receiver).or_default();
    }

    /// Iterates over the receivers that the discovery asks about, by address.
    pub fn receivers(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.ways.keys().copied()
    }

    /// Returns the routers on the path to a receiver with their hops, the nearest to the sender first. Each
    /// router appears once.
    pub fn way(&self, receiver: Ipv6Addr) -> Vec<(u8, Ipv6Addr)> {
        let mut met = BTreeSet::new();
        let places = self.ways.get(&receiver).into_iter().flatten();
        let routers = places.filter_map(|(hops, place)| match place {
            Place::Router(router) => Some((*hops, *router)),
            Place::Contradictory => None,
        });
        // Members may have joined after a router's response.
        routers
            .filter(|(_, router)| !self.ways.contains_key(router))
            .filter(|(_, router)| met.insert(*router))
            .collect()
    }
}

/// A node of the tree: the sender or a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The address of the node.
    pub address: Ipv6Addr,
    /// The number of MEADcast routers on the path from the sender to this one, which is counted, too. 0 at
    /// the sender.
    pub hops: u8,
    /// The index of the parent; none at the sender.
    pub parent: Option<usize>,
    /// The indices of the routers right behind this node, sorted by address.
    pub children: Vec<usize>,
    /// The receivers for which it is the last router on the way, by address.
    pub leaves: Vec<Ipv6Addr>,
}

/// The tree of routers and receivers. Node [`Tree::ROOT`] is the sender; its leaves are receivers without a
/// router on their path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    nodes: Vec<Node>,
    ways: BTreeMap<Ipv6Addr, Vec<Ipv6Addr>>,
    last_routers: BTreeMap<Ipv6Addr, usize>,
    /// The receivers that their last routers would serve by a group.
    designated: BTreeSet<Ipv6Addr>,
}

impl Tree {
    /// The index of the sender's node.
    pub const ROOT: usize = 0;

    /// Makes the tree of all responses.
    pub fn new(answers: &Answers) -> Self {
        let with_hops: BTreeMap<_, _> =
            answers.ways.keys().map(|receiver| (*receiver, answers.way(*receiver))).collect();
        let hops = agreed_hops(&with_hops);
        let ways: BTreeMap<Ipv6Addr, Vec<Ipv6Addr>> = with_hops
            .into_iter()
            .map(|(receiver, way)| (receiver, way.into_iter().map(|(_, router)| router).collect()))
            .collect();
        let parents = nearest_parents(&ways, &hops);
        // A parent has fewer hops, and so stands before its children.
        let mut order: Vec<_> = hops.iter().map(|(router, hops)| (*hops, *router)).collect();
        order.sort_unstable();
        let root = Node::new(answers.sender, 0, None);
        let designated = answers.receivers().filter(|receiver| answers.is_offered(*receiver)).collect();
        let mut tree = Self { nodes: vec![root], ways, last_routers: BTreeMap::new(), designated };
        let mut index_of = BTreeMap::new();
        for (hops, router) in order {
            let parent = parents.get(&router).map_or(Self::ROOT, |parent| index_of[parent]);
            let index = tree.nodes.len();
            tree.nodes.push(Node::new(router, hops, Some(parent)));
            tree.nodes[parent].children.push(index);
            index_of.insert(router, index);
        }
        for (receiver, way) in &tree.ways {
            let last = way.last().map_or(Self::ROOT, |router| index_of[router]);
            tree.nodes[last].leaves.push(*receiver);
            tree.last_routers.insert(*receiver, last);
        }
        for index in 0..tree.nodes.len() {
            let mut children = std::mem::take(&mut tree.nodes[index].children);
            children.sort_by_key(|child| tree.nodes[*child].address);
            tree.nodes[index].children = children;
        }
        tree
    }

    /// Returns all nodes: the sender first, and each node after its parent.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the node at this index.
    pub fn node(&self, index: usize) -> &Node {
        &self.nodes[index]
    }

    /// Iterates over the receivers by address, each with the routers on the path to it.
    pub fn ways(&self) -> impl Iterator<Item = (Ipv6Addr, &[Ipv6Addr])> {
        self.ways.iter().map(|(receiver, way)| (*receiver, way.as_slice()))
    }

    /// Returns the routers on the path to a receiver, the nearest to the sender first.
    pub fn way(&self, receiver: Ipv6Addr) -> &[Ipv6Addr] {
        self.ways.get(&receiver).map_or(&[], Vec::as_slice)
    }

    /// Returns the node whose leaf a receiver is: the sender when no router has answered for it.
    pub fn last_router(&self, receiver: Ipv6Addr) -> usize {
        self.last_routers.get(&receiver).copied().unwrap_or(Self::ROOT)
    }

    /// Whether the last router on the way to a receiver would serve it by a group, with all others there that have joined.
    pub fn is_designated(&self, receiver: Ipv6Addr) -> bool {
        self.designated.contains(&receiver)
    }

    /// Whether the router has answered for this receiver.
    pub fn is_on_way(&self, router: Ipv6Addr, receiver: Ipv6Addr) -> bool {
        self.way(receiver).contains(&router)
    }

    /// Iterates over a node and all nodes between it and the sender, the sender last.
    pub fn ancestors(&self, index: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(index), |index| self.nodes[*index].parent)
    }

    /// Returns the node at which the paths to two nodes part. This may be one of the two.
    pub fn common_ancestor(&self, mut one: usize, mut other: usize) -> usize {
        // Each node stands behind its parent.
        while one != other {
            (one, other) = (one.min(other), self.nodes[one.max(other)].parent.unwrap_or(Self::ROOT));
        }
        one
    }
}

impl Node {
    fn new(address: Ipv6Addr, hops: u8, parent: Option<usize>) -> Self {
        Self { address, hops, parent, children: Vec::new(), leaves: Vec::new() }
    }
}

/// Each router's place: the hops that most receivers' responses say; of equally many, the fewest.
fn agreed_hops(ways: &BTreeMap<Ipv6Addr, Vec<(u8, Ipv6Addr)>>) -> BTreeMap<Ipv6Addr, u8> {
    let mut votes: BTreeMap<(Ipv6Addr, u8), usize> = BTreeMap::new();
    for (hops, router) in ways.values().flatten() {
        *votes.entry((*router, *hops)).or_default() += 1;
    }
    let mut agreed: BTreeMap<Ipv6Addr, (u8, usize)> = BTreeMap::new();
    // From the fewest hops up.
    for ((router, hops), count) in votes {
        let best = agreed.entry(router).or_insert((hops, count));
        if count > best.1 {
            *best = (hops, count);
        }
    }
    agreed.into_iter().map(|(router, (hops, _))| (router, hops)).collect()
}

/// Each router's parent, as the module's rule says; none where the sender is.
fn nearest_parents(
    ways: &BTreeMap<Ipv6Addr, Vec<Ipv6Addr>>,
    hops: &BTreeMap<Ipv6Addr, u8>,
) -> BTreeMap<Ipv6Addr, Ipv6Addr> {
    let mut votes: BTreeMap<(Ipv6Addr, Ipv6Addr), usize> = BTreeMap::new();
    for way in ways.values() {
        for (at, router) in way.iter().enumerate() {
            let nearer = |before: &&Ipv6Addr| hops[*before] < hops[router];
            if let Some(before) = way[..at].iter().rev().find(nearer) {
                *votes.entry((*router, *before)).or_default() += 1;
            }
        }
    }
    let mut parents: BTreeMap<Ipv6Addr, (u8, usize, Ipv6Addr)> = BTreeMap::new();
    // By address of the parent, so that the lowest of equals comes first and stays.
    for ((router, before), count) in votes {
        let candidate = (hops[&before], count, before);
        let best = parents.entry(router).or_insert(candidate);
        if (candidate.0, candidate.1) > (best.0, best.1) {
            *best = candidate;
        }
    }
    parents.into_iter().map(|(router, (_, _, parent))| (router, parent)).collect()
}

#[cfg(test)]
pub(in crate::explicit) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(in crate::explicit) const SENDER: Ipv6Addr = Ipv6Addr::new(0xfd14, 0, 0, 0, 0, 0, 0, 1);

    pub(in crate::explicit) fn r(number: u16) -> Ipv6Addr {
        Ipv6Addr::new(0xfd14, 0, 0, 0, 0, 1, 0, number)
    }

    pub(in crate::explicit) fn e(number: u16) -> Ipv6Addr {
        Ipv6Addr::new(0xfd14, 0, 0, 0, 0, 2, 0, number)
    }

    /// A tree of ways: a receiver's number and the numbers of the routers before it.
    pub(in crate::explicit) fn tree_of(ways: &[(u16, &[u16])]) -> Tree {
        let mut answers = Answers::new(SENDER, ways.iter().map(|(receiver, _)| e(*receiver)));
        for (receiver, way) in ways {
            for (hops, router) in (1..).zip(way.iter()) {
                answers.add(r(*router), e(*receiver), hops).expect("it fits");
            }
        }
        Tree::new(&answers)
    }

    fn parent(tree: &Tree, router: Ipv6Addr) -> Ipv6Addr {
        let node = tree.nodes().iter().find(|node| node.address == router).expect("it is there");
        tree.node(node.parent.expect("it is no root")).address
    }

    /// The example of 2.1.4.
    #[test]
    fn routers_stand_by_their_hops_and_receivers_behind_the_last() {
        let ways: [(u16, &[u16]); 5] =
            [(1, &[1, 2, 3]), (2, &[1, 2, 4, 5]), (3, &[1, 2, 4, 5]), (4, &[1, 2, 4, 6]), (5, &[1, 2, 4, 6])];
        let tree = tree_of(&ways);
        let leaves = |router| {
            let node = tree.nodes().iter().find(|node| node.address == r(router));
            node.expect("it is there").leaves.clone()
        };
        assert_eq!(parent(&tree, r(1)), SENDER);
        assert_eq!([3, 4, 5, 6].map(|router| parent(&tree, r(router))), [r(2), r(2), r(4), r(4)]);
        assert_eq!([3, 5, 6].map(leaves), [vec![e(1)], vec![e(2), e(3)], vec![e(4), e(5)]]);
        assert!(leaves(4).is_empty());
        assert!(tree.is_on_way(r(2), e(1)) && !tree.is_on_way(r(4), e(1)));
    }

    #[test]
    fn a_place_with_two_routers_counts_for_neither() {
        let mut answers = Answers::new(SENDER, [e(1)]);
        answers.add(r(1), e(1), 1).expect("it fits");
        answers.add(r(2), e(1), 2).expect("it fits");
        answers.add(r(2), e(1), 2).expect("the same again");
        assert_eq!(answers.add(r(3), e(1), 2), Err(Anomaly::Contradiction(r(3))));
        assert_eq!(answers.add(r(2), e(1), 2), Err(Anomaly::Contradiction(r(2))));
        assert_eq!(answers.way(e(1)), [(1, r(1))]);
    }

    #[test]
    fn only_the_last_router_is_designated() {
        let mut answers = Answers::new(SENDER, [e(1), e(2), e(3)]);
        answers.add_offer(r(1), e(1), 1).expect("it fits");
        answers.add(r(2), e(1), 2).expect("it fits");
        answers.add(r(1), e(2), 1).expect("it fits");
        answers.add_offer(r(2), e(2), 2).expect("it fits");
        assert_eq!(answers.add_offer(r(1), e(4), 1), Err(Anomaly::NoReceiver(e(4))));
        let tree = Tree::new(&answers);
        assert_eq!([1, 2, 3, 4].map(|receiver| tree.is_designated(e(receiver))), [false, true, false, false]);
        answers.forget(e(2));
        answers.expect(e(2));
        assert!(!Tree::new(&answers).is_designated(e(2)));
    }

    #[test]
    fn what_cannot_be_is_passed_over() {
        let mut answers = Answers::new(SENDER, [e(1), e(2)]);
        assert_eq!(answers.add(r(1), e(3), 1), Err(Anomaly::NoReceiver(e(3))));
        assert_eq!(answers.add(r(1), e(1), 0), Err(Anomaly::Hops(0)));
        assert_eq!(answers.add(r(1), e(1), 64), Err(Anomaly::Hops(64)));
        assert_eq!(answers.add(e(2), e(1), 1), Err(Anomaly::Member(e(2))));
        assert_eq!(answers.add(SENDER, e(1), 1), Err(Anomaly::Member(SENDER)));
        assert!(answers.way(e(1)).is_empty());
        answers.add(r(1), e(1), 1).expect("it fits");
        answers.add(r(2), e(1), 2).expect("it fits");
        answers.add(r(1), e(1), 3).expect("a loop shows only in the whole way");
        assert_eq!(answers.way(e(1)), [(1, r(1)), (2, r(2))]);
        answers.expect(r(1));
        assert_eq!(answers.way(e(1)), [(2, r(2))], "who joins is no router");
        answers.forget(e(1));
        assert_eq!(answers.add(r(1), e(1), 1), Err(Anomaly::Member(r(1))));
        assert_eq!(answers.add(r(3), e(1), 1), Err(Anomaly::NoReceiver(e(1))));
    }

    #[test]
    fn a_lost_response_hides_no_parent_and_a_route_change_makes_no_second_node() {
        let mut answers = Answers::new(SENDER, [e(1), e(2), e(3)]);
        for (router, receiver, hops) in [
            (1, 1, 1),
            (2, 1, 2),
            (3, 1, 3), // the whole way
            (1, 2, 1),
            (3, 2, 3), // R2's response is lost
            (1, 3, 1),
            (4, 3, 2),
            (3, 3, 3), // another way in between
        ] {
            answers.add(r(router), e(receiver), hops).expect("it fits");
        }
        let tree = Tree::new(&answers);
        assert_eq!(parent(&tree, r(3)), r(2), "as many say R4; the lower address");
        assert_eq!(tree.nodes().len(), 5);
        assert!(!tree.is_on_way(r(2), e(3)) && tree.is_on_way(r(3), e(3)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// The tree is one and the same, whatever is answered, in whichever order.
        #[test]
        fn the_order_of_responses_changes_nothing(
            answered in prop::collection::vec((0u16..8, 0u16..8, 0u8..70), 0..60),
            shuffled in any::<prop::sample::Index>(),
        ) {
            let tree = |order: &[(u16, u16, u8)]| {
                let mut answers = Answers::new(SENDER, (0..6).map(e));
                for (router, receiver, hops) in order {
                    let router = if *router == 7 { e(1) } else { r(*router) };
                    // What is wrong is what this is about.
                    let _ = answers.add(router, e(*receiver), *hops);
                }
                Tree::new(&answers)
            };
            let first = tree(&answered);
            let mut other = answered.clone();
            other.reverse();
            if !other.is_empty() {
                let by = shuffled.index(other.len());
                other.rotate_left(by);
            }
            prop_assert_eq!(&first, &tree(&other));
            let leaves: Vec<_> = first.nodes().iter().flat_map(|node| node.leaves.clone()).collect();
            prop_assert_eq!(leaves.len(), 6, "each receiver is a leaf once");
            for (index, node) in first.nodes().iter().enumerate().skip(1) {
                let parent = first.node(node.parent.expect("only the sender has none"));
                prop_assert!(parent.hops < node.hops && parent.children.contains(&index));
            }
        }
    }
}
