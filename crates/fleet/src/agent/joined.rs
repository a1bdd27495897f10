//! What an agent remembers of the manager that it has joined, and the agent's own key.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use treecast_driver::security::{Identity, KeyFileError, PublicKey};
use treecast_host::text;

use crate::code::{Code, CodeError};

/// The manager that an agent has joined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Joined {
    /// The manager's public key, in its text form.
    pub manager: String,
    pub addresses: Vec<String>,
    /// The manager's database. `None` until the manager has taken the agent.
    pub fleet: Option<String>,
    /// The host's name in the fleet, once the manager has taken the agent.
    pub name: Option<String>,
    /// The secret of the code, until the manager has taken the agent.
    pub secret: Option<String>,
}

/// The reason why an agent does not know its manager.
#[derive(Debug, Error)]
pub enum JoinError {
    #[error(
        "this host has joined no fleet: run `treecast agent --join CODE` with a code that `treecast fleet code` prints"
    )]
    Never,
    #[error(
        "this host has joined the fleet of another manager ({manager}): leave that with `treecast agent --leave` first"
    )]
    Other { manager: String },
    #[error(transparent)]
    Code(#[from] CodeError),
    #[error(transparent)]
    Key(#[from] KeyFileError),
    #[error("{}: {source}; name a folder that you may write to with --state", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} is damaged: {what}; remove it and join again", path.display())]
    Damaged { path: PathBuf, what: String },
}

const MAX_FILE_LEN: u64 = 64 << 10;

impl Joined {
    /// Reads what is remembered, and takes a code into account. One that was used before changes nothing.
    ///
    /// # Errors
    /// If no manager is known, or the code is another manager's.
    pub fn load(state: &Path, code: Option<&str>) -> Result<Self, JoinError> {
        let path = file(state);
        let known: Option<Self> = match text::read_own(&path, MAX_FILE_LEN) {
            Ok(text) => Some(
                serde_json::from_str(&text)
                    .map_err(|error| JoinError::Damaged { path: path.clone(), what: error.to_string() })?,
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(JoinError::File { path, source }),
        };
        let Some(code) = code else { return known.ok_or(JoinError::Never) };
        let code: Code = code.parse()?;
        let manager = code.manager.to_string();
        match known {
            Some(known) if known.manager != manager => Err(JoinError::Other { manager: known.manager }),
            // It has a name there already; the code tells where the manager is now.
            Some(known) if known.fleet.is_some() => {
                let joined =
                    Self { addresses: code.addresses.clone(), secret: Some(code.secret_text()), ..known };
                joined.save(state).map(|()| joined)
            }
            _ => {
                let secret = Some(code.secret_text());
                let joined = Self { manager, addresses: code.addresses, fleet: None, name: None, secret };
                joined.save(state).map(|()| joined)
            }
        }
    }

    /// Writes down what is known, for the next start.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, state: &Path) -> Result<(), JoinError> {
        let path = file(state);
        let failed = |source| JoinError::File { path: path.clone(), source };
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(io::Error::other(error)))?;
        write_private(&path, &text).map_err(failed)
    }

    /// Forgets the manager.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub fn forget(state: &Path) -> Result<(), JoinError> {
        let path = file(state);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(JoinError::Never),
            removed => removed.map_err(|source| JoinError::File { path, source }),
        }
    }

    /// Returns the manager's key.
    ///
    /// # Errors
    /// If the file has none.
    pub fn manager(&self, state: &Path) -> Result<PublicKey, JoinError> {
        let damaged = |what: String| JoinError::Damaged { path: file(state), what };
        self.manager.parse().map_err(|error| damaged(format!("{error}")))
    }
}

fn file(state: &Path) -> PathBuf {
    state.join("manager.json")
}

/// Returns the key of the program that keeps its state in a folder. The first start makes it.
///
/// # Errors
/// If the key cannot be used or made.
pub fn identity(state: &Path) -> Result<Identity, JoinError> {
    make_private(state).map_err(|source| JoinError::File { path: state.to_owned(), source })?;
    let path = state.join("key.pem");
    match path.exists() {
        true => Ok(Identity::load(&path)?),
        false => Ok(Identity::create(&path)?),
    }
}

/// Makes a folder that nobody else may look into.
fn make_private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Writes a file that nobody else may read. It is there whole or as it was before.
///
/// # Errors
/// If it cannot be written.
pub fn write_private(path: &Path, text: &str) -> io::Result<()> {
    use io::Write;
    let (mut file, temporary) = treecast_host::hidden_file::create(path, 0o600)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    written.and_then(|()| fs::rename(&temporary, path)).inspect_err(|_| _ = fs::remove_file(&temporary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_joins_one_manager_and_remembers_it() {
        let state = std::env::temp_dir().join(format!("treecast-joined-{}", std::process::id()));
        let own = identity(&state).unwrap();
        assert_eq!(identity(&state).unwrap().public_key(), own.public_key());
        assert!(matches!(Joined::load(&state, None), Err(JoinError::Never)));
        let code = |manager: &Identity| Code {
            manager: manager.public_key(),
            secret: [1; 16],
            addresses: vec!["[::1]:7443".into()],
        };
        let manager = Identity::generate().unwrap();
        let joined = Joined::load(&state, Some(&code(&manager).to_string())).unwrap();
        assert_eq!(Joined::load(&state, None).unwrap(), joined);
        assert_eq!(joined.manager(&state).unwrap(), manager.public_key());
        let other = code(&Identity::generate().unwrap()).to_string();
        assert!(matches!(Joined::load(&state, Some(&other)), Err(JoinError::Other { .. })));
        Joined::forget(&state).unwrap();
        assert!(Joined::load(&state, Some(&other)).is_ok());
        fs::remove_dir_all(&state).unwrap();
    }
}
