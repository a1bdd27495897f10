//! The common parts of all measurements: the network, the file, the folders. Removed when dropped.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use treecast_driver::files::TargetFolder;
use treecast_host::{process::die_with_parent, stop::Stop};
use treecast_lab::{Interface, Lab, Options, Topology, program::Program};

use super::Tell;

/// The result of a measurement. An error is one line for a person.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A network that is gone when dropped, and the order to stop that may end the bench in it.
pub struct OwnLab {
    lab: Option<Lab>,
    pub stop: Stop,
    pub tell: Tell,
}

impl OwnLab {
    pub fn up(topology: &Topology, name: &str, stop: Stop, tell: Tell) -> Result<Self> {
        Ok(Self { lab: Some(Lab::up(topology, name, &Options::default())?), stop, tell })
    }

    /// Fails if the user wants the bench to end.
    pub fn go_on(&self) -> Result<()> {
        if self.stop.is_requested() { Err("interrupted".into()) } else { Ok(()) }
    }

    pub fn get(&self) -> Result<&Lab> {
        self.lab.as_ref().ok_or_else(|| "the network is gone".into())
    }

    /// Starts a program in a node. Messages call the program `name`. Its input is piped, and it ends with the bench.
    pub fn start(&self, node: &str, name: &str, mut command: Command) -> Result<Program> {
        command.stdin(Stdio::piped());
        die_with_parent(&mut command);
        let start = |command| Program::start_with_input(name.to_owned(), command);
        Ok(self.get()?.start_by(node, command, start)?)
    }

    /// The first interface of a node.
    pub fn interface(&self, node: &str) -> Result<&Interface> {
        let interfaces = &self.get()?.node(node)?.interfaces;
        interfaces.first().ok_or_else(|| format!("{node} has no interface").into())
    }
}

impl Drop for OwnLab {
    fn drop(&mut self) {
        if let Some(lab) = self.lab.take()
            && let Err(error) = lab.down()
        {
            (self.tell)(&format!("treecast: {error}"));
        }
    }
}

/// The network and the files of a bench.
pub struct Stage {
    pub lab: OwnLab,
    folder: Folder,
    pub source: PathBuf,
    pub receivers: u32,
    pub bytes: u64,
}

/// A folder that is gone, with all that is in it, when dropped.
struct Folder(PathBuf, Tell);

impl Drop for Folder {
    fn drop(&mut self) {
        let Self(path, tell) = self;
        if let Err(error) = std::fs::remove_dir_all(&path) {
            tell(&format!("treecast: cannot remove {}: {error}", path.display()));
        }
    }
}

impl Stage {
    /// Builds the network and fills the file.
    pub fn set(receivers: u32, bytes: u64, under: &Path, stop: Stop, tell: Tell) -> Result<Self> {
        // There must be room for a copy for each receiver, the source, uftp's file and, alone, a file of eight
        // times the size.
        let needed = bytes * u64::from(receivers + 2).max(10);
        TargetFolder::open(under)?.check_room("the bench", needed)?;
        let name = format!("bench{}", std::process::id());
        let folder = under.join(format!("treecast-{name}"));
        std::fs::create_dir(&folder).map_err(|error| {
            format!("cannot make {}: {error}; name a folder with --folder", folder.display())
        })?;
        let source = folder.join("source");
        let folder = Folder(folder, tell);
        let topology = Topology::parse(&format!("lan:clients={receivers}"))?;
        let lab = OwnLab::up(&topology, &name, stop, tell)?;
        fill(&source, bytes)?;
        Ok(Self { lab, folder, source, receivers, bytes })
    }

    /// A command that runs this program.
    pub fn treecast(&self) -> Result<Command> {
        Ok(Command::new(std::env::current_exe()?))
    }

    /// The name of a node's first interface.
    pub fn interface(&self, node: &str) -> Result<String> {
        Ok(self.lab.interface(node)?.name.clone())
    }

    pub fn sender_address(&self) -> Result<std::net::IpAddr> {
        Ok(self.lab.get()?.node("server0")?.v6().ok_or("the sender has no address")?.into())
    }

    pub fn clients(&self) -> impl Iterator<Item = String> {
        (0..self.receivers).map(|number| format!("client{number}"))
    }

    /// An empty folder for a node's files.
    pub fn folder(&self, node: &str) -> Result<PathBuf> {
        let folder = self.folder.0.join(node);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// A path beside the folders.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.0.join(name)
    }
}

/// Fills a file with bytes that no program can compress.
pub(super) fn fill(path: &Path, bytes: u64) -> Result<()> {
    let copy = || io::copy(&mut File::open("/dev/urandom")?.take(bytes), &mut File::create(path)?);
    copy().map_err(|error| format!("cannot fill {} with {bytes} bytes: {error}", path.display()))?;
    Ok(())
}
