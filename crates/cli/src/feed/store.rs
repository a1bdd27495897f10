//! `treecast feed store`: the decoder that LDM's pqact hands products to.

use std::{
    fs::{self, File},
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
    process::ExitCode,
};

use treecast_feed::decoder::{self, Metadata};
use treecast_host::temporary::TemporaryFolder;

use crate::Outcome;

/// How much of two files is compared at a time, in bytes.
const COMPARED: usize = 1 << 16;

/// Store products that LDM's pqact hands over (`PIPE -metadata`) as files of a folder, for `treecast feed DIR`
#[derive(clap::Args)]
pub(super) struct StoreArgs {
    /// The folder. It is made if it is missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Stores products until standard input ends.
pub(super) fn run(args: &StoreArgs) -> Outcome {
    let folder = &args.folder;
    // Nobody watches hidden names.
    let made = fs::create_dir_all(folder).and_then(|()| TemporaryFolder::new(folder, ".treecast-store-"));
    let temporary = made.map_err(|error| {
        format!("cannot write to {}: {error}: name a folder that you may write to", folder.display())
    })?;
    let unfinished = temporary.path().join("product");
    let mut stream = BufReader::with_capacity(1 << 18, io::stdin().lock());
    let mut failed = 0_u64;
    loop {
        let broken = |error: io::Error| {
            format!(
                "standard input is not what pqact writes by PIPE -metadata, or ends in a product: {error}"
            )
        };
        let Some(metadata) = decoder::read(&mut stream).map_err(broken)? else { break };
        if metadata.is_made_up() {
            continue;
        }
        let mut data = stream.by_ref().take(metadata.size_bytes.into());
        let stored = store(&metadata, &mut data, folder, &unfinished);
        // The next product begins behind this one, whatever became of it.
        io::copy(&mut data, &mut io::sink()).map_err(broken)?;
        if let Err(error) = stored {
            failed += 1;
            remark!("treecast: cannot store {}: {error}", metadata.identifier);
        }
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

/// Stores a product. Its file has its name only when it is complete.
fn store(metadata: &Metadata, data: &mut impl Read, folder: &Path, unfinished: &Path) -> io::Result<()> {
    let mut file = File::create(unfinished)?;
    if io::copy(data, &mut file)? < u64::from(metadata.size_bytes) {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "standard input ended in this product"));
    }
    drop(file);
    // Another product of that name may not have been sent.
    let suffixes = [String::new(), format!(".{}", &metadata.signature_digits()[..8])];
    let paths = suffixes.map(|suffix| folder.join(metadata.file_name(&suffix)));
    for path in &paths {
        if is_same(path, unfinished)? {
            // A pqact that was killed hands over again what it had handed over.
            return Ok(());
        }
    }
    let path = if paths[0].exists() { &paths[1] } else { &paths[0] };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::rename(unfinished, path)
}

/// Whether there is an earlier file that holds the same.
fn is_same(earlier: &Path, path: &Path) -> io::Result<bool> {
    let Ok(mut earlier) = File::open(earlier) else { return Ok(false) };
    let mut file = File::open(path)?;
    let (is_file, len) = (earlier.metadata()?.is_file(), earlier.metadata()?.len());
    let mut is_same = is_file && len == file.metadata()?.len();
    let mut pieces = [vec![0; COMPARED], vec![0; COMPARED]];
    while is_same {
        let [first, second] = &mut pieces;
        let len = file.read(second)?;
        if len == 0 {
            break;
        }
        is_same = earlier.read_exact(&mut first[..len]).is_ok() && first[..len] == second[..len];
    }
    Ok(is_same)
}
