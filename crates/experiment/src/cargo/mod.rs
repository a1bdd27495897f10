//! The cargo of a run: one file, or a feed of many.

pub mod products;
pub mod source;

use std::path::{Path, PathBuf};

use treecast_lab::quantity::Size;

use self::{products::Products, source::Source};

/// The files that the server of a run has to deliver.
pub enum Cargo {
    One(Source),
    Feed(Products),
}

impl Cargo {
    /// Whether it is one file of this size.
    pub fn is_file_of(&self, size: Size) -> bool {
        matches!(self, Self::One(source) if source.size == size)
    }

    /// Whether it is a feed whose files come from this seed, and have this size together.
    pub fn is_feed_of(&self, seed: u64, size: Size) -> bool {
        matches!(self, Self::Feed(products) if products.seed == seed && products.size() == size)
    }

    pub fn size(&self) -> Size {
        match self {
            Self::One(source) => source.size,
            Self::Feed(products) => products.size(),
        }
    }

    /// Returns the file that the server sends. A feed has none: its paths come by standard input.
    pub fn path(&self) -> &Path {
        match self {
            Self::One(source) => &source.path,
            Self::Feed(_) => Path::new("-"),
        }
    }

    /// Returns where a client's copy is stored in `folder`.
    pub fn copy_in(&self, folder: &Path) -> PathBuf {
        match self {
            Self::One(source) => folder.join(&source.name),
            Self::Feed(_) => folder.to_owned(),
        }
    }
}
