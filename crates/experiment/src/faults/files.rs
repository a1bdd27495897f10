//! The files that are sent, and the check whether they have come.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use treecast_host::mount;

use treecast_proto::random::SplitMix64;

/// A set to send: a few files of some MiB, small files, an empty one and a link.
#[derive(Debug)]
pub struct Files {
    pub folder: PathBuf,
    files: Vec<(String, Vec<u8>)>,
}

const LINK: &str = "a-link";
const LINK_TARGET: &str = "large0";

impl Files {
    /// Creates the set `set` in `folder`. Its contents follow from the seed.
    pub fn make(folder: &Path, seed: u64) -> io::Result<Self> {
        let mut random = SplitMix64(seed ^ 0xf11e);
        let set = folder.join("set");
        fs::create_dir_all(set.join("small"))?;
        let mut files = Vec::new();
        for (index, size) in [4_300_000, 3_000_001, 2_100_000].into_iter().enumerate() {
            files.push((format!("large{index}"), random.bytes(size)));
        }
        for index in 0..10 {
            let size = 1 + random.below(20_000) as usize;
            files.push((format!("small/{index}"), random.bytes(size)));
        }
        files.push(("empty".to_owned(), Vec::new()));
        for (name, contents) in &files {
            fs::write(set.join(name), contents)?;
        }
        std::os::unix::fs::symlink(LINK_TARGET, set.join(LINK))?;
        // A clock that was wrong when a file was written: its date is in the future.
        let ahead = SystemTime::now() + Duration::from_secs(400 * 86_400);
        fs::File::options().write(true).open(set.join("large1"))?.set_modified(ahead)?;
        Ok(Self { folder: set, files })
    }

    /// The bytes of all objects.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, contents)| contents.len() as u64).sum::<u64>() + LINK_TARGET.len() as u64
    }

    /// Checks a receiver's folder. With `all`, nothing may be missing.
    pub fn check(&self, into: &Path, all: bool) -> Result<(), String> {
        let set = into.join("set");
        for (name, contents) in &self.files {
            match fs::read(set.join(name)) {
                Ok(found) if found == *contents => {}
                Ok(_) => return Err(format!("{name} is wrong")),
                Err(error) if error.kind() == io::ErrorKind::NotFound && !all => {}
                Err(error) => return Err(format!("{name}: {error}")),
            }
        }
        let link = fs::read_link(set.join(LINK)).is_ok_and(|target| target == Path::new(LINK_TARGET));
        if all && !link { Err(format!("{LINK} is no link to {LINK_TARGET}")) } else { Ok(()) }
    }
}

/// Changes the dates of the hidden files that a receiver has left by this many seconds, as if the clock had
/// been changed.
pub fn redate(into: &Path, seconds: i64) -> io::Result<()> {
    let off = Duration::from_secs(seconds.unsigned_abs());
    let now = SystemTime::now();
    let time = if seconds < 0 { now - off } else { now + off };
    for entry in fs::read_dir(into)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(".treecast-") {
            fs::File::options().write(true).open(entry.path())?.set_modified(time)?;
        }
    }
    Ok(())
}

/// A small disk for one receiver, which a fault can fill. It is in memory, so nothing is left of it when this
/// process has ended.
#[derive(Debug)]
pub struct SmallDisk {
    root: PathBuf,
}

impl SmallDisk {
    /// Mounts the disk. Only the calling thread and the programs that it starts see it.
    pub fn mount(root: PathBuf, bytes: u64) -> io::Result<Self> {
        fs::create_dir_all(&root)?;
        mount::mount_memory(&root, bytes)?;
        Ok(Self { root })
    }

    /// Fills the disk, so that nothing more can be written to it.
    pub fn fill(&self) -> io::Result<()> {
        let mut file = fs::File::options().append(true).create(true).open(self.root.join("filler"))?;
        let piece = vec![1; 64 * 1024];
        for len in [piece.len(), 4096] {
            while io::Write::write_all(&mut file, &piece[..len]).is_ok() {}
        }
        Ok(())
    }

    pub fn free(&self) -> io::Result<()> {
        fs::remove_file(self.root.join("filler"))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The disk goes with this process at the latest.
        _ = mount::unmount(&self.root);
    }
}
