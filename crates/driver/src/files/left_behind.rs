//! Properties of files that receivers do not get, counted.

use std::{
    collections::HashSet,
    fs::{File, Metadata},
    os::unix::fs::MetadataExt,
};

use treecast_host::{folder::Inode, root, user};

use crate::words::counted;

/// The most files with several names that are remembered.
const MOST_INODES: usize = 1 << 20;

/// The bits for set-user-ID, set-group-ID and sticky.
const SPECIAL_BITS: u32 = 0o7000;

/// The number of entries whose properties receivers do not get.
#[derive(Debug)]
pub struct LeftBehind {
    special_bits: usize,
    owners: usize,
    attributes: usize,
    access_lists: usize,
    /// Further names of files that have one in the set.
    hard_links: usize,
    linked: HashSet<Inode>,
    own_user: u32,
}

impl Default for LeftBehind {
    fn default() -> Self {
        Self {
            special_bits: 0,
            owners: 0,
            attributes: 0,
            access_lists: 0,
            hard_links: 0,
            linked: HashSet::new(),
            own_user: user::effective(),
        }
    }
}

impl LeftBehind {
    /// Counts the properties of an open file or folder.
    pub(super) fn count(&mut self, file: &File, metadata: &Metadata) {
        let extended = root::extended(file);
        self.access_lists += usize::from(extended.has_access_list);
        self.attributes += usize::from(extended.has_attributes);
        self.special_bits += usize::from(metadata.mode() & SPECIAL_BITS != 0);
        self.owners += usize::from(metadata.uid() != self.own_user);
        if metadata.is_file() && metadata.nlink() > 1 && self.linked.len() < MOST_INODES {
            let is_new = self.linked.insert((metadata.dev(), metadata.ino()));
            self.hard_links += usize::from(!is_new);
        }
    }

    /// A line for the user. `None` if receivers get everything.
    pub fn warning(&self) -> Option<String> {
        let kinds = [
            (self.special_bits, "set-user-ID, set-group-ID or sticky bits of", ""),
            (self.owners, "other owners of", ""),
            (self.attributes, "extended attributes of", ""),
            (self.access_lists, "access lists (ACLs) of", ""),
            (self.hard_links, "hard links:", " sent as a file of its own"),
        ];
        let told = kinds.into_iter().filter(|(count, ..)| *count > 0);
        let told: Vec<_> = told
            .map(|(count, what, end)| {
                let entries = counted(count, "entry").replace("entrys", "entries");
                format!("{what} {entries}{end}")
            })
            .collect();
        (!told.is_empty()).then(|| format!("not carried to receivers: {}", told.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;
    use crate::scratch::scratch;

    #[test]
    fn what_receivers_do_not_get_is_counted_in_one_line() {
        let folder = scratch("left-behind");
        let count = |left: &mut LeftBehind, name: &str| {
            let file = File::open(folder.join(name)).unwrap();
            left.count(&file, &file.metadata().unwrap());
        };
        let mut left = LeftBehind::default();
        fs::write(folder.join("plain"), "x").unwrap();
        count(&mut left, "plain");
        assert_eq!(left.warning(), None);
        fs::set_permissions(folder.join("plain"), fs::Permissions::from_mode(0o4755)).unwrap();
        fs::hard_link(folder.join("plain"), folder.join("second")).unwrap();
        for name in ["plain", "second"] {
            count(&mut left, name);
        }
        left.own_user = left.own_user.wrapping_add(1);
        count(&mut left, ".");
        assert_eq!(
            left.warning().unwrap(),
            "not carried to receivers: set-user-ID, set-group-ID or sticky bits of 2 entries, other owners of 1 entry, \
             hard links: 1 entry sent as a file of its own"
        );
    }
}
