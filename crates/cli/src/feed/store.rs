//! `treecast feed store`: the decoder that LDM's pqact hands products to.

use std::{
    fs::{self, File},
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
    process::ExitCode,
};

use treecast_feed::decoder::{self, Metadata};

use crate::Outcome;

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
    fs::create_dir_all(folder).map_err(|error| {
        format!("cannot make {}: {error}: name a folder that you may write to", folder.display())
    })?;
    let mut stream = BufReader::with_capacity(1 << 18, io::stdin().lock());
    // Nobody watches hidden names.
    let unfinished = folder.join(format!(".treecast-store-{}", std::process::id()));
    let mut failed = 0_u64;
    loop {
        let broken = |error: io::Error| {
            format!(
                "standard input is not what pqact writes by PIPE -metadata, or ends in a product: {error}"
            )
        };
        let Some(metadata) = decoder::read(&mut stream).map_err(broken)? else { break };
        let mut data = stream.by_ref().take(metadata.size_bytes.into());
        let stored = store(&metadata, &mut data, folder, &unfinished);
        if stored.is_err() {
            // It may not have been made.
            _ = fs::remove_file(&unfinished);
        }
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
    let mut path = folder.join(metadata.file_name(""));
    if path.exists() {
        // The other product may not have been sent.
        path = folder.join(metadata.file_name(&format!(".{}", &metadata.signature_digits()[..8])));
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::rename(unfinished, path)
}
