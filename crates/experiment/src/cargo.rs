//! What a run delivers: one file, or a feed of many.

use std::{
    io,
    path::{Path, PathBuf},
};

use treecast_lab::quantity::Size;

use crate::{
    feed::Products,
    plan::{Planned, Work},
    source::Source,
    store::Store,
};

/// What is at the server of a run.
pub enum Cargo {
    One(Source),
    Feed(Products),
}

impl Cargo {
    /// Whether it is what `planned` delivers.
    pub fn fits(&self, planned: &Planned) -> bool {
        match (self, &planned.work) {
            (Self::One(source), Work::File(size) | Work::Shared(size, _)) => source.size == *size,
            (Self::Feed(products), Work::Feed(feed)) => products.seed == feed.seed,
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

    /// Makes a file of random bytes.
    pub fn random(store: &Store, size: Size, seed: u64) -> io::Result<Self> {
        Source::random(store, size, seed).map(Self::One)
    }
}
