//! The common parts of all measurements: the network, the file, the folders. Removed when dropped.

use std::{
    fs::File,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use treecast_driver::files::TargetFolder;
use treecast_host::stop::Stop;
use treecast_lab::{Lab, Options, Topology};

use super::Tell;

/// The result of a measurement. An error is one line for a person.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The network and the files of a bench.
pub struct Stage {
    lab: Option<Lab>,
    folder: PathBuf,
    pub source: PathBuf,
    pub receivers: u32,
    pub bytes: u64,
    pub stop: Stop,
    pub tell: Tell,
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
        let mut stage = Self { lab: None, folder, source, receivers, bytes, stop, tell };
        let topology = Topology::parse(&format!("lan:clients={receivers}"))?;
        stage.lab = Some(Lab::up(&topology, &name, &Options::default())?);
        fill(&stage.source, bytes)?;
        Ok(stage)
    }

    /// A command that runs this program.
    pub fn treecast(&self) -> Result<Command> {
        Ok(Command::new(std::env::current_exe()?))
    }

    /// Starts a program in a node, its output and input piped.
    pub fn spawn(&self, node: &str, mut command: Command) -> Result<Child> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(self.lab()?.spawn(node, command)?)
    }

    /// The name of a node's first interface.
    pub fn interface(&self, node: &str) -> Result<String> {
        let node = self.lab()?.node(node)?;
        Ok(node.interfaces.first().ok_or("the node has no interface")?.name.clone())
    }

    pub fn sender_address(&self) -> Result<std::net::IpAddr> {
        Ok(self.lab()?.node("server0")?.v6().ok_or("the sender has no address")?.into())
    }

    pub fn clients(&self) -> impl Iterator<Item = String> {
        (0..self.receivers).map(|number| format!("client{number}"))
    }

    /// An empty folder for a node's files.
    pub fn folder(&self, node: &str) -> Result<PathBuf> {
        let folder = self.folder.join(node);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// A path beside the folders.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Fails if the user wants the bench to end.
    pub fn go_on(&self) -> Result<()> {
        if self.stop.is_requested() { Err("interrupted".into()) } else { Ok(()) }
    }

    fn lab(&self) -> Result<&Lab> {
        self.lab.as_ref().ok_or_else(|| "the network is gone".into())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(lab) = self.lab.take()
            && let Err(error) = lab.down()
        {
            (self.tell)(&format!("treecast: {error}"));
        }
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            (self.tell)(&format!("treecast: cannot remove {}: {error}", self.folder.display()));
        }
    }
}

/// Fills a file with bytes that no program can compress.
pub(super) fn fill(path: &Path, bytes: u64) -> Result<()> {
    let failed = |error| format!("cannot fill {} with {bytes} bytes: {error}", path.display());
    let mut random = File::open("/dev/urandom").map_err(failed)?;
    let mut file = File::create(path).map_err(failed)?;
    let mut buffer = vec![0; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        let len = left.min(buffer.len() as u64) as usize;
        random.read_exact(&mut buffer[..len]).map_err(failed)?;
        file.write_all(&buffer[..len]).map_err(failed)?;
        left -= len as u64;
    }
    Ok(())
}
