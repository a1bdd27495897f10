//! Reading short texts that people write.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// Reads a text of at most `max_bytes` whatever `path` is: a device has no length to look at first.
///
/// # Errors
/// What the system says; `InvalidData` for what is no text, or is longer.
pub fn read_text(path: &Path, max_bytes: u64) -> io::Result<String> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut bytes = Vec::new();
    File::open(path)?.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(invalid("it is too long"));
    }
    String::from_utf8(bytes).map_err(|_| invalid("it holds no text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_never_ends_or_is_none_is_refused() {
        let refused = |path: &str, max_bytes| read_text(Path::new(path), max_bytes).unwrap_err().to_string();
        assert_eq!(refused("/dev/zero", 1000), "it is too long");
        assert_eq!(refused("/proc/self/exe", 1 << 30), "it holds no text");
        assert!(refused("/no/such", 1000).contains("No such file"));
    }
}
