//! `treecast unicast` over loopback, as programs.

mod child;

use std::{
    fs,
    io::{BufRead, BufReader},
    net::{TcpListener, UdpSocket},
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use child::{Guarded, SpawnGuarded};

const TREECAST: &str = env!("CARGO_BIN_EXE_treecast");

/// A folder of one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("treecast-unicast-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, len: u32) -> PathBuf {
        let bytes: Vec<u8> = (0..len).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        fs::write(self.0.join(name), bytes).unwrap();
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server that is killed when the test ends.
struct Server {
    _child: Guarded,
}

impl Server {
    /// Starts it and waits until it says that it serves.
    fn start(transport: &str, file: &PathBuf, address: &str) -> Self {
        let mut child = Command::new(TREECAST)
            .args(["unicast", "server", transport, "--json"])
            .arg(file)
            .arg(address)
            .stdout(Stdio::piped())
            .spawn_guarded();
        let mut first = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
        assert!(first.contains("\"ready\""), "{first}");
        Self { _child: child }
    }
}

fn client(transport: &str, copy: &PathBuf, address: &str) -> Guarded {
    Command::new(TREECAST)
        .args(["unicast", "client", transport])
        .arg(copy)
        .arg(address)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn_guarded()
}

fn free_address() -> String {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // Free for both, as far as one can know.
    UdpSocket::bind(tcp).unwrap();
    tcp.to_string()
}

fn finish(child: Guarded) -> (Output, String) {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, said)
}

#[test]
fn several_clients_get_the_file_over_both_transports() {
    let folder = Folder::new("several");
    for (transport, len) in [("tcp", 3_000_001), ("udp", 3_000_001), ("tcp", 0), ("udp", 0), ("udp", 7)] {
        let file = folder.file(&format!("{transport}-{len}"), len);
        let address = free_address();
        let _server = Server::start(transport, &file, &address);
        let copies: Vec<PathBuf> =
            (0..4).map(|number| folder.0.join(format!("copy-{transport}-{len}-{number}"))).collect();
        let clients: Vec<Guarded> = copies.iter().map(|copy| client(transport, copy, &address)).collect();
        for (child, copy) in clients.into_iter().zip(&copies) {
            let (output, said) = finish(child);
            assert!(output.status.success(), "{transport} {len}: {said}");
            assert!(fs::read(copy).unwrap() == fs::read(&file).unwrap(), "{transport} {len}");
        }
    }
}

#[test]
fn a_client_may_come_before_its_server() {
    let folder = Folder::new("early");
    let file = folder.file("file", 100_000);
    for transport in ["tcp", "udp"] {
        let address = free_address();
        let copy = folder.0.join(format!("copy-{transport}"));
        let early = client(transport, &copy, &address);
        std::thread::sleep(std::time::Duration::from_millis(300));
        let _server = Server::start(transport, &file, &address);
        let (output, said) = finish(early);
        assert!(output.status.success(), "{transport}: {said}");
        assert!(fs::read(copy).unwrap() == fs::read(&file).unwrap(), "{transport}");
    }
}

#[test]
fn bad_input_is_one_line_and_leaves_nothing() {
    let folder = Folder::new("bad");
    let file = folder.file("file", 10);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let missing = folder.0.join("missing").display().to_string();
    let nowhere = file.join("folder/copy").display().to_string();
    let file = file.display().to_string();
    for (arguments, expected) in [
        (["server", "tcp", &missing, "127.0.0.1"], "missing"),
        (["server", "tcp", &file, &taken], "in use"),
        (["server", "udp", &file, "192.0.2.77"], "192.0.2.77"),
        (["client", "tcp", &nowhere, "127.0.0.1"], "file/folder"),
        (["client", "tcp", &missing, "127.0.0.1:1"], "127.0.0.1:1"),
        (["client", "udp", &missing, "[fe80::1]:1"], "[fe80::1]:1"),
    ] {
        let output = Command::new(TREECAST).arg("unicast").args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains(expected) && said.trim_end().lines().count() == 1, "{arguments:?}: {said}");
    }
    let left: Vec<_> = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["file"]);
}
