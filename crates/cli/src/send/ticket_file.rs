//! `--ticket-file`.

use std::path::PathBuf;

use crate::new_file::NewFile;

/// The file from which other programs read the ticket. It is there complete or not at all. Only its owner may read it, because
/// whoever has the ticket can receive.
pub(super) struct TicketFile {
    pub path: Option<PathBuf>,
}

impl TicketFile {
    pub fn write(&self, ticket: &str) -> Result<(), String> {
        let Some(path) = &self.path else { return Ok(()) };
        let written = NewFile::create(path, 0o600).and_then(|file| file.finish(&format!("{ticket}\n")));
        written.map_err(|error| {
            let advice = "name a file in a folder that you may write to with --ticket-file";
            format!("cannot write the ticket to {}: {error}; {advice}", path.display())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_owner_may_read_a_ticket() {
        use std::os::unix::fs::PermissionsExt as _;
        let path = std::env::temp_dir().join(format!("treecast-own-ticket-{}", std::process::id()));
        TicketFile { path: Some(path.clone()) }.write("ticket").unwrap();
        let (mode, text) = (path.metadata().unwrap().permissions().mode(), std::fs::read_to_string(&path));
        std::fs::remove_file(&path).unwrap();
        assert_eq!((mode & 0o7777, text.unwrap().as_str()), (0o600, "ticket\n"));
    }

    #[test]
    fn a_ticket_that_cannot_be_written_leaves_nothing_behind() {
        let folder = std::env::temp_dir().join(format!("treecast-ticket-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("taken")).unwrap();
        for path in ["taken", "missing/ticket", "taken/.."] {
            let line = TicketFile { path: Some(folder.join(path)) }.write("ticket").unwrap_err();
            assert!(line.contains(path) && line.contains("--ticket-file"), "{line}");
        }
        let left: Vec<_> =
            std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(left, ["taken"]);
    }
}
