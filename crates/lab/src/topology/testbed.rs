//! The testbed files of meadcast-thesis-2024 (listing A.2, section 4.4.2): stub networks with clients
//! behind routers, transit links between routers, and OSPF areas.
//!
//! Routers are called `r1`, clients `c10-1` (the first of network 10), and a router's interface after
//! what it leads to. Addresses are `fd14::<area>:<network>:<client>`, the numbers' decimal digits
//! taken as they are. The thesis leaves the routers' addresses open: here a router is
//! `fd14::<area>:0:<router>` (of the area that it summarises, where it is on a boundary), a stub
//! network's router ends in `ffff`, and transit link n is network `f00n` of its area. Areas thus are
//! prefixes of 96 bits, as their boundaries publish them, and routes come out as few as OSPF's.
//!
//! `mgm_gw` is read over: the lab starts programs itself and needs no management network. So are
//! comments and commas after the last element, both of which the listing has.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use serde::Deserialize;
use serde_json::value::RawValue;
use treecast_host::text::line_of;

use super::check::check_count;
use super::draft::{Draft, DraftMember, DraftNetwork, DraftNode};
use super::error::SpecError;
use super::{AreaRange, NetworkKind, Quality, Role, Subnet, Topology};

/// The thesis' own testbed (listing A.2), so that it can be named without the file.
pub(super) const OF_THESIS: &str = include_str!("../../../../labs/meadcast/testbed.json");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File<'a> {
    stub_range: String,
    tran_range: String,
    #[serde(rename = "mgm_gw")]
    _management_gateway: Option<String>,
    #[serde(borrow)]
    stubs: Vec<&'a RawValue>,
    #[serde(borrow)]
    trans: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    area_boundary: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stub {
    id: u16,
    mask: u8,
    area: u16,
    router: u16,
    clients: u16,
}

/// A link between two routers, and its area.
#[derive(Deserialize)]
struct Transit((u16, u16), u16);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Boundary {
    id: u16,
    area: u16,
    mask: u8,
}

/// The number before that of an area's first transit link.
const TRANSIT_NETWORKS: u16 = 0xf000;

/// The host number of a stub network's router.
const STUB_ROUTER: u16 = 0xffff;

pub(super) fn parse(text: &str, path: &str) -> Result<Topology, SpecError> {
    let text = plain_json(text);
    let source = Source { text: &text, path };
    let file: File = serde_json::from_str(&text).map_err(|error| source.refused(&error, 0))?;
    let stub_base = source.range("stub_range", &file.stub_range)?;
    let transit_base = source.range("tran_range", &file.tran_range)?;
    let stubs: Vec<(usize, Stub)> = source.all(&file.stubs)?;
    let transits: Vec<(usize, Transit)> = source.all(&file.trans)?;
    let boundaries: Vec<(usize, Boundary)> = source.all(&file.area_boundary)?;
    let routers = source.routers(&stubs, &transits, &boundaries)?;

    let name = std::path::Path::new(path).file_stem().unwrap_or_default();
    let name = name.to_string_lossy().to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let mut draft = Draft { file: path, name, nodes: Vec::new(), networks: Vec::new() };
    for (id, router) in &routers {
        let address = source.address(stub_base, router.line, [router.area, 0, *id])?;
        let (name, role, line) = (format!("r{id}"), Role::Router, Some(router.line));
        draft.nodes.push(DraftNode { name, role, loopback_v6: vec![address], line });
    }
    for (line, stub) in &stubs {
        add_stub(&mut draft, &source, stub_base, *line, stub)?;
    }
    let mut of_area = BTreeMap::new();
    for (line, transit) in &transits {
        let number = of_area.entry(transit.1).or_insert(TRANSIT_NETWORKS);
        *number += 1;
        add_transit(&mut draft, &source, transit_base, (*line, *number), transit)?;
    }
    let mut topology = draft.finish()?;
    let areas = stubs.iter().map(|(_, stub)| stub.area).chain(transits.iter().map(|(_, transit)| transit.1));
    topology.networks.iter_mut().zip(areas).for_each(|(network, area)| network.area = area);
    for (line, Boundary { id, area, mask }) in &boundaries {
        let prefix = Subnet { base: source.address(stub_base, *line, [*area, 0, 0])?, length: *mask };
        let router = routers.keys().position(|router| router == id);
        topology.area_ranges.extend(router.map(|router| AreaRange { router, area: *area, prefix }));
    }
    Ok(topology)
}

fn add_stub(
    draft: &mut Draft,
    source: &Source,
    base: u128,
    line: usize,
    stub: &Stub,
) -> Result<(), SpecError> {
    if stub.mask != 112 {
        let message = format!("mask {} is no good: fd14::<area>:<network>:<client> has 112 bits", stub.mask);
        return Err(SpecError::new(source.path, line, message));
    }
    check_count(source.path, line, "nodes", draft.nodes.len() + usize::from(stub.clients))?;
    let network = format!("net{}", stub.id);
    let router = Ipv6Addr::from(
        u128::from(source.address(base, line, [stub.area, stub.id, 0])?) | u128::from(STUB_ROUTER),
    );
    let mut members = vec![member(format!("r{}", stub.router), Some(network.clone()), router, line)];
    for client in 1..=stub.clients {
        let name = format!("c{}-{client}", stub.id);
        members.push(member(
            name.clone(),
            None,
            source.address(base, line, [stub.area, stub.id, client])?,
            line,
        ));
        draft.nodes.push(DraftNode { name, role: Role::Client, loopback_v6: Vec::new(), line: Some(line) });
    }
    let prefix = Subnet { base: source.address(base, line, [stub.area, stub.id, 0])?, length: 112 };
    let (kind, v6) = (NetworkKind::Lan, Some(prefix));
    draft.networks.push(DraftNetwork {
        name: network,
        kind,
        v4: None,
        v6,
        members,
        trunk: None,
        line: Some(line),
    });
    Ok(())
}

fn add_transit(
    draft: &mut Draft,
    source: &Source,
    base: u128,
    (line, number): (usize, u16),
    transit: &Transit,
) -> Result<(), SpecError> {
    let Transit((a, b), area) = transit;
    let prefix = base | u128::from(source.digits(line, *area)?) << 32 | u128::from(number) << 16;
    let end = |router: &u16, other: &u16, host: u128| {
        member(format!("r{router}"), Some(format!("r{other}")), Ipv6Addr::from(prefix | host), line)
    };
    draft.networks.push(DraftNetwork {
        name: format!("r{a}-r{b}"),
        kind: NetworkKind::Link,
        v4: None,
        v6: Some(Subnet { base: prefix.into(), length: 112 }),
        members: vec![end(a, b, 1), end(b, a, 2)],
        trunk: None,
        line: Some(line),
    });
    Ok(())
}

fn member(node: String, interface: Option<String>, v6: Ipv6Addr, line: usize) -> DraftMember {
    let line = Some(line);
    DraftMember { interface, v6: Some(v6), line, ..DraftMember::of(node, Quality::default()) }
}

/// A router, and the line where the file first mentions it.
struct Router {
    area: u16,
    line: usize,
}

struct Source<'a> {
    text: &'a str,
    path: &'a str,
}

impl Source<'_> {
    /// Reads each element, together with its line.
    fn all<T: for<'de> Deserialize<'de>>(
        &self,
        elements: &[&RawValue],
    ) -> Result<Vec<(usize, T)>, SpecError> {
        let read = |element: &&RawValue| {
            let offset = (element.get().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
            let line = line_of(self.text, offset);
            let value =
                serde_json::from_str(element.get()).map_err(|error| self.refused(&error, line - 1))?;
            Ok((line, value))
        };
        elements.iter().map(read).collect()
    }

    /// All routers of transit links. Routers of stubs and boundaries must be among them.
    fn routers(
        &self,
        stubs: &[(usize, Stub)],
        transits: &[(usize, Transit)],
        boundaries: &[(usize, Boundary)],
    ) -> Result<BTreeMap<u16, Router>, SpecError> {
        let mut routers = BTreeMap::new();
        for (line, Transit((a, b), area)) in transits {
            for router in [a, b] {
                routers.entry(*router).or_insert(Router { area: *area, line: *line });
            }
        }
        let dangling = |line: usize, router: u16| {
            let message = format!("router {router} is in no element of \"trans\": link it to another router");
            SpecError::new(self.path, line, message)
        };
        for (line, stub) in stubs {
            routers.get_mut(&stub.router).ok_or_else(|| dangling(*line, stub.router))?.area = stub.area;
        }
        for (line, boundary) in boundaries {
            if boundary.mask != 96 {
                let message = format!("mask {} is no good: an area's prefix has 96 bits", boundary.mask);
                return Err(SpecError::new(self.path, *line, message));
            }
            routers.get_mut(&boundary.id).ok_or_else(|| dangling(*line, boundary.id))?.area = boundary.area;
        }
        Ok(routers)
    }

    /// Parses the base of a range, which must leave room for area, network and client.
    fn range(&self, key: &str, value: &str) -> Result<u128, SpecError> {
        let parsed = value.split_once('/').and_then(|(base, length)| {
            let (base, length): (Ipv6Addr, u8) = (base.parse().ok()?, length.parse().ok()?);
            (length <= 80 && u128::from(base) << 80 == 0).then_some(u128::from(base))
        });
        parsed.ok_or_else(|| {
            let at = self.text.find(key).unwrap_or(0);
            let line = line_of(self.text, at);
            SpecError::new(
                self.path,
                line,
                format!("{key} {value:?} is no prefix of at most 80 bits: expected one like fd14::/32"),
            )
        })
    }

    fn address(
        &self,
        base: u128,
        line: usize,
        [area, network, host]: [u16; 3],
    ) -> Result<Ipv6Addr, SpecError> {
        let [area, network, host] =
            [self.digits(line, area)?, self.digits(line, network)?, self.digits(line, host)?];
        Ok(Ipv6Addr::from(base | u128::from(area) << 32 | u128::from(network) << 16 | u128::from(host)))
    }

    /// Converts a number to digits of an address: 47 becomes 0x47, which an address shows as `47`.
    fn digits(&self, line: usize, number: u16) -> Result<u16, SpecError> {
        u16::from_str_radix(&number.to_string(), 16).map_err(|_| {
            let message = format!("{number} does not fit an address: numbers go up to 9999");
            SpecError::new(self.path, line, message)
        })
    }

    fn refused(&self, error: &serde_json::Error, lines_before: usize) -> SpecError {
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or(&message);
        SpecError::new(self.path, lines_before + error.line(), message)
    }
}

/// Replaces comments, and commas before a closing bracket, by spaces. The numbers of lines stay the same.
fn plain_json(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut in_string = false;
    while let Some(c) = rest.next() {
        match c {
            '\\' if in_string => {
                plain.push(c);
                plain.extend(rest.next());
                continue;
            }
            '"' => in_string = !in_string,
            '/' if !in_string && rest.peek() == Some(&'*') => {
                blank_comment(&mut rest, &mut plain);
                continue;
            }
            ']' | '}' if !in_string => drop_last_comma(&mut plain),
            _ => (),
        }
        plain.push(c);
    }
    plain
}

fn blank_comment(rest: &mut impl Iterator<Item = char>, plain: &mut String) {
    let mut previous = ' ';
    for c in rest {
        if c == '\n' {
            plain.push(c);
        }
        if (previous, c) == ('*', '/') {
            return;
        }
        previous = c;
    }
}

fn drop_last_comma(plain: &mut String) {
    let end = plain.trim_end().len();
    if plain[..end].ends_with(',') {
        plain.replace_range(end - 1..end, " ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"{
        "stub_range": "fd14:0::/32", "tran_range": "fd14:0::/32", "mgm_gw": "10.10.0.1/8",
        "stubs": [
            { "id": 30, "mask": 112, "area": 3, "router": 300, "clients": 2 },
        ],
        "trans": [
            [[3, 300], 3], /* routers, area */
            [[1, 3], 0]
        ],
        "area_boundary": [ { "id": 3, "area": 3, "mask": 96 } ]
    }"#;

    fn refused(from: &str, to: &str) -> String {
        assert!(SMALL.contains(from));
        parse(&SMALL.replace(from, to), "t.json").unwrap_err().to_string()
    }

    #[test]
    fn names_and_addresses_are_the_thesis() {
        let topology = parse(SMALL, "small.json").unwrap();
        let names: Vec<&str> = topology.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["r1", "r3", "r300", "c30-1", "c30-2"]);
        assert_eq!(topology.networks[0].members[1].v6.to_string(), "fd14::3:30:1");
        assert_eq!(topology.nodes[2].loopback_v6[0].to_string(), "fd14::3:0:300");
        assert_eq!(topology.networks[1].members[0].interface, "r300");
        assert_eq!(topology.networks[2].v6.to_string(), "fd14::f001:0/112");
    }

    #[test]
    fn areas_and_their_boundaries_are_kept() {
        let topology = parse(SMALL, "small.json").unwrap();
        let areas: Vec<u16> = topology.networks.iter().map(|network| network.area).collect();
        assert_eq!(areas, [3, 3, 0]);
        let [range] = &topology.area_ranges[..] else { panic!("{:?}", topology.area_ranges) };
        let router = topology.nodes[range.router].name.as_str();
        assert_eq!((router, range.area, range.prefix.to_string().as_str()), ("r3", 3, "fd14::3:0:0/96"));
    }

    #[test]
    fn errors_name_the_line() {
        assert_eq!(
            refused("\"clients\"", "\"guests\""),
            "t.json:4: unknown field `guests`, expected one of `id`, `mask`, `area`, `router`, `clients`"
        );
        assert_eq!(
            refused("\"router\": 300", "\"router\": 301"),
            "t.json:4: router 301 is in no element of \"trans\": link it to another router"
        );
        assert!(refused("{ \"id\": 3,", "{ \"id\": 9,").starts_with("t.json:10: router 9 is in no element"));
        assert!(refused("[[1, 3], 0]", "[[3, 3], 0]").starts_with("t.json:8: "));
        assert!(refused("fd14:0::/32", "fd14:0::/96").starts_with("t.json:2: stub_range"));
        assert!(refused("\"id\": 30", "\"id\": 70000").starts_with("t.json:4: invalid value"));
        assert!(refused("\"id\": 30", "\"id\": 60000").contains("numbers go up to 9999"));
        assert!(refused("[[1, 3], 0]", "[[1, 3], 0").starts_with("t.json:"));
    }

    #[test]
    fn two_stubs_with_one_number_are_refused() {
        let stub = r#"{ "id": 30, "mask": 112, "area": 3, "router": 300, "clients": 2 },"#;
        let text = refused(stub, &format!("{stub}\n{stub}"));
        assert_eq!(text, "t.json:5: a second node is called c30-1: give it another name");
    }
}
