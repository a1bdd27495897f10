//! Watches folders for files that are complete (inotify).

use std::{
    ffi::OsString,
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStringExt,
    },
};

use rustix::{
    fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags},
    io::Errno,
};

/// The bytes that are read from the kernel at once: some 1,000 events.
const BUFFER_BYTES: usize = 64 * 1024;

/// Folders that are watched. It is readable when something has happened in one of them.
#[derive(Debug)]
pub struct Watch(OwnedFd);

/// What has happened.
#[derive(Debug, PartialEq, Eq)]
pub enum Happened {
    /// A file of this name was made in the folder with this number. Whoever made it may still write to it.
    Created { folder: i32, name: OsString },
    /// A program that wrote to the file of this name has closed it, or it was moved into the folder with this number.
    Complete { folder: i32, name: OsString },
    /// A folder of this name was made in, or moved into, the folder with this number.
    Folder { folder: i32, name: OsString },
    /// The folder with this number is not watched any more: it was removed or unmounted.
    Gone { folder: i32 },
    /// The kernel has lost events, because they came faster than they were read.
    Lost,
}

impl Watch {
    /// Watches no folder yet.
    ///
    /// # Errors
    /// If the kernel has no inotify, or no more instances of it for this user.
    pub fn new() -> io::Result<Self> {
        Ok(Self(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?))
    }

    /// Watches an open folder, but not those below it. Returns its number, which is the same if it is watched already.
    ///
    /// # Errors
    /// If it is no folder, the user has no more watches, or /proc is missing.
    pub fn add(&self, folder: impl AsFd) -> io::Result<i32> {
        let events =
            WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO | WatchFlags::CREATE | WatchFlags::ONLYDIR;
        // The kernel takes a path. This one is the open folder itself, whatever its name is now.
        let path = format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd());
        Ok(inotify::add_watch(&self.0, path, events)?)
    }

    /// Takes what has happened since the last call, at most as much as one read brings. Empty if there is nothing.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn take(&self) -> io::Result<Vec<Happened>> {
        let mut buffer = vec![MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        let mut happened = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => happened.extend(read(&event)),
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(error) => return Err(error.into()),
            }
            if reader.is_buffer_empty() {
                break;
            }
        }
        Ok(happened)
    }
}

fn read(event: &inotify::Event<'_>) -> Option<Happened> {
    let (events, folder) = (event.events(), event.wd());
    if events.contains(ReadFlags::QUEUE_OVERFLOW) {
        return Some(Happened::Lost);
    }
    if events.contains(ReadFlags::IGNORED) {
        return Some(Happened::Gone { folder });
    }
    let name = OsString::from_vec(event.file_name()?.to_bytes().to_vec());
    if events.contains(ReadFlags::ISDIR) {
        return Some(Happened::Folder { folder, name });
    }
    Some(match events.contains(ReadFlags::CREATE) {
        true => Happened::Created { folder, name },
        false => Happened::Complete { folder, name },
    })
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write};

    use super::*;

    #[test]
    fn a_file_is_told_of_when_it_is_closed_or_moved_here() {
        let place = std::env::temp_dir().join(format!("treecast-watch-{}", std::process::id()));
        let folder = place.join("watched");
        fs::create_dir_all(&folder).unwrap();
        let watch = Watch::new().unwrap();
        let opened = fs::File::open(&folder).unwrap();
        let number = watch.add(&opened).unwrap();
        assert_eq!(watch.add(&opened).unwrap(), number);
        assert!(watch.add(io::stdin()).is_err());
        drop(opened);
        let mut file = fs::File::create(folder.join("written")).unwrap();
        file.write_all(b"x").unwrap();
        let created = Happened::Created { folder: number, name: "written".into() };
        assert_eq!(watch.take().unwrap(), [created], "it is not closed");
        drop(file);
        fs::write(place.join("other"), "x").unwrap();
        fs::rename(place.join("other"), folder.join("moved")).unwrap();
        fs::create_dir(folder.join("below")).unwrap();
        let complete = |name: &str| Happened::Complete { folder: number, name: name.into() };
        let made = Happened::Folder { folder: number, name: "below".into() };
        assert_eq!(watch.take().unwrap(), [complete("written"), complete("moved"), made]);
        fs::remove_dir_all(&place).unwrap();
        assert_eq!(watch.take().unwrap(), [Happened::Gone { folder: number }]);
    }
}
