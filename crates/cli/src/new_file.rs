//! Files that are there complete or not at all.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use treecast_host::hidden_file;

/// A file that is written under a hidden name beside its place. It takes its place, and that of what is there, when it is complete.
/// A file that is dropped before leaves nothing behind.
#[derive(Debug)]
pub(crate) struct NewFile {
    file: File,
    hidden: PathBuf,
    place: PathBuf,
}

impl NewFile {
    /// # Errors
    /// If the folder cannot be written to, the place is a folder, or the path names no file.
    pub fn create(place: &Path, mode: u32) -> io::Result<Self> {
        if place.is_dir() {
            return Err(io::Error::other("it is a folder"));
        }
        let (file, hidden) = hidden_file::create(place, mode)?;
        Ok(Self { file, hidden, place: place.to_owned() })
    }

    /// Writes the text and puts the file into its place.
    ///
    /// # Errors
    /// If it cannot be written. What was there before stays.
    pub fn finish(mut self, text: &str) -> io::Result<()> {
        self.file.write_all(text.as_bytes())?;
        fs::rename(&self.hidden, &self.place)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // It is not there any more if it has taken its place.
        _ = fs::remove_file(&self.hidden);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_finished_leaves_nothing_behind() {
        let folder = std::env::temp_dir().join(format!("treecast-new-file-{}", std::process::id()));
        let at = |path: &str| folder.join(path);
        fs::create_dir_all(at("taken")).unwrap();
        for path in ["taken", "missing/file", "taken/.."] {
            assert!(NewFile::create(&at(path), 0o600).is_err(), "{path}");
        }
        fs::write(at("file"), "old").unwrap();
        drop(NewFile::create(&at("file"), 0o600).unwrap());
        assert_eq!(fs::read_to_string(at("file")).unwrap(), "old");
        NewFile::create(&at("file"), 0o600).unwrap().finish("new").unwrap();
        assert_eq!(fs::read_to_string(at("file")).unwrap(), "new");
        let left = fs::read_dir(&folder).unwrap().count();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(left, 2, "the folder and the file");
    }
}
