//! The owner of received files.

use std::{fs::File, io, os::fd::OwnedFd, path::Path, str::FromStr};

use treecast_host::{folder, user};

/// A user and a group, or one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    user: Option<u32>,
    group: Option<u32>,
}

impl FromStr for Owner {
    type Err = String;

    /// Reads USER, USER:GROUP or :GROUP, each a name or a number.
    fn from_str(text: &str) -> Result<Self, String> {
        let (user, group) = text.split_once(':').unwrap_or((text, ""));
        let id = |name: &str, find: fn(&str) -> Option<u32>, what| match name {
            "" => Ok(None),
            name => name
                .parse()
                .ok()
                .or_else(|| find(name))
                .map(Some)
                .ok_or(format!("this host has no {what} {name:?}")),
        };
        let owner =
            Self { user: id(user, user::user_id, "user")?, group: id(group, user::group_id, "group")? };
        match owner {
            Self { user: None, group: None } => {
                Err("expected an owner like www-data or www-data:www-data".to_owned())
            }
            owner => Ok(owner),
        }
    }
}

impl Owner {
    /// Gives an object in a folder to the owner.
    ///
    /// # Errors
    /// The kernel's, mostly that only root may do so.
    pub fn take(&self, folder: &Path, name: &str) -> io::Result<()> {
        let folder: OwnedFd = File::open(folder)?.into();
        folder::set_owner_beneath(&folder, Path::new(name), self.user, self.group)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{MetadataExt, symlink},
    };

    use super::*;

    #[test]
    fn an_owner_is_a_user_or_a_group_or_both() {
        assert_eq!("root:7".parse(), Ok(Owner { user: Some(0), group: Some(7) }));
        assert_eq!(":root".parse(), Ok(Owner { user: None, group: Some(0) }));
        for wrong in ["", ":", "no-such-user", "root:no-such-group"] {
            assert!(wrong.parse::<Owner>().is_err(), "{wrong}");
        }
    }

    /// Needs root, because only root may give files away.
    #[test]
    fn no_link_leads_to_a_file_elsewhere() {
        let folder = crate::scratch::scratch("owner");
        let owners = |path: &str| {
            let there = folder.join(path).symlink_metadata().unwrap();
            (there.uid(), there.gid())
        };
        for path in ["into/inside", "elsewhere"] {
            fs::create_dir_all(folder.join(path)).unwrap();
        }
        for path in ["into/inside/file", "elsewhere/file", "elsewhere/hard"] {
            fs::write(folder.join(path), "").unwrap();
        }
        symlink("../elsewhere", folder.join("into/link")).unwrap();
        symlink("../elsewhere/file", folder.join("into/link-to-file")).unwrap();
        fs::hard_link(folder.join("elsewhere/hard"), folder.join("into/hard")).unwrap();
        let own = owners("elsewhere/file");
        let owner = Owner { user: Some(7), group: Some(8) };
        let into = folder.join("into");
        for path in ["inside", "inside/file", "link", "link-to-file"] {
            owner.take(&into, path).unwrap();
            assert_eq!(owners(&format!("into/{path}")), (7, 8), "{path}");
            owner.take(&into, path).unwrap();
        }
        for path in ["hard", "link/file", "../elsewhere/file", "/etc/passwd"] {
            assert!(owner.take(&into, path).is_err(), "{path}");
        }
        for path in ["elsewhere", "elsewhere/file", "elsewhere/hard"] {
            assert_eq!(owners(path), own, "{path}");
        }
        let other = Owner { user: Some(9), group: None };
        assert!(other.take(&into, "inside/file").is_err(), "it is another user's");
    }
}
