//! The file that the runs deliver, in the store.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use treecast_lab::quantity::Size;
use treecast_proto::random::SplitMix64;

use crate::{
    store::Store,
    verify::{self, Digest},
};

/// A file in the store that runs deliver.
#[derive(Debug, Clone)]
pub struct Source {
    pub path: PathBuf,
    /// The name that the copies get.
    pub name: String,
    pub size: Size,
    pub digest: Digest,
}

impl Source {
    /// Makes a file of random bytes, which are the same for the same seed. It replaces the last file in the
    /// store.
    pub fn random(store: &Store, size: Size, seed: u64) -> io::Result<Self> {
        let path = store.fresh_folder("source")?.join(format!("random-{size}"));
        let mut file = BufWriter::with_capacity(1 << 20, File::create(&path)?);
        let mut draws = SplitMix64(seed ^ size.0);
        let mut left = size.0;
        while left > 0 {
            let bytes = draws.draw().to_ne_bytes();
            let length = left.min(bytes.len() as u64) as usize;
            file.write_all(&bytes[..length])?;
            left -= length as u64;
        }
        file.flush()?;
        Self::at(path)
    }

    /// Copies a real file into the store. It replaces the last file there.
    pub fn copy_of(store: &Store, file: &Path) -> io::Result<Self> {
        let name = file.file_name().ok_or_else(|| io::Error::other("it has no file name"))?;
        let path = store.fresh_folder("source")?.join(name);
        fs::copy(file, &path)?;
        Self::at(path)
    }

    fn at(path: PathBuf) -> io::Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, size: Size(fs::metadata(&path)?.len()), digest: verify::digest(&path)?, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_objects_have_their_size_and_the_same_seed_makes_the_same_one() {
        let store = Store::in_memory(8 << 20).expect("needs root");
        let size = Size((1 << 20) + 3);
        let first = Source::random(&store, size, 1).unwrap();
        assert_eq!((first.size, first.name.as_str()), (size, "random-1.0M"));
        assert_eq!(Source::random(&store, size, 1).unwrap().digest, first.digest);
        assert_ne!(Source::random(&store, size, 2).unwrap().digest, first.digest);
    }
}
