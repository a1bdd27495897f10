//! Ten thousand strangers at the control port, who say nothing or stop in the middle of a handshake.

use std::{
    fs,
    io::Write,
    net::{SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use crate::session::{Scratch, all_well, finish_well, wait_until};
use socket2::{Domain, Socket, Type};

const STRANGERS: usize = 10_000;

/// Opens a connection from one of 50 addresses of the loopback network, without waiting for it.
fn knock(to: SocketAddr, number: usize) -> Option<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).ok()?;
    socket.set_nonblocking(true).ok()?;
    socket.bind(&SocketAddr::from(([127, 0, 0, 1 + (number % 50) as u8], 0)).into()).ok()?;
    // It goes on by itself.
    _ = socket.connect(&to.into());
    Some(socket)
}

/// The beginning of a ClientHello, and no more of it (RFC 8446, 4.1.2).
fn begin_handshake(socket: &Socket) {
    _ = (&*socket).write(&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]);
}

fn of_process(id: u32, key: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn strangers_keep_no_receiver_out_and_cost_little() {
    treecast_host::file_limit::raise();
    let scratch = Scratch::with_file("file", 2_000_000);
    let sender = scratch.send("--wait 4 --control 127.0.0.1:0 file");
    let ticket = scratch.ticket();
    let (id, to) = (sender.id(), ticket.control[0]);
    let (is_over, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (opened, descriptors, memory_kb) = thread::scope(|scope| {
        let strangers = scope.spawn(|| {
            let (mut sockets, mut descriptors, mut memory_kb) = (Vec::new(), 0, 0);
            for number in 0..STRANGERS {
                sockets.extend(knock(to, number));
                if number % 100 == 99 {
                    sockets[number - 99..].iter().step_by(2).for_each(begin_handshake);
                    let open = fs::read_dir(format!("/proc/{id}/fd")).map_or(0, Iterator::count);
                    descriptors = descriptors.max(open);
                    memory_kb = memory_kb.max(of_process(id, "RssAnon:"));
                    count.store(number + 1, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(5));
                }
            }
            // They stay until the session is over.
            while !is_over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(10));
            }
            (sockets.len(), descriptors, memory_kb)
        });
        // Two come in the middle of the crowd; the session starts with the last two, when all strangers are there.
        wait_until("strangers come", || count.load(Ordering::Relaxed) > STRANGERS / 4);
        let early = ["a", "b"].map(|into| scratch.receive(into, ""));
        wait_until("all strangers are there", || count.load(Ordering::Relaxed) == STRANGERS);
        let late = ["c", "d"].map(|into| scratch.receive(into, ""));
        all_well(early.into_iter().chain(late));
        is_over.store(true, Ordering::Relaxed);
        strangers.join().unwrap()
    });
    finish_well(sender);
    assert!(opened > STRANGERS * 9 / 10, "{opened}");
    assert!(descriptors < 400, "{descriptors} descriptors");
    assert!(memory_kb < 100_000, "{memory_kb} KiB");
    ["a/file", "b/file", "c/file", "d/file"].iter().for_each(|copy| scratch.assert_file(copy, 2_000_000));
    assert!(TcpStream::connect(to).is_err(), "the sender has ended");
}
