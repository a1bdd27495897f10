//! Where everything in the picture goes.
//!
//! A breadth-first walk from the servers makes a tree of nodes and LANs; each is centred above what
//! it leads to. Clients that are on one LAN only hang from it in a block. What the tree leaves out
//! (a ring's last link) is drawn between the places that come out.

use std::collections::VecDeque;

use crate::topology::{NetworkKind, Role, Topology};

pub const BOX_WIDTH: f64 = 68.0;
pub const BOX_HEIGHT: f64 = 20.0;

const GAP: f64 = 10.0;
const MARGIN: f64 = 16.0;
/// Room for the title and the legend.
const TOP: f64 = 96.0;
/// Between a node and the LAN or node below it.
const LEVEL: f64 = 52.0;
const ROW: f64 = BOX_HEIGHT + 9.0;
/// Clients under a LAN stand in columns of so many, and in no more columns than this.
const ROWS: usize = 5;
const MAX_COLUMNS: usize = 12;
/// Room for a LAN's label.
const MIN_BAR: f64 = 112.0;

/// The middle of something.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
}

/// A LAN.
#[derive(Debug, Clone, Copy)]
pub struct Bar {
    pub left: f64,
    pub right: f64,
    pub y: f64,
}

/// Places by index of the topology's nodes and networks.
pub struct Layout {
    pub nodes: Vec<Point>,
    pub bars: Vec<Option<Bar>>,
    pub width: f64,
    pub height: f64,
}

#[derive(Debug, Clone, Copy)]
enum Thing {
    Node(usize),
    Lan(usize),
}

/// Part of the tree.
struct Branch {
    thing: Thing,
    below: Vec<usize>,
    /// Clients that hang from a LAN.
    clients: Vec<usize>,
}

impl Layout {
    pub fn of(topology: &Topology) -> Self {
        let walk = Walk::over(topology);
        let bars = vec![None; topology.networks.len()];
        let nodes = vec![Point::default(); topology.nodes.len()];
        let mut layout = Self { nodes, bars, width: 3.0 * (BOX_WIDTH + GAP), height: TOP };
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
        let Branch { thing, below, clients } = &walk.branches[branch];
        self.height = self.height.max(y);
        match thing {
            Thing::Node(node) => self.nodes[*node] = Point { x: left + width / 2.0, y },
            Thing::Lan(lan) => self.bars[*lan] = Some(Bar { left: left + GAP, right: left + width - GAP, y }),
        }
        let below_width: f64 = below.iter().map(|below| walk.width(*below)).sum();
        let block = columns(clients.len()) as f64 * (BOX_WIDTH + GAP);
        let mut x = left + (width - below_width - block) / 2.0;
        for (position, client) in clients.iter().enumerate() {
            let (column, row) = (position % columns(clients.len()), position / columns(clients.len()));
            let (x, y) = (x + (column as f64 + 0.5) * (BOX_WIDTH + GAP), y + LEVEL * 0.7 + row as f64 * ROW);
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

fn columns(clients: usize) -> usize {
    clients.div_ceil(ROWS).min(MAX_COLUMNS)
}

/// The tree of everything, breadth first.
struct Walk {
    branches: Vec<Branch>,
    roots: Vec<usize>,
    widths: Vec<f64>,
}

impl Walk {
    fn over(topology: &Topology) -> Self {
        let mut networks_of = vec![Vec::new(); topology.nodes.len()];
        for (index, network) in topology.networks.iter().enumerate() {
            network.members.iter().for_each(|member| networks_of[member.node].push(index));
        }
        let mut walk = Self { branches: Vec::new(), roots: Vec::new(), widths: Vec::new() };
        let mut seen_nodes = vec![false; topology.nodes.len()];
        let mut seen_networks = vec![false; topology.networks.len()];
        let by_role = |role| topology.nodes.iter().enumerate().filter(move |(_, node)| node.role == role);
        for (start, _) in [Role::Server, Role::Router, Role::Client].into_iter().flat_map(by_role) {
            if std::mem::replace(&mut seen_nodes[start], true) {
                continue;
            }
            let root = walk.add(Thing::Node(start));
            walk.roots.push(root);
            let mut queue = VecDeque::from([root]);
            while let Some(branch) = queue.pop_front() {
                let reached: Vec<usize> = match walk.branches[branch].thing {
                    Thing::Lan(lan) => {
                        topology.networks[lan].members.iter().map(|member| member.node).collect()
                    }
                    Thing::Node(node) => {
                        let new = |network: &&usize| !std::mem::replace(&mut seen_networks[**network], true);
                        let new: Vec<usize> = networks_of[node].iter().filter(new).copied().collect();
                        let is_lan = |network: &usize| topology.networks[*network].kind == NetworkKind::Lan;
                        let (lans, links): (Vec<usize>, Vec<usize>) = new.into_iter().partition(is_lan);
                        queue.extend(lans.into_iter().map(|lan| walk.hang(branch, Thing::Lan(lan))));
                        let ends = links.into_iter().flat_map(|link| &topology.networks[link].members);
                        ends.map(|member| member.node).collect()
                    }
                };
                for node in reached {
                    if std::mem::replace(&mut seen_nodes[node], true) {
                        continue;
                    }
                    let on_lan = matches!(walk.branches[branch].thing, Thing::Lan(_));
                    if on_lan && topology.nodes[node].role == Role::Client && networks_of[node].len() == 1 {
                        walk.branches[branch].clients.push(node);
                    } else {
                        queue.push_back(walk.hang(branch, Thing::Node(node)));
                    }
                }
            }
        }
        walk.measure();
        walk
    }

    fn add(&mut self, thing: Thing) -> usize {
        self.branches.push(Branch { thing, below: Vec::new(), clients: Vec::new() });
        self.branches.len() - 1
    }

    fn hang(&mut self, under: usize, thing: Thing) -> usize {
        let branch = self.add(thing);
        self.branches[under].below.push(branch);
        branch
    }

    /// What is below was added later.
    fn measure(&mut self) {
        self.widths = vec![0.0; self.branches.len()];
        for (index, branch) in self.branches.iter().enumerate().rev() {
            let below: f64 = branch.below.iter().map(|below| self.widths[*below]).sum();
            let block = columns(branch.clients.len()) as f64 * (BOX_WIDTH + GAP);
            let least = match branch.thing {
                Thing::Node(_) => BOX_WIDTH + GAP,
                Thing::Lan(_) => MIN_BAR,
            };
            self.widths[index] = (below + block).max(least);
        }
    }

    fn width(&self, branch: usize) -> f64 {
        self.widths[branch]
    }
}
