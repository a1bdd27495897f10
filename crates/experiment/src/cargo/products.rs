//! The objects of a feed's run, as files in the store, and the lines by which the sender hears of them.

use std::{
    fs,
    io::{self, Write},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use treecast_lab::quantity::Size;
use treecast_proto::random::SplitMix64;

use crate::{store::Store, told::ToldObject, verify::Digest};

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
        let mut draws = SplitMix64(seed);
        let products = arrivals.iter().enumerate().map(|(index, arrival)| {
            let name = format!("product-{index:05}");
            Product::make(folder.join(&name), name, *arrival, &mut draws)
        });
        Ok(Self { seed, products: products.collect::<io::Result<_>>()? })
    }

    /// Returns the size of all files together.
    pub fn size(&self) -> Size {
        Size(self.products.iter().map(|product| product.size).sum())
    }

    /// Makes all files available at the sender's node by `offer`. Returns their paths there.
    pub fn offer(&self, offer: impl Fn(&Path) -> io::Result<PathBuf>) -> io::Result<Vec<PathBuf>> {
        self.products.iter().map(|product| offer(&product.path)).collect()
    }

    /// Writes the path of each file at the sender's node to the sender's input when its object is due, counted from now. `is_over`
    /// ends this early.
    pub fn feed(
        &self,
        paths: &[PathBuf],
        input: &mut dyn Write,
        is_over: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let start = Instant::now();
        for (product, path) in self.products.iter().zip(paths) {
            let mut line = path.as_os_str().as_bytes().to_vec();
            line.push(b'\n');
            while start.elapsed() < product.at && !is_over() {
                thread::sleep((product.at.saturating_sub(start.elapsed())).min(LOOK_EVERY));
            }
            // A line shorter than PIPE_BUF is written whole or not at all (pipe(7)).
            while !is_over()
                && let Err(error) = input.write_all(&line)
            {
                match error.kind() {
                    io::ErrorKind::WouldBlock => thread::sleep(LOOK_EVERY),
                    _ => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Returns those objects that are complete and right, out of the objects that a receiver says it has. `is_right` compares the
    /// copy of a name with a size and a hash.
    pub fn check(
        &self,
        told: &[ToldObject],
        is_right: impl Fn(&str, u64, &Digest) -> bool,
    ) -> Vec<ObjectTime> {
        let check = |product: &Product| {
            let told = told.iter().find(|told| told.name == product.name)?;
            let taken = Duration::try_from_secs_f64(told.finished? - told.announced).ok()?;
            let is_right = is_right(&product.name, product.size, &product.digest);
            is_right.then_some(ObjectTime { size_bytes: product.size, taken })
        };
        self.products.iter().filter_map(check).collect()
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
    use super::*;
    use crate::verify;

    #[test]
    fn paths_are_told_when_they_are_due_and_only_right_copies_count() {
        let store = Store::in_memory(1 << 20).expect("needs root");
        let arrival = |millis, size_bytes| Arrival { at: Duration::from_millis(millis), size_bytes };
        let products = Products::make(&store, &[arrival(1, 1000), arrival(5, 3), arrival(6, 7)], 1).unwrap();
        assert_eq!(products.size(), Size(1010));
        let paths = products.offer(|path| Ok(path.to_owned())).unwrap();
        let mut lines = Vec::new();
        products.feed(&paths, &mut lines, &|| false).unwrap();
        assert_eq!(lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count(), 3);

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
        let told = [told(0, Some(1.5)), told(1, Some(2.0)), told(2, None)];
        let have = products.check(&told, |name, size_bytes, digest| {
            verify::check_copy(&folder.join(name), size_bytes, digest).is_ok()
        });
        assert_eq!(have.len(), 1, "one differs, and one was not announced as whole");
        assert_eq!((have[0].size_bytes, have[0].taken), (1000, Duration::from_millis(500)));
    }
}
