//! What the session of a ring sends: a release whole, or what differs from the versions that its hosts have.

use std::{collections::BTreeSet, path::Path};

use treecast_driver::difference::delta_bytes;

use crate::release::Release;

/// The way in which a session sends a release, and what each way costs, in bytes before losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    pub is_delta: bool,
    pub whole_bytes: u64,
    /// `None` where a host has no earlier version, or the manager does not have it.
    pub delta_bytes: Option<u64>,
}

impl Way {
    /// Chooses the cheaper way. `folder` has the manager's folders of all versions. `versions` has those of the hosts, `None` for a
    /// host without one.
    pub fn choose(release: &Release, folder: &Path, versions: &BTreeSet<Option<String>>) -> Self {
        let whole_bytes = release.size_bytes();
        let older: Option<Vec<&String>> = versions.iter().map(Option::as_ref).collect();
        let has_all = |older: &Vec<&String>| older.iter().all(|version| folder.join(version).is_dir());
        let cost = |older: Vec<&String>| {
            let new = folder.join(&release.version);
            let of_file = |path: &String| {
                let older: Vec<_> = older.iter().map(|version| folder.join(version).join(path)).collect();
                delta_bytes(&new.join(path), older.iter().map(|path| path.as_path()))
            };
            // A file that cannot be read fails in the session, which says why.
            release.files.keys().map(of_file).sum::<std::io::Result<u64>>().ok()
        };
        let delta_bytes = older.filter(has_all).and_then(cost);
        Self { is_delta: delta_bytes.is_some_and(|delta| delta < whole_bytes), whole_bytes, delta_bytes }
    }

    /// Returns the name of the way.
    pub fn word(self) -> &'static str {
        if self.is_delta { "delta" } else { "whole" }
    }
}
