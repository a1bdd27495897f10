//! Finds the files, folders and links to send from the paths that a user names, and their names in the session.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt,
    fs::File,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use treecast_host::root::{Kind, Root};
use treecast_wire::message::{BeginOfFile, MAX_FILE_NAME_LEN, TransferType};

use super::{
    Exclude, Place, Source, SourceError, Unsendable, check_name, left_behind::LeftBehind, link::check_link,
    target::is_own,
};
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

/// The objects to send, and what was left out.
#[derive(Debug, Default)]
pub struct Found {
    pub sources: Vec<NamedSource>,
    pub skipped: Skipped,
    /// Entries of folders that cannot be sent.
    pub unsendable: Unsendable,
    /// The number of entries that were excluded. What is in an excluded folder does not count.
    excluded: usize,
    /// The patterns that have excluded nothing, each once. Empty if no folder was named: patterns are for what is in folders.
    unused: Vec<String>,
    left_behind: LeftBehind,
}

impl Found {
    /// Lines for the user about what receivers do not get, though all that was asked for is sent.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let named: Vec<String> = self.unused.iter().map(|pattern| format!("{pattern:?}")).collect();
        let unused = match &named[..] {
            [] => None,
            [pattern] => Some(format!("the pattern {pattern} has excluded nothing")),
            patterns => Some(format!("the patterns {} have excluded nothing", patterns.join(", "))),
        };
        [self.skipped.warning(), self.left_behind.warning(), unused].into_iter().flatten()
    }
}

/// The entries of folders that are not sent, with the reasons.
#[derive(Debug, Default)]
pub struct Skipped {
    count: usize,
    /// The first of them by name, at most [`Skipped::NAMED`].
    first: BTreeMap<PathBuf, Why>,
}

/// The reason why an entry is not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Why {
    /// The entry is neither a file nor a folder nor a symbolic link.
    Special,
    /// A receiver keeps such files beside those that are on their way to it.
    Own,
    /// The entry is a symbolic link with this target, which is absolute or outside the folder.
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
    /// The number of entries that the warning names.
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

/// The rules for which entries of the named folders are sent, and for those that cannot be.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// The entries of folders that are left out.
    pub exclude: Exclude,
    /// Whether nothing is sent if something in a folder cannot be. Otherwise, it is left out.
    pub is_strict: bool,
}

/// The entries behind `paths`, in the order of the paths. A folder stands for itself and all that is below it, by
/// name. A file is called by its own name, one in a folder by the path that begins with the folder's. A folder with
/// `/` behind it stands only for what is in it, and names begin there. Symbolic links are followed where they are
/// named, and carried as links inside folders. Links there that would lead out of the folder, and what is no file,
/// folder or link, are skipped.
///
/// # Errors
/// If named paths cannot be read or sent, or objects would get one name: all of them together.
pub fn find_sources(paths: &[PathBuf]) -> Result<Found, SourceError> {
    find_sources_until(paths, &Selection::default(), &|| false)
}

/// Like [`find_sources`], for a part of what is there, until `is_stopped`. Searching a large network file system takes
/// minutes.
///
/// # Errors
/// Those of [`find_sources`], what cannot be sent if the selection is strict, a selection of nothing, and
/// [`SourceError::Interrupted`].
pub fn find_sources_until(
    paths: &[PathBuf],
    selection: &Selection,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Found, SourceError> {
    let mut unsendable = Unsendable::default();
    // What cannot be sent whatever is in it is not searched, and nothing else is then.
    for path in paths {
        unsendable.sift(path, check_own_name(path));
    }
    unsendable.refuse()?;
    let (found, named) = (Found::default(), Unsendable::default());
    let mut walk = Walk { selection, is_stopped, found, named, has_folder: false };
    for path in paths {
        walk.add(path)?;
    }
    walk.finish()
}

/// Whether a path has a name of its own: the root folder has none.
fn check_own_name(path: &Path) -> Result<(), SourceError> {
    let has_name = path.file_name().is_some();
    let is_root = !has_name && path.canonicalize().is_ok_and(|path| path.parent().is_none());
    if is_root { Err(SourceError::NoName { path: path.to_owned() }) } else { Ok(()) }
}

/// The name of a path, and whether it is a folder. A folder whose content is meant has an empty name.
fn look_at(path: &Path) -> Result<(PathBuf, bool), SourceError> {
    let unreadable = |source| SourceError::Unreadable { path: path.to_owned(), source };
    let is_folder = path.metadata().map_err(unreadable)?.is_dir();
    let own_name = match path.file_name() {
        Some(_) if means_content(path) => PathBuf::new(),
        Some(name) => PathBuf::from(name),
        // "." and "..": the canonical path has a name. Others need none, and may have none: a file
        // reached through /proc/PID/fd.
        None => path.canonicalize().map_err(unreadable)?.file_name().map(PathBuf::from).unwrap_or_default(),
    };
    Ok((own_name, is_folder))
}

/// Whether a path is one of a folder whose content alone is meant, as rsync takes it.
fn means_content(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    bytes.ends_with(b"/") || bytes.ends_with(b"/.")
}

/// The file at `place`, as an object that is called `name`.
///
/// # Errors
/// If it cannot be read, or cannot have this name.
pub fn named_file(place: Place, name: &Path) -> Result<NamedSource, SourceError> {
    let name = checked(place.path(), name)?;
    let file = place.open()?;
    Ok(NamedSource { name, source: Source::of_file(place, &file)? })
}

/// A search for what is sent.
struct Walk<'a> {
    selection: &'a Selection,
    is_stopped: &'a dyn Fn() -> bool,
    found: Found,
    /// The named paths that cannot be sent, and of a strict selection what is in them.
    named: Unsendable,
    /// Whether a folder was named.
    has_folder: bool,
}

/// A folder that was named.
struct Tree {
    root: Arc<Root>,
    path: PathBuf,
    /// The name of the folder. Empty if its content is meant.
    prefix: PathBuf,
    objects: BTreeMap<PathBuf, NamedSource>,
}

impl Walk<'_> {
    /// Adds what is behind a path that was named.
    fn add(&mut self, path: &Path) -> Result<(), SourceError> {
        let Some((own_name, is_folder)) = self.named.sift(path, look_at(path)) else { return Ok(()) };
        if !own_name.as_os_str().is_empty() && self.selection.exclude.matches(&own_name, is_folder) {
            self.found.excluded += 1;
            return Ok(());
        }
        if is_folder {
            self.has_folder = true;
            let opened = Root::open(path);
            let opened = opened.map_err(|source| SourceError::Unreadable { path: path.to_owned(), source });
            let Some(root) = self.named.sift(path, opened) else { return Ok(()) };
            let objects = BTreeMap::new();
            return self.walk(Tree {
                root: Arc::new(root),
                path: path.to_owned(),
                prefix: own_name,
                objects,
            });
        }
        let file = self.file(Place::named(path), &own_name);
        self.found.sources.extend(self.named.sift(path, file));
        Ok(())
    }

    fn walk(&mut self, mut tree: Tree) -> Result<(), SourceError> {
        let mut pending = vec![PathBuf::new()];
        while let Some(folder) = pending.pop() {
            if (self.is_stopped)() {
                return Err(SourceError::Interrupted);
            }
            let place = tree.place(&folder);
            let object = self.folder(&place, &tree.name(&folder));
            let Some(object) = self.sift(place.path(), object) else { continue };
            let name = tree.name(&folder);
            tree.objects.extend(object.map(|object| (name, object)));
            let listed = self.entries(&tree.root, &folder);
            for (entry, kind) in
                self.sift(place.path(), listed.map_err(|error| place.lost(error))).unwrap_or_default()
            {
                if (self.is_stopped)() {
                    return Err(SourceError::Interrupted);
                }
                if self.named.is_enough() {
                    return Ok(());
                }
                let below = folder.join(&entry);
                if self.is_left_out(&tree.name(&below), &entry, kind) {
                    continue;
                }
                match kind {
                    Kind::Folder => pending.push(below),
                    _ => self.take(&mut tree, &below, kind),
                }
            }
        }
        self.found.sources.extend(tree.objects.into_values());
        Ok(())
    }

    /// Adds an entry of a folder that is no folder.
    fn take(&mut self, tree: &mut Tree, below: &Path, kind: Kind) {
        let (place, name) = (tree.place(below), tree.name(below));
        let path = place.path().to_owned();
        let object = match kind {
            Kind::File => self.file(place, &name).map(Ok),
            Kind::Link => link(place, &name),
            Kind::Folder | Kind::Special => Ok(Err(Why::Special)),
        };
        match self.sift(&path, object) {
            Some(Ok(object)) => _ = tree.objects.insert(name, object),
            Some(Err(why)) => self.found.skipped.add(name, why),
            None => {}
        }
    }

    /// Whether an entry is not sent whatever it is.
    fn is_left_out(&mut self, name: &Path, entry: &OsStr, kind: Kind) -> bool {
        // What a receiver keeps beside files that are on their way there.
        if entry.to_str().is_some_and(is_own) {
            self.found.skipped.add(name.to_owned(), Why::Own);
            return true;
        }
        let is_excluded = self.selection.exclude.matches(name, kind == Kind::Folder);
        self.found.excluded += usize::from(is_excluded);
        is_excluded
    }

    fn file(&mut self, place: Place, name: &Path) -> Result<NamedSource, SourceError> {
        let name = checked(place.path(), name)?;
        let file = place.open()?;
        let metadata = file.metadata().map_err(|source| place.unreadable(source))?;
        if metadata.is_file() {
            self.found.left_behind.count(&file, &metadata);
        }
        Ok(NamedSource { name, source: Source::of_file(place, &file)? })
    }

    /// The folder at `place` itself. `None` if only its content is sent.
    fn folder(&mut self, place: &Place, name: &Path) -> Result<Option<NamedSource>, SourceError> {
        if name.as_os_str().is_empty() {
            return Ok(None);
        }
        let name = checked(place.path(), name)?;
        let Some((root, below)) = place.root() else { return Ok(None) };
        let folder = File::from(root.folder(below).map_err(|error| place.lost(error))?);
        let metadata = folder.metadata().map_err(|source| place.unreadable(source))?;
        self.found.left_behind.count(&folder, &metadata);
        Ok(Some(NamedSource { name, source: Source::of_folder(place.clone(), &folder)? }))
    }

    /// The entries of a folder. They are incomplete when the search is stopped meanwhile.
    fn entries(&self, root: &Root, folder: &Path) -> io::Result<Vec<(OsString, Kind)>> {
        let mut entries = Vec::new();
        root.list(folder, |name, kind| {
            entries.push((name.to_owned(), kind));
            entries.len() % 1024 != 0 || !(self.is_stopped)()
        })?;
        Ok(entries)
    }

    /// Hands on what can be sent. The rest is left out, unless the selection is strict.
    fn sift<T>(&mut self, path: &Path, result: Result<T, SourceError>) -> Option<T> {
        let to = if self.selection.is_strict { &mut self.named } else { &mut self.found.unsendable };
        to.sift(path, result)
    }

    fn finish(mut self) -> Result<Found, SourceError> {
        sift_equal_names(&self.found.sources, &mut self.named);
        self.named.refuse()?;
        let has_content = |named: &NamedSource| !named.source.is_folder();
        if self.found.excluded > 0 && !self.found.sources.iter().any(has_content) {
            return Err(SourceError::AllExcluded);
        }
        for pattern in self.selection.exclude.unused().filter(|_| self.has_folder) {
            if !self.found.unused.iter().any(|other| other == pattern) {
                self.found.unused.push(pattern.to_owned());
            }
        }
        Ok(self.found)
    }
}

impl Tree {
    fn place(&self, below: &Path) -> Place {
        Place::below(&self.root, &self.path, below)
    }

    /// The name of the object at a path below the folder.
    fn name(&self, below: &Path) -> PathBuf {
        if below.as_os_str().is_empty() { self.prefix.clone() } else { self.prefix.join(below) }
    }
}

/// The symbolic link at `place`, or why it is not carried.
fn link(place: Place, name: &Path) -> Result<Result<NamedSource, Why>, SourceError> {
    let name = checked(place.path(), name)?;
    let Some((root, below)) = place.root() else { return Ok(Err(Why::Special)) };
    let (target, status) = root.link(below).map_err(|error| place.lost(error))?;
    if check_link(&name, target.as_bytes()).is_err() {
        return Ok(Err(Why::Outside(target.into())));
    }
    Ok(Ok(NamedSource { name, source: Source::of_link(place, target, &status) }))
}

/// `name` as it is sent.
fn checked(path: &Path, name: &Path) -> Result<String, SourceError> {
    let refuse = |why: String| SourceError::Name { path: path.to_owned(), why };
    let name = name.to_str().ok_or_else(|| refuse("it is not UTF-8".into()))?;
    if name.len() > MAX_FILE_NAME_LEN {
        return Err(refuse(format!("it has {} bytes, and {MAX_FILE_NAME_LEN} can be sent", name.len())));
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
        let paths = [folder.to_path_buf()];
        let error = find_sources_until(&paths, &Selection::default(), &is_stopped).unwrap_err();
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
    fn what_is_in_a_folder_is_sent_without_the_folder_if_a_slash_is_behind_it() {
        let folder = scratch("walk-content");
        std::fs::create_dir_all(folder.join("tree/sub")).unwrap();
        std::fs::write(folder.join("tree/sub/file"), "x").unwrap();
        std::os::unix::fs::symlink("sub/file", folder.join("tree/link")).unwrap();
        let names = |path: &str| {
            let found = find_sources(&[folder.join(path)]).unwrap();
            assert_eq!(found.skipped.warning(), None);
            found.sources.into_iter().map(|source| source.name).collect::<Vec<_>>()
        };
        assert_eq!(names("tree"), ["tree", "tree/link", "tree/sub", "tree/sub/file"]);
        assert_eq!(names("tree/"), ["link", "sub", "sub/file"]);
        assert_eq!(names("tree/."), names("tree/"));
    }

    #[test]
    fn what_is_excluded_is_not_sent_and_nothing_at_all_is_an_error() {
        let folder = scratch("walk-excluded");
        std::fs::create_dir_all(folder.join("tree/cache/deep")).unwrap();
        for name in ["tree/a.o", "tree/a.c", "tree/cache/deep/file"] {
            std::fs::write(folder.join(name), "x").unwrap();
        }
        let find = |patterns: &[&str]| {
            let selection = Selection { exclude: Exclude::new(patterns).unwrap(), is_strict: false };
            find_sources_until(&[folder.join("tree")], &selection, &|| false)
        };
        let found = find(&["*.o", "cache/", "nothing"]).unwrap();
        assert_eq!(found.sources.iter().map(|source| &source.name).collect::<Vec<_>>(), ["tree", "tree/a.c"]);
        assert_eq!(found.warnings().collect::<Vec<_>>(), ["the pattern \"nothing\" has excluded nothing"]);
        let found = find(&["no", "*.o", "none", "no"]).unwrap();
        let line = "the patterns \"no\", \"none\" have excluded nothing";
        assert_eq!(found.warnings().collect::<Vec<_>>(), [line]);
        let of_config = Selection { exclude: Exclude::new(&["*.o"]).unwrap(), is_strict: false };
        let one = find_sources_until(&[folder.join("tree/a.c")], &of_config, &|| false).unwrap();
        assert_eq!(one.warnings().count(), 0, "patterns are for folders");
        for all in [&["*"][..], &["/tree"], &["*.?", "cache"]] {
            assert!(matches!(find(all), Err(SourceError::AllExcluded)), "{all:?}");
        }
    }

    #[test]
    fn what_cannot_be_sent_is_left_out_unless_the_selection_is_strict() {
        let folder = scratch("walk-left-out");
        std::fs::create_dir_all(folder.join("tree")).unwrap();
        for name in [&b"good"[..], b"caf\xe9"] {
            std::fs::write(folder.join("tree").join(OsStr::from_bytes(name)), "x").unwrap();
        }
        let find = |is_strict| {
            let selection = Selection { is_strict, ..Selection::default() };
            find_sources_until(&[folder.join("tree")], &selection, &|| false)
        };
        let found = find(false).unwrap();
        assert_eq!((found.sources.len(), found.unsendable.count()), (2, 1));
        let named: Vec<_> = found.unsendable.named().collect();
        assert!(
            named[0].0.ends_with(r"tree/caf\xe9") && named[0].1 == "its name cannot be sent: it is not UTF-8",
            "{named:?}"
        );
        assert!(matches!(find(true), Err(SourceError::Name { .. })));
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
        let strict = Selection { is_strict: true, ..Selection::default() };
        let told = || find_sources_until(&paths, &strict, &|| false).unwrap_err().to_string();
        let line = told();
        assert!(line.starts_with("4 files or folders cannot be sent") && !line.contains('\n'), "{line}");
        for part in [
            "new\\nline (its name cannot be sent: ",
            "(its name cannot be sent: it is not UTF-8)",
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
            let paths = ["/usr".into(), root.into()];
            let error = find_sources_until(&paths, &Selection::default(), &is_stopped).unwrap_err();
            assert!(matches!(error, SourceError::NoName { .. }), "{error}");
        }
        assert_eq!(searched.get(), 0);
        (0..300).for_each(|number| std::fs::write(folder.join(format!("{number:03}\t")), "").unwrap());
        let strict = Selection { is_strict: true, ..Selection::default() };
        let line = find_sources_until(&[folder.to_path_buf()], &strict, &|| false).unwrap_err().to_string();
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
        let control = find_sources(&[folder.join("new\nline")]).unwrap_err();
        assert!(matches!(control, SourceError::Name { .. }), "{control}");
        assert_eq!(find_sources(&[folder.join("one")]).unwrap().unsendable.count(), 1);
    }
}
