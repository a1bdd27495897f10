//! The objects of a feed's run, as files in the store, and the pipe through which the sender hears of them.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use treecast_host::folder;
use treecast_lab::quantity::Size;
use treecast_proto::random::SplitMix64;

use crate::{
    store::Store,
    told::ToldObject,
    verify::{self, Digest},
};

/// An object of a feed, and when it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    pub at: Duration,
    pub size_bytes: u64,
}

/// An object that a receiver got, and the time from its announcement until it was complete.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectTime {
    pub size_bytes: u64,
    pub taken: Duration,
}

/// The files of a feed's run.
#[derive(Debug)]
pub struct Products {
    /// The path of the pipe from which the sender reads the files' paths.
    pub pipe: PathBuf,
    /// The seed that the files' contents come from.
    pub seed: u64,
    products: Vec<Product>,
}

#[derive(Debug)]
struct Product {
    path: PathBuf,
    name: String,
    at: Duration,
    size: u64,
    digest: Digest,
}

impl Products {
    /// Fills the files with random bytes. The same seed gives the same bytes.
    pub fn make(store: &Store, arrivals: &[Arrival], seed: u64) -> io::Result<Self> {
        let folder = store.fresh_folder("source")?;
        let pipe = folder.join("feed");
        folder::make_pipe(&pipe)?;
        let mut draws = SplitMix64(seed);
        let products = arrivals.iter().enumerate().map(|(index, arrival)| {
            let name = format!("product-{index:05}");
            Product::make(folder.join(&name), name, *arrival, &mut draws)
        });
        Ok(Self { pipe, seed, products: products.collect::<io::Result<_>>()? })
    }

    /// Returns the size of all files together.
    pub fn size(&self) -> Size {
        Size(self.products.iter().map(|product| product.size).sum())
    }

    /// Writes each path into the pipe when its object is due, counted from now, and then closes the pipe.
    /// `is_over` ends this early.
    pub fn feed(&self, is_over: &dyn Fn() -> bool) -> io::Result<()> {
        // Open for both, which waits for nobody: the sender may be gone.
        let mut pipe =
            File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&self.pipe)?;
        let start = Instant::now();
        for product in &self.products {
            let mut line = product.path.as_os_str().as_bytes().to_vec();
            line.push(b'\n');
            while start.elapsed() < product.at && !is_over() {
                thread::sleep((product.at.saturating_sub(start.elapsed())).min(LOOK_EVERY));
            }
            // A line shorter than PIPE_BUF is written whole or not at all (pipe(7)).
            while !is_over()
                && let Err(error) = pipe.write_all(&line)
            {
                match error.kind() {
                    io::ErrorKind::WouldBlock => thread::sleep(LOOK_EVERY),
                    _ => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Returns those objects in `folder` that are complete and right, out of the objects that a receiver says
    /// it has, and removes their files.
    pub fn check(&self, folder: &Path, told: &[ToldObject]) -> Vec<ObjectTime> {
        let check = |product: &Product| {
            let told = told.iter().find(|told| told.name == product.name)?;
            let taken = Duration::try_from_secs_f64(told.finished? - told.announced).ok()?;
            let copy = folder.join(&product.name);
            verify::check_copy(&copy, product.size, &product.digest).ok()?;
            Some(ObjectTime { size_bytes: product.size, taken })
        };
        let have = self.products.iter().filter_map(check).collect();
        // What cannot be removed goes with the store.
        _ = fs::remove_dir_all(folder);
        have
    }
}

/// Time between two looks of a waiting writer whether all is over.
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Product {
    fn make(path: PathBuf, name: String, arrival: Arrival, draws: &mut SplitMix64) -> io::Result<Self> {
        let size = arrival.size_bytes;
        let bytes = draws.bytes(size as usize);
        fs::write(&path, &bytes)?;
        Ok(Self { path, name, at: arrival.at, size, digest: *blake3::hash(&bytes).as_bytes() })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn paths_come_through_the_pipe_and_only_right_copies_count() {
        let store = Store::in_memory(1 << 20).expect("needs root");
        let arrival = |millis, size_bytes| Arrival { at: Duration::from_millis(millis), size_bytes };
        let products = Products::make(&store, &[arrival(1, 1000), arrival(5, 3), arrival(6, 7)], 1).unwrap();
        assert_eq!(products.size(), Size(1010));
        let mut lines = String::new();
        thread::scope(|scope| {
            let feeder = scope.spawn(|| products.feed(&|| false));
            File::open(&products.pipe).unwrap().read_to_string(&mut lines).unwrap();
            feeder.join().unwrap().unwrap();
        });
        assert_eq!(lines.lines().count(), 3);

        let folder = store.fresh_folder("client0").unwrap();
        for product in &products.products {
            fs::copy(&product.path, folder.join(&product.name)).unwrap();
        }
        fs::write(folder.join("product-00001"), b"xyz").unwrap();
        let told = |index: usize, finished| ToldObject {
            name: format!("product-{index:05}"),
            announced: 1.0,
            finished,
        };
        let have = products.check(&folder, &[told(0, Some(1.5)), told(1, Some(2.0)), told(2, None)]);
        assert_eq!(have.len(), 1, "one differs, and one was not announced as whole");
        assert_eq!((have[0].size_bytes, have[0].taken), (1000, Duration::from_millis(500)));
    }
}
