//! The folder of the sockets: one for each user, into which nobody else can put anything.

use std::{
    env,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use treecast_host::user;

/// `$XDG_RUNTIME_DIR/treecast`, else `/run/treecast` for root, else `/tmp/treecast-UID`.
pub(super) fn own() -> PathBuf {
    let user = user::effective();
    match env::var_os("XDG_RUNTIME_DIR").filter(|folder| Path::new(folder).is_absolute()) {
        Some(folder) => Path::new(&folder).join("treecast"),
        None if user == 0 => PathBuf::from("/run/treecast"),
        None => PathBuf::from(format!("/tmp/treecast-{user}")),
    }
}

/// Folders that this user may look into: its own, and as root everybody's.
pub(super) fn all() -> Vec<PathBuf> {
    let mut folders = vec![own()];
    if user::effective() == 0 {
        folders.push(PathBuf::from("/run/treecast"));
        folders.extend(below("/run/user").into_iter().map(|folder| folder.join("treecast")));
        let is_ours = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"treecast-"))
        };
        folders.extend(below("/tmp").into_iter().filter(is_ours));
    }
    folders.sort();
    folders.dedup();
    folders
}

/// Makes the folder if it is missing.
///
/// # Errors
/// If it cannot be made, or somebody else could have put something into it.
pub(super) fn prepare(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ if is_own(folder) => Ok(()),
        _ => Err(io::Error::other("it is not this user's alone: remove it, or set XDG_RUNTIME_DIR")),
    }
}

/// Whether it is a folder that this user alone can write to, and no link to one.
pub(super) fn is_own(folder: &Path) -> bool {
    fs::symlink_metadata(folder)
        .is_ok_and(|found| found.is_dir() && found.uid() == user::effective() && found.mode() & 0o022 == 0)
}

/// The entries of a folder. Empty if it cannot be read.
pub(super) fn below(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        let base = env::temp_dir().join(format!("treecast-folder-{}", std::process::id()));
        prepare(&base).unwrap();
        assert_eq!(fs::metadata(&base).unwrap().mode() & 0o777, 0o700);
        prepare(&base).unwrap();
        symlink(&base, base.join("link")).unwrap();
        assert!(prepare(&base.join("link")).is_err());
        fs::set_permissions(&base, fs::Permissions::from_mode(0o770)).unwrap();
        let error = prepare(&base).unwrap_err().to_string();
        fs::remove_dir_all(&base).unwrap();
        assert!(error.contains("XDG_RUNTIME_DIR"), "{error}");
    }
}
