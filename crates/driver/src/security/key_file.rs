//! Key files, and the folder where they are found by name.

use std::{
    env, fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use thiserror::Error;

use super::{
    Identity,
    owner_file::{self, Unusable},
};

/// The name of a key that was given no name.
pub const DEFAULT_KEY_NAME: &str = "default";

const MAX_NAME_LEN: usize = 64;

/// The most bytes that are read: more than any key's file has.
const MAX_FILE_LEN: u64 = 16 * 1024;

const EXTENSION: &str = "pem";

/// The form of a key, for a text that is none.
const PEM: &str =
    "a key stands in PKCS#8 between the lines -----BEGIN PRIVATE KEY----- and -----END PRIVATE KEY-----";

/// The errors of a key's file or folder.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyFileError {
    #[error(
        "{name:?} is no name for a key: take up to 64 letters, digits, - and _; a file is named with its folder, like \
         ./key.pem"
    )]
    Name { name: String },
    #[error("no folder for keys is known: set HOME or XDG_CONFIG_HOME, or name a file")]
    NoFolder,
    #[error("there is no key {name} in {}: make it with `treecast keys new {name}`, or name a file like ./{name}.pem", folder.display())]
    Missing { name: String, folder: PathBuf },
    #[error("{} exists already, and a key is never overwritten: choose another name, or move it away", path.display())]
    Exists { path: PathBuf },
    #[error("the key file {} is not used: {why}; make it yours with `chown` and `chmod 600`, or make a new key if somebody may have read it", path.display())]
    Exposed { path: PathBuf, why: String },
    #[error(
        "{} holds no Ed25519 key, or is cut short ({why}): name a file that `treecast keys new` has made",
        path.display()
    )]
    NoKey { path: PathBuf, why: String },
    #[error("cannot read the key file {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write the key file {}: {source}; see that its folder may be written to", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("no random numbers are to be had: {0}")]
    Random(io::Error),
}

/// The folder where keys are found by name.
#[derive(Debug, Clone)]
pub struct KeyFolder(PathBuf);

impl KeyFolder {
    /// The folder `$XDG_CONFIG_HOME/treecast/keys`, or otherwise `$HOME/.config/treecast/keys`.
    ///
    /// # Errors
    /// If neither variable is set.
    pub fn of_user() -> Result<Self, KeyFileError> {
        // What is relative is to be ignored (XDG Base Directory Specification).
        let folder = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")));
        config.map(|config| Self(config.join("treecast/keys"))).ok_or(KeyFileError::NoFolder)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of the key with this name, whether it exists or not.
    ///
    /// # Errors
    /// If it is not a valid name.
    pub fn path_of(&self, name: &str) -> Result<PathBuf, KeyFileError> {
        if !is_key_name(name) {
            return Err(KeyFileError::Name { name: name.to_owned() });
        }
        Ok(self.0.join(name).with_extension(EXTENSION))
    }

    /// Creates a new key with this name, in a file that only its owner may read.
    ///
    /// # Errors
    /// If the key exists, or the file cannot be written.
    pub fn create(&self, name: &str) -> Result<(PathBuf, Identity), KeyFileError> {
        let path = self.path_of(name)?;
        let failed = |source| KeyFileError::Write { path: path.clone(), source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(failed)?;
        let identity = Identity::create(&path)?;
        Ok((path, identity))
    }

    /// The names of the keys that are there, sorted.
    ///
    /// # Errors
    /// If the folder cannot be read; one that is missing has none.
    pub fn names(&self) -> Result<Vec<String>, KeyFileError> {
        let failed = |source| KeyFileError::Read { path: self.0.clone(), source };
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(".pem"));
            names.extend(name.filter(|name| is_key_name(name)).map(str::to_owned));
        }
        names.sort();
        Ok(names)
    }
}

/// Whether a text is the name of a key and not a path.
pub fn is_key_name(text: &str) -> bool {
    let is_plain = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_');
    (1..=MAX_NAME_LEN).contains(&text.len()) && !text.starts_with('-') && text.bytes().all(is_plain)
}

impl Identity {
    /// Loads the key with this name, or in this file.
    ///
    /// # Errors
    /// One line with the reason why it cannot be used.
    pub fn named(name_or_path: &str) -> Result<Self, KeyFileError> {
        if !is_key_name(name_or_path) {
            return Self::load(Path::new(name_or_path));
        }
        let folder = KeyFolder::of_user()?;
        match Self::load(&folder.path_of(name_or_path)?) {
            Err(KeyFileError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Err(KeyFileError::Missing { name: name_or_path.to_owned(), folder: folder.0 })
            }
            result => result,
        }
    }

    /// Creates a new key in this file, which only its owner may read.
    ///
    /// # Errors
    /// If the file exists, or cannot be written.
    pub fn create(path: &Path) -> Result<Self, KeyFileError> {
        let identity = Self::generate().map_err(KeyFileError::Random)?;
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AlreadyExists => KeyFileError::Exists { path: path.to_owned() },
            _ => KeyFileError::Write { path: path.to_owned(), source },
        };
        let write = || owner_file::create(path, identity.to_pem()?.as_bytes());
        write().map_err(failed)?;
        Ok(identity)
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// If it is not there, others may read it, or it holds no key.
    pub fn load(path: &Path) -> Result<Self, KeyFileError> {
        let no_key = |why: String| KeyFileError::NoKey { path: path.to_owned(), why };
        let text = owner_file::read(path, MAX_FILE_LEN).map_err(|unusable| match unusable {
            Unusable::System(source) => KeyFileError::Read { path: path.to_owned(), source },
            Unusable::Exposed(why) => KeyFileError::Exposed { path: path.to_owned(), why },
            Unusable::Foreign(why) => no_key(why.to_owned()),
        })?;
        // What the parser says names its own parts.
        Self::from_pem(&text).map_err(|_| no_key(PEM.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::scratch::scratch;

    #[test]
    fn a_key_is_its_owners_alone_and_never_overwritten() {
        let scratch = scratch("keys-new");
        let folder = KeyFolder(scratch.join("a/keys"));
        assert!(folder.names().unwrap().is_empty());
        let (path, identity) = folder.create("anna").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(fs::metadata(&folder.0).unwrap().permissions().mode() & 0o7777, 0o700);
        let line = folder.create("anna").unwrap_err().to_string();
        assert!(line.contains("exists already"), "{line}");
        assert_eq!(Identity::load(&path).unwrap().public_key(), identity.public_key());
        assert_eq!(folder.names().unwrap(), ["anna"]);
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "nothing else is left");
        let named = scratch.join("key.pem");
        assert_eq!(
            Identity::create(&named).unwrap().public_key(),
            Identity::load(&named).unwrap().public_key()
        );
        assert!(Identity::create(&named).unwrap_err().to_string().contains("exists already"));
        assert!(Identity::create(&scratch.join("none/key.pem")).is_err());
        for name in ["", "a/b", "../a", ".a", "-a", "ä"] {
            assert!(folder.create(name).is_err(), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_told_in_one_line() {
        let scratch = scratch("keys-bad");
        let (path, identity) = KeyFolder(scratch.to_path_buf()).create("key").unwrap();
        let pem = identity.to_pem().unwrap();
        let line = |path: &Path| {
            let line = Identity::load(path).unwrap_err().to_string();
            assert!(!line.contains('\n') && line.contains(&*path.to_string_lossy()), "{line}");
            line
        };
        for mode in [0o640, 0o604, 0o660, 0o601] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let line = line(&path);
            assert!(line.contains(&format!("{mode:04o}")) && line.contains("chmod 600"), "{line}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert!(Identity::load(&path).is_ok());
        // Only root can give a file to somebody else.
        if treecast_host::user::is_root() {
            std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
            let line = line(&path);
            assert!(line.contains("belongs to user 12345") && line.contains("`chown`"), "{line}");
        }
        let bad = scratch.join("bad.pem");
        for text in ["", "no key", &pem[..pem.len() / 2], &pem.replace("PRIVATE", "PUBLIC")] {
            fs::write(&bad, text).unwrap();
            fs::set_permissions(&bad, fs::Permissions::from_mode(0o600)).unwrap();
            let line = line(&bad);
            assert!(
                line.contains("holds no Ed25519 key") && line.contains("BEGIN PRIVATE KEY"),
                "{text}: {line}"
            );
            assert!(!line.contains("preamble"), "{line}");
        }
        assert!(line(&scratch).contains("no regular file"));
        assert!(line(Path::new("/dev/null")).contains("no regular file"));
        assert!(line(&scratch.join("none")).contains("No such file"));
    }
}
