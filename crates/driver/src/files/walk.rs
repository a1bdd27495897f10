//! Finds the files, folders and links to send from the paths that a user names, and their names in the session.

use std::{
    collections::BTreeMap,
    fmt,
    fs::{DirEntry, FileType},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use treecast_wire::message::{BeginOfFile, FILE_NAME_LEN, TransferType};

use super::{Source, SourceError, Unsendable, check_name, link::check_link, target::is_own};
use crate::words::in_one_line;

/// An object to send, and its name for receivers.
#[derive(Debug)]
pub struct NamedSource {
    pub name: String,
    pub source: Source,
}

impl NamedSource {
    /// The object's announcement.
    ///
    /// # Errors
    /// If it cannot be sent under this name.
    pub fn begin(&self) -> Result<BeginOfFile, SourceError> {
        let begin = BeginOfFile::new(TransferType::DiskToDisk, self.source.size(), &self.name);
        let begin = match self.source.attributes() {
            Some(attributes) => begin.and_then(|begin| begin.with_attributes(attributes)),
            None => begin,
        };
        let begin = begin.map(|begin| if self.source.is_compressed() { begin.compressed() } else { begin });
        let begin = begin.map(|begin| if self.source.has_index() { begin.with_index() } else { begin });
        begin.map_err(|error| SourceError::Name {
            path: self.source.path().to_owned(),
            why: error.to_string(),
        })
    }
}

/// The objects to send, and what was skipped.
#[derive(Debug, Default)]
pub struct Found {
    pub sources: Vec<NamedSource>,
    pub skipped: Skipped,
}

/// The entries of folders that are not sent, with the reasons.
#[derive(Debug, Default)]
pub struct Skipped {
    count: usize,
    /// The first of them by name, at most [`Skipped::NAMED`].
    first: BTreeMap<PathBuf, Why>,
}

/// Why an entry is not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Why {
    /// It is neither a file nor a folder nor a symbolic link.
    Special,
    /// A receiver keeps such files beside those that are on their way to it.
    Own,
    /// It is a symbolic link with this target, which is absolute or outside the folder.
    Outside(PathBuf),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Special => f.write_str("a special file"),
            Self::Own => f.write_str("treecast's own"),
            Self::Outside(target) => {
                let what = if target.is_absolute() { "an absolute link" } else { "a link out of the folder" };
                write!(f, "{what}, to {}", in_one_line(&target.to_string_lossy()))
            }
        }
    }
}

impl Skipped {
    /// How many entries the warning names.
    const NAMED: usize = 5;

    fn add(&mut self, name: PathBuf, why: Why) {
        self.count += 1;
        self.first.insert(name, why);
        if self.first.len() > Self::NAMED {
            self.first.pop_last();
        }
    }

    /// A line for the user. `None` if nothing was skipped.
    pub fn warning(&self) -> Option<String> {
        if self.count == 0 {
            return None;
        }
        let named = self.first.iter();
        let named = named.map(|(name, why)| format!("{} ({why})", in_one_line(&name.to_string_lossy())));
        let entries = if self.count == 1 { "entry" } else { "entries" };
        let others = match self.count - self.first.len() {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        let named = named.collect::<Vec<_>>().join(", ");
        Some(format!("{} {entries} skipped: {named}{others}", self.count))
    }
}

/// What is behind `paths`, in the order of the paths; a folder stands for itself and all that is below it, by name. A
/// file is called by its own name, one in a folder by the path that begins with the folder's. Symbolic links are
/// followed where they are named, and carried as links inside folders. Links there that would lead out of the folder,
/// and what is no file, folder or link, are skipped.
///
/// # Errors
/// When paths cannot be read, objects would get one name, or names cannot be sent: all of them together.
pub fn find_sources(paths: &[PathBuf]) -> Result<Found, SourceError> {
    find_sources_until(paths, &|| false)
}

/// Like [`find_sources`], until `is_stopped`. Searching a large network file system takes minutes.
///
/// # Errors
/// Those of [`find_sources`], and [`SourceError::Interrupted`].
pub fn find_sources_until(paths: &[PathBuf], is_stopped: &dyn Fn() -> bool) -> Result<Found, SourceError> {
    let (mut found, mut unsendable) = (Found::default(), Unsendable::default());
    // What cannot be sent whatever is in it is not searched, and nothing else is then.
    for path in paths {
        unsendable.sift(path, check_own_name(path));
    }
    unsendable.refuse()?;
    let mut unsendable = Unsendable::default();
    for path in paths {
        let Some((own_name, is_folder)) = unsendable.sift(path, look_at(path)) else { continue };
        if is_folder {
            walk(path, &own_name, is_stopped, &mut found, &mut unsendable)?;
        } else {
            found.sources.extend(unsendable.sift(path, named_file(path, &own_name)));
        }
    }
    sift_equal_names(&found.sources, &mut unsendable);
    unsendable.refuse().map(|()| found)
}

/// Whether a path has a name of its own: the root folder has none.
fn check_own_name(path: &Path) -> Result<(), SourceError> {
    let has_name = path.file_name().is_some();
    let is_root = !has_name && path.canonicalize().is_ok_and(|path| path.parent().is_none());
    if is_root { Err(SourceError::NoName { path: path.to_owned() }) } else { Ok(()) }
}

/// What a path is called, and whether it is a folder.
fn look_at(path: &Path) -> Result<(PathBuf, bool), SourceError> {
    let unreadable = |source| SourceError::Unreadable { path: path.to_owned(), source };
    let own_name = match path.file_name() {
        Some(name) => PathBuf::from(name),
        // "." and "..": the canonical path has a name. Others need none, and may have none: a file
        // reached through /proc/PID/fd.
        None => path.canonicalize().map_err(unreadable)?.file_name().map(PathBuf::from).unwrap_or_default(),
    };
    Ok((own_name, path.metadata().map_err(unreadable)?.is_dir()))
}

/// The file at `path`, as an object that is called `name`.
///
/// # Errors
/// If it cannot be read, or cannot have this name.
pub fn named_file(path: &Path, name: &Path) -> Result<NamedSource, SourceError> {
    Ok(NamedSource { name: checked(path, name)?, source: Source::new(path)? })
}

fn walk(
    folder: &Path,
    prefix: &Path,
    is_stopped: &dyn Fn() -> bool,
    found: &mut Found,
    unsendable: &mut Unsendable,
) -> Result<(), SourceError> {
    let mut pending = vec![(folder.to_owned(), prefix.to_owned())];
    let mut objects = BTreeMap::new();
    while let Some((folder, prefix)) = pending.pop() {
        if is_stopped() {
            return Err(SourceError::Interrupted);
        }
        let itself = checked(&folder, &prefix)
            .and_then(|name| Ok(NamedSource { name, source: Source::folder(&folder)? }));
        objects.extend(unsendable.sift(&folder, itself).map(|itself| (prefix.clone(), itself)));
        for (entry, kind) in unsendable.sift(&folder, entries(&folder, is_stopped)).unwrap_or_default() {
            if is_stopped() {
                return Err(SourceError::Interrupted);
            }
            if unsendable.is_enough() {
                return Ok(());
            }
            let (path, name) = (entry.path(), prefix.join(entry.file_name()));
            // What a receiver keeps beside files that are on their way there.
            if entry.file_name().to_str().is_some_and(is_own) {
                found.skipped.add(name, Why::Own);
                continue;
            }
            if kind.is_dir() {
                pending.push((path, name));
                continue;
            }
            let object =
                if kind.is_file() { named_file(&path, &name).map(Ok) } else { link(&path, &name, kind) };
            match unsendable.sift(&path, object) {
                Some(Ok(object)) => _ = objects.insert(name, object),
                Some(Err(why)) => found.skipped.add(name, why),
                None => {}
            }
        }
    }
    found.sources.extend(objects.into_values());
    Ok(())
}

/// What is in a folder; nothing when the search is stopped meanwhile.
fn entries(folder: &Path, is_stopped: &dyn Fn() -> bool) -> Result<Vec<(DirEntry, FileType)>, SourceError> {
    let unreadable = |source| SourceError::Unreadable { path: folder.to_owned(), source };
    let with_kind = |entry: io::Result<DirEntry>| {
        let entry = entry?;
        let kind = entry.file_type()?;
        Ok((entry, kind))
    };
    let entries = std::fs::read_dir(folder).map_err(unreadable)?;
    let entries = entries.enumerate().take_while(|(number, _)| number % 1024 != 1023 || !is_stopped());
    entries.map(|(_, entry)| with_kind(entry)).collect::<io::Result<_>>().map_err(unreadable)
}

/// The symbolic link at `path`, or why it is not carried.
fn link(path: &Path, name: &Path, kind: FileType) -> Result<Result<NamedSource, Why>, SourceError> {
    if !kind.is_symlink() {
        return Ok(Err(Why::Special));
    }
    let name = checked(path, name)?;
    let target = std::fs::read_link(path)
        .map_err(|source| SourceError::Unreadable { path: path.to_owned(), source })?;
    if check_link(&name, target.as_os_str().as_bytes()).is_err() {
        return Ok(Err(Why::Outside(target)));
    }
    Ok(Ok(NamedSource { name, source: Source::link(path, target)? }))
}

/// `name` as it is sent.
fn checked(path: &Path, name: &Path) -> Result<String, SourceError> {
    let refuse = |why: String| SourceError::Name { path: path.to_owned(), why };
    let name = name.to_str().ok_or_else(|| refuse("it is not UTF-8".into()))?;
    if name.len() > FILE_NAME_LEN {
        return Err(refuse(format!("it has {} bytes, and {FILE_NAME_LEN} can be sent", name.len())));
    }
    check_name(name).map_err(refuse)?;
    Ok(name.to_owned())
}

fn sift_equal_names(found: &[NamedSource], unsendable: &mut Unsendable) {
    let mut seen: BTreeMap<&str, &Path> = BTreeMap::new();
    for NamedSource { name, source } in found {
        if let Some(other) = seen.insert(name, source.path()) {
            let (path, other) = (source.path().to_owned(), other.to_owned());
            let same = SourceError::SameName { path, other, name: name.clone() };
            unsendable.sift::<()>(source.path(), Err(same));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, ffi::OsStr};

    use treecast_wire::message::ObjectKind;

    use super::*;
    use crate::scratch::scratch;

    #[test]
    fn a_folder_stands_for_itself_and_what_is_below_it() {
        let folder = scratch("walk");
        std::fs::create_dir_all(folder.join("a/b/none")).unwrap();
        for name in ["z", "a/b/deep", "a/x"] {
            std::fs::write(folder.join(name), name).unwrap();
        }
        std::os::unix::fs::symlink("../x", folder.join("a/b/link")).unwrap();
        let found = find_sources(&[folder.join("a"), folder.join("z")]).unwrap();
        assert_eq!(found.skipped.warning(), None);
        let told = |source: &NamedSource| {
            (source.name.clone(), source.begin().unwrap().kind(), source.source.size())
        };
        let (file, folder_, link) = (ObjectKind::File, ObjectKind::Folder, ObjectKind::Link);
        let expected = [
            ("a", folder_, 0),
            ("a/b", folder_, 0),
            ("a/b/deep", file, 8),
            ("a/b/link", link, 4),
            ("a/b/none", folder_, 0),
            ("a/x", file, 3),
            ("z", file, 1),
        ];
        let expected = expected.map(|(name, kind, size)| (name.to_owned(), kind, size));
        assert_eq!(found.sources.iter().map(told).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_search_ends_when_it_is_stopped() {
        let folder = scratch("walk-stopped");
        (0..9).for_each(|number| std::fs::write(folder.join(number.to_string()), "").unwrap());
        let left = Cell::new(5);
        let is_stopped = || left.replace(left.get() - 1) == 0;
        let error = find_sources_until(&[folder.to_path_buf()], &is_stopped).unwrap_err();
        assert!(matches!(error, SourceError::Interrupted), "{error}");
        assert_eq!(left.get(), -1, "it went on");
    }

    #[test]
    fn what_is_skipped_is_told_in_one_line() {
        let folder = scratch("walk-skips");
        std::fs::create_dir_all(folder.join("src")).unwrap();
        std::fs::write(folder.join("src/file"), "x").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.join("src/other")).unwrap();
        let warning = || find_sources(&[folder.join("src")]).unwrap().skipped.warning().unwrap();
        let other = "src/other (an absolute link, to /etc/passwd)";
        assert_eq!(warning(), format!("1 entry skipped: {other}"));
        std::os::unix::fs::symlink("../fi\nle", folder.join("src/out")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.join("src/a-socket")).unwrap();
        let out = r"src/out (a link out of the folder, to ../fi\nle)";
        assert_eq!(warning(), format!("3 entries skipped: src/a-socket (a special file), {other}, {out}"));
        let own =
            |number| std::fs::write(folder.join(format!("src/.treecast-0000000{number}.0.journal")), "x");
        (1..=4).for_each(|number| own(number).unwrap());
        let line = warning();
        assert!(
            line.starts_with("7 entries skipped: src/.treecast-00000001.0.journal (treecast's own), "),
            "{line}"
        );
        assert!(line.ends_with("src/a-socket (a special file) and 2 more"), "{line}");
    }

    #[test]
    fn all_that_cannot_be_sent_is_told_in_one_line() {
        let folder = scratch("walk-all-bad");
        std::fs::create_dir_all(folder.join("one/same")).unwrap();
        let name = |name: &[u8]| folder.join(OsStr::from_bytes(name));
        for bad in [&b"same"[..], b"one/new\nline", b"one/0\xff", b"one/good"] {
            std::fs::write(name(bad), "").unwrap();
        }
        let paths = [name(b"same"), name(b"one"), name(b"one/same"), name(b"nothing")];
        let told = || find_sources(&paths).unwrap_err().to_string();
        let line = told();
        assert!(line.starts_with("4 files or folders cannot be sent") && !line.contains('\n'), "{line}");
        for part in [
            "new\\nline (its name: ",
            "(its name: it is not UTF-8)",
            "(would be called same, as ",
            "(cannot be read: ",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(!line.contains("good") && !line.contains("more"), "{line}");
        (0..12).for_each(|number| std::fs::write(name(format!("one/{number}\t").as_bytes()), "").unwrap());
        let line = told();
        assert!(line.starts_with("16 files or folders") && line.contains(", and 6 more; rename"), "{line}");
    }

    #[test]
    fn what_can_never_be_sent_is_not_searched() {
        let folder = scratch("walk-root");
        let searched = Cell::new(0);
        let is_stopped = || searched.replace(searched.get() + 1) > 0;
        for root in ["/", "/usr/.."] {
            let error = find_sources_until(&["/usr".into(), root.into()], &is_stopped).unwrap_err();
            assert!(matches!(error, SourceError::NoName { .. }), "{error}");
        }
        assert_eq!(searched.get(), 0);
        (0..300).for_each(|number| std::fs::write(folder.join(format!("{number:03}\t")), "").unwrap());
        let line = find_sources(&[folder.to_path_buf()]).unwrap_err().to_string();
        assert!(line.starts_with("at least 100 files or folders cannot be sent"), "{line}");
    }

    #[test]
    fn equal_names_and_control_characters_are_refused() {
        let folder = scratch("walk-bad");
        std::fs::create_dir_all(folder.join("one/same")).unwrap();
        for name in ["same", "new\nline", "one/new\nline"] {
            std::fs::write(folder.join(name), name).unwrap();
        }
        let twice = find_sources(&[folder.join("same"), folder.join("one/same")]).unwrap_err();
        assert!(matches!(twice, SourceError::SameName { .. }), "{twice}");
        for path in ["new\nline", "one"] {
            let control = find_sources(&[folder.join(path)]).unwrap_err();
            assert!(matches!(control, SourceError::Name { .. }), "{control}");
        }
    }
}
