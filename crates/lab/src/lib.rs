//! A network of namespaces on this machine, with real processes in it and faults on demand.
//!
//! The lab forwards no packets itself; the kernel does. It speaks no routing protocol: it computes unicast
//! routes once, or runs frr's daemons for OSPF or BGP, and `treecast mroute` routes multicast. It never touches an
//! interface, namespace or process that it did not make.
//!
//! [`Topology::parse`] reads the description of a network, and [`Lab::up`] builds it. `plan` decides every
//! number and name. `up` and `down` carry the plan out through `treecast-host`. `state` keeps on disk what is
//! needed to remove a lab whose builder was killed.

mod background;
mod bgp_table;
mod daemon;
mod down;
mod error;
pub mod events;
mod fault;
mod frr;
mod lab;
mod links;
mod loss;
mod neighbours;
mod options;
pub mod parallel;
mod plan;
pub mod program;
mod relay;
mod routers;
pub mod routes;
mod state;
mod switch;
mod topology;
mod up;
mod upstream;

pub use bgp_table::BgpRoutes;
pub use daemon::Daemon;
pub use error::{Error, Result};
pub use lab::{Lab, Summary};
pub use loss::LossCounters;
pub use options::Options;
pub use plan::{Interface, LabNode};
pub use relay::relay;
pub use routers::Trees;
pub use routes::{Route, Routing};
pub use switch::CableQueue;
pub use topology::{
    AreaRange, Loss, MAX_MULTICAST_INTERFACES, Member, Neighbour, Network, NetworkKind, Node, Quality,
    Relation, Role, Speaker, SpecError, Subnet, Topology, Trunk, parse_rate_bps,
};
pub use treecast_host::{namespace::become_inside, process, quantity};
