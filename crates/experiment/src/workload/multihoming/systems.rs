//! The systems of MAST: `treecast mast` at the stub's border router, server and hosts, and at its providers.

use std::{
    fmt::Write,
    fs, io,
    net::{Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde::Deserialize;
use treecast_lab::{Member, Neighbour, Network, Role, Speaker, Subnet, Topology};
use treecast_mast::{
    Prefix,
    message::{ITMP_PORT, SRMP_PORT},
};

use super::{
    plan::PlannedTransfer,
    probes::{Named, look_up},
};
use crate::site::{Program, Said, Site, enter};

/// The name of the stub, and the zone of its hosts.
pub const STUB: &str = "stub";
pub const ZONE: &str = "stub.example.";
/// The name of the TSIG key by which the SRMS updates mDNS.
pub const UPDATE_KEY: &str = "srms.";
/// The stub's LAN, as its configuration names it.
pub const LINK: &str = "lan1";
const HOST: &str = "www";
const DNS_PORT: u16 = 53;

/// The number of the stub's LAN in each of its prefixes, and the interface identifiers in it.
const SUBNET: u16 = 1;
const GATEWAY: u16 = 0x1;
const SERVER: u16 = 0x53;
const INSIDE: u16 = 0x80;

/// The time, in seconds, for which a link must be up until its prefix is encouraged again. The default would be most
/// of a run.
const RECOVERY_SECONDS: u32 = 1;

/// The longest time until all systems are ready, and the time between two looks.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);

/// The program that starts BGP over a tunnel. Its arguments are the folder of the router's frr, the route map for what the
/// neighbour is sent (`to-NAME` when it is empty), and what has happened.
const NEIGHBOUR: &str = r#"to=${2:-to-$MAST_PEER}
frr=$1
ask() { vtysh --vty_socket "$frr" -d bgpd -c 'configure terminal' -c "router bgp $MAST_OWN_AS" "$@"; }
peer=$MAST_INNER_PEER
case $3 in
made)
    ask -c "neighbor $peer remote-as $MAST_PEER_AS" -c "neighbor $peer timers connect 1" \
        -c 'address-family ipv6 unicast' -c "neighbor $peer activate" \
        -c "neighbor $peer route-map from-tunnel in" -c "neighbor $peer route-map $to out"
    ;;
removed) ask -c "no neighbor $peer" ;;
esac
"#;

/// The systems of a stub and its providers. They end when this value is dropped.
pub struct Systems {
    /// The programs, each with its node. The SRMS is the last one.
    programs: Vec<(String, Program)>,
    told: Vec<Told>,
    /// The name of the host inside, and the name server that knows it. It is reached by the prefix whose link stays up.
    pub named: Named,
    pub targets: Targets,
}

/// The addresses at which the systems listen, and the prefix that they protect.
#[derive(Debug, Clone)]
pub struct Targets {
    pub srmp: SocketAddr,
    pub itmp: SocketAddr,
    /// The prefix whose link is cut.
    pub prefix: Prefix,
}

/// An event that a system has told.
#[derive(Debug, Clone)]
pub struct Told {
    pub at: Instant,
    pub node: String,
    pub event: String,
    /// The other fields of the event.
    pub fields: serde_json::Map<String, serde_json::Value>,
}

impl Told {
    /// The event's values in words.
    pub fn words(&self) -> String {
        let values = self.fields.iter().filter(|(key, _)| *key != "time_us");
        let word = |(key, value): (&String, &serde_json::Value)| match value.as_str() {
            Some(text) => format!("{key} {text}"),
            None => format!("{key} {value}"),
        };
        values.map(word).collect::<Vec<_>>().join(", ")
    }
}

#[derive(Deserialize)]
struct Event {
    event: String,
    #[serde(flatten)]
    fields: serde_json::Map<String, serde_json::Value>,
}

/// The facts about the network for the configuration of the stub's systems.
struct Stub<'a> {
    site: &'a dyn Site,
    topology: &'a Topology,
    treecast: &'a Path,
    speaker: &'a Speaker,
    planned: &'a PlannedTransfer,
    /// The node of the stub's DHCP and DNS servers.
    server: &'a Member,
    inside: &'a Member,
    folder: PathBuf,
}

impl Systems {
    /// Starts all systems, and waits until the stub's host has its addresses and every provider a tunnel.
    pub fn start(
        site: &dyn Site,
        treecast: &Path,
        planned: &PlannedTransfer,
        (inside, outside): (&str, SocketAddr),
        stop: &(dyn Fn() -> bool + Sync),
    ) -> io::Result<Self> {
        let stub = Stub::of(site, treecast, planned, inside)?;
        let host_key = stub.write()?;
        let mut systems =
            Self { programs: Vec::new(), told: Vec::new(), named: stub.named()?, targets: stub.targets()? };
        for (node, arguments) in stub.programs(&host_key) {
            let mut command = Command::new(treecast);
            command.arg("mast").args(arguments).arg("--json");
            systems.programs.push((node.clone(), site.start(&node, command)?));
        }
        let end = Instant::now() + PATIENCE;
        for (node, program) in &systems.programs {
            while program.event::<Event>(end).map_err(|error| at(node, &error))?.1.event != "ready" {}
        }
        systems.wait_for_tunnels(stub.speaker.neighbours.len(), end)?;
        let is_ready = || stub.is_ready(&systems.named, outside);
        while let Some(lacking) = is_ready()? {
            if Instant::now() > end || stop() {
                return Err(io::Error::other(format!("MAST is not ready: {lacking}")));
            }
            thread::sleep(LOOK);
        }
        Ok(systems)
    }

    /// Waits until the SRMS has made its end of so many tunnels. Those of an earlier run may still be there, and go first.
    fn wait_for_tunnels(&mut self, count: usize, end: Instant) -> io::Result<()> {
        let Some((node, srms)) = self.programs.last() else { return Ok(()) };
        let mut made = 0;
        while made < count {
            let (at, Event { event, fields }) = srms.event(end).map_err(|error| self::at(node, &error))?;
            made += usize::from(event == "tunnel");
            self.told.push(Told { at, node: node.clone(), event, fields });
        }
        Ok(())
    }

    /// Ends all systems. Returns what they have told since they were ready.
    pub fn end(self) -> Vec<Told> {
        let end = Instant::now() + Duration::from_secs(10);
        let mut told = self.told;
        // The SRMS is asked first, so that it closes its tunnels while providers listen.
        for (node, program) in self.programs.into_iter().rev() {
            program.handle.signal(libc::SIGTERM);
            while let Ok((at, Said::Line(line))) = program.next(end) {
                let Ok(Event { event, fields }) = serde_json::from_str(&line) else { continue };
                told.push(Told { at, node: node.clone(), event, fields });
            }
        }
        told.sort_by_key(|told| told.at);
        told
    }
}

impl<'a> Stub<'a> {
    fn of(
        site: &'a dyn Site,
        treecast: &'a Path,
        planned: &'a PlannedTransfer,
        inside: &'a str,
    ) -> io::Result<Self> {
        let topology = site.topology();
        let lan = topology.networks.iter().find(|network| network.name == planned.lan);
        let members = lan.map_or(&[][..], |network: &Network| &network.members[..]);
        let member = |is_wanted: &dyn Fn(&treecast_lab::Node) -> bool| {
            members.iter().find(|member| is_wanted(&topology.nodes[member.node]))
        };
        let server = member(&|node| node.role == Role::Server);
        let inside = member(&|node| node.name == inside);
        let lacking = || io::Error::other(format!("{} has no server and host", planned.lan));
        let (server, inside) = server.zip(inside).ok_or_else(lacking)?;
        let speaker = topology.speaker(&planned.gateway).ok_or_else(lacking)?;
        let folder = site.folder(&planned.gateway, "mast")?;
        Ok(Self { site, topology, treecast, speaker, planned, server, inside, folder })
    }

    /// Writes all configurations and keys. Returns the public key by which hosts know the DHCP server.
    fn write(&self) -> io::Result<String> {
        fs::write(self.folder.join("neighbour.sh"), NEIGHBOUR)?;
        for name in ["srmp", "tsig"] {
            self.key(name)?;
        }
        for neighbour in &self.speaker.neighbours {
            let provider = self.name(neighbour.router);
            self.key(&format!("itmp-{provider}"))?;
            fs::write(self.folder.join(format!("{provider}.toml")), self.of_provider(neighbour)?)?;
        }
        let host_key = self.key("dhcp")?;
        fs::write(self.folder.join("stub.toml"), self.of_stub()?)?;
        Ok(host_key)
    }

    /// Makes a key. Returns what the program prints of it.
    fn key(&self, name: &str) -> io::Result<String> {
        let file = self.folder.join(format!("{name}.key"));
        let output = Command::new(self.treecast).args(["mast", "key"]).arg(file).output()?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// The programs, each with its node and arguments.
    fn programs(&self, host_key: &str) -> Vec<(String, Vec<String>)> {
        let file = |name: &str| self.folder.join(format!("{name}.toml")).display().to_string();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let mut programs = Vec::new();
        for neighbour in &self.speaker.neighbours {
            let provider = self.name(neighbour.router);
            programs.push((provider.to_owned(), words(&["tms", &file(provider)])));
        }
        let stub = file(STUB);
        let (server, gateway) = (self.name(self.server.node).to_owned(), self.planned.gateway.clone());
        programs.push((server.clone(), words(&["dhcp", &stub])));
        programs.push((server, words(&["dns", &stub])));
        programs.push((gateway.clone(), words(&["router", &stub])));
        for (member, id) in [(self.server, SERVER), (self.inside, INSIDE)] {
            let id = format!("::{id:x}");
            let arguments = ["host", &member.interface, "--server-key", host_key, "--ifid", &id];
            programs.push((self.name(member.node).to_owned(), words(&arguments)));
        }
        programs.push((gateway, words(&["srms", &stub])));
        programs
    }

    fn of_stub(&self) -> io::Result<String> {
        let Self { speaker, planned, server, .. } = self;
        let mut text = format!("[stub]\nname = \"{STUB}\"\nas = {}\n", speaker.as_number);
        for neighbour in &speaker.neighbours {
            let (provider, prefix) = (self.name(neighbour.router), self.prefix(neighbour)?);
            let (end, interface) = (self.end(neighbour)?, self.interface(neighbour));
            let from = self.other_address(neighbour)?;
            let (gateway, inner) = (self.access(neighbour), self.inner(neighbour)?);
            let as_number = self.speaker_of(neighbour)?.as_number;
            add(
                &mut text,
                format_args!(
                    "[[provider]]\nname = \"{provider}\"\nas = {as_number}\nprefix = \"{prefix}\"\n\
                     interface = \"{interface}\"\ngateway = \"{gateway}\"\n[provider.tunnel]\n\
                     server = \"[{end}]:{ITMP_PORT}\"\nserver_name = \"{provider}\"\nsecret = \"itmp-{provider}.key\"\n\
                     from = \"{from}\"\nto = \"{end}\"\ninner = \"{inner}\""
                ),
            );
        }
        let hook = self.hook(&planned.gateway, "");
        let srmp = SocketAddr::from((server.v6, SRMP_PORT));
        let dns = SocketAddr::from((server.v6, DNS_PORT));
        let (interface, lan) = (&server.interface, &planned.lan);
        add(
            &mut text,
            format_args!(
                "[[link]]\nname = \"{LINK}\"\ninterface = \"{interface}\"\nsubnet = {SUBNET}\n\
                 [srms]\nrecovery_s = {RECOVERY_SECONDS}\non_tunnel = {hook}\n\
                 [[dhcp]]\nname = \"dhcp1\"\nlinks = [\"{LINK}\"]\nsrmp = \"{srmp}\"\nsecret = \"srmp.key\"\nkey = \"dhcp.key\"\n\
                 reserved = [\"::{GATEWAY:x}\"]\n\
                 [dns]\nzone = \"{ZONE}\"\nlisten = [\"[::]:{DNS_PORT}\"]\nttl_s = 1\n[dns.srms]\nserver = \"{dns}\"\n\
                 [[dns.key]]\nname = \"{UPDATE_KEY}\"\nsecret = \"tsig.key\"\nmay = \"prefixes\"\n\
                 [[dns.host]]\nname = \"{HOST}\"\nlink = \"{LINK}\"\nifid = \"::{INSIDE:x}\"\n\
                 [router]\nlisten = \"{lan}\"\n\
                 [[router.interface]]\nname = \"{lan}\"\nsubnet = {SUBNET}\nifid = \"::{GATEWAY:x}\""
            ),
        );
        Ok(text)
    }

    fn of_provider(&self, neighbour: &Neighbour) -> io::Result<String> {
        let (provider, end) = (self.name(neighbour.router), self.end(neighbour)?);
        let hook = self.hook(provider, "to-customer");
        let (inner, prefix) = (self.inner(neighbour)?, self.prefix(neighbour)?);
        let (of_provider, of_stub) = (self.speaker_of(neighbour)?.as_number, self.speaker.as_number);
        Ok(format!(
            "[tms]\nname = \"{provider}\"\nas = {of_provider}\nlisten = \"[{end}]:{ITMP_PORT}\"\nend = \"{end}\"\n\
             inner = \"{inner}\"\non_tunnel = {hook}\nroute = false\n\
             [[tms.stub]]\nname = \"{STUB}\"\nas = {of_stub}\nsecret = \"itmp-{provider}.key\"\nprefixes = [\"{prefix}\"]\n"
        ))
    }

    /// The program that starts BGP over a tunnel, as a list of the configuration.
    fn hook(&self, router: &str, to: &str) -> String {
        let script = self.folder.join("neighbour.sh");
        let frr = self.site.frr_folder(router);
        format!("[\"sh\", \"{}\", \"{}\", \"{to}\"]", script.display(), frr.display())
    }

    fn named(&self) -> io::Result<Named> {
        let other = self.speaker.neighbours.iter().find(|neighbour| !self.is_cut(neighbour));
        let other = other.ok_or_else(|| io::Error::other("the stub has one provider only"))?;
        let server = in_lan(self.prefix(other)?, SERVER);
        Ok(Named { name: format!("{HOST}.{ZONE}"), server: (server, DNS_PORT).into() })
    }

    fn targets(&self) -> io::Result<Targets> {
        let cut = self.speaker.neighbours.iter().find(|neighbour| self.is_cut(neighbour));
        let cut = cut.ok_or_else(|| io::Error::other("the stub has no such link"))?;
        let prefix = self.prefix(cut)?;
        Ok(Targets {
            srmp: (self.server.v6, SRMP_PORT).into(),
            itmp: SocketAddrV6::new(self.end(cut)?, ITMP_PORT, 0, 0).into(),
            prefix: Prefix::new(prefix.base, prefix.length).map_err(io::Error::other)?,
        })
    }

    /// Returns what is not ready yet. `None`: all is.
    fn is_ready(&self, named: &Named, outside: SocketAddr) -> io::Result<Option<String>> {
        for neighbour in &self.speaker.neighbours {
            let (provider, prefix) = (self.name(neighbour.router), self.prefix(neighbour)?.to_string());
            let table = self.site.bgp_table(provider)?;
            let routes = table.iter().find(|of| of.prefix == prefix).map_or(0, |of| of.routes);
            if routes < 2 {
                return Ok(Some(format!("{provider} has no route to {prefix} by a tunnel")));
            }
        }
        for neighbour in &self.speaker.neighbours {
            // Without its own address, the stub's router would send packets for the LAN back to the provider. An address that is still
            // being looked for elsewhere cannot be bound.
            let own = in_lan(self.prefix(neighbour)?, GATEWAY);
            let gateway = &self.planned.gateway;
            if enter(self.site, gateway, || UdpSocket::bind((own, 0)))?.is_err() {
                return Ok(Some(format!("{gateway} has no address {own}")));
            }
        }
        let inside = self.name(self.inside.node);
        let source = enter(self.site, inside, || -> io::Result<SocketAddr> {
            let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
            socket.connect(outside)?;
            socket.local_addr()
        })?;
        let cut = self.planned.prefix;
        let uses = |source: &SocketAddr| match source {
            SocketAddr::V6(source) => cut.is_some_and(|prefix| prefix.contains(*source.ip())),
            SocketAddr::V4(_) => false,
        };
        if !source.as_ref().is_ok_and(uses) {
            return Ok(Some(format!("{inside} does not use the prefix of {}", self.planned.transfer.link)));
        }
        let known = enter(self.site, inside, || look_up(named, 1))??;
        let all = self.speaker.neighbours.len();
        Ok(match known {
            Some(known) if known.len() == all => None,
            known => Some(format!("{} answers {known:?} for {}", named.server, named.name)),
        })
    }

    fn name(&self, node: usize) -> &'a str {
        &self.topology.nodes[node].name
    }

    fn is_cut(&self, neighbour: &Neighbour) -> bool {
        self.topology.networks[neighbour.network].name == self.planned.transfer.link
    }

    fn speaker_of(&self, neighbour: &Neighbour) -> io::Result<&'a Speaker> {
        let name = self.name(neighbour.router);
        self.topology.speaker(name).ok_or_else(|| io::Error::other(format!("{name} does not speak BGP")))
    }

    fn prefix(&self, neighbour: &Neighbour) -> io::Result<Subnet<Ipv6Addr>> {
        let first = neighbour.announced.first().copied();
        first.ok_or_else(|| {
            io::Error::other(format!("the stub has no prefix of {}", self.name(neighbour.router)))
        })
    }

    /// The provider's end of tunnels: its own address.
    fn end(&self, neighbour: &Neighbour) -> io::Result<Ipv6Addr> {
        let node = &self.topology.nodes[neighbour.router];
        let first = node.loopback_v6.first().copied();
        first.ok_or_else(|| io::Error::other(format!("{} has no address of its own", node.name)))
    }

    /// The block of addresses inside a provider's tunnels.
    fn inner(&self, neighbour: &Neighbour) -> io::Result<String> {
        let block = self.speaker_of(neighbour)?.tunnels();
        let lacking = || io::Error::other(format!("{} has no block", self.name(neighbour.router)));
        block.map(|block| block.to_string()).ok_or_else(lacking)
    }

    /// An address of the stub's router in the prefix of another provider: the stub's end of a tunnel.
    fn other_address(&self, neighbour: &Neighbour) -> io::Result<Ipv6Addr> {
        let own = self.prefix(neighbour)?;
        let addresses = &self.topology.nodes[self.speaker.router].loopback_v6;
        let other = addresses.iter().copied().find(|address| !own.contains(*address));
        other.ok_or_else(|| io::Error::other("the stub's router has no address of another provider"))
    }

    /// The stub's interface on an access link.
    fn interface(&self, neighbour: &Neighbour) -> &'a str {
        let members = &self.topology.networks[neighbour.network].members;
        let own = members.iter().find(|member| member.node == self.speaker.router);
        own.map_or("", |member| &member.interface)
    }

    /// The provider's address on an access link.
    fn access(&self, neighbour: &Neighbour) -> Ipv6Addr {
        let members = &self.topology.networks[neighbour.network].members;
        let far = members.iter().find(|member| member.node == neighbour.router);
        far.map_or(Ipv6Addr::UNSPECIFIED, |member| member.v6)
    }
}

/// The address with an interface identifier on the stub's LAN.
fn in_lan(prefix: Subnet<Ipv6Addr>, id: u16) -> Ipv6Addr {
    Ipv6Addr::from(u128::from(prefix.base) | u128::from(SUBNET) << 64 | u128::from(id))
}

fn at(node: &str, error: &io::Error) -> io::Error {
    io::Error::other(format!("{node}: {error}"))
}

fn add(text: &mut String, lines: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    _ = writeln!(text, "{lines}");
}
