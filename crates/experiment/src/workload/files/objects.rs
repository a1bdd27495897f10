//! Reads what a workload delivers: random bytes of some sizes, or a real file.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use treecast_lab::quantity::Size;

use crate::{
    Error,
    cargo::{Cargo, source::Source},
    document::{Experiment, THIS_PROGRAM},
    engine::runner::store_failed,
    store::Store,
};

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectKeys {
    pub sizes: Option<Vec<Size>>,
    pub file: Option<String>,
}

/// The file that is delivered.
#[derive(Debug, Clone, PartialEq)]
pub enum Objects {
    /// Random bytes of these sizes.
    Random(Vec<Size>),
    /// One real file.
    File(PathBuf),
}

impl ObjectKeys {
    /// Checks the values and returns the objects. Their paths start at `folder`.
    pub fn complete(self, folder: &Path) -> Result<Objects, String> {
        match (self.sizes, self.file) {
            (Some(sizes), None) if !sizes.is_empty() => Ok(Objects::Random(sizes)),
            (None, Some(file)) if file == THIS_PROGRAM => {
                std::env::current_exe().map(Objects::File).map_err(|error| error.to_string())
            }
            (None, Some(file)) => Ok(Objects::File(folder.join(file))),
            _ => Err("workload: expected either `sizes` or `file`, with something to send".into()),
        }
    }
}

impl Objects {
    /// Returns the sizes of what is delivered, one after the other.
    pub fn sizes(&self) -> Result<Vec<Size>, Error> {
        match self {
            Self::Random(sizes) => Ok(sizes.clone()),
            Self::File(path) => {
                let failed = |error| Error::Object { path: path.clone(), error };
                let found = std::fs::metadata(path).map_err(failed)?;
                if found.is_file() && found.len() > 0 {
                    Ok(vec![Size(found.len())])
                } else {
                    Err(failed(std::io::Error::other("it is not a file with something in it")))
                }
            }
        }
    }

    /// Puts the object of a size into the store.
    pub fn cargo(&self, store: &Store, size: Size, experiment: &Experiment) -> Result<Cargo, Error> {
        match self {
            Self::File(path) => Source::copy_of(store, path)
                .map(Cargo::One)
                .map_err(|error| Error::Object { path: path.clone(), error }),
            Self::Random(_) => Source::random(store, size, experiment.habits.seed)
                .map(Cargo::One)
                .map_err(store_failed(experiment)),
        }
    }
}
