//! Codes by which agents join a fleet: where the manager is, its public key, and a secret.

use std::{fmt, str::FromStr};

use data_encoding::BASE64URL_NOPAD;
use thiserror::Error;
use treecast_driver::security::PublicKey;

/// The letters that a code begins with.
const PREFIX: &str = "fleet1.";
const KEY_LEN: usize = 32;
/// The length of a secret, in bytes: nobody guesses one.
pub const SECRET_LEN: usize = 16;
const CHECKSUM_LEN: usize = 4;
/// The most letters of a code.
const MAX_LEN: usize = 2048;

/// A code for joining. Its text form has no letter that a shell would take for something else.
#[derive(Clone, PartialEq, Eq)]
pub struct Code {
    /// The manager's key.
    pub manager: PublicKey,
    pub secret: [u8; SECRET_LEN],
    /// Where the manager listens, each as `HOST:PORT`.
    pub addresses: Vec<String>,
}

/// The reason why a text is no code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CodeError {
    #[error("a code begins with {PREFIX:?}: copy the whole line that `treecast fleet code` prints")]
    Prefix,
    #[error("the code is cut short or mistyped: copy the whole line that `treecast fleet code` prints")]
    Damaged,
}

impl Code {
    /// Returns the text by which the manager knows a secret again without keeping it.
    pub fn fingerprint(secret: &[u8]) -> String {
        blake3::hash(secret).to_hex()[..32].to_owned()
    }

    /// Returns the secret as the greeting of an agent carries it.
    pub fn secret_text(&self) -> String {
        BASE64URL_NOPAD.encode(&self.secret)
    }
}

/// Reads the secret of a greeting. `None` for a text that is none.
pub fn secret(text: &str) -> Option<[u8; SECRET_LEN]> {
    BASE64URL_NOPAD.decode(text.as_bytes()).ok()?.try_into().ok()
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = [&self.manager.to_bytes()[..], &self.secret].concat();
        bytes.extend_from_slice(self.addresses.join(",").as_bytes());
        bytes.extend_from_slice(&checksum(&bytes));
        write!(f, "{PREFIX}{}", BASE64URL_NOPAD.encode(&bytes))
    }
}

impl fmt::Debug for Code {
    /// Writes all but the secret, because this text may end in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code({}, {})", self.manager, self.addresses.join(","))
    }
}

impl FromStr for Code {
    type Err = CodeError;

    fn from_str(text: &str) -> Result<Self, CodeError> {
        let text = text.trim().strip_prefix(PREFIX).ok_or(CodeError::Prefix)?;
        if text.len() > MAX_LEN {
            return Err(CodeError::Damaged);
        }
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| CodeError::Damaged)?;
        let (told, sum) = bytes.split_last_chunk::<CHECKSUM_LEN>().ok_or(CodeError::Damaged)?;
        if checksum(told) != *sum {
            return Err(CodeError::Damaged);
        }
        let (key, rest) = told.split_first_chunk::<KEY_LEN>().ok_or(CodeError::Damaged)?;
        let (secret, addresses) = rest.split_first_chunk::<SECRET_LEN>().ok_or(CodeError::Damaged)?;
        let manager = PublicKey::from_bytes(*key).map_err(|_| CodeError::Damaged)?;
        let addresses = str::from_utf8(addresses).map_err(|_| CodeError::Damaged)?;
        let addresses: Vec<String> =
            addresses.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect();
        Ok(Self { manager, secret: *secret, addresses })
    }
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_LEN] {
    let mut sum = [0; CHECKSUM_LEN];
    sum.copy_from_slice(&blake3::hash(bytes).as_bytes()[..CHECKSUM_LEN]);
    sum
}

#[cfg(test)]
mod tests {
    use treecast_driver::security::Identity;

    use super::*;

    #[test]
    fn a_code_comes_back_and_a_damaged_one_is_told() {
        let manager = Identity::generate().unwrap().public_key();
        let addresses = vec!["manager.example:7443".to_owned(), "[2001:db8::1]:7443".to_owned()];
        let code = Code { manager, secret: [7; SECRET_LEN], addresses };
        let text = code.to_string();
        assert_eq!(text.parse(), Ok(code.clone()));
        assert_eq!(secret(&code.secret_text()), Some(code.secret));
        assert_eq!(text[..text.len() - 1].parse::<Code>(), Err(CodeError::Damaged));
        assert_eq!("treecast2.abc".parse::<Code>(), Err(CodeError::Prefix));
        assert_eq!(format!("fleet1.{}", "A".repeat(1 << 20)).parse::<Code>(), Err(CodeError::Damaged));
        assert!(!format!("{code:?}").contains(&code.secret_text()));
    }
}
