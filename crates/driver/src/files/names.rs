//! Gives objects their names: files, symbolic links, and folders, whose modes and times are set last.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{CStr, CString},
    fs::File,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::FileExt,
    },
};

use treecast_wire::{
    chunk_index::MAX_INDEX_LEN,
    message::{Attributes, BeginOfFile, ObjectKind},
};

use crate::chunk_index::LEAST_INDEXED;

use super::{
    PartFile, TargetError, TargetFolder, check_name, file_time,
    link::{MAX_LINK_LEN, check_link},
    sys::{self, Inode, Status, c_string},
    target::{SENDER_LABEL, sender_label},
};
use treecast_host::user;

/// The most names that are remembered; of further ones it is not noticed that they are one in this folder.
const MAX_GIVEN: usize = 1 << 20;

/// Upper bound, in bytes, of the names that are remembered.
const MAX_GIVEN_BYTES: usize = 256 << 20;

/// The most folders whose modes and times wait for the end; further ones get theirs at once.
const MAX_FOLDERS: usize = 1 << 18;

/// Upper bound, in bytes, of the names of folders whose modes and times wait for the end.
const MAX_FOLDER_BYTES: usize = 64 << 20;

/// Permissions by which the owner of a folder can put something into it.
const PUT_INTO: u16 = 0o300;

/// The names that a session has given.
#[derive(Debug)]
pub(super) struct Names {
    folder: TargetFolder,
    /// Names given so far. The key is what the file system has there: where it takes two names for one, the second leads to the
    /// first's file.
    given: BTreeMap<Inode, Box<str>>,
    /// Sum of their lengths, in bytes.
    given_bytes: usize,
    /// The attributes that folders are to have in the end.
    folders: BTreeMap<String, Attributes>,
    /// Modes that folders get back in the end. Nothing could be put into them before.
    opened_up: BTreeMap<String, u16>,
    /// Sum of the lengths, in bytes, of the names in `folders` and `opened_up`.
    folder_bytes: usize,
    made: Made,
    /// Permissions that nothing gets.
    umask: u16,
    /// The folder that [`Names::make`] was in last, and its path.
    recent: Option<(Box<str>, OwnedFd)>,
    /// Whether the file system makes files without a name.
    makes_unnamed: bool,
}

/// The folders that receivers of this session have made, by inode: these get their modes, and no others do.
#[derive(Debug, Default)]
struct Made {
    inodes: BTreeSet<u64>,
    /// Inodes of folders that the journal does not hold yet.
    unnoted: Vec<u64>,
}

impl Names {
    #[cfg(test)]
    pub fn new(folder: TargetFolder) -> Self {
        Self::resuming(folder, BTreeSet::new())
    }

    /// Like [`Names::new`], for a session whose earlier receiver has created the folders with these inodes.
    pub fn resuming(folder: TargetFolder, made: BTreeSet<u64>) -> Self {
        Self {
            folder,
            given: BTreeMap::new(),
            given_bytes: 0,
            folders: BTreeMap::new(),
            opened_up: BTreeMap::new(),
            folder_bytes: 0,
            made: Made { inodes: made, unnoted: Vec::new() },
            umask: user::umask(),
            recent: None,
            makes_unnamed: true,
        }
    }

    /// Takes the inodes of folders that were created since the last call.
    pub fn take_made(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.made.unnoted)
    }

    /// Checks an announcement as far as possible before the object's bytes are there.
    pub fn check(begin: &BeginOfFile) -> Result<(), TargetError> {
        let name = begin.file_name();
        let refuse = |why: &str| Err(TargetError::Name { name: name.to_owned(), why: why.to_owned() });
        match begin.kind() {
            ObjectKind::Index if begin.file_size > MAX_INDEX_LEN => refuse("no index is so long"),
            ObjectKind::Link if begin.file_size > MAX_LINK_LEN => refuse("a link leads to no such long path"),
            _ => check_name(name).or_else(|why| refuse(&why)),
        }
    }

    /// Gives an object its final name, and replaces a file or link of that name. Returns the new file's status.
    ///
    /// # Errors
    /// If the name or the link is refused, something is in the way, another object of the session has the name
    /// already (in a folder that treats two names as one), or the kernel refuses. Nothing is changed then.
    pub fn commit(&mut self, part: PartFile, begin: &BeginOfFile) -> Result<Status, TargetError> {
        Self::check(begin)?;
        match begin.kind() {
            ObjectKind::File => self.commit_file(part, begin),
            ObjectKind::Link => self.commit_link(&part, begin),
            ObjectKind::Folder => self.commit_folder(begin),
            ObjectKind::Index => {
                let name = begin.file_name().to_owned();
                Err(TargetError::Name { name, why: "an index is no file".to_owned() })
            }
        }
    }

    /// Creates a file with `content`. It gets its only name when it is complete. `None` if it was not created:
    /// something has the name, the file system has no files without names, or another error happened, which
    /// [`Names::commit`] would report.
    pub fn make(&mut self, begin: &BeginOfFile, content: &[u8]) -> Option<Status> {
        let name = begin.file_name();
        Self::check(begin).ok().filter(|()| self.makes_unnamed)?;
        let (parents, last) = name.rsplit_once('/').unwrap_or(("", name));
        let parent = match self.recent.take().filter(|(path, _)| **path == *parents) {
            Some((_, parent)) => parent,
            None => self.place(name).ok()?.0,
        };
        let status = self.make_in(&parent, &c_string(last).ok()?, begin, content);
        self.recent = Some((parents.into(), parent));
        self.note_given(None, status?, name);
        status
    }

    /// Forgets the open folder, because somebody may put another one in its place.
    pub fn forget_folder(&mut self) {
        self.recent = None;
    }

    fn make_in(
        &mut self,
        parent: &OwnedFd,
        last: &CStr,
        begin: &BeginOfFile,
        content: &[u8],
    ) -> Option<Status> {
        let attributes = begin.attributes();
        let mode = attributes.map_or(0o666, |attributes| attributes.mode) & !self.umask;
        let opened = sys::open_unnamed(parent, mode.into());
        self.makes_unnamed = opened.is_ok();
        make_of(opened.ok()?, parent, last, attributes, content).ok()
    }

    /// Notes an object that has its name from an earlier receiver of the session.
    pub fn note_kept(&mut self, begin: &BeginOfFile, status: Status) {
        self.remember(status.inode, begin.file_name());
    }

    /// Gives folders their modes and times, inner folders first. Returns a line for the user if some could not
    /// have them.
    pub fn finish(&mut self) -> Option<String> {
        let mut failed = Vec::new();
        while let Some((name, attributes)) = self.folders.pop_last() {
            if let Err(error) = self.set_attributes(&name, attributes) {
                failed.push((name, error));
            }
        }
        while let Some((name, mode)) = self.opened_up.pop_last() {
            let restored = self.folder.open_folder(&name).and_then(|folder| sys::set_mode(folder, mode));
            failed.extend(restored.err().map(|error| (name, error)));
        }
        let (name, error) = failed.first()?;
        let others =
            if failed.len() > 1 { format!(" and {} others", failed.len() - 1) } else { String::new() };
        Some(format!("folder {name:?}{others} could not be given its mode and time: {error}"))
    }

    /// Gives a folder its time, and its mode if it has been made for this session. One that was there keeps its mode, and
    /// another user's its time.
    fn set_attributes(&self, name: &str, attributes: Attributes) -> io::Result<()> {
        let folder = self.folder.open_folder(name)?;
        let status = sys::status_at(&folder, c"")?;
        if self.made.inodes.contains(&status.inode.1) {
            sys::set_mode(&folder, attributes.mode & !self.umask)?;
        } else if !status.is_ours() {
            return Ok(());
        }
        sys::set_modified_at(&folder, c"", file_time(attributes.modified))
    }

    fn commit_file(&mut self, mut part: PartFile, begin: &BeginOfFile) -> Result<Status, TargetError> {
        let name = begin.file_name();
        let (parent, last) = self.place(name)?;
        let replaced = self.check_place(&parent, &last, name)?;
        let failed = |source| self.folder.error(format!("give {name:?} its mode and time"), source);
        let mode = begin.attributes().map_or(0o666, |attributes| attributes.mode);
        let file = part.file().map_err(failed)?;
        sys::set_mode(file, mode & !self.umask).map_err(failed)?;
        if let Some(attributes) = begin.attributes() {
            sys::set_modified_at(file, c"", file_time(attributes.modified)).map_err(failed)?;
        }
        if let Some(key) = self.folder.sender().filter(|_| begin.file_size >= LEAST_INDEXED) {
            let modified = sys::status_at(file, c"").map_err(failed)?.modified;
            // A file system without labels only means that the file is no older version later, unless the user names it.
            _ = sys::label(file, SENDER_LABEL, &sender_label(&key, modified));
        }
        let renamed = part.rename(&parent, &last);
        let status = renamed.map_err(|source| self.folder.name_error(name, name, source))?;
        self.note_given(replaced, status, name);
        Ok(status)
    }

    /// A link is made beside the part file and then renamed, so that it replaces what was there in one instant.
    fn commit_link(&mut self, part: &PartFile, begin: &BeginOfFile) -> Result<Status, TargetError> {
        let name = begin.file_name();
        let failed = |source| self.folder.name_error(name, name, source);
        let mut target = vec![0; begin.file_size.min(MAX_LINK_LEN) as usize];
        part.file().and_then(|file| file.read_exact_at(&mut target, 0)).map_err(failed)?;
        check_link(name, &target).map_err(|why| TargetError::Link {
            name: name.to_owned(),
            target: String::from_utf8_lossy(&target).escape_debug().to_string(),
            why,
        })?;
        let target = CString::new(target).map_err(|error| failed(error.into()))?;
        let (parent, last) = self.place(name)?;
        let replaced = self.check_place(&parent, &last, name)?;
        let failed = |source| self.folder.name_error(name, name, source);
        let temporary = part.link_name().map_err(failed)?;
        let root = self.folder.root();
        // One that a killed receiver has left.
        _ = sys::remove_at(root, &temporary);
        sys::make_link_at(&target, root, &temporary).map_err(failed)?;
        let rename = if self.folder.rules().keep_existing { sys::rename_new_at } else { sys::rename_at };
        let renamed = rename((root, &temporary), (&parent, &last));
        renamed.inspect_err(|_| _ = sys::remove_at(root, &temporary)).map_err(failed)?;
        if let Some(attributes) = begin.attributes() {
            sys::set_modified_at(&parent, &last, file_time(attributes.modified)).map_err(failed)?;
        }
        let status = sys::status_at(&parent, &last).map_err(failed)?;
        self.note_given(replaced, status, name);
        Ok(status)
    }

    fn commit_folder(&mut self, begin: &BeginOfFile) -> Result<Status, TargetError> {
        let name = begin.file_name();
        let (parent, last) = self.place(name)?;
        let failed = |source| self.folder.name_error(name, name, source);
        // Nobody else's before it has its mode.
        let is_new = sys::make_folder_at(&parent, &last, 0o700).map_err(failed)?;
        let folder = sys::open_at(&parent, &last, sys::OPEN_FOLDER, 0).map_err(failed)?;
        let status = self.note_folder(&folder, name)?;
        self.note_made(is_new, status);
        match begin.attributes() {
            Some(attributes) if has_room(&self.folders, self.folder_bytes, name) => {
                let is_new_name = self.folders.insert(name.to_owned(), attributes).is_none();
                self.folder_bytes += if is_new_name { name.len() } else { 0 };
            }
            Some(attributes) => {
                let failed = |source| self.folder.error(format!("give {name:?} its mode and time"), source);
                self.set_attributes(name, attributes).map_err(failed)?;
            }
            None => {}
        }
        Ok(status)
    }

    /// The folder that `name`'s last component belongs in, made with those on the way if they are missing, and that
    /// component.
    fn place(&mut self, name: &str) -> Result<(OwnedFd, CString), TargetError> {
        let (parents, last) = name.rsplit_once('/').unwrap_or(("", name));
        let failed = |source| self.folder.name_error(name, name, source);
        let last = c_string(last).map_err(failed)?;
        if let Ok(folder) = self.folder.open_folder(parents) {
            if !parents.is_empty() {
                let status = self.note_folder(&folder, parents)?;
                self.open_up(&folder, parents, status)?;
            }
            return Ok((folder, last));
        }
        let mut folder = self.folder.open_folder("").map_err(failed)?;
        for (at, _) in name.match_indices('/') {
            folder = self.step(&folder, name, &name[..at])?;
        }
        Ok((folder, last))
    }

    /// Lets this user put something into a folder of its own whose mode forbids that, such as one that was received with mode 0555.
    /// The folder gets its mode back in the end.
    fn open_up(&mut self, folder: &OwnedFd, path: &str, status: Status) -> Result<(), TargetError> {
        let mode = status.permissions();
        if mode & PUT_INTO == PUT_INTO
            || !status.is_ours()
            || user::is_root()
            || !has_room(&self.opened_up, self.folder_bytes, path)
        {
            return Ok(());
        }
        let failed = |source| self.folder.name_error(path, path, source);
        sys::set_mode(folder, mode | PUT_INTO).map_err(failed)?;
        if !self.made.inodes.contains(&status.inode.1) && !self.opened_up.contains_key(path) {
            self.folder_bytes += path.len();
            self.opened_up.insert(path.to_owned(), mode);
        }
        Ok(())
    }

    /// Opens the folder at `path`, a part of `name`, in the one around it, and makes it when it is missing.
    fn step(&mut self, around: &OwnedFd, name: &str, path: &str) -> Result<OwnedFd, TargetError> {
        let failed = |source| self.folder.name_error(name, path, source);
        let component = path.rsplit_once('/').map_or(path, |(_, component)| component);
        let component = c_string(component).map_err(failed)?;
        let is_new = sys::make_folder_at(around, &component, 0o777).map_err(failed)?;
        let folder = sys::open_at(around, &component, sys::OPEN_FOLDER, 0).map_err(failed)?;
        let status = self.note_folder(&folder, path)?;
        self.note_made(is_new, status);
        self.open_up(&folder, path, status)?;
        Ok(folder)
    }

    fn note_made(&mut self, is_new: bool, status: Status) {
        let inode = status.inode.1;
        if is_new && self.made.inodes.len() < MAX_FOLDERS && self.made.inodes.insert(inode) {
            self.made.unnoted.push(inode);
        }
    }

    fn note_folder(&mut self, folder: &OwnedFd, path: &str) -> Result<Status, TargetError> {
        let failed = |source| self.folder.error(format!("look at {path:?}"), source);
        let status = sys::status_at(folder.as_fd(), c"").map_err(failed)?;
        self.check_given(status.inode, path)?;
        self.note_given(None, status, path);
        Ok(status)
    }

    /// Checks that the entry at a place is not another object of the session. Returns its inode.
    fn check_place(
        &self,
        parent: &OwnedFd,
        last: &CString,
        name: &str,
    ) -> Result<Option<Inode>, TargetError> {
        let Ok(status) = sys::status_at(parent, last) else { return Ok(None) };
        self.check_given(status.inode, name)?;
        Ok(Some(status.inode))
    }

    fn check_given(&self, inode: Inode, name: &str) -> Result<(), TargetError> {
        let Some(other) = self.given.get(&inode).filter(|other| &***other != name) else { return Ok(()) };
        // It may be gone, and its place in the file system somebody else's.
        if self.folder.status_of(other).is_ok_and(|status| status.inode == inode) {
            return Err(TargetError::OneName {
                name: name.to_owned(),
                other: other.to_string(),
                folder: self.folder.path().to_owned(),
            });
        }
        Ok(())
    }

    fn note_given(&mut self, replaced: Option<Inode>, status: Status, name: &str) {
        if let Some(replaced) = replaced {
            self.given_bytes -= self.given.remove(&replaced).map_or(0, |name| name.len());
        }
        let is_known = self.given.get(&status.inode).is_some_and(|known| **known == *name);
        if !is_known {
            self.remember(status.inode, name);
        }
    }

    fn remember(&mut self, inode: Inode, name: &str) {
        if self.given.len() < MAX_GIVEN && self.given_bytes + name.len() <= MAX_GIVEN_BYTES {
            self.given_bytes += name.len();
            self.given_bytes -= self.given.insert(inode, name.into()).map_or(0, |before| before.len());
        }
    }
}

/// Whether one more name of a folder may wait for the end, beside names of `bytes` in all.
fn has_room<T>(waiting: &BTreeMap<String, T>, bytes: usize, name: &str) -> bool {
    waiting.contains_key(name) || waiting.len() < MAX_FOLDERS && bytes + name.len() <= MAX_FOLDER_BYTES
}

/// Makes a file of one without a name, which gets it when it is whole.
fn make_of(
    unnamed: OwnedFd,
    parent: &OwnedFd,
    last: &CStr,
    attributes: Option<Attributes>,
    content: &[u8],
) -> io::Result<Status> {
    let file = File::from(unnamed);
    file.write_all_at(content, 0)?;
    if let Some(attributes) = attributes {
        sys::set_modified_at(&file, c"", file_time(attributes.modified))?;
    }
    sys::give_name(&file, parent, last)?;
    sys::status_at(&file, c"")
}

impl TargetFolder {
    /// Creates a file in this folder in the way a receiver does for a complete small object, and does nothing
    /// else. It shows the unavoidable cost of a file.
    ///
    /// # Errors
    /// The error of the kernel; [`io::ErrorKind::Unsupported`] if the file system has no files without names.
    pub fn make_file(&self, name: &str, attributes: Attributes, content: &[u8]) -> io::Result<()> {
        let unnamed = sys::open_unnamed(self.root(), attributes.mode.into())?;
        make_of(unnamed, self.root(), &c_string(name)?, Some(attributes), content).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::{MetadataExt, PermissionsExt, symlink},
        path::Path,
    };

    use treecast_wire::{
        header::{FileId, SessionId},
        message::{ModificationTime, TransferType},
    };

    use super::*;
    use crate::files::Journal;
    use crate::scratch::scratch;

    /// A folder and what gives names in it.
    struct Target {
        names: Names,
        journal: Journal,
    }

    impl Target {
        fn new(path: &Path) -> Self {
            let folder = TargetFolder::open(path).unwrap();
            let (journal, _) = Journal::open(&folder, SessionId(0), false).unwrap();
            Self { names: Names::new(folder), journal }
        }

        fn commit(&mut self, begin: &BeginOfFile, content: &str) -> Result<Status, String> {
            let part = self.journal.part(FileId(1), false).unwrap();
            part.file().unwrap().write_all_at(content.as_bytes(), 0).unwrap();
            self.names.commit(part, begin).map_err(|error| error.to_string())
        }

        fn file(&mut self, name: &str, content: &str) -> Result<Status, String> {
            self.commit(&plain(name, content.len()), content)
        }
    }

    fn plain(name: &str, size: usize) -> BeginOfFile {
        BeginOfFile::new(TransferType::DiskToDisk, size as u64, name).unwrap()
    }

    fn of_kind(kind: ObjectKind, mode: u16, name: &str, size: usize) -> BeginOfFile {
        let modified = ModificationTime { seconds: 1_000_000_007, nanoseconds: 5 };
        plain(name, size).with_attributes(Attributes { kind, mode, modified }).unwrap()
    }

    /// A name may have 4,096 bytes, and a sender may send a million of them.
    #[test]
    fn names_are_remembered_up_to_so_many_bytes() {
        let scratch = scratch("names-bytes");
        let mut names = Target::new(&scratch).names;
        names.given_bytes = MAX_GIVEN_BYTES - 5;
        names.remember((1, 1), "first");
        names.remember((1, 2), "second");
        assert_eq!((names.given.len(), names.given_bytes), (1, MAX_GIVEN_BYTES));
        names.given.remove(&(1, 1));
        names.given_bytes -= 5;
        names.remember((1, 2), "4 by");
        assert_eq!((names.given.len(), names.given_bytes), (1, MAX_GIVEN_BYTES - 1));
        let waiting = BTreeMap::from([("known".to_owned(), ())]);
        let has_room = |name| has_room(&waiting, MAX_FOLDER_BYTES - 3, name);
        assert!(has_room("new") && has_room("known") && !has_room("long"));
    }

    #[test]
    fn a_file_replaces_the_old_one_and_has_its_mode_and_time() {
        let path = scratch("names");
        let mut target = Target::new(&path);
        std::fs::write(path.join("name"), "old").unwrap();
        target.commit(&of_kind(ObjectKind::File, 0o751, "name", 3), "new").unwrap();
        let there = path.join("name").metadata().unwrap();
        assert_eq!((there.mode() & 0o7777, there.mtime(), there.mtime_nsec()), (0o751, 1_000_000_007, 5));
        assert_eq!(std::fs::read(path.join("name")).unwrap(), b"new");
        target.file("sub/folder/name", "x").unwrap();
        assert!(path.join("sub/folder/name").is_file());
    }

    #[test]
    fn what_is_there_stays_where_the_rules_say_so() {
        let path = scratch("names-keep");
        let mut target = Target::new(&path);
        let rules = crate::files::Rules { keep_existing: true, ..crate::files::Rules::default() };
        target.names.folder = target.names.folder.clone().with_rules(rules);
        target.journal = Journal::open(&target.names.folder, SessionId(1), false).unwrap().0;
        target.file("set/name", "first").unwrap();
        symlink("name", path.join("set/link")).unwrap();
        assert!(target.names.make(&plain("set/name", 3), b"new").is_none());
        let link = of_kind(ObjectKind::Link, 0, "set/link", 5);
        let file = target.file("set/name", "new").unwrap_err();
        for line in [file, target.commit(&link, "other").unwrap_err()] {
            assert!(line.contains("stays as it is"), "{line}");
        }
        assert_eq!(std::fs::read(path.join("set/name")).unwrap(), b"first");
        assert_eq!(std::fs::read_link(path.join("set/link")).unwrap(), Path::new("name"));
    }

    #[test]
    fn folders_get_their_modes_and_times_in_the_end() {
        let path = scratch("names-folders");
        let mut target = Target::new(&path);
        for name in ["set", "set/sub"] {
            target.commit(&of_kind(ObjectKind::Folder, 0o555, name, 0), "").unwrap();
        }
        target.file("set/sub/name", "x").unwrap();
        assert_eq!(target.names.finish(), None);
        for name in ["set", "set/sub"] {
            let there = path.join(name).metadata().unwrap();
            assert_eq!((there.mode() & 0o7777, there.mtime()), (0o555, 1_000_000_007), "{name}");
        }
        std::fs::set_permissions(path.join("set"), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::set_permissions(path.join("set/sub"), std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn nothing_gets_more_permissions_than_the_receiver_lets_it_have() {
        let path = scratch("names-umask");
        let mut target = Target::new(&path);
        target.names.umask = 0o027;
        target.commit(&of_kind(ObjectKind::Folder, 0o777, "set", 0), "").unwrap();
        target.commit(&of_kind(ObjectKind::File, 0o777, "set/part", 3), "abc").unwrap();
        target.names.make(&of_kind(ObjectKind::File, 0o666, "set/small", 3), b"abc").unwrap();
        target.file("set/plain", "abc").unwrap();
        assert_eq!(target.names.finish(), None);
        let mode = |name| path.join(name).metadata().unwrap().mode() & 0o7777;
        let modes = ["set", "set/part", "set/small", "set/plain"].map(mode);
        assert_eq!(modes, [0o750, 0o750, 0o640, 0o640]);
    }

    #[test]
    fn a_folder_that_was_there_keeps_its_mode_and_one_that_the_session_made_gets_its_own() {
        let path = scratch("names-existing");
        std::fs::create_dir(path.join("there")).unwrap();
        std::fs::set_permissions(path.join("there"), std::fs::Permissions::from_mode(0o700)).unwrap();
        let mut killed = Target::new(&path);
        killed.file("made/name", "x").unwrap();
        let made = killed.names.take_made();
        assert_eq!(made.len(), 1);
        drop(killed);
        let mut target = Target::new(&path);
        target.names = Names::resuming(target.names.folder.clone(), made.into_iter().collect());
        for name in ["there", "made"] {
            target.commit(&of_kind(ObjectKind::Folder, 0o750, name, 0), "").unwrap();
        }
        assert_eq!(target.names.finish(), None);
        let mode = |name| path.join(name).metadata().unwrap().mode() & 0o7777;
        assert_eq!((mode("there"), mode("made")), (0o700, 0o750 & !u32::from(user::umask())));
    }

    #[test]
    fn a_file_that_somebody_has_put_in_place_of_a_verified_one_gets_no_name() {
        let path = scratch("names-exchanged");
        let mut target = Target::new(&path);
        let part = target.journal.part(FileId(1), false).unwrap();
        part.file().unwrap().write_all_at(b"right", 0).unwrap();
        let hidden = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path());
        let hidden = hidden.into_iter().find(|path| path.extension().is_some_and(|end| end == "part"));
        let hidden = hidden.unwrap();
        std::fs::write(path.join("forged"), "wrong").unwrap();
        std::fs::rename(path.join("forged"), &hidden).unwrap();
        let line = target.names.commit(part, &plain("name", 5)).unwrap_err().to_string();
        assert!(line.contains("somebody else"), "{line}");
        assert!(!path.join("name").exists());
    }

    #[test]
    fn links_are_made_as_long_as_they_stay_in_their_set() {
        let path = scratch("names-links");
        let mut target = Target::new(&path);
        let mut link =
            |name: &str, to: &str| target.commit(&of_kind(ObjectKind::Link, 0, name, to.len()), to);
        link("set/link", "sub/name").unwrap();
        link("set/link", "name").unwrap();
        assert_eq!(std::fs::read_link(path.join("set/link")).unwrap(), Path::new("name"));
        assert_eq!(path.join("set/link").symlink_metadata().unwrap().mtime(), 1_000_000_007);
        for (name, to) in [("set/out", "../../x"), ("set/root", "/etc"), ("alone", "../x")] {
            let line = link(name, to).unwrap_err();
            assert!(line.contains(name) && line.contains("is not made") && !line.contains('\n'), "{line}");
        }
        assert!(!path.join("set/out").exists() && !path.join("alone").exists());
        // A set without a folder of its own: `send DIR/`.
        link("beside", "name").unwrap();
        assert_eq!(std::fs::read_link(path.join("beside")).unwrap(), Path::new("name"));
        let through = target.file("set/link/below", "x").unwrap_err();
        assert!(through.contains("set/link is a symbolic link"), "{through}");
    }

    /// A hard link is what a folder that takes two names for one shows.
    #[test]
    fn two_names_that_are_one_in_this_folder_lose_nothing() {
        let path = scratch("names-case");
        let mut target = Target::new(&path);
        target.file("Name", "first").unwrap();
        std::fs::hard_link(path.join("Name"), path.join("name")).unwrap();
        let line = target.file("name", "second").unwrap_err();
        assert!(line.contains("\"name\" and \"Name\" are one name"), "{line}");
        assert_eq!(std::fs::read(path.join("Name")).unwrap(), b"first");
        std::fs::remove_file(path.join("Name")).unwrap();
        target.file("name", "second").unwrap();
        target.file("name", "third").unwrap();
        assert_eq!(std::fs::read(path.join("name")).unwrap(), b"third");
    }

    #[test]
    fn what_is_in_the_way_is_named_with_what_to_do() {
        let path = scratch("in-the-way");
        std::fs::create_dir(path.join("folder")).unwrap();
        std::fs::write(path.join("file"), "x").unwrap();
        let mut target = Target::new(&path);
        let folder = of_kind(ObjectKind::Folder, 0o755, "file", 0);
        let advice = "remove or rename it, or take another folder";
        for (line, what) in [
            (target.file("folder", "x").unwrap_err(), "folder is a folder"),
            (target.file("file/below", "x").unwrap_err(), "file is a file"),
            (target.commit(&folder, "").unwrap_err(), "file is a file"),
        ] {
            assert!(line.contains(what) && line.ends_with(advice), "{line}");
        }
    }

    #[test]
    fn a_symbolic_link_that_was_there_leads_nowhere() {
        let path = scratch("symlink");
        let outside = scratch("symlink-outside");
        symlink(&outside, path.join("sub")).unwrap();
        let mut target = Target::new(&path);
        for name in ["sub/name", "sub/deep/name"] {
            let line = target.file(name, "x").unwrap_err();
            assert!(line.contains(name) && line.contains("sub is a symbolic link"), "{line}");
        }
        let folder = target.commit(&of_kind(ObjectKind::Folder, 0o700, "sub", 0), "").unwrap_err();
        assert!(folder.contains("sub is a symbolic link"), "{folder}");
        target.file("sub", "replaces it").unwrap();
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    }
}
