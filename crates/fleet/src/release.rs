//! Releases: files that a manager rolls out. Who makes one signs what it is; hosts take it from nobody else.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Component, Path, PathBuf},
};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use treecast_driver::security::{Identity, PublicKey};
use utoipa::ToSchema;

use crate::json::{read, text_of};

/// The name of the program's file in a release for agents.
pub const PROGRAM: &str = "treecast";
/// The most files of a release.
const MAX_FILES: usize = 10_000;
/// What is signed begins with these letters, so that a signature over something else is none of a release.
const CONTEXT: &[u8] = b"treecast release 1\n";

/// What a release is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// What is updated, such as `firmware`.
    pub name: String,
    pub version: String,
    /// The processor architecture that it is for, as `uname -m` calls it. `None`: any.
    pub architecture: Option<String>,
    /// The version that a host must have before. `None`: any, or none.
    pub from: Option<String>,
    #[serde(default, skip_serializing_if = "Kind::is_files")]
    pub kind: Kind,
    /// All files, by their paths below the release's folder.
    pub files: BTreeMap<String, Content>,
}

/// What is done with a release.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The host's own command activates it.
    #[default]
    Files,
    /// Its file `treecast` is the agent's program from now on.
    Agent,
}

impl Kind {
    fn is_files(&self) -> bool {
        *self == Self::Files
    }

    /// Whether the release is a program for agents.
    pub fn is_agent(self) -> bool {
        self == Self::Agent
    }
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    pub size_bytes: u64,
    /// The BLAKE3 hash in hexadecimal digits.
    pub blake3: String,
}

/// A release with the signature of who has made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SignedRelease)]
pub struct Signed {
    /// The release, as it was signed.
    pub release: String,
    /// The public key of who has signed it.
    pub key: String,
    /// The signature in hexadecimal digits.
    pub signature: String,
}

/// The reason why something is no release, or not this one.
#[derive(Debug, Error)]
pub enum ReleaseError {
    #[error("{name:?} is no name or version for a release: take letters, digits, dots, -, + and _")]
    Name { name: String },
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} is neither a file nor a folder: a release has no links and devices", .0.display())]
    Kind(PathBuf),
    #[error("a release has at least one file and at most {MAX_FILES}")]
    Count,
    #[error(
        "the release is signed by {0}, which this host does not trust: add it to `keys` below [roll_out] in agent.toml"
    )]
    Untrusted(String),
    #[error("the release is not signed, or was altered after that")]
    Signature,
    #[error("the release is damaged: {0}")]
    Damaged(String),
    #[error("a release for agents has the program in a file {PROGRAM}, and this folder has none")]
    NoProgram,
    #[error("{path}: {how}")]
    Differs { path: String, how: String },
}

impl Release {
    /// Describes the files in a folder.
    ///
    /// # Errors
    /// If a file cannot be read, or is none.
    pub fn of_folder(
        folder: &Path,
        name: &str,
        version: &str,
        architecture: Option<String>,
        from: Option<String>,
    ) -> Result<Self, ReleaseError> {
        [Some(name), Some(version), from.as_deref()].into_iter().flatten().try_for_each(check_name)?;
        let mut files = BTreeMap::new();
        describe(folder, folder, &mut files)?;
        match (1..=MAX_FILES).contains(&files.len()) {
            true => {
                let (name, version) = (name.to_owned(), version.to_owned());
                Ok(Self { name, version, architecture, from, kind: Kind::Files, files })
            }
            false => Err(ReleaseError::Count),
        }
    }

    /// Makes the release one of the agents' program.
    ///
    /// # Errors
    /// If it has no program.
    pub fn for_agents(self) -> Result<Self, ReleaseError> {
        match self.files.contains_key(PROGRAM) {
            true => Ok(Self { kind: Kind::Agent, ..self }),
            false => Err(ReleaseError::NoProgram),
        }
    }

    /// Compares a folder with the release: it has these files, and no others.
    ///
    /// # Errors
    /// The first difference.
    pub fn verify(&self, folder: &Path) -> Result<(), ReleaseError> {
        let mut found = BTreeMap::new();
        describe(folder, folder, &mut found)?;
        for (path, content) in &self.files {
            match found.remove(path) {
                None => return Err(differs(path, "it is missing")),
                Some(other) if other.size_bytes != content.size_bytes => {
                    let how =
                        format!("it has {} bytes, and should have {}", other.size_bytes, content.size_bytes);
                    return Err(differs(path, &how));
                }
                Some(other) if other != *content => return Err(differs(path, "it has other bytes")),
                Some(_) => {}
            }
        }
        found.first_key_value().map_or(Ok(()), |(path, _)| Err(differs(path, "it is none of the release's")))
    }

    /// Returns the size of all files together.
    pub fn size_bytes(&self) -> u64 {
        self.files.values().map(|content| content.size_bytes).sum()
    }

    /// Signs the release.
    pub fn sign(&self, identity: &Identity) -> Signed {
        let release = text_of(self);
        let signature = identity.sign(&signed_bytes(&release));
        Signed { key: identity.public_key().to_string(), signature: HEXLOWER.encode(&signature), release }
    }
}

impl Signed {
    /// Reads the release, if one of these keys has signed it. Without keys, any may have.
    ///
    /// # Errors
    /// The reason why it is not trusted.
    pub fn check(&self, trusted: Option<&[PublicKey]>) -> Result<Release, ReleaseError> {
        let key: PublicKey = self.key.parse().map_err(|_| ReleaseError::Signature)?;
        if trusted.is_some_and(|trusted| !trusted.contains(&key)) {
            return Err(ReleaseError::Untrusted(self.key.clone()));
        }
        let signature = HEXLOWER.decode(self.signature.as_bytes()).map_err(|_| ReleaseError::Signature)?;
        let signature = signature.try_into().map_err(|_| ReleaseError::Signature)?;
        if !key.verify(&signed_bytes(&self.release), &signature) {
            return Err(ReleaseError::Signature);
        }
        let release: Release = read(&self.release).map_err(ReleaseError::Damaged)?;
        [&release.name, &release.version].into_iter().try_for_each(|name| check_name(name))?;
        match release.files.keys().find(|path| !is_inside(Path::new(path))) {
            None if release.kind.is_agent() && !release.files.contains_key(PROGRAM) => {
                Err(ReleaseError::NoProgram)
            }
            Some(path) => Err(ReleaseError::Damaged(format!("{path} leads out of its folder"))),
            None => Ok(release),
        }
    }
}

fn signed_bytes(release: &str) -> Vec<u8> {
    [CONTEXT, release.as_bytes()].concat()
}

fn differs(path: &str, how: &str) -> ReleaseError {
    ReleaseError::Differs { path: path.to_owned(), how: how.to_owned() }
}

/// Refuses a name or version that is no single component of a path.
fn check_name(name: &str) -> Result<(), ReleaseError> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | '+');
    let is_name =
        (1..=64).contains(&name.len()) && name.chars().all(is_plain) && !name.starts_with(['.', '-']);
    match is_name {
        true => Ok(()),
        false => Err(ReleaseError::Name { name: name.to_owned() }),
    }
}

fn is_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

/// Adds the files below a folder.
fn describe(root: &Path, folder: &Path, files: &mut BTreeMap<String, Content>) -> Result<(), ReleaseError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| ReleaseError::File { path, source }
    };
    for entry in fs::read_dir(folder).map_err(failed(folder))? {
        let path = entry.map_err(failed(folder))?.path();
        let kind = fs::symlink_metadata(&path).map_err(failed(&path))?.file_type();
        if kind.is_dir() {
            describe(root, &path, files)?;
        } else if kind.is_file() {
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            files.insert(name, content(&path).map_err(failed(&path))?);
        } else {
            return Err(ReleaseError::Kind(path));
        }
        if files.len() > MAX_FILES {
            return Err(ReleaseError::Count);
        }
    }
    Ok(())
}

fn content(path: &Path) -> io::Result<Content> {
    let digest = treecast_experiment::site::digest(path)?;
    Ok(Content {
        size_bytes: fs::metadata(path)?.len(),
        blake3: blake3::Hash::from_bytes(digest).to_hex().to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("treecast-release-{name}-{}", std::process::id()));
            fs::create_dir_all(path.join("etc")).unwrap();
            fs::write(path.join("program"), "code").unwrap();
            fs::write(path.join("etc/settings"), "a = 1").unwrap();
            Self(path)
        }

        fn release(&self) -> Release {
            Release::of_folder(&self.0, "app", "1.2", None, None).unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_folder_is_the_release_until_something_changes() {
        let folder = Folder::new("folder");
        let release = folder.release();
        assert_eq!((release.files.len(), release.size_bytes()), (2, 9));
        release.verify(&folder.0).unwrap();
        let differs = |says: &str| {
            let found = release.verify(&folder.0).unwrap_err().to_string();
            assert!(found.contains(says), "{found}");
        };
        fs::write(folder.0.join("program"), "cord").unwrap();
        differs("program: it has other bytes");
        fs::write(folder.0.join("program"), "code").unwrap();
        fs::write(folder.0.join("more"), "").unwrap();
        differs("more: it is none of the release's");
        fs::remove_file(folder.0.join("more")).unwrap();
        fs::remove_file(folder.0.join("etc/settings")).unwrap();
        differs("etc/settings: it is missing");
        std::os::unix::fs::symlink("/etc/passwd", folder.0.join("etc/settings")).unwrap();
        differs("neither a file nor a folder");
    }

    #[test]
    fn a_release_is_trusted_by_its_key_and_as_it_was_signed() {
        let folder = Folder::new("signed");
        let (anna, bert) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        let signed = folder.release().sign(&anna);
        assert_eq!(signed.check(Some(&[anna.public_key()])).unwrap(), folder.release());
        let refused = |signed: &Signed, says: &str| {
            let found = signed.check(Some(&[anna.public_key()])).unwrap_err().to_string();
            assert!(found.contains(says), "{found}");
        };
        refused(&folder.release().sign(&bert), "which this host does not trust");
        let altered = Signed { release: signed.release.replace("1.2", "1.3"), ..signed.clone() };
        refused(&altered, "altered after that");
        refused(
            &Signed { key: anna.public_key().to_string(), ..folder.release().sign(&bert) },
            "altered after that",
        );
        refused(&Signed { signature: String::new(), ..signed }, "not signed");
        let mut outside = folder.release();
        let content = outside.files.remove("program").unwrap();
        outside.files.insert("../program".into(), content);
        refused(&outside.sign(&anna), "leads out of its folder");
        assert!(Release::of_folder(&folder.0, "..", "1", None, None).is_err());
        let refused = folder.release().for_agents().unwrap_err().to_string();
        assert!(refused.contains("in a file treecast"), "{refused}");
        let without = Release { kind: Kind::Agent, ..folder.release() };
        assert!(without.sign(&anna).check(None).is_err());
    }
}
