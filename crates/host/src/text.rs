//! Reading short texts that people write.

use std::{
    fs::{File, Metadata, OpenOptions},
    io::{self, Read},
    os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

use rustix::fs::{OFlags, fcntl_setfl};

use crate::user;

/// Reads a regular file of at most `max_bytes`.
///
/// # Errors
/// What the system says, or `InvalidData` if it is no regular file, no text, or longer.
pub fn read(path: &Path, max_bytes: u64) -> io::Result<String> {
    read_whole(open_regular(path)?, max_bytes)
}

/// Reads a regular file of at most `max_bytes` that nobody but this user and root can have written or put there.
///
/// # Errors
/// As [`read`], and `PermissionDenied` if somebody else may write to the file or to its folder.
pub fn read_own(path: &Path, max_bytes: u64) -> io::Result<String> {
    let file = open_regular(path)?;
    check_own(path, &file.metadata()?).map_err(denied)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    check_own(folder, &folder.metadata()?).map_err(|why| denied(format!("its folder: {why}")))?;
    read_whole(file, max_bytes)
}

/// Opens a regular file. What is found there is never waited for: a pipe without a writer is refused as well.
fn open_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    match file.metadata()? {
        found if found.is_dir() => Err(invalid("it is a folder")),
        found if !found.is_file() => Err(invalid("it is no regular file")),
        _ => Ok(file),
    }
}

/// Reads a secret of at most `max_bytes` from a file or pipe. Waits for a pipe's writer.
///
/// # Errors
/// As [`read_any`], and `PermissionDenied` if [`check_private`] refuses the file.
pub fn read_private(path: &Path, max_bytes: u64) -> io::Result<String> {
    let file = File::open(path)?;
    check_private(&file.metadata()?).map_err(denied)?;
    read_whole(file, max_bytes)
}

/// The permission bits of the group and of others. A file with a secret has none of them.
const OTHERS: u32 = 0o077;

/// The permission bits by which the group and others may write.
const OTHERS_WRITE: u32 = 0o022;

/// Checks that a file with a secret is this user's or root's, and that nobody else may read or write it.
///
/// # Errors
/// The reason why somebody else may know or have chosen what is in it, in words.
pub fn check_private(file: &Metadata) -> Result<(), String> {
    check_mode(file, OTHERS, "read it")?;
    check_owner(file)
}

/// Checks that a file or folder is this user's or root's, and that nobody else may write to it.
///
/// # Errors
/// The reason, and the command that mends it.
fn check_own(path: &Path, file: &Metadata) -> Result<(), String> {
    check_owner(file).map_err(|why| format!("{why}: make it yours with `chown`, or write your own"))?;
    check_mode(file, OTHERS_WRITE, "write to it")
        .map_err(|why| format!("{why}: take that away with `chmod go-w {}`", path.display()))
}

fn check_mode(file: &Metadata, refused: u32, what: &str) -> Result<(), String> {
    match file.mode() & 0o7777 {
        mode if mode & refused != 0 => Err(format!("others than its owner may {what} (mode {mode:04o})")),
        _ => Ok(()),
    }
}

fn check_owner(file: &Metadata) -> Result<(), String> {
    let owner = file.uid();
    match owner == 0 || owner == user::effective() {
        true => Ok(()),
        false => Err(format!("it belongs to user {owner}, who is neither root nor the user of this program")),
    }
}

/// The number of the line of this byte, counted from 1.
pub fn line_of(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|byte| *byte == b'\n').count()
}

/// Reads a text of at most `max_bytes` from a file or pipe. Waits for a pipe's writer.
///
/// # Errors
/// What the system says, or `InvalidData` for what is no text, or is longer.
pub fn read_any(path: &Path, max_bytes: u64) -> io::Result<String> {
    read_whole(File::open(path)?, max_bytes)
}

/// Reads a text of at most `max_bytes` from a file, or from a pipe that somebody writes into, such as a shell's `<(..)`.
///
/// # Errors
/// As [`read_any`], and `InvalidData` if nobody has opened the pipe to write.
pub fn read_written(path: &Path, max_bytes: u64) -> io::Result<String> {
    let mut file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let mut start = [0; 1024];
    let len = match file.read(&mut start) {
        Ok(0) if file.metadata()?.file_type().is_fifo() => {
            return Err(invalid("nobody writes into the pipe"));
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        read => read?,
    };
    fcntl_setfl(&file, OFlags::empty())?;
    read_whole(start[..len].chain(file), max_bytes)
}

fn read_whole(file: impl Read, max_bytes: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    // A device has no length to look at first.
    file.take(max_bytes + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        let limit = match max_bytes {
            0..0x400 => format!("{max_bytes} bytes"),
            0x400..0x10_0000 => format!("{} KiB", max_bytes >> 10),
            _ => format!("{} MiB", max_bytes >> 20),
        };
        return Err(invalid(&format!("it is longer than {limit}")));
    }
    String::from_utf8(bytes).map_err(|_| invalid("it holds no text"))
}

fn denied(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        io::Write,
        os::{fd::AsRawFd, unix::fs::PermissionsExt},
        thread,
        time::Duration,
    };

    use super::*;

    #[test]
    fn a_text_that_never_ends_or_is_none_is_refused() {
        let refused = |path: &str, max_bytes| read_any(Path::new(path), max_bytes).unwrap_err().to_string();
        assert_eq!(refused("/dev/zero", 1000), "it is longer than 1000 bytes");
        assert_eq!(refused("/dev/zero", 64 << 10), "it is longer than 64 KiB");
        assert_eq!(refused("/dev/zero", 2 << 20), "it is longer than 2 MiB");
        assert_eq!(refused("/proc/self/exe", 1 << 30), "it holds no text");
        assert!(refused("/no/such", 1000).contains("No such file"));
        let no_file = |path: &str| read(Path::new(path), 1000).unwrap_err().to_string();
        assert_eq!([no_file("/dev/zero"), no_file("/proc")], ["it is no regular file", "it is a folder"]);
    }

    #[test]
    fn a_text_that_others_may_write_is_refused() {
        let folder = std::env::temp_dir().join(format!("treecast-own-{}", std::process::id()));
        let path = folder.join("file");
        let set_folder = |mode| fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        fs::create_dir(&folder).unwrap();
        set_folder(0o755);
        fs::write(&path, "x").unwrap();
        let read = |mode| {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            read_own(&path, 10).map_err(|error| (error.kind(), error.to_string()))
        };
        assert_eq!([read(0o600), read(0o644)], [Ok("x".to_owned()), Ok("x".to_owned())]);
        for mode in [0o664, 0o646] {
            let why = format!(
                "others than its owner may write to it (mode {mode:04o}): take that away with `chmod go-w {}`",
                path.display()
            );
            assert_eq!(read(mode), Err((io::ErrorKind::PermissionDenied, why)));
        }
        set_folder(0o775);
        assert!(read(0o600).unwrap_err().1.starts_with("its folder: others than its owner may write to it"));
        set_folder(0o755);
        read(0o600).unwrap();
        if user::is_root() {
            std::os::unix::fs::chown(&path, Some(1), None).unwrap();
            let why = read(0o666).unwrap_err().1;
            assert!(why.contains("belongs to user 1") && why.contains("`chown`"), "{why}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_pipe_is_read_to_its_end_if_somebody_writes() {
        let (reader, mut writer) = io::pipe().unwrap();
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        let read = |max_bytes| read_written(Path::new(&path), max_bytes);
        writer.write_all(b"one\n").unwrap();
        let late = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            writer.write_all(&[b'x'; 5000]).unwrap();
            thread::sleep(Duration::from_millis(100));
        });
        assert_eq!(read(1 << 20).unwrap(), format!("one\n{}", "x".repeat(5000)));
        late.join().unwrap();
        assert_eq!(read(1 << 20).unwrap_err().to_string(), "nobody writes into the pipe");
        assert_eq!(
            read_written(Path::new("/dev/zero"), 1000).unwrap_err().to_string(),
            "it is longer than 1000 bytes"
        );
        assert_eq!(read_written(Path::new("/dev/null"), 1000).unwrap(), "");
    }
}
