//! Puts announcements together that came in parts, because their names are too long for one packet to the group.

use std::collections::VecDeque;

use treecast_wire::{
    header::FileId,
    message::{BeginOfFile, BeginOfFilePart},
};

use super::ranges::BlockSet;

/// The most announcements of which only some parts are known, 6 KB each. The one that has waited longest gives way to a new
/// one: a receiver gets its parts again where announcements are repeated, and else asks for the announcement.
const MAX_UNFINISHED: usize = 64;

/// The announcements of which only some parts have come, by the time of the last one.
#[derive(Debug, Default)]
pub struct Parts(VecDeque<Unfinished>);

#[derive(Debug)]
struct Unfinished {
    file: FileId,
    body: Box<[u8]>,
    there: BlockSet,
}

impl Parts {
    /// Takes a part. Returns the announcement if this was the last one that was missing.
    pub fn take(&mut self, file: FileId, part: &BeginOfFilePart) -> Option<BeginOfFile> {
        let len = part.whole_len();
        let known = self.0.iter().position(|it| it.file == file && it.body.len() == len);
        let known = known.and_then(|at| self.0.remove(at));
        let new = || Unfinished { file, body: vec![0; len].into(), there: BlockSet::default() };
        let mut unfinished = known.unwrap_or_else(new);
        let range = part.start()..part.start() + part.bytes().len();
        unfinished.body[range.clone()].copy_from_slice(part.bytes());
        unfinished.there.insert(range.start as u64..range.end as u64);
        if unfinished.there.len() == len as u64 {
            return BeginOfFile::from_body(&unfinished.body).ok();
        }
        if self.0.len() >= MAX_UNFINISHED {
            self.0.pop_front();
        }
        self.0.push_back(unfinished);
        None
    }
}

#[cfg(test)]
mod tests {
    use treecast_wire::message::TransferType;

    use super::*;

    fn begin() -> BeginOfFile {
        let name = format!("{}/{}", ["x".repeat(255).as_str(); 15].join("/"), "y".repeat(256));
        BeginOfFile::new(TransferType::DiskToDisk, 5, &name).unwrap()
    }

    fn cut(begin: &BeginOfFile) -> Vec<BeginOfFilePart> {
        BeginOfFilePart::cut(begin, 580).collect()
    }

    #[test]
    fn an_announcement_is_whole_when_its_last_part_comes_in_any_order_and_twice() {
        let (begin, mut parts) = (begin(), Parts::default());
        let mut cut = cut(&begin);
        assert_eq!((begin.file_name().len(), cut.len()), (4096, 8));
        cut.reverse();
        for part in &cut[..7] {
            assert_eq!((parts.take(FileId(1), part), parts.take(FileId(1), part)), (None, None));
            assert_eq!(parts.take(FileId(2), part), None, "another object");
        }
        assert_eq!(parts.take(FileId(1), &cut[7]), Some(begin));
        assert_eq!(parts.0.len(), 1);
    }

    #[test]
    fn whoever_begins_many_announcements_takes_little_memory_and_none_of_them_is_wrong() {
        let (begin, mut parts) = (begin(), Parts::default());
        let cut = cut(&begin);
        for file in 0..100_000 {
            assert_eq!(parts.take(FileId(file), &cut[0]), None);
        }
        assert_eq!(parts.0.len(), MAX_UNFINISHED);
        let mut wrong = vec![0xff; begin.file_name().len() + BeginOfFile::LEN_BEFORE_NAME];
        wrong[0] = 3;
        let wrong = BeginOfFilePart::new(wrong.len() as u16, 0, &wrong).unwrap();
        assert_eq!(parts.take(FileId(99_999), &wrong), None, "no UTF-8");
        assert!(cut.iter().any(|part| parts.take(FileId(99_999), part).is_some()), "it is put together anew");
    }
}
