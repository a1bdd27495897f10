//! The kinds of workloads, each in a folder of its own: its keys, its plan, its runs in a lab and in the simulator, and its measures.

pub mod feed;
pub mod files;
pub mod load;
pub mod multihoming;
pub mod sharing;
pub mod stream;

use std::path::Path;

use serde::de::DeserializeOwned;
use toml::Table;

use crate::Completion;

/// Reads the keys of a workload, which `complete` will check.
fn read<K: DeserializeOwned + 'static, W>(
    keys: Table,
    complete: fn(K, &Path) -> Result<W, String>,
) -> Result<Completion, toml::de::Error>
where
    W: crate::Workload + 'static,
{
    let keys: K = keys.try_into()?;
    Ok(Box::new(move |folder| Ok(std::sync::Arc::new(complete(keys, folder)?))))
}
