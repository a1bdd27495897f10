//! Designated routers, which reach several receivers with one multicast packet.
//!
//! A router may offer this in its discovery responses (the idea is RFC 5058's Xcast+). It then turns one packet
//! into one multicast packet on each of its links, to a group that receivers there have joined. A list names
//! such a router without its receivers. Every listener hears the multicast packet. So the receivers of such a
//! router must all be served by it, and only once, wherever a grouping has put them.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    grouping::{self, Grouping},
    tree::Tree,
};

/// Puts all receivers that a router serves by the group into the first list that has one of them, behind that router. No
/// list has more addresses for it.
pub(super) fn gather(tree: &Tree, mut grouping: Grouping) -> Grouping {
    let homes = homes(tree, &grouping);
    let served: BTreeSet<_> = homes.keys().flat_map(|node| designated_leaves(tree, *node)).collect();
    grouping.unicast.retain(|receiver| !served.contains(receiver));
    for list in &mut grouping.lists {
        list.entries.iter_mut().for_each(|entry| entry.receivers.retain(|one| !served.contains(one)));
    }
    for (node, list) in homes {
        let entries = &mut grouping.lists[list].entries;
        let entry = entries.iter_mut().find(|entry| entry.node == node);
        entry.expect("that is its home").receivers.extend(designated_leaves(tree, node));
    }
    for list in &mut grouping.lists {
        list.entries.retain(|entry| !entry.receivers.is_empty());
    }
    grouping::finish(grouping)
}

/// The first list of each router in which it serves somebody by the group.
fn homes(tree: &Tree, grouping: &Grouping) -> BTreeMap<usize, usize> {
    let mut homes = BTreeMap::new();
    for (index, list) in grouping.lists.iter().enumerate() {
        for entry in &list.entries {
            if entry.receivers.iter().any(|receiver| entry.is_designated(tree, *receiver)) {
                homes.entry(entry.node).or_insert(index);
            }
        }
    }
    homes
}

fn designated_leaves(tree: &Tree, node: usize) -> impl Iterator<Item = std::net::Ipv6Addr> {
    tree.node(node).leaves.iter().copied().filter(|receiver| tree.is_designated(*receiver))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            grouping::{AddressList, Entry, Parameters, group},
            tree::{
                Answers,
                tests::{SENDER, e, r},
            },
        },
        *,
    };

    /// R1 with six receivers, of which all but E6 have joined, and before it nobody.
    fn tree() -> Tree {
        let mut answers = Answers::new(SENDER, (1..=6).map(e));
        (1..=5).for_each(|receiver| answers.add_offer(r(1), e(receiver), 1).expect("it fits"));
        answers.add(r(1), e(6), 1).expect("it fits");
        Tree::new(&answers)
    }

    #[test]
    fn all_listeners_of_a_router_are_in_one_list() {
        let tree = tree();
        let grouping = group(&tree, &Parameters { max: 4, ok: 4, ..Parameters::default() });
        assert_eq!(grouping.lists.len(), 2);
        let gathered = gather(&tree, grouping);
        let receivers: Vec<Vec<_>> = gathered.lists.iter().map(|list| list.receivers().collect()).collect();
        assert_eq!((receivers, &gathered.unicast), (vec![(1..=5).map(e).collect()], &vec![e(6)]));
        assert_eq!(gather(&tree, gathered.clone()), gathered);
    }

    #[test]
    fn a_listener_elsewhere_comes_along_and_one_behind_another_router_stays() {
        let tree = tree();
        let node = tree.last_router(e(1));
        let entry = |node, receivers: &[u16]| Entry {
            node,
            router: tree.node(node).address,
            receivers: receivers.iter().copied().map(e).collect(),
        };
        let lists = vec![AddressList { entries: vec![entry(node, &[1, 6])] }];
        let gathered = gather(&tree, Grouping { lists, unicast: vec![e(2), e(3), e(4), e(5)] });
        assert!(gathered.unicast.is_empty());
        assert_eq!(gathered.lists[0].receivers().collect::<Vec<_>>(), [6, 1, 2, 3, 4, 5].map(e));
        let lists = vec![AddressList { entries: vec![entry(Tree::ROOT, &[1, 2])] }];
        let other = Grouping { lists, unicast: (3..=6).map(e).collect() };
        assert_eq!(gather(&tree, other.clone()), other, "there nobody sends to the group");
    }
}
