//! Topology files, in TOML:
//!
//! ```toml
//! name = "campus"                            # the lab's name unless --name says otherwise
//!
//! [cables.gigabit]                           # what cables are like; rate, queue, loss, delay, jitter
//! rate = "1G"
//! [cables.radio]
//! like = "gigabit"                           # takes over what it does not set itself
//! loss = "5%"
//!
//! [nodes]
//! server0 = { role = "server" }
//! router0 = { role = "router", addresses = ["fd00:ffff::1"] }
//! client = { role = "client", count = 20 }   # client0 to client19
//!
//! [lans.hall]
//! nodes = ["router0", "client*"]             # every node whose name starts so
//! cable = "gigabit"
//! prefixes = ["fd00:1::/64", "10.1.0.0/24"]
//! [lans.hall.ends.client3]                   # what is different at one end
//! cable = "radio"
//! interface = "wlan0"
//! addresses = ["fd00:1::99"]
//!
//! [links.uplink]                             # two nodes, no bridge between them
//! nodes = ["server0", "router0"]
//! delay = "10ms"
//! ```
//!
//! Rate and queue hold for every cable of a LAN or link, both ways; loss, delay and jitter too, loss
//! being what the node at the end of the cable loses of what it is sent.

use std::collections::HashMap;
use std::net::IpAddr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use treecast_host::text::line_of;

use super::check::check_count;
use super::draft::{Draft, DraftMember, DraftNetwork, DraftNode};
use super::error::SpecError;
use super::{NetworkKind, Quality, Role, Subnet, Topology};

/// See [`Topology::from_toml`].
pub(super) fn parse(text: &str, file_name: &str) -> Result<Topology, SpecError> {
    let source = Source { text, file: file_name };
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map(|span| source.line(span.start));
        SpecError::new(file_name, line, error.message().replace('\n', " "))
    })?;
    let mut top = Section::new(&source, "the file", 0, table.get_ref());
    let name = top.take("name").map(|name| name.string()).transpose()?;
    let cables = Cables::read(top.take_section("cables")?)?;
    let nodes = read_nodes(top.take_section("nodes")?)?;
    let mut networks = read_networks(top.take_section("lans")?, NetworkKind::Lan, &cables, &nodes)?;
    networks.extend(read_networks(top.take_section("links")?, NetworkKind::Link, &cables, &nodes)?);
    top.finish("name, cables, nodes, lans and links")?;
    let name = name.unwrap_or_else(|| lab_name(file_name));
    Draft { file: file_name, name, nodes, networks }.finish()
}

/// The lab's default name: `labs/x/Campus.toml` makes a lab called `campus`.
fn lab_name(file_name: &str) -> String {
    let stem = std::path::Path::new(file_name).file_stem().unwrap_or_default();
    stem.to_string_lossy().to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-")
}

fn read_nodes(section: Option<Section>) -> Result<Vec<DraftNode>, SpecError> {
    const MAX_COUNT: usize = 4000;
    let mut nodes = Vec::new();
    for (name, value) in section.into_iter().flat_map(Section::into_values) {
        let line = Some(value.line());
        let mut entry = value.section()?;
        let role =
            entry.take("role").ok_or_else(|| value.wrong("role is missing: server, client or router"))?;
        let role = parse_role(&role)?;
        let count = entry.take("count").map(|count| count.integer(1..=MAX_COUNT)).transpose()?;
        let mut loopback_v6 = Vec::new();
        for address in entry.take("addresses").map(|list| list.list()).transpose()?.unwrap_or_default() {
            loopback_v6.push(address.parse("an IPv6 address")?);
        }
        entry.finish("role, count and addresses")?;
        let names = count
            .map_or_else(|| vec![name.clone()], |count| (0..count).map(|n| format!("{name}{n}")).collect());
        let node = |name| DraftNode { name, role, loopback_v6: loopback_v6.clone(), line };
        nodes.extend(names.into_iter().map(node));
        check_count(value.source.file, value.line(), "nodes", nodes.len())?;
    }
    Ok(nodes)
}

fn parse_role(value: &Value) -> Result<Role, SpecError> {
    match value.string()?.as_str() {
        "server" => Ok(Role::Server),
        "client" => Ok(Role::Client),
        "router" => Ok(Role::Router),
        other => Err(value.wrong(format!("role {other:?} is unknown: use server, client or router"))),
    }
}

fn read_networks(
    section: Option<Section>,
    kind: NetworkKind,
    cables: &Cables,
    nodes: &[DraftNode],
) -> Result<Vec<DraftNetwork>, SpecError> {
    let values = section.into_iter().flat_map(Section::into_values);
    values.map(|(name, value)| read_network(name, &value, kind, cables, nodes)).collect()
}

fn read_network(
    name: String,
    value: &Value,
    kind: NetworkKind,
    cables: &Cables,
    nodes: &[DraftNode],
) -> Result<DraftNetwork, SpecError> {
    let mut entry = value.section()?;
    let list = entry.take("nodes").ok_or_else(|| value.wrong("nodes is missing: list the nodes it joins"))?;
    let (mut v4, mut v6) = (None, None);
    for prefix in entry.take("prefixes").map(|list| list.list()).transpose()?.unwrap_or_default() {
        match parse_prefix(&prefix)? {
            (IpAddr::V4(base), length) => v4 = Some(Subnet { base, length }),
            (IpAddr::V6(base), length) => v6 = Some(Subnet { base, length }),
        }
    }
    let quality = cables.read_quality(&mut entry, Quality::default())?;
    let mut members = Vec::new();
    for value in list.list()? {
        let names = expand(&value, nodes)?;
        let line = Some(value.line());
        members.extend(
            names.into_iter().map(|node| DraftMember { line, ..DraftMember::of(node, quality.clone()) }),
        );
        check_count(value.source.file, value.line(), "members of a network", members.len())?;
    }
    for (node, end) in entry.take_section("ends")?.into_iter().flat_map(Section::into_values) {
        let member = members.iter_mut().find(|member| member.node == node);
        let member = member.ok_or_else(|| {
            end.wrong(format!("{node} is not among the nodes of {name}: add it there or correct the name"))
        })?;
        read_end(&end, member, cables)?;
    }
    entry.finish("nodes, prefixes, ends, cable, rate, queue, loss, delay, jitter, background and drop")?;
    Ok(DraftNetwork { name, kind, v4, v6, members, trunk: None, line: Some(value.line()) })
}

/// Expands a name, or all nodes whose names start with the text before a `*`.
fn expand(value: &Value, nodes: &[DraftNode]) -> Result<Vec<String>, SpecError> {
    let name = value.string()?;
    let Some(prefix) = name.strip_suffix('*') else { return Ok(vec![name]) };
    let matching = nodes.iter().map(|node| &node.name).filter(|node| node.starts_with(prefix));
    let names: Vec<String> = matching.cloned().collect();
    if names.is_empty() {
        Err(value.wrong(format!("no node's name starts with {prefix:?}: define one or correct the name")))
    } else {
        Ok(names)
    }
}

fn read_end(value: &Value, member: &mut DraftMember, cables: &Cables) -> Result<(), SpecError> {
    let mut end = value.section()?;
    member.line = Some(value.line());
    if let Some(interface) = end.take("interface") {
        member.interface = Some(interface.string()?);
    }
    for address in end.take("addresses").map(|list| list.list()).transpose()?.unwrap_or_default() {
        match address.parse("an IPv4 or IPv6 address")? {
            IpAddr::V4(v4) => member.v4 = Some(v4),
            IpAddr::V6(v6) => member.v6 = Some(v6),
        }
    }
    member.quality = cables.read_quality(&mut end, member.quality.clone())?;
    end.finish("interface, addresses, cable, rate, queue, loss, delay, jitter, background and drop")
}

fn parse_prefix(value: &Value) -> Result<(IpAddr, u8), SpecError> {
    let text = value.string()?;
    let parsed = text.split_once('/').and_then(|(base, length)| {
        let (base, length): (IpAddr, u8) = (base.parse().ok()?, length.parse().ok()?);
        let (bits, longest) = match base {
            IpAddr::V4(base) => (u128::from(u32::from(base)) << 96, 30),
            IpAddr::V6(base) => (u128::from(base), 126),
        };
        let is_base = length >= 8 && length <= longest && bits << length == 0;
        is_base.then_some((base, length))
    });
    parsed.ok_or_else(|| {
        value.wrong(format!("{text:?} is no prefix: expected one like fd00:1::/64 or 10.1.0.0/24"))
    })
}

/// The largest number of named cables, and so the longest chain of `like`.
const MAX_CABLES: usize = 500;

/// The named cables, each with the settings that it takes from others.
struct Cables(HashMap<String, Quality>);

impl Cables {
    fn read(section: Option<Section>) -> Result<Self, SpecError> {
        let values: Vec<(String, Value)> = section.into_iter().flat_map(Section::into_values).collect();
        if let Some((_, value)) = values.get(MAX_CABLES) {
            return Err(value.wrong(format!("one cable too many: {MAX_CABLES} can be named")));
        }
        let mut cables = Self(HashMap::new());
        for (name, _) in &values {
            cables.resolve(name, &values, &mut Vec::new())?;
        }
        Ok(cables)
    }

    /// Follows `like` from cable to cable. `path` has the cables so far.
    fn resolve(
        &mut self,
        name: &str,
        values: &[(String, Value)],
        path: &mut Vec<String>,
    ) -> Result<(), SpecError> {
        let Some((_, value)) = values.iter().find(|(known, _)| known == name) else { return Ok(()) };
        path.push(name.to_owned());
        if path[..path.len() - 1].iter().any(|seen| seen == name) {
            return Err(value.wrong(format!(
                "a loop of names: {}: let one of them stand by itself",
                path.join(" like ")
            )));
        }
        if self.0.contains_key(name) {
            return Ok(());
        }
        let mut entry = value.section()?;
        let mut quality = Quality::default();
        if let Some(like) = entry.take("like") {
            self.resolve(&like.string()?, values, path)?;
            quality = self.named(&like)?;
        }
        let quality = self.read_quality(&mut entry, quality)?;
        entry.finish("like, rate, queue, loss, delay, jitter, background and drop")?;
        self.0.insert(name.to_owned(), quality);
        Ok(())
    }

    fn named(&self, value: &Value) -> Result<Quality, SpecError> {
        let name = value.string()?;
        let known = self.0.get(&name).cloned();
        known.ok_or_else(|| value.wrong(format!("there is no cable {name}: define [cables.{name}]")))
    }

    /// Reads the cable and its settings from `section`. What is not set stays as in `quality`.
    fn read_quality(&self, section: &mut Section, mut quality: Quality) -> Result<Quality, SpecError> {
        if let Some(cable) = section.take("cable") {
            quality = self.named(&cable)?;
        }
        for key in Quality::KEYS {
            let Some(value) = section.take(key) else { continue };
            let text = value.string()?;
            let outcome = quality.set(key, &text).unwrap_or(Ok(()));
            outcome.map_err(|expected| value.wrong(format!("{key} = {text:?}: expected {expected}")))?;
        }
        if quality.jitter > quality.delay {
            let message = "jitter is more than delay: a packet cannot arrive before it is sent";
            return Err(SpecError::new(section.source.file, section.line, message));
        }
        Ok(quality)
    }
}

/// The file, which converts the position of a byte into a line.
struct Source<'a> {
    text: &'a str,
    file: &'a str,
}

impl Source<'_> {
    fn line(&self, offset: usize) -> usize {
        line_of(self.text, offset)
    }
}

/// A table. Every key must be read; otherwise it is unknown.
struct Section<'a> {
    source: &'a Source<'a>,
    line: usize,
    what: String,
    entries: Vec<(String, usize, &'a Spanned<DeValue<'a>>)>,
}

impl<'a> Section<'a> {
    fn new(source: &'a Source<'a>, what: &str, line: usize, table: &'a DeTable<'a>) -> Self {
        let entry = |(key, value): (&'a Spanned<_>, _)| {
            let name: &std::borrow::Cow<'a, str> = key.get_ref();
            (name.clone().into_owned(), key.span().start, value)
        };
        let mut entries: Vec<_> = table.iter().map(entry).collect();
        entries.sort_by_key(|(_, start, _)| *start);
        Self { source, line, what: what.to_owned(), entries }
    }

    fn take(&mut self, key: &str) -> Option<Value<'a>> {
        let position = self.entries.iter().position(|(name, ..)| name == key)?;
        let (name, start, value) = self.entries.remove(position);
        Some(Value { source: self.source, name, start, value })
    }

    fn take_section(&mut self, key: &str) -> Result<Option<Section<'a>>, SpecError> {
        self.take(key).map(|value| value.section()).transpose()
    }

    /// The entries in the order of the file.
    fn into_values(self) -> impl Iterator<Item = (String, Value<'a>)> {
        let source = self.source;
        let value =
            move |(name, start, value): (String, _, _)| (name.clone(), Value { source, name, start, value });
        self.entries.into_iter().map(value)
    }

    /// Refuses keys that were not read.
    fn finish(self, known: &str) -> Result<(), SpecError> {
        let Some((name, start, _)) = self.entries.first() else { return Ok(()) };
        let message = format!("unknown key {name:?} in {}: it has {known}", self.what);
        Err(SpecError::new(self.source.file, self.source.line(*start), message))
    }
}

/// A value with its key and its position.
struct Value<'a> {
    source: &'a Source<'a>,
    name: String,
    start: usize,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Value<'a> {
    fn line(&self) -> usize {
        self.source.line(self.start)
    }

    fn wrong(&self, message: impl Into<String>) -> SpecError {
        SpecError::new(self.source.file, self.line(), message)
    }

    fn expected(&self, what: &str) -> SpecError {
        self.wrong(format!(
            "{} is of type {}: {what} was expected",
            self.name,
            self.value.get_ref().type_str()
        ))
    }

    fn string(&self) -> Result<String, SpecError> {
        match self.value.get_ref() {
            DeValue::String(text) => Ok(text.clone().into_owned()),
            _ => Err(self.expected("a string")),
        }
    }

    fn integer(&self, range: std::ops::RangeInclusive<usize>) -> Result<usize, SpecError> {
        let number = match self.value.get_ref() {
            DeValue::Integer(number) => usize::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        let expected = || {
            self.wrong(format!("{} must be a number from {} to {}", self.name, range.start(), range.end()))
        };
        number.filter(|number| range.contains(number)).ok_or_else(expected)
    }

    fn list(&self) -> Result<Vec<Value<'a>>, SpecError> {
        let DeValue::Array(array) = self.value.get_ref() else { return Err(self.expected("a list")) };
        let value = |value: &'a Spanned<DeValue<'a>>| {
            let (source, name) = (self.source, self.name.clone());
            Value { source, name, start: value.span().start, value }
        };
        Ok(array.iter().map(value).collect())
    }

    fn section(&self) -> Result<Section<'a>, SpecError> {
        let DeValue::Table(table) = self.value.get_ref() else { return Err(self.expected("a table")) };
        Ok(Section::new(self.source, &self.name, self.line(), table))
    }

    fn parse<T: std::str::FromStr>(&self, what: &str) -> Result<T, SpecError> {
        let text = self.string()?;
        text.parse().map_err(|_| self.wrong(format!("{text:?} is not {what}")))
    }
}
