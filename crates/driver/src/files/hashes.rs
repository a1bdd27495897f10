//! The hashes by which a file that has its name is known again.

use std::{fmt, io};

use data_encoding::HEXLOWER;

use super::TargetFolder;

/// The hashes of an object that has its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hashes {
    /// The hash of what was sent, which the sender signs.
    pub sent: [u8; 32],
    /// The hash of the file. It is another one if the object came compressed.
    pub own: [u8; 32],
}

impl Hashes {
    /// The hashes of an object that is as it was sent.
    pub fn plain(hash: [u8; 32]) -> Self {
        Self { sent: hash, own: hash }
    }

    /// Whether the file of this name is the one that had these hashes.
    pub fn are_of(&self, folder: &TargetFolder, name: &str) -> bool {
        hash_by_name(folder, name).is_ok_and(|hash| hash == self.own)
    }

    /// Parses what [`fmt::Display`] writes.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let hash = |text| Some(*blake3::Hash::from_hex(text).ok()?.as_bytes());
        match text.split_once(':') {
            Some((sent, own)) => Some(Self { sent: hash(sent)?, own: hash(own)? }),
            None => hash(text).map(Self::plain),
        }
    }
}

impl fmt::Display for Hashes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.sent))?;
        if self.own != self.sent {
            write!(f, ":{}", HEXLOWER.encode(&self.own))?;
        }
        Ok(())
    }
}

/// The hash of a file that has its name.
fn hash_by_name(folder: &TargetFolder, name: &str) -> io::Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut folder.open_file(name)?, &mut hasher)?;
    Ok(*hasher.finalize().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_their_text() {
        for hashes in [Hashes::plain([7; 32]), Hashes { sent: [7; 32], own: [8; 32] }] {
            assert_eq!(Hashes::parse(&hashes.to_string()), Some(hashes));
        }
        assert_eq!(Hashes::parse("07:08"), None);
    }
}
