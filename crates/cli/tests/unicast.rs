//! `treecast unicast` over loopback, as programs.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::{TcpListener, TcpStream, UdpSocket},
    path::{Path, PathBuf},
    process::Command,
    thread::sleep,
    time::Duration,
};

use crate::session::{Guarded, Scratch, finish_well, only_refused, start, treecast};

/// A server, once it says that it serves.
fn serve(transport: &str, file: &Path, address: &str) -> Guarded {
    let mut command = treecast();
    command.args(["unicast", "server", transport, "--json"]).arg(file).arg(address);
    let mut child = start(&mut command);
    let mut first = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("\"ready\""), "{first}");
    child
}

fn client(transport: &str, copy: &Path, address: &str) -> Guarded {
    start(treecast().args(["unicast", "client", transport]).arg(copy).arg(address))
}

fn free_address() -> String {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // Free for both, as far as one can know.
    UdpSocket::bind(tcp).unwrap();
    tcp.to_string()
}

#[test]
fn several_clients_get_the_file_over_both_transports() {
    let scratch = Scratch::new();
    for (transport, len) in [("tcp", 3_000_001), ("udp", 3_000_001), ("tcp", 0), ("udp", 0), ("udp", 7)] {
        let file = scratch.file(&format!("{transport}-{len}"), len);
        let address = free_address();
        let _server = serve(transport, &file, &address);
        let copies: Vec<PathBuf> =
            (0..4).map(|number| scratch.path(&format!("copy-{transport}-{len}-{number}"))).collect();
        let clients: Vec<Guarded> = copies.iter().map(|copy| client(transport, copy, &address)).collect();
        for (child, copy) in clients.into_iter().zip(&copies) {
            finish_well(child);
            assert!(fs::read(copy).unwrap() == fs::read(&file).unwrap(), "{transport} {len}");
        }
    }
}

#[test]
fn a_client_may_come_before_its_server() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 100_000);
    for transport in ["tcp", "udp"] {
        let address = free_address();
        let copy = scratch.path(&format!("copy-{transport}"));
        let early = client(transport, &copy, &address);
        std::thread::sleep(std::time::Duration::from_millis(300));
        let _server = serve(transport, &file, &address);
        finish_well(early);
        assert!(fs::read(copy).unwrap() == fs::read(&file).unwrap(), "{transport}");
    }
}

/// The processor time of a process, in hundredths of a second.
fn processor_time(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn a_server_without_descriptors_waits_until_a_client_has_left() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 1000);
    let address = free_address();
    let server = serve("tcp", &file, &address);
    let process = server.id().to_string();
    // A client takes three descriptors, so that two of them leave none for the next connection.
    let open: Vec<String> = (fs::read_dir(format!("/proc/{process}/fd")).unwrap())
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let most = (0..).filter(|number: &u32| !open.contains(&number.to_string())).nth(5).unwrap() + 1;
    let mut limit = Command::new("prlimit");
    assert!(limit.args(["--pid", &process, &format!("--nofile={most}")]).status().unwrap().success());
    let idle: Vec<TcpStream> = (0..9).map(|_| TcpStream::connect(&address).unwrap()).collect();
    sleep(Duration::from_millis(200));
    let before = processor_time(server.id());
    sleep(Duration::from_secs(1));
    let used = processor_time(server.id()) - before;
    assert!(used < 20, "{used} hundredths of a second");
    drop(idle);
    finish_well(client("tcp", &scratch.path("copy"), &address));
}

#[test]
fn bad_input_is_one_line_and_leaves_nothing() {
    let scratch = Scratch::with_file("file", 10);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("unicast server tcp file {}", taken.local_addr().unwrap());
    only_refused(&mut scratch.command(taken), &["in use"]);
    only_refused(&mut scratch.command("unicast server tcp missing 127.0.0.1"), &["missing"]);
    assert_eq!(scratch.names(""), ["file"]);
}
