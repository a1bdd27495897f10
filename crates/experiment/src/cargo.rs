//! The cargo of a run: one file, or a feed of many.

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

/// The files that the server of a run has to deliver.
pub enum Cargo {
    One(Source),
    Feed(Products),
}

impl Cargo {
    /// Whether these files are the ones that `planned` delivers.
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

    /// Returns the path that the server's program is told: the file to send, or the pipe to read paths from.
    pub fn path(&self) -> &Path {
        match self {
            Self::One(source) => &source.path,
            Self::Feed(products) => &products.pipe,
        }
    }

    /// Returns where a client's copy is stored in `folder`.
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
