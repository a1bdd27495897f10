//! Files that somebody uploads to be delivered: streamed to the manager's disk, bounded, and deleted after the delivery.

use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures_util::{Stream, StreamExt};
use thiserror::Error;
use tokio::{fs, io::AsyncWriteExt, time::timeout};
use treecast_host::folder::free_bytes;

use super::access;
use crate::agent::deliveries::MAX_FILES;

/// The most bytes of one upload, all its files together.
pub const MAX_BYTES: u64 = 8 << 30;
/// The most uploads that wait for their delivery.
const MAX_WAITING: usize = 20;
/// The time after which an upload that nobody has delivered is deleted.
const LASTS: Duration = Duration::from_secs(3600);
/// The longest pause in an upload.
const PAUSE: Duration = Duration::from_secs(60);
/// The bytes that an upload leaves free on the manager's disk, so that results and reports have room.
const SPARE_BYTES: u64 = 256 << 20;
/// The bytes between two looks for how much room the disk has.
const LOOK_BYTES: u64 = 16 << 20;

/// The reason why an upload is not taken.
#[derive(Debug, Error)]
pub enum UploadError {
    #[error("there is no such upload: it was used, or an hour has passed; begin again")]
    Missing,
    #[error("it is too large: at most {} GiB are uploaded at once; deliver files of the manager's host instead", MAX_BYTES >> 30)]
    TooLarge,
    #[error("{MAX_WAITING} uploads wait for their delivery: deliver those first, or wait an hour")]
    TooMany,
    #[error("at most {MAX_FILES} files are uploaded at once")]
    TooManyFiles,
    #[error("the manager's disk has no room for it")]
    NoRoom,
    #[error("{0:?} is no name of a file here: it has no slashes, and up to 255 bytes")]
    Name(String),
    #[error("the upload was cut short: {0}")]
    Cut(String),
    #[error("the file cannot be kept: {0}")]
    File(#[from] io::Error),
}

/// The uploads that wait for their delivery.
pub struct Uploads {
    folder: PathBuf,
    waiting: Mutex<HashMap<String, Upload>>,
}

struct Upload {
    /// Whoever began it. Nobody else adds to it or delivers it.
    who: String,
    begun: Instant,
    bytes: u64,
    files: usize,
    /// Whether a file comes just now. An upload takes one after the other.
    is_busy: bool,
}

impl Uploads {
    /// Makes the folder for uploads. What an earlier start has left there is deleted.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub async fn new(folder: PathBuf) -> io::Result<Self> {
        // A delivery names its files by their whole paths.
        let folder = std::path::absolute(folder)?;
        remove(&folder).await?;
        fs::create_dir_all(&folder).await?;
        Ok(Self { folder, waiting: Mutex::default() })
    }

    /// Begins an upload. Returns its name.
    ///
    /// # Errors
    /// If too many wait.
    pub async fn begin(&self, who: &str) -> Result<String, UploadError> {
        let old: Vec<String> = {
            let waiting = self.lock();
            let is_old = |(_, upload): &(&String, &Upload)| !upload.is_busy && upload.begun.elapsed() > LASTS;
            waiting.iter().filter(is_old).map(|(id, _)| id.clone()).collect()
        };
        for id in old {
            self.forget(&id).await;
        }
        let id = access::draw()?;
        let upload =
            Upload { who: who.to_owned(), begun: Instant::now(), bytes: 0, files: 0, is_busy: false };
        {
            let mut waiting = self.lock();
            if waiting.len() >= MAX_WAITING {
                return Err(UploadError::TooMany);
            }
            waiting.insert(id.clone(), upload);
        }
        fs::create_dir_all(self.folder.join(&id)).await?;
        Ok(id)
    }

    /// Takes a file into an upload. `says_bytes` is the length that was announced, if it was. Returns the file's size.
    ///
    /// # Errors
    /// The reason why it is not taken. What came of it is deleted.
    pub async fn take<B: AsRef<[u8]>, E: ToString>(
        &self,
        (id, who): (&str, &str),
        name: &str,
        says_bytes: Option<u64>,
        bytes: impl Stream<Item = Result<B, E>>,
    ) -> Result<u64, UploadError> {
        check_name(name)?;
        let left = self.reserve(id, who, says_bytes.unwrap_or(0))?;
        let busy = Busy { uploads: self, id, part: self.folder.join(format!("{id}.part")) };
        let size = write(&busy.part, left, bytes).await?;
        fs::rename(&busy.part, self.folder.join(id).join(name)).await?;
        if let Some(upload) = self.lock().get_mut(id) {
            upload.bytes += size;
            upload.files += 1;
        }
        Ok(size)
    }

    /// Returns how many bytes an upload may still take, and holds it for one file.
    fn reserve(&self, id: &str, who: &str, bytes: u64) -> Result<u64, UploadError> {
        let mut waiting = self.lock();
        let upload = waiting.get_mut(id).filter(|upload| upload.who == who).ok_or(UploadError::Missing)?;
        if upload.is_busy {
            return Err(UploadError::Cut("another file of this upload still comes".into()));
        }
        if upload.files >= MAX_FILES {
            return Err(UploadError::TooManyFiles);
        }
        let left = MAX_BYTES - upload.bytes.min(MAX_BYTES);
        if bytes > left {
            return Err(UploadError::TooLarge);
        }
        upload.is_busy = true;
        Ok(left)
    }

    /// Takes an upload out of those that wait. Returns its folder, which the caller deletes.
    ///
    /// # Errors
    /// If there is none, it is somebody else's, or a file still comes.
    pub fn hand_over(&self, id: &str, who: &str) -> Result<PathBuf, UploadError> {
        let mut waiting = self.lock();
        match waiting.get(id).filter(|upload| upload.who == who) {
            Some(upload) if upload.is_busy => Err(UploadError::Cut("a file of it still comes".into())),
            Some(_) => {
                waiting.remove(id);
                Ok(self.folder.join(id))
            }
            None => Err(UploadError::Missing),
        }
    }

    /// Deletes an upload that is not to be delivered.
    ///
    /// # Errors
    /// As for [`Uploads::hand_over`], and if it cannot be deleted.
    pub async fn drop_own(&self, id: &str, who: &str) -> Result<(), UploadError> {
        Ok(remove(&self.hand_over(id, who)?).await?)
    }

    /// Deletes an upload.
    async fn forget(&self, id: &str) {
        self.lock().remove(id);
        if let Err(error) = remove(&self.folder.join(id)).await {
            tracing::error!("an upload is not deleted: {error}");
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Upload>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Holds an upload while a file comes. Whatever ends that, what is left of the file is deleted.
struct Busy<'a> {
    uploads: &'a Uploads,
    id: &'a str,
    part: PathBuf,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        // A whole file has its own name by now.
        _ = std::fs::remove_file(&self.part);
        if let Some(upload) = self.uploads.lock().get_mut(self.id) {
            upload.is_busy = false;
        }
    }
}

/// Deletes a folder with all that is in it, if it is there.
///
/// # Errors
/// If it cannot be deleted.
pub async fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn check_name(name: &str) -> Result<(), UploadError> {
    let is_name = !matches!(name, "" | "." | "..") && !name.contains('/') && name.len() <= 255;
    match is_name && !name.chars().any(char::is_control) {
        true => Ok(()),
        false => Err(UploadError::Name(name.to_owned())),
    }
}

/// Writes what comes to a file, but no more than so many bytes.
async fn write<B: AsRef<[u8]>, E: ToString>(
    path: &Path,
    most: u64,
    bytes: impl Stream<Item = Result<B, E>>,
) -> Result<u64, UploadError> {
    let mut bytes = std::pin::pin!(bytes);
    let mut file = fs::File::create(path).await?;
    let (mut size, mut looked) = (0, 0);
    loop {
        if size >= looked {
            looked = size + LOOK_BYTES;
            if free_bytes(&file).is_some_and(|free| free < SPARE_BYTES) {
                return Err(UploadError::NoRoom);
            }
        }
        let next = timeout(PAUSE, bytes.next()).await;
        let chunk = match next.map_err(|_| UploadError::Cut("nothing came for a minute".into()))? {
            None => break,
            Some(chunk) => chunk.map_err(|error| UploadError::Cut(error.to_string()))?,
        };
        size += chunk.as_ref().len() as u64;
        if size > most {
            return Err(UploadError::TooLarge);
        }
        file.write_all(chunk.as_ref()).await?;
    }
    file.flush().await?;
    Ok(size)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;

    use super::*;

    fn chunks(of: &[&'static str]) -> impl Stream<Item = Result<&'static str, Infallible>> {
        stream::iter(of.iter().map(|chunk| Ok(*chunk)).collect::<Vec<_>>())
    }

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("treecast-uploads-{name}-{}", std::process::id()))
    }

    #[tokio::test]
    async fn a_file_is_bounded_by_what_comes_and_not_by_what_is_said() {
        let folder = folder("bounded");
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("file");
        assert_eq!(write(&path, 10, chunks(&["12345", "67890"])).await.unwrap(), 10);
        let refused = write(&path, 9, chunks(&["12345", "67890"])).await.unwrap_err();
        assert!(matches!(refused, UploadError::TooLarge), "{refused}");
        let broken = stream::iter([Ok("1"), Err("the browser has gone")]);
        let refused = write(&path, 9, broken).await.unwrap_err();
        assert!(refused.to_string().contains("the browser has gone"), "{refused}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[tokio::test]
    async fn an_upload_is_of_whoever_began_it_and_has_names_without_paths() {
        let folder = folder("names");
        std::fs::create_dir_all(folder.join("old")).unwrap();
        let uploads = Uploads::new(folder.clone()).await.unwrap();
        let is_alone = || std::fs::read_dir(&folder).unwrap().count() == 1;
        assert!(!folder.join("old").exists(), "an earlier start has left it");
        let id = uploads.begin("eve").await.unwrap();
        for name in ["../x", "/x", "..", "", "a/b", "a\nb", &"x".repeat(256)] {
            let refused = uploads.take((&id, "eve"), name, None, chunks(&["x"])).await.unwrap_err();
            assert!(matches!(refused, UploadError::Name(_)), "{name}: {refused}");
        }
        let other = uploads.take((&id, "bob"), "a", None, chunks(&["x"])).await;
        assert!(matches!(other, Err(UploadError::Missing)));
        let large = uploads.take((&id, "eve"), "a", Some(MAX_BYTES + 1), chunks(&["x"])).await;
        assert!(matches!(large, Err(UploadError::TooLarge)));
        assert_eq!(uploads.take((&id, "eve"), "a", Some(1), chunks(&["x"])).await.unwrap(), 1);
        assert!(matches!(uploads.hand_over(&id, "bob"), Err(UploadError::Missing)));
        // A browser that goes in the middle leaves nothing, and begins again.
        let endless = stream::once(async { Ok::<_, Infallible>("x") }).chain(stream::pending());
        let cut = timeout(Duration::from_millis(50), uploads.take((&id, "eve"), "b", None, endless)).await;
        assert!(cut.is_err() && is_alone());
        let taken = uploads.hand_over(&id, "eve").unwrap();
        assert_eq!(std::fs::read_to_string(taken.join("a")).unwrap(), "x");
        assert!(matches!(uploads.hand_over(&id, "eve"), Err(UploadError::Missing)));
        let other = uploads.begin("eve").await.unwrap();
        assert!(matches!(uploads.drop_own(&other, "bob").await, Err(UploadError::Missing)));
        uploads.drop_own(&other, "eve").await.unwrap();
        assert!(!folder.join(&other).exists());
        for _ in 0..MAX_WAITING {
            uploads.begin("eve").await.unwrap();
        }
        assert!(matches!(uploads.begin("eve").await, Err(UploadError::TooMany)));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
