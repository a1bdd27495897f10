//! Files for what must outlive a restart, and files with secrets.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use serde::{Serialize, de::DeserializeOwned};
use treecast_host::text;

use crate::message::Key;

use super::{Error, Event, Tell, doing};

/// The longest file that is written and read, in bytes. A million leases need less.
const MAX_FILE: u64 = 1 << 30;
const MAX_SECRET: u64 = 1_024;

/// A folder with a file for each kind of thing. Without a folder, nothing is kept.
#[derive(Debug, Clone)]
pub struct Store(Option<PathBuf>);

impl Store {
    /// Makes the folder if it is not there. Only its owner can read the new folder.
    pub fn open(folder: Option<PathBuf>) -> Result<Self, Error> {
        if let Some(folder) = &folder {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.map_err(doing(format!("cannot make folder {}", folder.display())))?;
        }
        Ok(Self(folder))
    }

    /// Reads what was written last. The default if there is nothing, or a file that cannot be used, which is told: the programs can go
    /// on without.
    pub fn load<T: DeserializeOwned + Default>(&self, name: &str, tell: Tell<'_>) -> T {
        let Some(path) = self.path(name) else { return T::default() };
        let read = || serde_json::from_str(&text::read(&path, MAX_FILE)?).map_err(io::Error::from);
        match read() {
            Ok(known) => return known,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let what = format!("cannot use {}, so what it held is lost", path.display());
                tell(Event::Failed { what, error: error.to_string() });
            }
        }
        T::default()
    }

    /// Whether anything is kept.
    pub fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Replaces what was written last. After a crash at any point, either the old or the new is there.
    pub fn save(&self, name: &str, what: &impl Serialize) -> io::Result<()> {
        let Some(path) = self.path(name) else { return Ok(()) };
        let text = serde_json::to_vec(what)?;
        if text.len() as u64 > MAX_FILE {
            return Err(io::Error::other(format!("{} would be longer than 1 GiB", path.display())));
        }
        let new = path.with_extension("new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&text)?;
        file.sync_data()?;
        fs::rename(new, path)
    }

    /// Removes what was written last.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match self.path(name).map(fs::remove_file) {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.0.as_ref().map(|folder| folder.join(format!("{name}.json")))
    }
}

/// Makes a file with a new secret, unless it is there. Returns the secret.
///
/// # Errors
/// If it can neither be made nor read, or holds no secret.
pub fn make_key(path: &Path) -> Result<[u8; 32], Error> {
    let named = |what: &str| format!("{what} {}", path.display());
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => {
            let mut secret = [0; 32];
            let made = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut secret));
            let text = format!("{}\n", blake3::Hash::from_bytes(secret).to_hex());
            made.and_then(|()| file.write_all(text.as_bytes())).map_err(doing(named("cannot write")))?;
            Ok(secret)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let text = text::read_private(path, MAX_SECRET).map_err(doing(named("cannot read")))?;
            Key::secret(&text).map_err(|error| Error::new(format!("{}: {error}", path.display())))
        }
        Err(error) => Err(doing(named("cannot make"))(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_comes_back_and_a_broken_file_is_told_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(Some(folder.path().join("state"))).unwrap();
        let mut told = Vec::new();
        let mut load = |store: &Store| store.load::<Vec<u32>>("numbers", &mut |event| told.push(event));
        assert!(load(&store).is_empty());
        store.save("numbers", &[1, 2]).unwrap();
        store.save("numbers", &[3]).unwrap();
        assert_eq!(load(&store), [3]);
        store.remove("numbers").unwrap();
        store.remove("numbers").unwrap();
        assert!(load(&store).is_empty());
        let nowhere = Store::open(None).unwrap();
        nowhere.save("numbers", &[1]).unwrap();
        assert!(load(&nowhere).is_empty());
        fs::write(folder.path().join("state/numbers.json"), "[3").unwrap();
        assert!(load(&store).is_empty());
        let [event] = &told[..] else { panic!("{told:?}") };
        let line = event.to_string();
        assert!(line.contains("state/numbers.json, so what it held is lost: EOF"), "{line}");
        assert_eq!(line.lines().count(), 1);
    }

    /// A hundred thousand leases take this much.
    #[test]
    fn a_file_of_more_than_16_mib_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(Some(folder.path().to_owned())).unwrap();
        let long = "x".repeat(17 << 20);
        store.save("long", &long).unwrap();
        assert_eq!(store.load::<String>("long", &mut |event| panic!("{event}")), long);
    }

    #[test]
    fn a_key_is_made_once_and_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.key");
        let secret = make_key(&path).unwrap();
        assert_eq!(make_key(&path).unwrap(), secret);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "short").unwrap();
        assert!(make_key(&path).unwrap_err().to_string().contains("a secret is 64 hexadecimal digits"));
    }
}
