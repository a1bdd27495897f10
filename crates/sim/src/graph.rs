//! Simulates a network as nodes and directed cables: routes, multicast trees, and what each cable carries.
//!
//! A switch is a node, too. A cable puts packets into a queue, sends them at its rate, delays them and loses
//! some ([`crate::network::Link`]). Routes are the shortest paths over nodes that forward. The packets of a
//! group follow the tree of shortest paths from their source.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
};

use treecast_proto::Instant;

use crate::network::{Arrivals, Link, Loss, Narrow, Path, generator};

/// Bytes of Ethernet around a packet, as rates and counters of interfaces have them.
const ETHERNET_BYTES: usize = 14;

/// The first stream of random numbers for cables, one each.
const CABLE_STREAM: u64 = 1 << 33;

/// The description of a network before a run.
#[derive(Debug, Clone, Default)]
pub struct GraphPlan {
    /// Whether each node forwards packets of others.
    pub forwards: Vec<bool>,
    /// Both directions of a cable stand next to each other, the first at an even place.
    pub cables: Vec<CablePlan>,
}

/// The description of one direction of a cable.
#[derive(Debug, Clone)]
pub struct CablePlan {
    pub from: usize,
    pub to: usize,
    pub path: Path,
    pub narrow: Option<Narrow>,
    /// Whether the cable's frames are counted. Copies that a switch makes are not counted, because they are the
    /// same frames that came in.
    pub is_counted: bool,
}

/// A change of one direction of a cable during a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Change {
    /// Whether the cable is cut, so that it carries nothing. Nobody is told.
    Cut(bool),
    /// Whether the cable is down: it carries nothing, and the routers at its ends know it.
    Down(bool),
    /// Whether routes avoid the cable.
    Avoided(bool),
    /// The loss from now on. `None`: the cable's own loss.
    Loss(Option<Loss>),
}

/// The destination of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// The packet goes to this node.
    Node(usize),
    /// The packet goes to all members of a group, from the node `source`.
    Group { group: u32, source: usize },
}

/// Counts of what a cable has carried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Carried {
    pub packets: u64,
    /// The bytes of Ethernet frames, headers included.
    pub bytes: u64,
}

/// A network during a run.
#[derive(Debug)]
pub struct Graph {
    forwards: Vec<bool>,
    cables: Vec<Cable>,
    /// The cables that leave each node.
    out: Vec<Vec<usize>>,
    /// The next cable to a destination, by node. Filled in when it is first asked for.
    routes: BTreeMap<usize, Vec<Option<usize>>>,
    trees: BTreeMap<(usize, u32), Tree>,
    members: BTreeMap<u32, BTreeSet<usize>>,
}

#[derive(Debug)]
struct Cable {
    to: usize,
    from: usize,
    link: Link,
    is_cut: bool,
    is_avoided: bool,
    is_counted: bool,
    carried: Carried,
}

/// Where the packets of one source to one group go.
#[derive(Debug)]
struct Tree {
    /// The cable by which a packet comes to each node, where it does not end or begin there.
    parents: Rc<Vec<Option<usize>>>,
    /// The cables by which packets leave each node.
    down: BTreeMap<usize, Vec<usize>>,
}

/// # Before and between packets
impl Graph {
    pub fn new(plan: &GraphPlan, seed: u64) -> Self {
        let mut out = vec![Vec::new(); plan.forwards.len()];
        let mut cables = Vec::with_capacity(plan.cables.len());
        for (number, cable) in plan.cables.iter().enumerate() {
            out[cable.from].push(number);
            let random = generator(seed, CABLE_STREAM + number as u64);
            cables.push(Cable {
                from: cable.from,
                to: cable.to,
                link: Link::new(cable.path, random).with_narrow(cable.narrow),
                is_cut: false,
                is_avoided: false,
                is_counted: cable.is_counted,
                carried: Carried::default(),
            });
        }
        let forwards = plan.forwards.clone();
        Self {
            forwards,
            cables,
            out,
            routes: BTreeMap::new(),
            trees: BTreeMap::new(),
            members: BTreeMap::new(),
        }
    }

    /// Lets a node join a group.
    pub fn join(&mut self, group: u32, node: usize) {
        if !self.members.entry(group).or_default().insert(node) {
            return;
        }
        for (_, tree) in self.trees.range_mut((0, group)..).filter(|((_, of), _)| *of == group) {
            tree.add(node, &self.cables);
        }
    }

    /// Lets a node leave a group.
    pub fn leave(&mut self, group: u32, node: usize) {
        if self.members.get_mut(&group).is_some_and(|members| members.remove(&node)) {
            self.trees.retain(|(_, of), _| *of != group);
        }
    }

    pub fn is_member(&self, group: u32, node: usize) -> bool {
        self.members.get(&group).is_some_and(|members| members.contains(&node))
    }

    /// Returns the members of a group, in the order of their numbers.
    pub fn members(&self, group: u32) -> impl Iterator<Item = usize> + '_ {
        self.members.get(&group).into_iter().flatten().copied()
    }

    pub fn change(&mut self, cable: usize, change: Change) {
        match change {
            Change::Cut(is_cut) | Change::Down(is_cut) => self.cables[cable].is_cut = is_cut,
            Change::Loss(loss) => self.cables[cable].link.lose(loss),
            Change::Avoided(is_avoided) => {
                self.cables[cable].is_avoided = is_avoided;
                self.routes.clear();
                self.trees.clear();
            }
        }
    }

    /// Returns what all counted cables have carried, and what those that leave `node` have carried.
    pub fn totals(&self, node: usize) -> (Carried, Carried) {
        let sum = |cables: &mut dyn Iterator<Item = &Cable>| {
            cables.filter(|cable| cable.is_counted).fold(Carried::default(), |sum, cable| Carried {
                packets: sum.packets + cable.carried.packets,
                bytes: sum.bytes + cable.carried.bytes,
            })
        };
        let sent = self.out[node].iter().map(|cable| &self.cables[*cable]);
        (sum(&mut self.cables.iter()), sum(&mut sent.into_iter()))
    }

    /// Returns what one direction of a cable has carried.
    pub fn carried(&self, cable: usize) -> Carried {
        self.cables[cable].carried
    }
}

/// # A packet's way
impl Graph {
    /// Returns the cables that leave a node.
    pub fn leaving(&self, node: usize) -> &[usize] {
        &self.out[node]
    }

    /// Returns the node at the end of a cable.
    pub fn end(&self, cable: usize) -> usize {
        self.cables[cable].to
    }

    /// Returns the cables by which a packet leaves a node. There are none when there is no route, or when the
    /// packet has arrived.
    pub fn next(&mut self, node: usize, to: To) -> Vec<usize> {
        match to {
            To::Node(there) if there == node => Vec::new(),
            To::Node(there) => self.route(node, there).into_iter().collect(),
            To::Group { group, source } => {
                if !self.trees.contains_key(&(source, group)) {
                    self.grow(source, group);
                }
                let tree = self.trees.get(&(source, group));
                tree.and_then(|tree| tree.down.get(&node)).cloned().unwrap_or_default()
            }
        }
    }

    /// Returns the number of cables between two nodes. `None` when there is no route.
    pub fn distance(&mut self, from: usize, to: usize) -> Option<u32> {
        let (mut node, mut distance) = (from, 0);
        while node != to {
            let cable = self.route(node, to)?;
            node = self.cables[cable].to;
            distance += 1;
        }
        Some(distance)
    }

    /// Returns the time that a packet takes between two nodes when it waits in no queue.
    pub fn delay(&mut self, from: usize, to: usize) -> std::time::Duration {
        let (mut node, mut delay) = (from, std::time::Duration::ZERO);
        while let Some(cable) = (node != to).then(|| self.route(node, to)).flatten() {
            delay += self.cables[cable].link.delay();
            node = self.cables[cable].to;
        }
        delay
    }

    /// Returns when the queues of a host have room for more. A host waits for that, and so loses nothing in its
    /// own queues.
    pub fn has_room_at(&self, node: usize) -> Instant {
        let queues = self.out[node].iter().map(|cable| self.cables[*cable].link.has_room_at());
        queues.max().unwrap_or(Instant::ZERO)
    }

    /// Takes note that a super-packet comes to a cable, or a packet by itself. Its packets follow.
    pub fn begin_super_packet(&mut self, cable: usize) {
        self.cables[cable].link.begin_super_packet();
    }

    /// Puts an IP packet of `len` bytes on a cable. Returns when the packet arrives at the other end.
    pub fn carry(&mut self, now: Instant, cable: usize, len: usize) -> Arrivals {
        let cable = &mut self.cables[cable];
        if cable.is_cut || !cable.link.fits(len) {
            return [None, None];
        }
        let Some(through) = cable.link.squeeze(now, len + ETHERNET_BYTES) else { return [None, None] };
        cable.carried.packets += 1;
        cable.carried.bytes += (len + ETHERNET_BYTES) as u64;
        cable.link.pass(through)
    }

    /// The next cable from one node to another.
    fn route(&mut self, node: usize, to: usize) -> Option<usize> {
        if !self.routes.contains_key(&to) {
            let routes = self.routes_to(to);
            self.routes.insert(to, routes);
        }
        self.routes[&to][node]
    }

    /// Breadth first from the destination against the cables' direction. Of equally short paths, the cable that was named first counts.
    fn routes_to(&self, to: usize) -> Vec<Option<usize>> {
        let mut into: Vec<Vec<usize>> = vec![Vec::new(); self.forwards.len()];
        for (number, cable) in self.cables.iter().enumerate().filter(|(_, cable)| !cable.is_avoided) {
            into[cable.to].push(number);
        }
        let mut routes = vec![None; self.forwards.len()];
        let mut due = VecDeque::from([to]);
        while let Some(node) = due.pop_front() {
            for &cable in &into[node] {
                let from = self.cables[cable].from;
                if from == to || routes[from].is_some() {
                    continue;
                }
                routes[from] = Some(cable);
                if self.forwards[from] {
                    due.push_back(from);
                }
            }
        }
        routes
    }

    /// The cables by which the shortest paths from a node come to all others.
    fn parents(&self, source: usize) -> Vec<Option<usize>> {
        let mut parents = vec![None; self.forwards.len()];
        let mut due = VecDeque::from([source]);
        while let Some(node) = due.pop_front() {
            for &cable in self.out[node].iter().filter(|cable| !self.cables[**cable].is_avoided) {
                let to = self.cables[cable].to;
                if to == source || parents[to].is_some() {
                    continue;
                }
                parents[to] = Some(cable);
                if self.forwards[to] {
                    due.push_back(to);
                }
            }
        }
        parents
    }

    fn grow(&mut self, source: usize, group: u32) {
        let known = self
            .trees
            .range((source, 0)..=(source, u32::MAX))
            .next()
            .map(|(_, tree)| Rc::clone(&tree.parents));
        let parents = known.unwrap_or_else(|| Rc::new(self.parents(source)));
        let mut tree = Tree { parents, down: BTreeMap::new() };
        for node in self.members.get(&group).into_iter().flatten() {
            tree.add(*node, &self.cables);
        }
        self.trees.insert((source, group), tree);
    }
}

impl Tree {
    /// Adds the branch that leads to a node.
    fn add(&mut self, mut node: usize, cables: &[Cable]) {
        while let Some(cable) = self.parents[node] {
            node = cables[cable].from;
            let down = self.down.entry(node).or_default();
            if down.contains(&cable) {
                return;
            }
            down.push(cable);
            // Whoever has another branch is reached already.
            if down.len() > 1 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A source (0), two routers (1 and 2) in a row, a host at the first (3) and two at the second (4 and 5).
    fn tree() -> Graph {
        let pairs = [(0, 1), (1, 2), (1, 3), (2, 4), (2, 5)];
        let cable = |from, to| CablePlan {
            from,
            to,
            path: Path::clean(Duration::from_millis(1)),
            narrow: None,
            is_counted: true,
        };
        let cables =
            pairs.iter().flat_map(|(one, other)| [cable(*one, *other), cable(*other, *one)]).collect();
        Graph::new(&GraphPlan { forwards: vec![false, true, true, false, false, false], cables }, 1)
    }

    #[test]
    fn a_group_s_packet_crosses_each_cable_of_its_tree_once() {
        let mut graph = tree();
        let to = To::Group { group: 0, source: 0 };
        assert!(graph.next(0, to).is_empty());
        graph.join(0, 4);
        assert_eq!((graph.next(0, to), graph.next(1, to), graph.next(2, to)), (vec![0], vec![2], vec![6]));
        graph.join(0, 5);
        graph.join(0, 3);
        assert_eq!(
            (graph.next(0, to), graph.next(1, to), graph.next(2, to)),
            (vec![0], vec![2, 4], vec![6, 8])
        );
        graph.leave(0, 4);
        graph.leave(0, 5);
        assert_eq!((graph.next(1, to), graph.next(2, to)), (vec![4], vec![]));
        // A member sends, too.
        let to = To::Group { group: 0, source: 4 };
        assert_eq!((graph.next(4, to), graph.next(2, to), graph.next(1, to)), (vec![7], vec![3], vec![4]));
    }

    #[test]
    fn a_cable_that_is_avoided_is_on_no_route_and_one_that_is_cut_carries_nothing() {
        let mut graph = tree();
        assert_eq!((graph.next(0, To::Node(5)), graph.distance(0, 5)), (vec![0], Some(3)));
        graph.change(2, Change::Avoided(true));
        assert_eq!((graph.distance(0, 5), graph.distance(0, 3)), (None, Some(2)));
        graph.change(2, Change::Avoided(false));
        graph.change(2, Change::Cut(true));
        assert_eq!(graph.carry(Instant::ZERO, 2, 100), [None, None]);
        graph.change(2, Change::Cut(false));
        let [arrival, _] = graph.carry(Instant::ZERO, 2, 100);
        assert_eq!(arrival.map(|one| one.at), Some(Instant::ZERO + Duration::from_millis(1)));
        assert_eq!(graph.totals(1), (Carried { packets: 1, bytes: 114 }, Carried { packets: 1, bytes: 114 }));
    }
}
