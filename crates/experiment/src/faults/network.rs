//! Faults between a receiver and the sender: the receiver's address changes, or its connection dies silently.
//!
//! A classic BPF filter on the receiver's interface cuts a connection: it drops the connection's packets in
//! both directions and answers nothing. `iproute2` sets it up, so neither `nft` nor a connection tracker is
//! needed.

use std::{
    fs, io,
    net::{Ipv4Addr, Ipv6Addr},
    process::{Command, Stdio},
};

use treecast_lab::{Error, Interface, Lab, LabNode, Result};

/// The state of an established connection in `/proc/net/tcp`.
const ESTABLISHED: &str = "01";

/// The ports of both ends of an established TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ports {
    own: u16,
    peer: u16,
}

/// Replaces the addresses of a node's first interface by other ones, or the other way round.
pub fn change_addresses(lab: &Lab, node: &str, is_changed: bool) -> Result<()> {
    let (_, interface) = first_interface(lab, node)?;
    let usual = (interface.v6, interface.v4);
    let [mut v6, mut v4] = [usual.0.octets().to_vec(), usual.1.octets().to_vec()];
    v6[14] ^= 0x10;
    v4[3] ^= 0x40;
    let other = (
        <[u8; 16]>::try_from(v6).map_or(usual.0, Ipv6Addr::from),
        <[u8; 4]>::try_from(v4).map_or(usual.1, Ipv4Addr::from),
    );
    let (new, old) = if is_changed { (other, usual) } else { (usual, other) };
    let (name, v6_length, v4_length) = (&interface.name, interface.v6_length, interface.v4_length);
    let add = |address: String| format!("ip addr add {address} dev {name}");
    let delete = |address: String| format!("ip addr del {address} dev {name}");
    // Otherwise the new address would be removed with the old one.
    let setting = format!("/proc/sys/net/ipv4/conf/{name}/promote_secondaries");
    let written = lab.enter(node, || fs::write(&setting, "1"))?;
    written.map_err(Error::system(format!("set {setting} of {node}")))?;
    let commands = [
        add(format!("{}/{v6_length}", new.0)) + " nodad",
        add(format!("{}/{v4_length}", new.1)),
        delete(format!("{}/{v6_length}", old.0)),
        delete(format!("{}/{v4_length}", old.1)),
    ];
    run(lab, node, &commands)
}

/// Drops all packets of the node's present connections from now on, silently. With `resets`, the node's own
/// programs are told that the connections are over, as behind a NAT that has forgotten them. Their peers are
/// not told.
pub fn cut_connections(lab: &Lab, node: &str, resets: bool) -> Result<()> {
    let (_, interface) = first_interface(lab, node)?;
    let name = &interface.name;
    // This fails if there is a filter already.
    _ = run(lab, node, &[format!("tc qdisc add dev {name} clsact")]);
    for ports in
        lab.enter(node, connections)?.map_err(Error::system(format!("list connections of {node}")))?
    {
        let filter =
            |hook, ports| format!("tc filter add dev {name} {hook} bpf bytecode {} da", program(ports));
        let Ports { own, peer } = ports;
        run(lab, node, &[filter("egress", ports), filter("ingress", Ports { own: peer, peer: own })])?;
        if resets {
            run(lab, node, &[format!("ss -K state established sport = :{own} and dport = :{peer}")])?;
        }
    }
    Ok(())
}

/// Stops dropping packets of the node's connections.
pub fn mend_connections(lab: &Lab, node: &str) -> Result<()> {
    let name = &first_interface(lab, node)?.1.name;
    run(lab, node, &[format!("tc qdisc del dev {name} clsact")])
}

fn first_interface<'a>(lab: &'a Lab, node: &str) -> Result<(&'a LabNode, &'a Interface)> {
    let node = lab.node(node)?;
    let first = node.interfaces.first().ok_or_else(|| Error::NoInterface { node: node.name.clone() })?;
    Ok((node, first))
}

/// The established connections of this thread's network, except those to itself.
fn connections() -> io::Result<Vec<Ports>> {
    let mut found = Vec::new();
    for table in ["tcp", "tcp6"] {
        let text = fs::read_to_string(format!("/proc/thread-self/net/{table}"))?;
        found.extend(text.lines().filter_map(parse_connection));
    }
    Ok(found)
}

/// Parses a line of `/proc/net/tcp`: number, own address and port, the peer's, state, and more.
fn parse_connection(line: &str) -> Option<Ports> {
    let mut words = line.split_whitespace().skip(1);
    let port = |word: &str| u16::from_str_radix(word.rsplit_once(':')?.1, 16).ok();
    let ports = Ports { own: port(words.next()?)?, peer: port(words.next()?)? };
    (words.next()? == ESTABLISHED).then_some(ports)
}

/// A filter that drops TCP packets between two ports, in IPv6 without extension headers and in IPv4 without
/// options.
fn program(Ports { own, peer }: Ports) -> String {
    const DROP: u32 = 2;
    const GO_ON: u32 = u32::MAX;
    let (half, byte, equal, give) = (40, 48, 21, 6);
    // Each instruction: the operation, how many instructions to skip if it holds and if not, and the operand.
    let instructions = [
        (half, 0, 0, 12),
        (equal, 0, 6, 0x86dd),
        (byte, 0, 0, 20),
        (equal, 0, 12, 6),
        (half, 0, 0, 54),
        (equal, 0, 10, u32::from(own)),
        (half, 0, 0, 56),
        (equal, 7, 8, u32::from(peer)),
        (equal, 0, 7, 0x0800),
        (byte, 0, 0, 23),
        (equal, 0, 5, 6),
        (half, 0, 0, 34),
        (equal, 0, 3, u32::from(own)),
        (half, 0, 0, 36),
        (equal, 0, 1, u32::from(peer)),
        (give, 0, 0, DROP),
        (give, 0, 0, GO_ON),
    ];
    let texts = instructions.map(|(operation, yes, no, operand)| format!("{operation} {yes} {no} {operand}"));
    format!("{},{}", texts.len(), texts.join(","))
}

/// Runs commands in a node, one after the other.
fn run(lab: &Lab, node: &str, commands: &[String]) -> Result<()> {
    for line in commands {
        // The program is one word that contains spaces.
        let (line, bytecode) = match line.split_once(" bytecode ") {
            Some((before, bytecode)) => (before, bytecode.strip_suffix(" da")),
            None => (line.as_str(), None),
        };
        let mut words = line.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        if let Some(bytecode) = bytecode {
            command.args(["bytecode", bytecode, "da"]);
        }
        let failed = || Error::system(format!("run `{line}` in {node}"));
        let output = lab.spawn(node, command)?.wait_with_output().map_err(failed())?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(failed()(io::Error::other(reason)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_established_connections() {
        let established =
            "   0: 000000000000000000000000010000FD:9C40 000000000000000000000000020000FD:1B58 01 0000";
        assert_eq!(parse_connection(established), Some(Ports { own: 40_000, peer: 7000 }));
        let listening = "   1: 00000000:1B58 00000000:0000 0A 00000000:00000000 00:00000000 00000000";
        assert_eq!(parse_connection(listening), None);
        assert_eq!(parse_connection("  sl  local_address rem_address   st tx_queue"), None);
    }

    /// Jumps are counted from the next instruction, and end at the last one or the one before.
    #[test]
    fn the_filter_ends_where_it_should() {
        let text = program(Ports { own: 40_000, peer: 7000 });
        let instructions: Vec<Vec<u32>> = text
            .split(',')
            .skip(1)
            .map(|one| one.split(' ').map(|word| word.parse().expect("a number")).collect())
            .collect();
        let verdict = |packet: &dyn Fn(u32) -> u32| {
            let (mut at, mut value) = (0, 0);
            loop {
                let one = &instructions[at];
                at += 1;
                match one[0] {
                    6 => return one[3],
                    21 => at += if value == one[3] { one[1] } else { one[2] } as usize,
                    _ => value = packet(one[3]),
                }
            }
        };
        let ipv6 = |own, peer, next| {
            move |offset| match offset {
                12 => 0x86dd,
                20 => next,
                54 => own,
                56 => peer,
                _ => 0,
            }
        };
        let ipv4 = |own, peer| {
            move |offset| match offset {
                12 => 0x0800,
                23 => 6,
                34 => own,
                36 => peer,
                _ => 0,
            }
        };
        assert_eq!(verdict(&ipv6(40_000, 7000, 6)), 2);
        assert_eq!(verdict(&ipv4(40_000, 7000)), 2);
        for other in [ipv6(40_000, 7001, 6), ipv6(40_001, 7000, 6), ipv6(40_000, 7000, 17)] {
            assert_eq!(verdict(&other), u32::MAX);
        }
        assert_eq!(verdict(&ipv4(7000, 40_000)), u32::MAX);
        assert_eq!(verdict(&|_| 0x0806), u32::MAX);
    }
}
