//! A network of a lab, and a folder in which programs run on its nodes. Both go when this is dropped.

use std::{
    fs::File,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use crate::{
    child::{Guarded, SpawnGuarded},
    session::{Arguments, Scratch, TREECAST, finish},
};
use treecast_lab::{Lab, Options, Topology};

pub struct Site {
    lab: Option<Lab>,
    pub scratch: Scratch,
}

impl Site {
    pub fn up(topology: &str) -> Self {
        Self::with(Scratch::new(), &Topology::parse(topology).unwrap())
    }

    pub fn with(scratch: Scratch, topology: &Topology) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("site{}x{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let state_directory = scratch.path("state");
        let options = Options { state_directory, program: TREECAST.into(), ..Options::default() };
        let lab = Lab::up(topology, &name, &options).expect("root may");
        Self { lab: Some(lab), scratch }
    }

    pub fn lab(&self) -> &Lab {
        self.lab.as_ref().expect("it is up")
    }

    pub fn address(&self, node: &str) -> String {
        self.lab().node(node).unwrap().v6().unwrap().to_string()
    }

    /// Has a command run on a node.
    pub fn on(&self, node: &str, mut command: Command) -> Command {
        self.lab().place(node, &mut command).unwrap();
        command
    }

    /// The program on a node.
    pub fn command(&self, node: &str, args: impl Arguments) -> Command {
        self.on(node, self.scratch.command(args))
    }

    /// Gives these nodes rules of nftables.
    pub fn filter(&self, nodes: &[&str], rules: &str) {
        for node in nodes {
            let mut nft = Command::new("nft");
            nft.arg(rules);
            assert!(self.on(node, nft).status().unwrap().success());
        }
    }

    /// Starts the program on a node. What it says goes to files of this name, without and with `.err`.
    pub fn start(&self, node: &str, args: impl Arguments, output: &str) -> Guarded {
        let file = |name: &str| File::create(self.scratch.path(name)).unwrap();
        self.command(node, args).stdout(file(output)).stderr(file(&format!("{output}.err"))).spawn_guarded()
    }

    /// Starts a sender on `server0`, and waits for its ticket.
    pub fn send(&self, args: impl Arguments) -> Guarded {
        let args = [vec!["--ticket-file".to_owned(), "ticket".to_owned()], args.words()].concat();
        let sender = self.start("server0", [vec!["send".to_owned()], args].concat(), "sender");
        self.scratch.wait_for_ticket();
        sender
    }

    /// What a program has said so far.
    pub fn said(&self, output: &str) -> String {
        self.scratch.told(output) + &self.scratch.told(&format!("{output}.err"))
    }

    /// Waits for a program's end, with this exit code. Returns what it has said.
    #[track_caller]
    pub fn ends(&self, child: Guarded, output: &str, code: i32) -> String {
        let ended = finish(child).0;
        let said = self.said(output);
        assert_eq!(ended, Some(code), "{output}: {said}");
        said
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.lab.take().into_iter().for_each(|lab| drop(lab.down()));
    }
}
