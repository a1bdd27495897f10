//! Reading short texts that people write.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// Reads a regular file of at most `max_bytes`.
///
/// # Errors
/// What the system says, or `InvalidData` if it is no regular file, no text, or longer.
pub fn read(path: &Path, max_bytes: u64) -> io::Result<String> {
    // To open a pipe would wait for a writer.
    match path.metadata()? {
        found if found.is_dir() => Err(invalid("it is a folder")),
        found if !found.is_file() => Err(invalid("it is no regular file")),
        _ => read_any(path, max_bytes),
    }
}

/// Reads a text of at most `max_bytes` from a file or pipe. Waits for a pipe's writer.
///
/// # Errors
/// What the system says, or `InvalidData` for what is no text, or is longer.
pub fn read_any(path: &Path, max_bytes: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    // A device has no length to look at first.
    File::open(path)?.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        let limit = if max_bytes < 1 << 20 {
            format!("{max_bytes} bytes")
        } else {
            format!("{} MiB", max_bytes >> 20)
        };
        return Err(invalid(&format!("it is longer than {limit}")));
    }
    String::from_utf8(bytes).map_err(|_| invalid("it holds no text"))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_never_ends_or_is_none_is_refused() {
        let refused = |path: &str, max_bytes| read_any(Path::new(path), max_bytes).unwrap_err().to_string();
        assert_eq!(refused("/dev/zero", 1000), "it is longer than 1000 bytes");
        assert_eq!(refused("/dev/zero", 2 << 20), "it is longer than 2 MiB");
        assert_eq!(refused("/proc/self/exe", 1 << 30), "it holds no text");
        assert!(refused("/no/such", 1000).contains("No such file"));
        let no_file = |path: &str| read(Path::new(path), 1000).unwrap_err().to_string();
        assert_eq!([no_file("/dev/zero"), no_file("/proc")], ["it is no regular file", "it is a folder"]);
    }
}
