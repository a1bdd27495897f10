//! A folder below which a program reads and removes what others may rename meanwhile.

use std::{
    ffi::{CString, OsStr, OsString},
    fs::File,
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::{
            ffi::{OsStrExt, OsStringExt},
            fs::{FileTypeExt, OpenOptionsExt},
        },
    },
    path::Path,
};

use rustix::{
    fs::{self, AtFlags, Dir, FileType, Mode, OFlags},
    io::Errno,
};

use crate::folder::{OPEN_FOLDER, Status, c_string, open_at, open_beneath, remove_at, rename_at, status_at};

/// The flags for opening a file for reading. Nothing waits, and no terminal becomes this process' own.
const READ: i32 = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;

/// An open folder. All that is opened, listed or removed through it is below it, whatever is renamed meanwhile: no
/// symbolic link is followed. What is no regular file is never opened for reading, since opening a device or a pipe
/// can have effects of its own.
#[derive(Debug)]
pub struct Root(OwnedFd);

/// The kind of an entry of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
    Link,
    /// A device, a named pipe or a socket.
    Special,
}

impl Root {
    /// Opens a folder. Symbolic links in `path` are followed: who names it trusts it.
    ///
    /// # Errors
    /// If it is no folder, or cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = libc::O_DIRECTORY | libc::O_CLOEXEC;
        Ok(Self(File::options().read(true).custom_flags(flags).open(path)?.into()))
    }

    /// Opens the folder at `path` below this one. An empty path is this folder.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn folder(&self, path: &Path) -> io::Result<OwnedFd> {
        open_beneath(&self.0, path, OPEN_FOLDER)
    }

    /// Opens the folder at `path` below this one, as a root of its own. An empty path is this folder.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn below(&self, path: &Path) -> io::Result<Self> {
        self.folder(path).map(Self)
    }

    /// Opens the regular file at `path` below this folder. `None` if something else is there.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn file(&self, path: &Path) -> io::Result<Option<File>> {
        let found = open_beneath(&self.0, path, libc::O_PATH)?;
        if !status_at(&found, c"")?.is_file() {
            return Ok(None);
        }
        match open_found(&found) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (parent, name) = self.parent(path)?;
                same(found, open_at(&parent, &name, READ | libc::O_NOFOLLOW, 0)?)
            }
            opened => opened.map(Some),
        }
    }

    /// The status of what is at `path` below this folder; of a symbolic link itself.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn status(&self, path: &Path) -> io::Result<Status> {
        status_at(open_beneath(&self.0, path, libc::O_PATH)?, c"")
    }

    /// The target and the status of the symbolic link at `path` below this folder.
    ///
    /// # Errors
    /// If there is no link, and the error of the kernel.
    pub fn link(&self, path: &Path) -> io::Result<(OsString, Status)> {
        let link = open_beneath(&self.0, path, libc::O_PATH)?;
        let status = status_at(&link, c"")?;
        if !status.is_link() {
            return Err(Errno::INVAL.into());
        }
        let target = fs::readlinkat(&link, c"", Vec::new())?;
        Ok((OsString::from_vec(target.into_bytes()), status))
    }

    /// Hands the names and kinds of the entries of the folder at `path` to `take`, until it returns false.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn list(&self, path: &Path, mut take: impl FnMut(&OsStr, Kind) -> bool) -> io::Result<()> {
        let folder = self.folder(path)?;
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match status_at(&folder, name) {
                    Ok(status) => Kind::of(&status),
                    // It has just been removed.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                },
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Folder,
                FileType::Symlink => Kind::Link,
                _ => Kind::Special,
            };
            if !take(OsStr::from_bytes(name.to_bytes()), kind) {
                break;
            }
        }
        Ok(())
    }

    /// Removes the file at `path` below this folder if `is_it` says so of its status. Returns whether it was removed.
    ///
    /// # Errors
    /// The error of the kernel. A file that is not there is no error.
    pub fn remove_if(&self, path: &Path, is_it: impl FnOnce(&Status) -> bool) -> io::Result<bool> {
        let removed = self.parent(path).and_then(|(parent, name)| {
            let is_it = is_it(&status_at(&parent, &name)?);
            if is_it { remove_at(&parent, &name).map(|()| true) } else { Ok(false) }
        });
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            removed => removed,
        }
    }

    /// Removes everything that is in this folder, and follows no link.
    ///
    /// # Errors
    /// The first error of the kernel. The rest is removed nevertheless.
    pub fn clear(&self) -> io::Result<()> {
        let mut entries = Vec::new();
        self.list(Path::new(""), |name, kind| {
            entries.push((name.to_owned(), kind));
            true
        })?;
        let remove = |(name, kind): (OsString, Kind)| {
            let c_name = c_string(&name)?;
            if kind != Kind::Folder {
                return remove_at(&self.0, &c_name);
            }
            self.below(Path::new(&name))?.clear()?;
            Ok(fs::unlinkat(&self.0, c_name, AtFlags::REMOVEDIR)?)
        };
        entries.into_iter().map(remove).fold(Ok(()), io::Result::and)
    }

    /// The open folder around what is at `path`, and its name there.
    fn parent(&self, path: &Path) -> io::Result<(OwnedFd, CString)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((self.folder(path.parent().unwrap_or(Path::new("")))?, c_string(name)?))
    }

    /// Opens the folder at `path`, unless that is a symbolic link.
    ///
    /// # Errors
    /// If it is no folder, or cannot be read.
    pub fn open_itself(path: &Path) -> io::Result<Self> {
        Ok(Self(File::options().read(true).custom_flags(OPEN_FOLDER).open(path)?.into()))
    }

    /// The descriptor of the folder.
    pub fn descriptor(&self) -> &OwnedFd {
        &self.0
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Kind {
    fn of(status: &Status) -> Self {
        match status {
            _ if status.is_file() => Self::File,
            _ if status.is_folder() => Self::Folder,
            _ if status.is_link() => Self::Link,
            _ => Self::Special,
        }
    }
}

/// Opens the regular file or block device at `path`. Symbolic links are followed: who names it trusts it. `None` if
/// something else is there.
///
/// # Errors
/// The error of the kernel.
pub fn open_named(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = fs::open(path, flags, Mode::empty())?;
    let found = File::from(found);
    let kind = found.metadata()?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Ok(None);
    }
    match open_found(&found) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let opened = File::options().read(true).custom_flags(READ).open(path)?;
            same(found.into(), opened.into())
        }
        opened => opened.map(Some),
    }
}

/// Opens for reading what a descriptor of the kind O_PATH has found. `NotFound` without /proc.
fn open_found(found: &impl AsFd) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", found.as_fd().as_raw_fd());
    let flags = OFlags::from_bits_retain(READ as u32);
    Ok(fs::open(path, flags, Mode::empty())?.into())
}

/// `opened` if it is what was found. `None` if something else has taken its place.
fn same(found: OwnedFd, opened: OwnedFd) -> io::Result<Option<File>> {
    let is_same = status_at(&found, c"")?.inode == status_at(&opened, c"")?.inode;
    Ok(is_same.then(|| File::from(opened)))
}

/// Attributes of a file or folder that are kept outside its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extended {
    /// Whether it has access lists (POSIX ACLs).
    pub has_access_list: bool,
    /// Whether it has extended attributes of users, or capabilities.
    pub has_attributes: bool,
}

/// The extended attributes of an open file or folder. Labels of security modules do not count: each host sets its own.
pub fn extended(file: impl AsFd) -> Extended {
    let mut names = Vec::with_capacity(4096);
    let names = match fs::flistxattr(&file, rustix::buffer::spare_capacity(&mut names)) {
        Ok(_) => names,
        // More names than fit are certainly some of a user's.
        Err(Errno::RANGE) => return Extended { has_access_list: false, has_attributes: true },
        Err(_) => Vec::new(),
    };
    let names = || names.split(|byte| *byte == 0);
    Extended {
        has_access_list: names().any(|name| name.starts_with(b"system.posix_acl_")),
        has_attributes: names().any(|name| {
            name.starts_with(b"user.") || name.starts_with(b"trusted.") || name == b"security.capability"
        }),
    }
}

/// Makes a file in a folder, with these bytes and the permissions `mode`. Returns it, open for adding to it.
///
/// # Errors
/// `AlreadyExists` if anything has the name, and the error of the kernel.
pub fn write_new(folder: &OwnedFd, name: &OsStr, bytes: &[u8], mode: u32) -> io::Result<File> {
    let flags =
        libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let mut file = File::from(open_at(folder, &c_string(name)?, flags, mode)?);
    io::Write::write_all(&mut file, bytes)?;
    Ok(file)
}

/// Writes a file in a folder whole: it is there with these bytes and the permissions `mode`, or as it was. Returns it,
/// open for adding to it. Only a file that is made here is ever written to.
///
/// # Errors
/// The error of the kernel.
pub fn write_whole(folder: &OwnedFd, name: &OsStr, bytes: &[u8], mode: u32) -> io::Result<File> {
    let mut new = name.to_owned();
    new.push(".new");
    let (c_name, c_new) = (c_string(name)?, c_string(&new)?);
    match remove_at(folder, &c_new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = write_new(folder, &new, bytes, mode)?;
    rename_at((folder, &c_new), (folder, &c_name))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;
    use crate::temporary::TemporaryFolder;

    /// An access list as Linux keeps it (posix_acl_xattr.h): version 2, then the entry's kind, permissions and user, each time.
    #[test]
    fn attributes_and_access_lists_are_found() {
        let place = TemporaryFolder::new(&std::env::temp_dir(), "treecast-root-").unwrap();
        let path = place.path().join("file");
        fs::write(&path, "x").unwrap();
        let found = || {
            let Extended { has_access_list, has_attributes } = extended(File::open(&path).unwrap());
            (has_access_list, has_attributes)
        };
        assert_eq!(found(), (false, false));
        let set = |name: &str, value: &[u8]| {
            rustix::fs::setxattr(&path, name, value, rustix::fs::XattrFlags::empty()).unwrap();
        };
        set("user.note", b"x");
        assert_eq!(found(), (false, true));
        let nobody = u32::MAX;
        let entries =
            [(1_u16, 6_u16, nobody), (2, 4, 12_345), (4, 4, nobody), (0x10, 4, nobody), (0x20, 4, nobody)];
        let entries = entries.map(|(kind, permissions, user)| {
            [&kind.to_le_bytes()[..], &permissions.to_le_bytes(), &user.to_le_bytes()].concat()
        });
        set("system.posix_acl_access", &[&2_u32.to_le_bytes()[..], &entries.concat()].concat());
        assert_eq!(found(), (true, true));
    }

    #[test]
    fn only_regular_files_are_opened_and_only_what_is_meant_is_removed() {
        let place = TemporaryFolder::new(&std::env::temp_dir(), "treecast-root-").unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("root/sub")).unwrap();
        for name in ["root/sub/file", "outside"] {
            fs::write(at(name), name).unwrap();
        }
        symlink("../../outside", at("root/sub/link")).unwrap();
        crate::folder::make_pipe(&at("root/pipe")).unwrap();
        let root = Root::open(&at("root")).unwrap();
        let opened = |name: &str| root.file(Path::new(name)).map(|file| file.is_some());
        assert!(opened("sub/file").unwrap());
        assert!(!opened("pipe").unwrap() && !opened("sub").unwrap());
        assert!(!opened("sub/link").unwrap(), "a link is no file");
        assert_eq!(root.link(Path::new("sub/link")).unwrap().0, "../../outside");
        assert_eq!(root.link(Path::new("sub/file")).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        let mut entries = Vec::new();
        root.list(Path::new("sub"), |name, kind| {
            entries.push((name.to_owned(), kind));
            true
        })
        .unwrap();
        entries.sort_by_key(|(name, _)| name.clone());
        assert_eq!(entries, [("file".into(), Kind::File), ("link".into(), Kind::Link)]);
        // The folder is exchanged for a link to where a file of this name is.
        fs::rename(at("root/sub"), at("elsewhere")).unwrap();
        symlink("../elsewhere", at("root/sub")).unwrap();
        let remove = |name: &str| root.remove_if(Path::new(name), Status::is_file);
        assert!(remove("sub/file").is_err() && at("elsewhere/file").exists());
        assert!(opened("sub/file").is_err() && root.list(Path::new("sub"), |_, _| true).is_err());
        assert!(!remove("missing").unwrap() && !remove("pipe").unwrap());
        assert!(place.root().remove_if(Path::new("outside"), Status::is_file).unwrap());
    }

    #[test]
    fn a_file_is_written_whole_and_through_no_link() {
        let place = TemporaryFolder::new(&std::env::temp_dir(), "treecast-whole-").unwrap();
        let (folder, at) = (place.root().descriptor(), |name: &str| place.path().join(name));
        fs::write(at("outside"), "x").unwrap();
        for name in ["state", "state.new"] {
            symlink("outside", at(name)).unwrap();
        }
        write_whole(folder, OsStr::new("state"), b"new", 0o600).unwrap();
        assert_eq!(fs::read(at("outside")).unwrap(), b"x");
        assert_eq!((fs::read(at("state")).unwrap(), at("state").is_symlink()), (b"new".to_vec(), false));
        assert!(write_new(folder, OsStr::new("state"), b"", 0o600).is_err());
    }
}
