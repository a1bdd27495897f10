//! The director's own check of a copy: what a client says about itself does not count.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// The BLAKE3 hash of a file.
pub type Digest = [u8; 32];

const READ_BYTES: usize = 1 << 20;

/// Hashes a file.
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

/// Compares a copy with the digest of its source. An error says in a few words what is wrong.
pub fn check_copy(copy: &Path, size_bytes: u64, expected: &Digest) -> Result<(), String> {
    let found = std::fs::metadata(copy).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "no copy".to_string(),
        _ => format!("copy cannot be read: {error}"),
    })?;
    if found.len() != size_bytes {
        return Err(format!("copy has {} bytes, not {size_bytes}", found.len()));
    }
    match digest(copy) {
        Ok(hash) if hash == *expected => Ok(()),
        Ok(_) => Err("copy differs from the source".into()),
        Err(error) => Err(format!("copy cannot be read: {error}")),
    }
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
        assert_eq!(check_copy(&copy, size, &expected), Ok(()));

        bytes[2_000_000] ^= 1;
        std::fs::write(&copy, &bytes).unwrap();
        assert_eq!(check_copy(&copy, size, &expected), Err("copy differs from the source".into()));
        std::fs::write(&copy, &bytes[1..]).unwrap();
        let short = format!("copy has {} bytes, not {size}", size - 1);
        assert_eq!(check_copy(&copy, size, &expected), Err(short));
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(check_copy(&copy, size, &expected), Err("no copy".into()));
    }
}
