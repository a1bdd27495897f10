//! Options for packets that receivers share. `treecast mead` and `treecast send` have them.

use std::path::Path;

use clap::ValueEnum;
use treecast::unstable::options::{GroupingLimits, MAX_MEAD_ADDRESSES, MeadDialect, Sharing};

use crate::domain_key;

#[derive(clap::Args)]
pub struct SharingArgs {
    /// The largest number of addresses in a packet, routers included: 2 to 32 [default: as many as leave room
    /// for 1280 bytes, 12 at an MTU of 1500]
    #[arg(long, value_name = "N")]
    max: Option<usize>,
    #[command(flatten)]
    thesis: ThesisArgs,
    /// The way to choose the receivers that share a packet: as in the thesis, or so that the links carry the
    /// fewest bytes [default: thesis, and for `treecast send` cost]
    #[arg(long, value_enum)]
    grouping: Option<Grouping>,
    /// Tell routers to replicate packets only where paths diverge
    #[arg(long)]
    dont_replicate: bool,
    /// Address packets to routers, so that a router that fails to act shows no receiver's address to another
    /// receiver
    #[arg(long)]
    to_router: bool,
}

/// Limits of the thesis' grouping.
#[derive(clap::Args)]
struct ThesisArgs {
    /// Serve receivers by unicast if their router has fewer receivers than this (with --min-routers: and also
    /// fewer routers)
    #[arg(long, value_name = "N")]
    min_leaves: Option<usize>,
    /// Serve receivers by unicast if their router has fewer routers behind it than this (with --min-leaves: and
    /// also fewer receivers)
    #[arg(long, value_name = "N")]
    min_routers: Option<usize>,
    /// Let a router also serve the receivers of another one that is at most this many hops behind it; 0: never
    /// [default: 0]
    #[arg(long, value_name = "HOPS")]
    merge: Option<u8>,
    /// Add no further addresses to a packet that has this many [default: --max]
    #[arg(long, value_name = "N")]
    ok: Option<usize>,
    /// Put receivers of one router into several packets if that fills the packets
    #[arg(long)]
    split: bool,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Grouping {
    Thesis,
    Cost,
}

/// Which layout MEADcast's headers have: the published one (`rfc`), or that of the thesis' patched Linux 6.5, which numbers the bits
/// of its maps the other way round. Sender and routers must use the same.
#[derive(Clone, Copy, ValueEnum)]
pub enum WireDialect {
    Rfc,
    #[value(name = "linux-6.5")]
    Linux65,
}

impl SharingArgs {
    /// Converts the options. `by_default` is the grouping if none was named.
    ///
    /// # Errors
    /// If the file with the key cannot be used.
    pub fn sharing(
        &self,
        by_default: Grouping,
        dialect: Option<WireDialect>,
        key: Option<&Path>,
    ) -> Result<Sharing, String> {
        let mut sharing = Sharing::default();
        let thesis = &self.thesis;
        (sharing.max, sharing.ok) = (self.max, thesis.ok);
        sharing.parameters = GroupingLimits {
            max: MAX_MEAD_ADDRESSES,
            ok: MAX_MEAD_ADDRESSES,
            merge: thesis.merge.unwrap_or(0),
            min_leaves: thesis.min_leaves,
            min_routers: thesis.min_routers,
            split: thesis.split,
        };
        sharing.by_cost = self.grouping.unwrap_or(by_default) == Grouping::Cost;
        sharing.dialect = match dialect {
            None | Some(WireDialect::Rfc) => MeadDialect::Rfc,
            Some(WireDialect::Linux65) => MeadDialect::Linux65,
        };
        (sharing.dont_replicate, sharing.to_router) = (self.dont_replicate, self.to_router);
        sharing.key = key.map(domain_key::read).transpose()?;
        Ok(sharing)
    }
}
