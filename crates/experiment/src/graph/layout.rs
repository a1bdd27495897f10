//! The positions of everything in the picture.
//!
//! A breadth-first walk from the servers makes a tree of nodes and LANs. Each is centred above those that it
//! leads to. Clients on a single LAN hang below it in a block. Links that are not in the tree (such as a ring's
//! last link) are drawn between the resulting positions.

use std::collections::VecDeque;

use treecast_lab::{NetworkKind, Quality, Role, Topology};

pub const BOX_WIDTH: f64 = 68.0;
/// The width of a box in a large topology, whose picture would be too wide for a page otherwise.
const NARROW_BOX_WIDTH: f64 = 48.0;
pub const BOX_HEIGHT: f64 = 20.0;

const GAP: f64 = 8.0;
const MARGIN: f64 = 16.0;
/// The height of the title and the legend.
const TOP: f64 = 96.0;
/// The distance between a node and the LAN or node below it.
const LEVEL: f64 = 52.0;
const ROW: f64 = BOX_HEIGHT + 9.0;
/// The number of clients in a column under a LAN, and the largest number of columns.
const ROWS: usize = 5;
const MAX_COLUMNS: usize = 12;
/// The number of nodes above which equal LANs are drawn as one box.
const LARGE: usize = 60;
/// The smallest width of a LAN's bar, which leaves room for its label left of the cable in the middle.
const MIN_BAR: f64 = 176.0;

/// The centre of something.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
}

/// The bar of a LAN.
#[derive(Debug, Clone, Copy)]
pub struct Bar {
    pub left: f64,
    pub right: f64,
    pub y: f64,
}

/// The positions of nodes and networks, by their index in the topology.
pub struct Layout {
    pub nodes: Vec<Point>,
    pub bars: Vec<Option<Bar>>,
    /// Whether each node is part of a box of equal LANs, and not drawn itself.
    pub is_folded: Vec<bool>,
    pub folded: Vec<Folded>,
    /// The width of a node's box.
    pub box_width: f64,
    pub width: f64,
    pub height: f64,
}

/// Equal LANs with nothing but clients, all behind one node.
#[derive(Debug, Clone, Copy)]
pub struct Folded {
    pub at: Point,
    /// The node that they are behind.
    pub under: usize,
    /// The number of LANs, and the index of one of them.
    pub lans: usize,
    pub lan: usize,
    /// Clients in each.
    pub clients: usize,
}

#[derive(Debug, Clone, Copy)]
enum Thing {
    Node(usize),
    Lan(usize),
}

/// A branch of the tree.
struct Branch {
    thing: Thing,
    below: Vec<usize>,
    /// Clients that hang from a LAN.
    clients: Vec<usize>,
    /// Equal LANs below a node. Each group has the branches of its LANs.
    folded: Vec<Vec<usize>>,
}

impl Layout {
    pub fn of(topology: &Topology) -> Self {
        let walk = Walk::over(topology);
        let bars = vec![None; topology.networks.len()];
        let nodes = vec![Point::default(); topology.nodes.len()];
        let mut layout = Self {
            is_folded: vec![false; nodes.len()],
            folded: Vec::new(),
            box_width: walk.cell - GAP,
            nodes,
            bars,
            width: 2.0 * MARGIN + 3.0 * (BOX_WIDTH + GAP),
            height: TOP,
        };
        let mut left = MARGIN;
        for &root in &walk.roots {
            layout.place(&walk, root, left, TOP);
            left += walk.width(root) + GAP;
        }
        layout.width = layout.width.max(left - GAP + MARGIN);
        layout.height += MARGIN + BOX_HEIGHT;
        layout
    }

    fn place(&mut self, walk: &Walk, branch: usize, left: f64, y: f64) {
        let width = walk.width(branch);
        let Branch { thing, below, clients, folded } = &walk.branches[branch];
        self.height = self.height.max(y);
        match thing {
            Thing::Node(node) => self.nodes[*node] = Point { x: left + width / 2.0, y },
            Thing::Lan(lan) => self.bars[*lan] = Some(Bar { left: left + GAP, right: left + width - GAP, y }),
        }
        let below_width: f64 = below.iter().map(|below| walk.width(*below)).sum();
        let block = walk.block(branch);
        let mut x = left + (width - below_width - block) / 2.0;
        for (row, lans) in folded.iter().enumerate() {
            let at = Point { x: x + block / 2.0, y: y + LEVEL + row as f64 * (ROW + 9.0) };
            self.fold(walk, *thing, lans, at);
        }
        for (position, client) in clients.iter().enumerate() {
            let (column, row) = (position % columns(clients.len()), position / columns(clients.len()));
            let (x, y) = (x + (column as f64 + 0.5) * walk.cell, y + LEVEL * 0.7 + row as f64 * ROW);
            self.nodes[*client] = Point { x, y };
            self.height = self.height.max(y);
        }
        x += block;
        for &branch in below {
            self.place(walk, branch, x, y + LEVEL);
            x += walk.width(branch);
        }
    }
}

impl Layout {
    /// Positions equal LANs as one box.
    fn fold(&mut self, walk: &Walk, under: Thing, lans: &[usize], at: Point) {
        let (Thing::Node(under), Some(&first)) = (under, lans.first()) else { return };
        let Branch { thing: Thing::Lan(lan), clients, .. } = &walk.branches[first] else { return };
        self.folded.push(Folded { at, under, lans: lans.len(), lan: *lan, clients: clients.len() });
        let all = lans.iter().flat_map(|lan| &walk.branches[*lan].clients);
        all.for_each(|client| self.is_folded[*client] = true);
        self.height = self.height.max(at.y);
    }
}

fn columns(clients: usize) -> usize {
    clients.div_ceil(ROWS).min(MAX_COLUMNS)
}

/// The tree of everything, breadth first.
struct Walk {
    branches: Vec<Branch>,
    roots: Vec<usize>,
    widths: Vec<f64>,
    /// The width of a box including the gap beside it.
    cell: f64,
}

/// The nodes and networks that the walk has not visited yet, and the branches where it continues.
struct Frontier {
    networks_of: Vec<Vec<usize>>,
    seen_nodes: Vec<bool>,
    seen_networks: Vec<bool>,
    queue: VecDeque<usize>,
}

impl Walk {
    fn over(topology: &Topology) -> Self {
        let mut networks_of = vec![Vec::new(); topology.nodes.len()];
        for (index, network) in topology.networks.iter().enumerate() {
            network.members.iter().for_each(|member| networks_of[member.node].push(index));
        }
        let mut frontier = Frontier {
            networks_of,
            seen_nodes: vec![false; topology.nodes.len()],
            seen_networks: vec![false; topology.networks.len()],
            queue: VecDeque::new(),
        };
        let is_large = topology.nodes.len() > LARGE;
        let cell = GAP + if is_large { NARROW_BOX_WIDTH } else { BOX_WIDTH };
        let mut walk = Self { branches: Vec::new(), roots: Vec::new(), widths: Vec::new(), cell };
        let by_role = |role| topology.nodes.iter().enumerate().filter(move |(_, node)| node.role == role);
        for (start, _) in [Role::Server, Role::Router, Role::Client].into_iter().flat_map(by_role) {
            if std::mem::replace(&mut frontier.seen_nodes[start], true) {
                continue;
            }
            let root = walk.add(Thing::Node(start));
            walk.roots.push(root);
            frontier.queue.push_back(root);
            while let Some(branch) = frontier.queue.pop_front() {
                walk.go_on(topology, &mut frontier, branch);
            }
        }
        if is_large {
            walk.fold(topology);
        }
        walk.measure();
        walk
    }

    /// Groups equal LANs of one node that lead no further.
    fn fold(&mut self, topology: &Topology) {
        for index in 0..self.branches.len() {
            if !matches!(self.branches[index].thing, Thing::Node(_)) {
                continue;
            }
            let mut groups: Vec<((usize, Quality), Vec<usize>)> = Vec::new();
            let below = std::mem::take(&mut self.branches[index].below);
            for branch in below {
                match self.leaf_lan(topology, branch) {
                    None => self.branches[index].below.push(branch),
                    Some(kind) => match groups.iter_mut().find(|(other, _)| *other == kind) {
                        Some((_, lans)) => lans.push(branch),
                        None => groups.push((kind, vec![branch])),
                    },
                }
            }
            self.branches[index].folded = groups.into_iter().map(|(_, lans)| lans).collect();
        }
    }

    /// The number of clients of a LAN that leads no further, and the quality of its cables. `None` for
    /// everything else, and for a LAN whose cables differ or lose packets.
    fn leaf_lan(&self, topology: &Topology, branch: usize) -> Option<(usize, Quality)> {
        let Branch { thing: Thing::Lan(lan), below, clients, .. } = &self.branches[branch] else {
            return None;
        };
        let members = &topology.networks[*lan].members;
        let quality = &members.first()?.quality;
        let is_plain = below.is_empty() && !clients.is_empty() && quality.loss.is_none();
        let are_alike = members.iter().all(|member| member.quality == *quality);
        (is_plain && are_alike).then(|| (clients.len(), quality.clone()))
    }

    /// The width of the block of clients below a branch.
    fn block(&self, branch: usize) -> f64 {
        let Branch { clients, folded, .. } = &self.branches[branch];
        columns(clients.len()).max(usize::from(!folded.is_empty())) as f64 * self.cell
    }

    /// Adds the nodes and networks that are first reached from `branch` below it.
    fn go_on(&mut self, topology: &Topology, frontier: &mut Frontier, branch: usize) {
        let thing = self.branches[branch].thing;
        let reached = match thing {
            Thing::Lan(lan) => nodes_of(topology, lan).collect(),
            Thing::Node(node) => self.take_networks(topology, frontier, branch, node),
        };
        for node in reached {
            if std::mem::replace(&mut frontier.seen_nodes[node], true) {
                continue;
            }
            let is_leaf = topology.nodes[node].role == Role::Client && frontier.networks_of[node].len() == 1;
            if is_leaf && matches!(thing, Thing::Lan(_)) {
                self.branches[branch].clients.push(node);
            } else {
                frontier.queue.push_back(self.hang(branch, Thing::Node(node)));
            }
        }
    }

    /// Adds a node's new LANs below it. Returns the nodes at the ends of its new links.
    fn take_networks(
        &mut self,
        topology: &Topology,
        frontier: &mut Frontier,
        branch: usize,
        node: usize,
    ) -> Vec<usize> {
        let mut ends = Vec::new();
        for &network in &frontier.networks_of[node] {
            if std::mem::replace(&mut frontier.seen_networks[network], true) {
                continue;
            }
            match topology.networks[network].kind {
                NetworkKind::Lan => frontier.queue.push_back(self.hang(branch, Thing::Lan(network))),
                NetworkKind::Link => ends.extend(nodes_of(topology, network)),
            }
        }
        ends
    }

    fn add(&mut self, thing: Thing) -> usize {
        self.branches.push(Branch { thing, below: Vec::new(), clients: Vec::new(), folded: Vec::new() });
        self.branches.len() - 1
    }

    fn hang(&mut self, under: usize, thing: Thing) -> usize {
        let branch = self.add(thing);
        self.branches[under].below.push(branch);
        branch
    }

    /// Branches below were added later, so they come first here.
    fn measure(&mut self) {
        self.widths = vec![0.0; self.branches.len()];
        for (index, branch) in self.branches.iter().enumerate().rev() {
            let below: f64 = branch.below.iter().map(|below| self.widths[*below]).sum();
            let least = match branch.thing {
                Thing::Node(_) => self.cell,
                Thing::Lan(_) => MIN_BAR,
            };
            self.widths[index] = (below + self.block(index)).max(least);
        }
    }

    fn width(&self, branch: usize) -> f64 {
        self.widths[branch]
    }
}

fn nodes_of(topology: &Topology, network: usize) -> impl Iterator<Item = usize> {
    topology.networks[network].members.iter().map(|member| member.node)
}
