//! Block devices, and the holes of files.

use std::{
    fmt,
    fs::{self, File, Metadata, OpenOptions},
    io::{self, ErrorKind, Seek, SeekFrom},
    ops::Range,
    os::{
        fd::AsFd,
        unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Advice, FallocateFlags, fadvise, fallocate, major, minor},
    io::Errno,
};

/// What a block device is used for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Use {
    /// The device, or the partition of this name, is mounted at this folder.
    Mounted { device: String, at: String, is_writable: bool },
    /// It is swap space.
    Swap { device: String },
    /// Another device is made of it: RAID, LVM, encryption, or a loop device.
    Held { device: String, by: String },
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mounted { device, at, .. } => write!(f, "{device} is mounted at {at}"),
            Self::Swap { device } => write!(f, "{device} is swap space"),
            Self::Held { device, by } => write!(f, "{device} is part of {by}"),
        }
    }
}

/// Whether a path leads to a block device.
pub fn is_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// The size of an open block device in bytes.
///
/// # Errors
/// The error of the kernel.
pub fn size(mut device: &File) -> io::Result<u64> {
    device.seek(SeekFrom::End(0))
}

/// Opens a block device to write to it, and nobody else can mount it meanwhile.
///
/// # Errors
/// The error of the kernel; [`ErrorKind::ResourceBusy`] if the device or a part of it is in use.
pub fn open_to_write(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL).open(path)?;
    match file.metadata()?.file_type().is_block_device() {
        true => Ok(file),
        false => Err(io::Error::new(ErrorKind::InvalidInput, "it is no block device")),
    }
}

/// What a block device, its partitions and the devices that are made of these are used for, as far as this process can see.
pub fn uses(path: &Path) -> Vec<Use> {
    let Ok(metadata) = path.metadata() else { return Vec::new() };
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (mountinfo, swaps) = (read("/proc/self/mountinfo"), read("/proc/swaps"));
    let mut uses = Vec::new();
    let mut all = itself_and_partitions(numbers(&metadata));
    let mut at = 0;
    while let Some((number, device)) = all.get(at).cloned() {
        at += 1;
        let is_it = |path: &str| {
            path.starts_with('/') && numbers_of(Path::new(path)).is_some_and(|other| other == number)
        };
        // Btrfs mounts have numbers that no device has.
        uses.extend(mounts(&mountinfo, &device, |its, source| its == number || is_it(source)));
        if swaps.lines().skip(1).any(|line| line.split_whitespace().next().is_some_and(is_it)) {
            uses.push(Use::Swap { device: device.clone() });
        }
        let behind = |by: &String| {
            let backing = read(&format!("/sys/block/{by}/loop/backing_file"));
            !backing.is_empty() && is_it(backing.trim_end())
        };
        let loops = entries("/sys/block").into_iter().filter(behind);
        for by in entries(&format!("/sys/dev/block/{number}/holders")).into_iter().chain(loops) {
            let made = read(&format!("/sys/class/block/{by}/dev")).trim().to_owned();
            uses.push(Use::Held { device: device.clone(), by });
            if !made.is_empty() && !all.iter().any(|(known, _)| *known == made) {
                all.extend(itself_and_partitions(made));
            }
        }
    }
    uses
}

/// Numbers and names of a device and of the partitions on it.
fn itself_and_partitions(number: String) -> Vec<(String, String)> {
    let folder = PathBuf::from(format!("/sys/dev/block/{number}"));
    let name = fs::canonicalize(&folder).ok().and_then(|path| path.file_name()?.to_str().map(str::to_owned));
    let mut all = vec![(number.clone(), format!("/dev/{}", name.unwrap_or(number)))];
    for entry in entries(&folder.to_string_lossy()) {
        let number = fs::read_to_string(folder.join(&entry).join("dev"));
        if let (true, Ok(number)) = (folder.join(&entry).join("partition").exists(), number) {
            all.push((number.trim().to_owned(), format!("/dev/{entry}")));
        }
    }
    all
}

/// The mounts of a device in a text like `/proc/self/mountinfo`. `is_its` looks at the number and the source of a mount.
fn mounts(text: &str, device: &str, is_its: impl Fn(&str, &str) -> bool) -> Vec<Use> {
    let of_line = |line: &str| {
        let (before, behind) = line.split_once(" - ")?;
        let mut words = before.split(' ').skip(2);
        let (number, at) = (words.next()?, words.nth(1)?);
        let mut behind = behind.split(' ').skip(1);
        let source = behind.next()?.replace("\\040", " ");
        // The last field says whether the file system itself is writable.
        let is_writable = !behind.next()?.split(',').any(|option| option == "ro");
        let at = at.replace("\\040", " ");
        is_its(number, &source).then(|| Use::Mounted { device: device.to_owned(), at, is_writable })
    };
    text.lines().filter_map(of_line).collect()
}

/// Major and minor number of a device, as the kernel writes them.
fn numbers(metadata: &Metadata) -> String {
    format!("{}:{}", major(metadata.rdev()), minor(metadata.rdev()))
}

fn numbers_of(path: &Path) -> Option<String> {
    let metadata = path.metadata().ok()?;
    metadata.file_type().is_block_device().then(|| numbers(&metadata))
}

fn entries(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Makes a range of a file or block device zero, without writing it where that is possible: a file gets a hole, a device
/// discards or zeroes the range itself. What lies behind the end of a file is zero already.
///
/// # Errors
/// The error of the kernel.
pub fn make_zero(file: &File, range: Range<u64>) -> io::Result<()> {
    let is_device = file.metadata()?.file_type().is_block_device();
    // A device that cannot give room back may still zero it itself.
    let ways: &[_] = match is_device {
        true => &[FallocateFlags::PUNCH_HOLE, FallocateFlags::ZERO_RANGE],
        false => &[FallocateFlags::PUNCH_HOLE],
    };
    zero(file, range, is_device, ways)
}

/// Makes a range of a file zero, and keeps its room.
///
/// # Errors
/// The error of the kernel.
pub fn make_zero_in_place(file: &File, range: Range<u64>) -> io::Result<()> {
    zero(file, range, false, &[FallocateFlags::ZERO_RANGE])
}

/// Makes a range zero in the first of these ways that works, or writes zeros.
fn zero(file: &File, range: Range<u64>, is_device: bool, ways: &[FallocateFlags]) -> io::Result<()> {
    // Devices zero whole sectors.
    const SECTOR: u64 = 4096;
    let whole = match is_device {
        true => range.start.next_multiple_of(SECTOR)..range.end / SECTOR * SECTOR,
        false => range.clone(),
    };
    for way in ways {
        if whole.is_empty() {
            break;
        }
        match fallocate(file, *way | FallocateFlags::KEEP_SIZE, whole.start, whole.end - whole.start) {
            Ok(()) => {
                write_zeros(file, range.start..whole.start)?;
                return write_zeros(file, whole.end..range.end);
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::NODEV) => {}
            Err(error) => return Err(error.into()),
        }
    }
    write_zeros(file, range)
}

fn write_zeros(file: &File, range: Range<u64>) -> io::Result<()> {
    let zeros = vec![0; (range.end.saturating_sub(range.start)).min(64 * 1024) as usize];
    let mut at = range.start;
    while at < range.end {
        let len = zeros.len().min((range.end - at) as usize);
        file.write_all_at(&zeros[..len], at)?;
        at += len as u64;
    }
    Ok(())
}

/// A stretch of a file that is stored, or a hole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extent {
    pub range: Range<u64>,
    pub is_hole: bool,
}

/// The stretch that holds a position of a file. A file system that knows no holes has data everywhere.
///
/// # Errors
/// The error of the kernel.
pub fn extent_at(file: &File, position: u64) -> io::Result<Extent> {
    let seek = |to| match rustix::fs::seek(file, to) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(io::Error::from(error)),
    };
    let data = seek(rustix::fs::SeekFrom::Data(position))?;
    if data == Some(position) {
        let hole = seek(rustix::fs::SeekFrom::Hole(position))?.unwrap_or(u64::MAX);
        return Ok(Extent { range: position..hole.max(position + 1), is_hole: false });
    }
    Ok(Extent { range: position..data.unwrap_or(u64::MAX), is_hole: true })
}

/// Writes what the kernel keeps of a file or device to the disk, and forgets it, so that it is read from there next.
///
/// # Errors
/// If it could not be written.
pub fn sync_and_forget(file: &File) -> io::Result<()> {
    file.sync_all()?;
    // Only a hint: what stays is what was written.
    _ = fadvise(file.as_fd(), 0, None, Advice::DontNeed);
    Ok(())
}

/// Reads of a file or device leap over much of it, so the kernel reads nothing ahead; or no more.
pub fn reads_leap(file: &File, leap: bool) {
    // Only a hint.
    _ = fadvise(file.as_fd(), 0, None, if leap { Advice::Random } else { Advice::Normal });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_told_by_the_number_or_the_source_of_their_device() {
        let text = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n\
                    37 35 98:1 / /with\\040space rw - ext4 /dev/sdb1 ro\n\
                    short line\n";
        let mounted =
            |at: &str, is_writable| Use::Mounted { device: "/dev/x".into(), at: at.into(), is_writable };
        let mounts =
            |number: &str, source: &str| mounts(text, "/dev/x", |its, from| its == number || from == source);
        assert_eq!(mounts("98:0", ""), [mounted("/mnt2", true)]);
        assert_eq!(mounts("98:1", ""), [mounted("/with space", false)]);
        assert_eq!(mounts("98:10", ""), []);
        assert_eq!(mounts("98:10", "/dev/sdb1"), [mounted("/with space", false)], "as with btrfs");
    }

    #[test]
    fn holes_are_made_and_found() {
        let path = std::env::temp_dir().join(format!("treecast-holes-{}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        file.write_all_at(&[7; 1 << 20], 0).unwrap();
        make_zero(&file, 100_000..900_000).unwrap();
        let mut bytes = vec![1; 1 << 20];
        file.read_exact_at(&mut bytes, 0).unwrap();
        let zeros = bytes.iter().enumerate().filter(|(_, byte)| **byte == 0).map(|(at, _)| at);
        assert!(zeros.eq(100_000..900_000));
        assert_eq!(file.metadata().unwrap().len(), 1 << 20);
        let first = extent_at(&file, 0).unwrap();
        assert!(!first.is_hole && first.range.start == 0);
        if first.range.end < 1 << 20 {
            let hole = extent_at(&file, first.range.end).unwrap();
            assert!(hole.is_hole && hole.range.end <= 900_000, "{hole:?}");
        }
    }
}
