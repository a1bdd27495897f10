//! Files that somebody delivers to a host: received below the agent's work folder, compared, and moved to where the host wants them.
//!
//! `agent.toml` names the folder for them. The manager names paths below it, and none that leads out. As with releases, what came is
//! moved to a place where no ordered program may write before it is compared.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Component, Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;

use crate::message::{Delivered, Delivery, Lack};

/// How a host takes files: `[receive]` of its configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reception {
    /// The folder for files. `None`: `received` in the agent's folder.
    pub folder: Option<PathBuf>,
}

/// The most files of one delivery.
pub const MAX_FILES: usize = 1_000;
/// The most bytes of a path in a delivery.
pub const MAX_PATH_LEN: usize = 255;
/// The rights of files and folders that are taken in. Nothing is run as its owner (`setuid`).
const RIGHTS: u32 = 0o755;
/// The time after which files that nobody took in are deleted: their manager ended meanwhile, or was not heard any more.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// Refuses a path that leads out of the folder that it begins in, or that people cannot read.
///
/// # Errors
/// The reason.
pub fn check_path(path: &str) -> Result<(), String> {
    let leads_down = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    let is_plain = !path.is_empty() && path.len() <= MAX_PATH_LEN && !path.chars().any(char::is_control);
    match leads_down && is_plain && !path.ends_with('/') {
        true => Ok(()),
        false => Err(format!("{path:?} is no path of a file or folder below the one that the host names")),
    }
}

impl Delivery {
    /// Refuses paths that lead out of the host's folder, and more files than are taken.
    ///
    /// # Errors
    /// The reason.
    pub fn check(&self) -> Result<(), String> {
        if self.files.len() > MAX_FILES {
            return Err(format!(
                "{} files are too many: at most {MAX_FILES} are delivered",
                self.files.len()
            ));
        }
        if !self.into.is_empty() {
            check_path(&self.into)?;
        }
        self.files.iter().try_for_each(|file| check_path(&file.path))
    }
}

/// The deliveries to a host.
pub struct Deliveries<'a> {
    /// The agent's folder.
    pub state: &'a Path,
    pub reception: &'a Reception,
}

impl Deliveries<'_> {
    /// Makes ready for the files of a delivery. Returns the folder to receive them; `None` where the host has all of them already.
    /// `is_used` tells whether a program that the manager has started still runs with a folder.
    pub fn make_ready(
        &self,
        delivery: &Delivery,
        is_used: &dyn Fn(&Path) -> bool,
    ) -> Result<Option<PathBuf>, String> {
        delivery.check()?;
        self.forget_old(is_used);
        let folder = self.folder(delivery)?;
        if delivery.files.iter().all(|file| differs(&folder, file).is_none()) {
            return Ok(None);
        }
        let staged = self.staged(delivery);
        let failed = |error: io::Error| format!("{}: {error}", staged.display());
        remove(&staged).and_then(|()| fs::create_dir_all(&staged)).map_err(failed)?;
        let needed: u64 = delivery.files.iter().map(|file| file.size_bytes).sum();
        for place in [&staged, &folder] {
            let free = fs::File::open(place).ok().and_then(treecast_host::folder::free_bytes);
            if free.is_some_and(|free| free < needed) {
                let free = free.unwrap_or(0);
                return Err(format!("the disk has {free} bytes of room, and the files need {needed}"));
            }
        }
        Ok(Some(staged))
    }

    /// Moves files that are whole to where the host wants them. Returns those that it lacks. `is_used` tells whether a program that the
    /// manager has started still runs with a folder.
    pub fn take_in(&self, delivery: &Delivery, is_used: &dyn Fn(&Path) -> bool) -> Result<Vec<Lack>, String> {
        delivery.check()?;
        let folder = self.folder(delivery)?;
        let (staged, kept) = (self.staged(delivery), self.kept(delivery));
        if is_used(&staged) {
            return Err("a program still receives these files".into());
        }
        let failed = |error: io::Error| format!("{}: {error}", kept.display());
        // An earlier start of the agent may have moved it, and some of its files.
        if staged.exists() {
            remove(&kept).map_err(failed)?;
            fs::create_dir_all(kept.parent().unwrap_or(self.state)).map_err(failed)?;
            fs::rename(&staged, &kept).map_err(failed)?;
        }
        let take = |file: &Delivered| {
            let taken = self.take_one(file, &kept, &folder);
            taken.err().map(|why| Lack { path: file.path.clone(), why })
        };
        let lacking = delivery.files.iter().filter_map(take).collect();
        remove(&kept).map_err(failed)?;
        Ok(lacking)
    }

    /// Forgets what came of a delivery that was ended.
    pub fn forget(&self, delivery: &Delivery, is_used: &dyn Fn(&Path) -> bool) -> Result<(), String> {
        if is_used(&self.staged(delivery)) {
            return Err("a program still receives these files".into());
        }
        for folder in [self.staged(delivery), self.kept(delivery)] {
            remove(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        Ok(())
    }

    /// Deletes what came of deliveries that nobody has ended.
    fn forget_old(&self, is_used: &dyn Fn(&Path) -> bool) {
        for entry in fs::read_dir(self.state.join("work")).into_iter().flatten().flatten() {
            let is_delivery = entry.file_name().to_string_lossy().starts_with("delivery-");
            let modified = entry.metadata().and_then(|of| of.modified()).ok();
            let is_old = modified.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > KEPT);
            if is_delivery && is_old && !is_used(&entry.path()) {
                // It is tried again with the next delivery.
                _ = remove(&entry.path());
            }
        }
    }

    fn take_one(&self, file: &Delivered, kept: &Path, folder: &Path) -> Result<(), String> {
        if differs(folder, file).is_none() {
            return Ok(());
        }
        if let Some(how) = differs(kept, file) {
            return Err(how);
        }
        let (from, to) = (kept.join(&file.path), folder.join(&file.path));
        let parent = to.parent().unwrap_or(folder);
        make_folders(folder, parent)?;
        let failed = |error: io::Error| format!("{}: {error}", to.display());
        if to.symlink_metadata().is_ok_and(|of| of.is_dir()) {
            return Err(format!("{} is a folder there", to.display()));
        }
        let mode = fs::metadata(&from).map_err(failed)?.permissions().mode() & RIGHTS;
        fs::set_permissions(&from, fs::Permissions::from_mode(mode | 0o600)).map_err(failed)?;
        match fs::rename(&from, &to) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => copy(&from, &to).map_err(failed),
            moved => moved.map_err(failed),
        }
    }

    /// Returns the folder that a delivery goes to, and makes it.
    fn folder(&self, delivery: &Delivery) -> Result<PathBuf, String> {
        let own = self.reception.folder.clone().unwrap_or_else(|| self.state.join("received"));
        fs::create_dir_all(&own).map_err(|error| format!("{}: {error}", own.display()))?;
        let folder = own.join(&delivery.into);
        make_folders(&own, &folder)?;
        Ok(folder)
    }

    /// Returns the folder in which the files of a delivery are received.
    fn staged(&self, delivery: &Delivery) -> PathBuf {
        self.state.join("work").join(format!("delivery-{}", delivery.id))
    }

    /// Returns the folder in which they are compared.
    fn kept(&self, delivery: &Delivery) -> PathBuf {
        self.state.join("deliveries").join(delivery.id.to_string())
    }
}

/// Makes the folders between one and another below it. A symbolic link on the way could lead out, and is refused.
fn make_folders(from: &Path, to: &Path) -> Result<(), String> {
    let mut path = from.to_owned();
    for part in to.strip_prefix(from).unwrap_or(to).components() {
        path.push(part);
        match path.symlink_metadata() {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(format!("{} is no folder there", path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            }
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
    Ok(())
}

/// Returns how a file in a folder differs from what was sent, in words; `None` where it is alike. A link counts as missing, and so does
/// what is behind one: it could be any file of the host.
fn differs(folder: &Path, file: &Delivered) -> Option<String> {
    let mut path = folder.to_owned();
    let parent = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    for part in parent.components() {
        path.push(part);
        if !path.symlink_metadata().is_ok_and(|of| of.is_dir()) {
            return Some("it is missing".into());
        }
    }
    let path = &folder.join(&file.path);
    if !path.symlink_metadata().is_ok_and(|of| of.is_file()) {
        return Some("it is missing".into());
    }
    let Ok(digest) = blake3::Hash::from_hex(&file.blake3) else { return Some("its hash is none".into()) };
    let checked = treecast_experiment::site::check_copy(path, file.size_bytes, digest.as_bytes());
    checked.err().map(|error| error.to_string())
}

/// Copies a file to another disk. It has its name when it is whole.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let part = part_of(to);
    remove(&part)?;
    fs::copy(from, &part).and_then(|_| fs::File::open(&part)?.sync_all()).and_then(|()| fs::rename(&part, to))
}

/// Returns the name of a file while it is copied. It is short, because the file's own may be as long as names can be.
fn part_of(to: &Path) -> PathBuf {
    let name = blake3::hash(to.file_name().unwrap_or_default().as_encoded_bytes()).to_hex();
    to.with_file_name(format!(".{name:.16}.treecast-part"))
}

/// Removes a file or a folder with all that is in it, if it is there.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        _ => fs::remove_file(path),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An agent's folder that is deleted at the end.
    struct Agent(PathBuf);

    impl Drop for Agent {
        fn drop(&mut self) {
            _ = fs::remove_dir_all(&self.0);
        }
    }

    impl Agent {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("treecast-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    fn delivery(into: &str, files: &[(&str, &str)]) -> Delivery {
        let file = |(path, text): &(&str, &str)| Delivered {
            path: (*path).to_owned(),
            size_bytes: text.len() as u64,
            blake3: blake3::hash(text.as_bytes()).to_hex().to_string(),
        };
        Delivery { id: 7, into: into.to_owned(), files: files.iter().map(file).collect() }
    }

    #[test]
    fn whole_files_are_taken_in_and_others_are_told() {
        let agent = Agent::new("taken-in");
        let reception = Reception { folder: Some(agent.0.join("inbox")) };
        let deliveries = Deliveries { state: &agent.0, reception: &reception };
        let sent = delivery("maps/north", &[("a", "whole"), ("b", "cut short"), ("c", "never came")]);
        let staged = deliveries.make_ready(&sent, &|_| false).unwrap().expect("nothing is there yet");
        fs::write(staged.join("a"), "whole").unwrap();
        fs::set_permissions(staged.join("a"), fs::Permissions::from_mode(0o6777)).unwrap();
        fs::write(staged.join("b"), "cut").unwrap();
        assert!(deliveries.take_in(&sent, &|_| true).unwrap_err().contains("still receives"));
        let lacks = deliveries.take_in(&sent, &|_| false).unwrap();
        let paths: Vec<&str> = lacks.iter().map(|lack| lack.path.as_str()).collect();
        assert_eq!(paths, ["b", "c"]);
        assert_eq!(lacks[1].why, "it is missing");
        let taken = agent.0.join("inbox/maps/north/a");
        assert_eq!(fs::read_to_string(&taken).unwrap(), "whole");
        assert_eq!(fs::metadata(&taken).unwrap().permissions().mode() & 0o7777, 0o755);
        assert!(!agent.0.join("inbox/maps/north/b").exists() && !staged.exists());
        // Again, after a restart of the agent in the middle: what is there counts.
        assert_eq!(deliveries.take_in(&sent, &|_| false).unwrap().len(), 2);
        assert_eq!(
            deliveries.make_ready(&delivery("maps/north", &[("a", "whole")]), &|_| false).unwrap(),
            None
        );
    }

    #[test]
    fn a_file_comes_whole_from_another_disk() {
        let agent = Agent::new("other-disk");
        let (from, to) = (agent.0.join("from"), agent.0.join("ä".repeat(127)));
        fs::write(&from, "new").unwrap();
        fs::write(&to, "an older version").unwrap();
        // What an earlier start has left, even if it is no file.
        fs::create_dir_all(part_of(&to).join("x")).unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "new");
        assert_eq!(fs::read_dir(&agent.0).unwrap().count(), 2);
    }

    #[test]
    fn what_nobody_takes_in_is_deleted_after_a_day() {
        let agent = Agent::new("old-deliveries");
        let reception = Reception::default();
        let deliveries = Deliveries { state: &agent.0, reception: &reception };
        let make = |name: &str, age: Duration| {
            let path = agent.0.join("work").join(name);
            fs::create_dir_all(&path).unwrap();
            let at = std::time::SystemTime::now() - age;
            fs::File::open(&path).unwrap().set_modified(at).unwrap();
        };
        for name in ["delivery-1", "delivery-2", "run1-copy"] {
            make(name, KEPT * 2);
        }
        make("delivery-3", KEPT / 2);
        let is_used = |path: &Path| path.ends_with("delivery-2");
        deliveries.make_ready(&delivery("", &[("a", "x")]), &is_used).unwrap();
        let left = |name: &str| agent.0.join("work").join(name).exists();
        assert!(!left("delivery-1") && left("delivery-2") && left("delivery-3") && left("run1-copy"));
    }

    #[test]
    fn no_path_leads_out_of_the_hosts_folder() {
        let agent = Agent::new("leads-out");
        let reception = Reception::default();
        let deliveries = Deliveries { state: &agent.0, reception: &reception };
        for (into, path) in [
            ("", "../a"),
            ("", "/etc/passwd"),
            ("", "a/../../b"),
            ("", ""),
            ("", "a\nb"),
            ("..", "a"),
            ("/etc", "a"),
            ("x/../..", "a"),
        ] {
            let refused = deliveries.make_ready(&delivery(into, &[(path, "x")]), &|_| false).unwrap_err();
            assert!(refused.contains("is no path"), "{into} {path}: {refused}");
            assert!(deliveries.take_in(&delivery(into, &[(path, "x")]), &|_| false).is_err());
        }
        // Nor does a link that somebody has put there.
        fs::create_dir_all(agent.0.join("received")).unwrap();
        std::os::unix::fs::symlink("/tmp", agent.0.join("received/out")).unwrap();
        for sent in [delivery("out", &[("a", "x")]), delivery("out/deep", &[("a", "x")])] {
            let refused = deliveries.make_ready(&sent, &|_| false).unwrap_err();
            assert!(refused.contains("is no folder"), "{refused}");
        }
        let sent = delivery("", &[("out/a", "x"), ("out", "y")]);
        let staged = deliveries.make_ready(&sent, &|_| false).unwrap().unwrap();
        fs::create_dir_all(staged.join("out")).unwrap();
        fs::write(staged.join("out/a"), "x").unwrap();
        let lacks = deliveries.take_in(&sent, &|_| false).unwrap();
        assert!(lacks[0].why.contains("is no folder"), "{lacks:?}");
        // Nor is a file of the host's taken, by a link that the sender has sent.
        let own = agent.0.join("own");
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("a"), "secret").unwrap();
        let sent = delivery("", &[("link/a", "secret")]);
        let staged = deliveries.make_ready(&sent, &|_| false).unwrap().unwrap();
        std::os::unix::fs::symlink(&own, staged.join("link")).unwrap();
        let lacks = deliveries.take_in(&sent, &|_| false).unwrap();
        assert_eq!(lacks[0].why, "it is missing");
        assert!(own.join("a").exists());
    }
}
