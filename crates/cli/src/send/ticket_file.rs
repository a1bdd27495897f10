//! `--ticket-file`.

use std::{
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// The file from which other programs read the ticket. It is there complete or not at all.
pub(super) struct TicketFile {
    pub path: Option<PathBuf>,
    /// Whether only its owner may read it.
    pub is_secret: bool,
}

impl TicketFile {
    pub fn write(&self, ticket: &str) -> Result<(), String> {
        let Some(path) = &self.path else { return Ok(()) };
        let failed = |why: String| {
            let advice = "name a file in a folder that you may write to with --ticket-file";
            format!("cannot write the ticket to {}: {why}; {advice}", path.display())
        };
        let Some(name) = path.file_name() else {
            return Err(failed("it names no file".to_owned()));
        };
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}", std::process::id()));
        let temporary = path.parent().unwrap_or(Path::new("")).join(hidden);
        // Anybody who reads a carousel's ticket can take part. A file of this name may be left from a process
        // with the same number.
        _ = std::fs::remove_file(&temporary);
        let mut options = std::fs::OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .mode(if self.is_secret { 0o600 } else { 0o666 })
            .open(&temporary);
        let written = file.and_then(|mut file| file.write_all(format!("{ticket}\n").as_bytes()));
        written.and_then(|()| std::fs::rename(&temporary, path)).map_err(|error| {
            // If nothing could be written, there is nothing to remove.
            _ = std::fs::remove_file(&temporary);
            failed(error.to_string())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_that_cannot_be_written_leaves_nothing_behind() {
        let folder = std::env::temp_dir().join(format!("treecast-ticket-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("taken")).unwrap();
        for path in ["taken", "missing/ticket", "taken/.."] {
            let line =
                TicketFile { path: Some(folder.join(path)), is_secret: true }.write("ticket").unwrap_err();
            assert!(line.contains(path) && line.contains("--ticket-file"), "{line}");
        }
        let left: Vec<_> =
            std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(left, ["taken"]);
    }
}
