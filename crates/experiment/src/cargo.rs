//! What a run delivers: one object, or a feed of many.

use std::path::{Path, PathBuf};

use super::{
    feed::{Configuration, Products},
    plan::Planned,
    source::Source,
};
use treecast_lab::quantity::Size;

/// What is at the server of a run.
pub enum Cargo {
    One(Source),
    Feed(Products),
}

impl Cargo {
    /// Whether it is what `planned` delivers.
    pub fn fits(&self, planned: &Planned) -> bool {
        match (self, &planned.feed) {
            (Self::One(source), None) => source.size == planned.size,
            (Self::Feed(products), Some(feed)) => products.seed == feed.seed,
            _ => false,
        }
    }

    pub fn size(&self) -> Size {
        match self {
            Self::One(source) => source.size,
            Self::Feed(products) => products.size(),
        }
    }

    /// What the server's program is told to send, or to read paths from.
    pub fn path(&self) -> &Path {
        match self {
            Self::One(source) => &source.path,
            Self::Feed(products) => &products.pipe,
        }
    }

    /// Where a client's copy is to be.
    pub fn copy_in(&self, folder: &Path) -> PathBuf {
        match self {
            Self::One(source) => folder.join(&source.name),
            Self::Feed(_) => folder.to_owned(),
        }
    }
}

/// How a feed is sent in a run.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedFeed {
    pub configuration: Configuration,
    /// What objects and arrivals are drawn from: the same for all configurations of one load.
    pub seed: u64,
    /// When the last object comes.
    pub lasts: std::time::Duration,
}
