//! Checks a copy independently of the client. What a client says about its copy does not count.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// The BLAKE3 hash of a file.
pub type Digest = [u8; 32];

const READ_BYTES: usize = 1 << 20;

/// Computes the BLAKE3 hash of a file.
pub fn digest(path: &Path) -> io::Result<Digest> {
    let mut file = File::open(path)?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(*hasher.finalize().as_bytes()),
            read => _ = hasher.update(&buffer[..read]),
        }
    }
}

/// The difference of a copy from its source.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("no copy")]
    None,
    #[error("copy has {found} bytes, not {expected}")]
    Size { found: u64, expected: u64 },
    #[error("copy differs from the source")]
    Content,
    #[error("copy cannot be read: {0}")]
    Unreadable(io::Error),
    /// A host far away has compared the copy, and says how it differs.
    #[error("{0}")]
    Elsewhere(String),
}

impl From<io::Error> for CopyError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::NotFound { Self::None } else { Self::Unreadable(error) }
    }
}

/// Compares a copy with the digest of its source.
pub fn check_copy(copy: &Path, size_bytes: u64, expected: &Digest) -> Result<(), CopyError> {
    let found = std::fs::metadata(copy)?.len();
    if found != size_bytes {
        return Err(CopyError::Size { found, expected: size_bytes });
    }
    if digest(copy)? == *expected { Ok(()) } else { Err(CopyError::Content) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_with_one_flipped_bit_a_short_one_and_none_are_told_apart() {
        let folder = std::env::temp_dir().join(format!("treecast-verify-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let copy = folder.join("copy");
        let mut bytes = vec![7; 3 << 20];
        std::fs::write(&copy, &bytes).unwrap();
        let expected = digest(&copy).unwrap();
        assert_eq!(expected, *blake3::hash(&bytes).as_bytes());
        let size = bytes.len() as u64;
        let checked = || check_copy(&copy, size, &expected).map_err(|error| error.to_string());
        assert_eq!(checked(), Ok(()));

        bytes[2_000_000] ^= 1;
        std::fs::write(&copy, &bytes).unwrap();
        assert_eq!(checked(), Err("copy differs from the source".into()));
        std::fs::write(&copy, &bytes[1..]).unwrap();
        let short = format!("copy has {} bytes, not {size}", size - 1);
        assert_eq!(checked(), Err(short));
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(checked(), Err("no copy".into()));
    }
}
