//! `--report`: a file with a row for each receiver, as comma-separated values.

use std::{
    fs::File,
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use treecast::unstable::{options::FeedSource, watch::SendProgress};

use super::SessionArgs;
use crate::{
    new_file::NewFile,
    roster::{CsvList, Order},
};

/// The report of a session. Its place is tried at the beginning, so that a wrong name is told before anything is sent.
pub(super) struct Report {
    path: PathBuf,
    target: Target,
}

enum Target {
    /// The file takes the place of the report of a session before, once it is complete.
    Place(NewFile),
    /// What is no file, such as a pipe, is written to.
    Stream(File),
}

impl Report {
    /// Takes the place of the report that the options name.
    ///
    /// # Errors
    /// One line, if it cannot be written, or would be among what is sent.
    pub fn open(args: &SessionArgs) -> Result<Option<Self>, String> {
        let Some(path) = &args.connected.report else { return Ok(None) };
        let failed = |error: io::Error| cannot_write(path, &error);
        let target = match path.metadata() {
            Ok(status) if !status.is_file() && !status.is_dir() => {
                Target::Stream(File::options().write(true).open(path).map_err(failed)?)
            }
            found => {
                // Behind a link is where the report is.
                let place = if found.is_ok() { path.canonicalize().map_err(failed)? } else { path.clone() };
                check_not_sent(args, path, &place)?;
                Target::Place(NewFile::create(&place, 0o666).map_err(failed)?)
            }
        };
        Ok(Some(Self { path: path.clone(), target }))
    }

    /// Writes the receivers, the worst first.
    ///
    /// # Errors
    /// One line, if they cannot be written.
    pub fn write(self, session: &str, progress: &SendProgress) -> Result<(), String> {
        let mut receivers: Vec<_> = progress.receivers.iter().collect();
        Order::default().sort(&mut receivers);
        let mut list = CsvList::new();
        receivers.into_iter().for_each(|receiver| list.add(session, receiver));
        let text = list.finish();
        let written = match self.target {
            Target::Place(file) => file.finish(&text),
            Target::Stream(mut stream) => stream.write_all(text.as_bytes()),
        };
        written.map_err(|error| cannot_write(&self.path, &error))
    }
}

/// Sees that the report replaces no file that is sent, and is not sent itself.
fn check_not_sent(args: &SessionArgs, path: &Path, place: &Path) -> Result<(), String> {
    let watched = args.sent.feed.iter().filter_map(|feed| match &feed.source {
        FeedSource::Folder(folder) => Some(&folder.path),
        _ => None,
    });
    let sent = args.sent.paths.iter().chain(watched);
    // Files and folders by their numbers, because one may have several names.
    let number = |path: &Path| path.metadata().ok().map(|status| (status.dev(), status.ino()));
    let sent: Vec<_> = sent.filter_map(|path| Some((path, number(path)?))).collect();
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().map_err(|error| cannot_write(path, &error))?;
    let holder = std::iter::once(place).chain(folder.ancestors()).find_map(|at| {
        let number = number(at)?;
        sent.iter().find(|(_, sent)| *sent == number)
    });
    match holder {
        Some((holder, _)) => Err(format!(
            "--report {} would be among what is sent, {}: name a file elsewhere",
            path.display(),
            holder.display()
        )),
        None => Ok(()),
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> String {
    format!("cannot write the report {}: {error}: check --report", path.display())
}
