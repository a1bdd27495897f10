//! What a session with [`--delta`](crate::send::options) costs, reckoned before anything is sent.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use crate::chunk_index::{ChunkIndex, IndexWriter};

/// Bytes that are read at once.
const READ_LEN: usize = 256 * 1024;

/// Returns the bytes that a session sends of a file, before losses, if it sends what differs from older versions: the file's index,
/// and each chunk that a receiver lacks. `older` has the older version of each receiver; one that is not there lacks everything. A
/// file that is too small or too large for an index costs its size.
///
/// # Errors
/// If a file cannot be read.
pub fn delta_bytes<'p>(new: &Path, older: impl IntoIterator<Item = &'p Path>) -> io::Result<u64> {
    let size = fs::metadata(new)?.len();
    let Some(mut writer) = IndexWriter::new(size) else { return Ok(size) };
    each_run(&mut File::open(new)?, |bytes| writer.update(bytes))?;
    let bytes = writer.finish();
    // A file that changes meanwhile has no index of its size.
    let Some(index) = ChunkIndex::parse(&bytes) else { return Ok(size) };
    let mut is_lacking = vec![false; index.len()];
    for old in older {
        let found = found(&index, old)?;
        is_lacking.iter_mut().zip(found).for_each(|(lacking, found)| *lacking |= !found);
    }
    let lacking = (0..index.len()).filter(|place| is_lacking[*place]).map(|place| index.len_at(place));
    Ok(bytes.len() as u64 + lacking.sum::<u64>())
}

/// Tells for each place of an index whether an older version has its chunk.
fn found(index: &ChunkIndex, old: &Path) -> io::Result<Vec<bool>> {
    let mut found = vec![false; index.len()];
    let mut file = match File::open(old) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        opened => opened?,
    };
    let mut cutter = index.cutter();
    let mut take = |chunk: &[u8]| found[index.places(chunk)].fill(true);
    each_run(&mut file, |bytes| cutter.cut(bytes, false, &mut take))?;
    cutter.cut(&[], true, &mut take);
    Ok(found)
}

fn each_run(file: &mut File, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut buffer = vec![0; READ_LEN];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            read => take(&buffer[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_costs_its_index_and_what_anybody_lacks() {
        let folder = std::env::temp_dir().join(format!("treecast-difference-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut bytes = vec![0; 4_000_000];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        let file = |name: &str, bytes: &[u8]| {
            fs::write(folder.join(name), bytes).unwrap();
            folder.join(name)
        };
        let (old, small) = (file("old", &bytes), file("small", &bytes[..1000]));
        bytes[1_000_000..1_050_000].fill(1);
        let new = file("new", &bytes);
        let cost = |older: &[&Path]| delta_bytes(&new, older.iter().copied()).unwrap();
        let index = cost(&[&new]);
        assert!((4_000..20_000).contains(&index), "an index has {index} bytes");
        let changed = cost(&[&old]) - index;
        assert!((50_000..250_000).contains(&changed), "{changed}");
        assert_eq!(cost(&[&old, &new]), cost(&[&old]), "what one lacks is sent to all");
        assert_eq!(cost(&[&old, &folder.join("none")]), index + 4_000_000);
        assert_eq!(delta_bytes(&small, [old.as_path()]).unwrap(), 1000);
        fs::remove_dir_all(&folder).unwrap();
    }
}
