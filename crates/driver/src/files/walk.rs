//! From the paths that a user names to the files that are sent, and their names in the session.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use treecast_wire::message::FILE_NAME_LEN;

use super::{Source, SourceError, check_name};

/// A file to send and what receivers are to call it.
#[derive(Debug)]
pub struct NamedSource {
    pub name: String,
    pub source: Source,
}

/// What is sent, and what of it is not.
#[derive(Debug, Default)]
pub struct Found {
    pub sources: Vec<NamedSource>,
    pub skipped: Skipped,
}

/// Symbolic links, empty folders, and what is neither file nor folder.
#[derive(Debug, Default)]
pub struct Skipped {
    count: u64,
    /// The first of them by name.
    first: Option<PathBuf>,
}

impl Skipped {
    fn add(&mut self, name: PathBuf) {
        self.count += 1;
        if self.first.as_ref().is_none_or(|first| name < *first) {
            self.first = Some(name);
        }
    }

    /// One line for the user; none when there was nothing to skip.
    pub fn warning(&self) -> Option<String> {
        let first = self.first.as_ref()?.to_string_lossy();
        let (entries, others) = if self.count == 1 { ("entry", "") } else { ("entries", ", ...") };
        Some(format!(
            "{} {entries} skipped: symbolic links, empty folders and special files are not carried: {}{others}",
            self.count,
            first.escape_debug()
        ))
    }
}

/// The files behind `paths`, in the order of the paths; a folder stands for all regular files below it, by
/// name. A file is called by its own name, one in a folder by the path that begins with the folder's.
/// Symbolic links inside folders, and what is no regular file there, are skipped.
///
/// # Errors
/// When a path cannot be read, two files would get one name, a name cannot be sent, or nothing is there.
pub fn find_sources(paths: &[PathBuf]) -> Result<Found, SourceError> {
    let mut found = Found::default();
    for path in paths {
        let before = found.sources.len();
        let unreadable = |source| SourceError::Unreadable { path: path.clone(), source };
        let own_name = match path.file_name() {
            Some(name) => PathBuf::from(name),
            // "." and "..": the canonical path has a name. Others need none, and may have none: a file
            // reached through /proc/PID/fd.
            None => {
                path.canonicalize().map_err(unreadable)?.file_name().map(PathBuf::from).unwrap_or_default()
            }
        };
        if path.metadata().map_err(unreadable)?.is_dir() {
            walk(path, &own_name, &mut found)?;
        } else {
            found.sources.push(named(path, &own_name)?);
        }
        if found.sources.len() == before {
            return Err(SourceError::Nothing { path: path.clone() });
        }
    }
    refuse_equal_names(&found.sources)?;
    Ok(found)
}

fn walk(folder: &Path, prefix: &Path, found: &mut Found) -> Result<(), SourceError> {
    let mut pending = vec![(folder.to_owned(), prefix.to_owned())];
    let mut files = BTreeMap::new();
    while let Some((folder, prefix)) = pending.pop() {
        let unreadable = |source| SourceError::Unreadable { path: folder.clone(), source };
        let mut is_empty = true;
        for entry in std::fs::read_dir(&folder).map_err(unreadable)? {
            is_empty = false;
            let entry = entry.map_err(unreadable)?;
            let kind = entry.file_type().map_err(unreadable)?;
            let name = prefix.join(entry.file_name());
            if kind.is_dir() {
                pending.push((entry.path(), name));
            } else if kind.is_file() {
                files.insert(name, entry.path());
            } else {
                found.skipped.add(name);
            }
        }
        if is_empty {
            found.skipped.add(prefix);
        }
    }
    for (name, path) in files {
        found.sources.push(named(&path, &name)?);
    }
    Ok(())
}

fn named(path: &Path, name: &Path) -> Result<NamedSource, SourceError> {
    let refuse = |why: String| SourceError::Name { path: path.to_owned(), why };
    let name = name.to_str().ok_or_else(|| refuse("it is not UTF-8".into()))?;
    if name.len() > FILE_NAME_LEN {
        return Err(refuse(format!("it has {} bytes, and {FILE_NAME_LEN} can be sent", name.len())));
    }
    check_name(name).map_err(refuse)?;
    Ok(NamedSource { name: name.to_owned(), source: Source::new(path)? })
}

fn refuse_equal_names(found: &[NamedSource]) -> Result<(), SourceError> {
    let mut seen: BTreeMap<&str, &NamedSource> = BTreeMap::new();
    for source in found {
        if let Some(other) = seen.insert(&source.name, source) {
            return Err(SourceError::SameName {
                path: source.source.path().to_owned(),
                other: other.source.path().to_owned(),
                name: source.name.clone(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An empty folder for one test.
    pub(crate) fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("treecast-test-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_folder_stands_for_the_files_below_it() {
        let folder = scratch("walk");
        std::fs::create_dir_all(folder.join("a/b")).unwrap();
        for name in ["z", "a/b/deep", "a/x"] {
            std::fs::write(folder.join(name), name).unwrap();
        }
        let found = find_sources(&[folder.join("a"), folder.join("z")]).unwrap();
        assert_eq!(found.skipped.warning(), None);
        let names: Vec<_> = found.sources.iter().map(|source| source.name.as_str()).collect();
        assert_eq!(names, ["a/b/deep", "a/x", "z"]);
        assert_eq!(found.sources[0].source.size(), 8);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_skipped_is_told_in_one_line() {
        let folder = scratch("walk-skips");
        std::fs::create_dir_all(folder.join("src/none")).unwrap();
        std::fs::write(folder.join("src/file"), "x").unwrap();
        let warning = || find_sources(&[folder.join("src")]).unwrap().skipped.warning().unwrap();
        let what = "symbolic links, empty folders and special files are not carried";
        assert_eq!(warning(), format!("1 entry skipped: {what}: src/none"));
        std::os::unix::fs::symlink("file", folder.join("src/li\nnk")).unwrap();
        assert_eq!(warning(), format!("2 entries skipped: {what}: src/li\\nnk, ..."));
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn equal_names_empty_folders_and_control_characters_are_refused() {
        let folder = scratch("walk-bad");
        std::fs::create_dir_all(folder.join("one")).unwrap();
        std::fs::create_dir_all(folder.join("empty")).unwrap();
        for name in ["same", "one/same", "new\nline"] {
            std::fs::write(folder.join(name), name).unwrap();
        }
        let twice = find_sources(&[folder.join("same"), folder.join("one/same")]).unwrap_err();
        assert!(matches!(twice, SourceError::SameName { .. }), "{twice}");
        let empty = find_sources(&[folder.join("empty")]).unwrap_err();
        assert!(matches!(empty, SourceError::Nothing { .. }), "{empty}");
        let control = find_sources(&[folder.join("new\nline")]).unwrap_err();
        assert!(matches!(control, SourceError::Name { .. }), "{control}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
