//! How receivers share packets: the options of `treecast mead` that `treecast send` has, too.

use std::path::Path;

use clap::ValueEnum;
use treecast_driver::explicit::Sharing;
use treecast_proto::explicit::mead::grouping::Parameters;
use treecast_wire::mead::{Dialect, MAX_ADDRESSES};

use crate::domain_key;

#[derive(clap::Args)]
pub struct SharingArgs {
    /// The most addresses in a packet, routers included: 2 to 32 [default: as many as leave room for 1280 bytes, 12 at an MTU of
    /// 1500]
    #[arg(long, value_name = "N", help_heading = "Grouping")]
    max: Option<usize>,
    /// Receivers of a router with fewer receivers get unicast (with --min-routers: and fewer routers)
    #[arg(long, value_name = "N", help_heading = "Grouping")]
    min_leaves: Option<usize>,
    /// Receivers of a router with fewer routers behind it get unicast (with --min-leaves: and fewer receivers)
    #[arg(long, value_name = "N", help_heading = "Grouping")]
    min_routers: Option<usize>,
    /// Let one router serve another one's receivers, too, when it is at most so many hops before it; 0: never [default: 0]
    #[arg(short, long, value_name = "HOPS", help_heading = "Grouping")]
    merge: Option<u8>,
    /// Fill no packet further that has so many addresses [default: --max]
    #[arg(long, value_name = "N", help_heading = "Grouping")]
    ok: Option<usize>,
    /// Put receivers of one router into several packets where that fills them
    #[arg(short, long, help_heading = "Grouping")]
    split: bool,
    /// Who shares a packet: as in the thesis, or so that the fewest bytes are on all links [default: thesis, and of `treecast
    /// send` cost]
    #[arg(long, value_enum, help_heading = "Grouping")]
    grouping: Option<Grouping>,
    /// Tell routers to replicate packets only where ways part
    #[arg(long, help_heading = "Protocol")]
    dont_replicate: bool,
    /// Address packets to routers, so that one that fails to act shows no receiver's address to another
    #[arg(long, help_heading = "Protocol")]
    to_router: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Grouping {
    Thesis,
    Cost,
}

/// The order of bits in MEADcast's headers.
#[derive(Clone, Copy, ValueEnum)]
pub enum WireDialect {
    Rfc,
    #[value(name = "linux-6.5")]
    Linux65,
}

impl SharingArgs {
    /// `by_default` stands in for a grouping.
    ///
    /// # Errors
    /// When the file with the key cannot be used.
    pub fn sharing(
        &self,
        by_default: Grouping,
        dialect: Option<WireDialect>,
        key: Option<&Path>,
    ) -> Result<Sharing, String> {
        Ok(Sharing {
            max: self.max,
            ok: self.ok,
            parameters: Parameters {
                max: MAX_ADDRESSES,
                ok: MAX_ADDRESSES,
                merge: self.merge.unwrap_or(0),
                min_leaves: self.min_leaves,
                min_routers: self.min_routers,
                split: self.split,
            },
            by_cost: self.grouping.unwrap_or(by_default) == Grouping::Cost,
            dialect: match dialect {
                None | Some(WireDialect::Rfc) => Dialect::Rfc,
                Some(WireDialect::Linux65) => Dialect::Linux65,
            },
            dont_replicate: self.dont_replicate,
            to_router: self.to_router,
            key: key.map(domain_key::read).transpose()?,
        })
    }

    /// One of those that were named.
    pub fn named(&self) -> Option<&'static str> {
        self.max.map(|_| "--max").or_else(|| self.named_but_max())
    }

    /// One of those that were named, if it is not only how long lists may be.
    pub fn named_but_max(&self) -> Option<&'static str> {
        let others = [
            (self.grouping.is_some(), "--grouping"),
            (self.dont_replicate, "--dont-replicate"),
            (self.to_router, "--to-router"),
        ];
        first_named(&others).or_else(|| self.limit_of_the_thesis())
    }

    /// One of those that were named and limit only the thesis' groups.
    pub fn limit_of_the_thesis(&self) -> Option<&'static str> {
        first_named(&[
            (self.min_leaves.is_some(), "--min-leaves"),
            (self.min_routers.is_some(), "--min-routers"),
            (self.merge.is_some(), "--merge"),
            (self.ok.is_some(), "--ok"),
            (self.split, "--split"),
        ])
    }

    /// Whether the thesis' grouping was named.
    pub fn is_by_thesis(&self) -> bool {
        self.grouping == Some(Grouping::Thesis)
    }
}

fn first_named(options: &[(bool, &'static str)]) -> Option<&'static str> {
    options.iter().find_map(|(is_named, option)| is_named.then_some(*option))
}
