//! The file that describes a stub or a provider, for all programs of MAST. Each program reads its own sections of it, so what
//! several of them need is written once.

use std::{
    io,
    net::{Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;
use treecast_host::text;

use crate::{
    Prefix,
    dhcp::wire::LinkPrefix,
    dns::keys::Scope,
    message::{Key, MAX_PREFIXES, MAX_SENDER_LEN, TunnelKind},
};

use super::Error;

/// The longest file, in bytes.
const MAX_FILE: u64 = 1 << 20;
/// The longest file with a secret, in bytes.
const MAX_SECRET: u64 = 1_024;

/// A file that was read, and the folder that file names in it are relative to.
#[derive(Debug)]
pub struct Config {
    path: PathBuf,
    folder: PathBuf,
    pub file: File,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// The folder for what must outlive a restart.
    state: Option<PathBuf>,
    pub stub: Option<Stub>,
    #[serde(default, rename = "provider")]
    pub providers: Vec<Provider>,
    #[serde(default, rename = "link")]
    pub links: Vec<Link>,
    #[serde(default)]
    pub srms: Srms,
    #[serde(default)]
    pub dhcp: Vec<Dhcp>,
    pub dns: Option<Dns>,
    pub router: Option<Router>,
    pub watch: Option<Watch>,
    pub tms: Option<Tms>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stub {
    /// The name by which servers and providers know the stub's SRMS.
    pub name: String,
    #[serde(rename = "as")]
    pub as_number: u32,
}

/// A provider of the stub, and the access link to it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    pub name: String,
    #[serde(rename = "as")]
    pub as_number: u32,
    pub prefix: Prefix,
    /// The access link, if it is one of this host's interfaces.
    pub interface: Option<String>,
    /// The router at the other end of the link.
    pub gateway: Option<Ipv6Addr>,
    /// The access link, if it is another router's.
    pub trap: Option<Trap>,
    pub tunnel: Option<Tunnel>,
}

/// A router that tells by SNMP whether its interface is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trap {
    /// The address that its notifications come from.
    pub agent: std::net::IpAddr,
    /// The number of the interface (ifIndex).
    pub index: u32,
}

/// The tunnel that keeps a prefix reachable.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tunnel {
    /// The address of the provider's TMS, and its name.
    pub server: SocketAddr,
    pub server_name: String,
    secret: PathBuf,
    pub from: Ipv6Addr,
    pub to: Ipv6Addr,
    pub inner: Prefix,
    pub kinds: Option<Vec<TunnelKind>>,
}

/// A network of the stub.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    pub name: String,
    /// The interface by which mDHCPv6 serves the network.
    pub interface: Option<String>,
    /// The number of the network in each provider's prefix.
    #[serde(default)]
    pub subnet: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Srms {
    recovery_s: Option<f64>,
    #[serde(default)]
    pub on_tunnel: Vec<String>,
    pub trap_listen: Option<SocketAddr>,
    pub trap_community: Option<String>,
}

/// An mDHCPv6 server.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dhcp {
    pub name: String,
    pub links: Vec<String>,
    /// The address at which it hears the SRMS.
    pub srmp: SocketAddr,
    secret: PathBuf,
    key: PathBuf,
    #[serde(default = "preferred_s")]
    pub preferred_s: u32,
    #[serde(default = "valid_s")]
    pub valid_s: u32,
    #[serde(default = "push_s")]
    pub push_s: u32,
    #[serde(default)]
    pub dns: Vec<Ipv6Addr>,
    #[serde(default)]
    reserved: Vec<Ipv6Addr>,
    #[serde(default = "max_leases")]
    pub max_leases: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dns {
    pub zone: String,
    /// The name of the server itself. `None`: `ns` in the zone.
    pub name_server: Option<String>,
    pub listen: Vec<SocketAddr>,
    #[serde(default = "ttl_s")]
    pub ttl_s: u32,
    /// The way of the SRMS to the server.
    #[serde(default)]
    srms: DnsFromSrms,
    #[serde(default, rename = "key")]
    pub keys: Vec<DnsKey>,
    #[serde(default, rename = "host")]
    pub hosts: Vec<DnsHost>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct DnsFromSrms {
    server: Option<SocketAddr>,
}

/// A key by which the zone may be changed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DnsKey {
    pub name: String,
    secret: PathBuf,
    pub may: Scope,
}

/// A name, and the interface that has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DnsHost {
    pub name: String,
    pub link: String,
    /// The interface identifier, as an address such as `::80`.
    ifid: Ipv6Addr,
    /// The DUID of the only DHCPv6 client that may have the identifier, in hexadecimal digits. `None`: whoever asks first.
    duid: Option<String>,
}

/// mRCS: the addresses of a router itself.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Router {
    /// The interface by which pushes are heard.
    pub listen: String,
    pub server_key: Option<String>,
    /// A program that is given the changes as lines for `ip -6 -batch -`. Empty: this host's interfaces are set.
    #[serde(default)]
    pub apply: Vec<String>,
    #[serde(rename = "interface")]
    pub interfaces: Vec<RouterInterface>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouterInterface {
    pub name: String,
    #[serde(default)]
    pub subnet: u64,
    ifid: Ipv6Addr,
}

/// The interfaces that a router tells an SRMS on another host about, by SNMP.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watch {
    pub interfaces: Vec<String>,
    /// The address and port where the SRMS hears notifications.
    pub srms: SocketAddr,
    pub community: Option<String>,
    /// The address that notifications come from.
    pub from: Option<std::net::IpAddr>,
}

/// A provider's TMS.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tms {
    pub name: String,
    #[serde(rename = "as")]
    pub as_number: u32,
    pub listen: SocketAddr,
    pub end: Ipv6Addr,
    pub inner: Prefix,
    pub kinds: Option<Vec<TunnelKind>>,
    #[serde(default)]
    pub on_tunnel: Vec<String>,
    /// Whether a stub's prefix is routed through its tunnel where no other route is.
    #[serde(default = "yes")]
    pub route: bool,
    #[serde(default, rename = "stub")]
    pub stubs: Vec<Customer>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Customer {
    pub name: String,
    #[serde(rename = "as")]
    pub as_number: u32,
    secret: PathBuf,
    pub prefixes: Vec<Prefix>,
}

fn preferred_s() -> u32 {
    1_800
}

fn valid_s() -> u32 {
    3_600
}

fn push_s() -> u32 {
    60
}

fn ttl_s() -> u32 {
    5
}

fn max_leases() -> usize {
    10_000
}

fn yes() -> bool {
    true
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or something in it is wrong.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let named = |error: String| Error::new(format!("{}: {error}", path.display()));
        let text = text::read(path, MAX_FILE).map_err(|error| named(error.to_string()))?;
        let file: File = toml::from_str(&text).map_err(|error| named(error.to_string()))?;
        let folder = path.parent().unwrap_or(Path::new(".")).to_owned();
        let config = Self { path: path.to_owned(), folder, file };
        config.check().map_err(|error| named(error.to_string()))?;
        Ok(config)
    }

    fn check(&self) -> Result<(), Error> {
        let file = &self.file;
        let names = file.stub.iter().map(|stub| &stub.name);
        let names = names.chain(file.providers.iter().map(|it| &it.name));
        let names =
            names.chain(file.dhcp.iter().map(|it| &it.name)).chain(file.tms.iter().map(|it| &it.name));
        for name in names.chain(file.tms.iter().flat_map(|tms| tms.stubs.iter().map(|it| &it.name))) {
            if !(1..=MAX_SENDER_LEN).contains(&name.len()) {
                return Err(Error::new(format!("name {name:?}: expected 1 to {MAX_SENDER_LEN} bytes")));
            }
        }
        if file.providers.len() > MAX_PREFIXES {
            return Err(Error::new(format!(
                "{} providers: at most {MAX_PREFIXES} are possible",
                file.providers.len()
            )));
        }
        for (index, provider) in file.providers.iter().enumerate() {
            let same = file.providers[..index].iter();
            if let Some(other) = same.clone().find(|other| other.name == provider.name) {
                return Err(Error::new(format!("two providers are called {:?}", other.name)));
            }
            let overlaps = |other: &&Provider| {
                other.prefix.covers(provider.prefix) || provider.prefix.covers(other.prefix)
            };
            if let Some(other) = same.clone().find(overlaps) {
                return Err(Error::new(format!(
                    "the prefixes of {:?} and {:?} overlap",
                    other.name, provider.name
                )));
            }
            if provider.interface.is_some() == provider.trap.is_some() {
                let name = &provider.name;
                return Err(Error::new(format!(
                    "provider {name:?}: give its access link as interface, or as trap"
                )));
            }
            provider.check()?;
        }
        file.links.iter().try_for_each(|link| self.prefixes_of(link).map(drop))?;
        file.links.iter().try_for_each(|link| self.kept_for(link).map(drop))?;
        file.dhcp.iter().try_for_each(|dhcp| {
            self.links_of(dhcp)?;
            let fits = (1..=dhcp.valid_s).contains(&dhcp.preferred_s) && dhcp.push_s > 0;
            fits.then_some(()).ok_or_else(|| {
                Error::new(format!(
                    "dhcp {:?}: expected 0 < preferred_s <= valid_s, and 0 < push_s",
                    dhcp.name
                ))
            })
        })
    }

    /// The folder for what must outlive a restart.
    pub fn state(&self) -> Option<PathBuf> {
        self.file.state.as_ref().map(|path| self.folder.join(path))
    }

    /// The names of the programs that the file describes.
    pub fn programs(&self) -> Vec<String> {
        let file = &self.file;
        let named = [
            ("srms", file.stub.is_some() && !file.providers.is_empty()),
            ("tms", file.tms.is_some()),
            ("dns", file.dns.is_some()),
            ("router", file.router.is_some()),
            ("watch", file.watch.is_some()),
        ];
        let named = named.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name.to_owned());
        named.chain(file.dhcp.iter().map(|dhcp| format!("dhcp-{}", dhcp.name))).collect()
    }

    /// The address at which a program of the file is asked for its status.
    pub fn status_address(&self, program: &str) -> String {
        super::status::address(program, &self.path)
    }

    /// A path as it was written in the file.
    pub fn path(&self, written: &Path) -> PathBuf {
        self.folder.join(written)
    }

    pub fn stub(&self) -> Result<&Stub, Error> {
        self.file.stub.as_ref().ok_or_else(|| Error::new("the file has no section [stub]".into()))
    }

    /// Reads a secret of 32 bytes.
    pub fn secret(&self, written: &Path) -> Result<[u8; 32], Error> {
        let path = self.path(written);
        let named = |error: String| Error::new(format!("{}: {error}", path.display()));
        let text = text::read_private(&path, MAX_SECRET).map_err(|error| {
            let advice = match error.kind() {
                io::ErrorKind::PermissionDenied => "; make it yours with `chown` and `chmod 600`",
                _ => "",
            };
            named(format!("{error}{advice}"))
        })?;
        Key::secret(&text).map_err(|error| named(error.to_string()))
    }

    /// The networks of 64 bits of a link, one for each provider.
    pub fn prefixes_of(&self, link: &Link) -> Result<Vec<Prefix>, Error> {
        let subnet = |provider: &Provider| {
            provider.prefix.subnet(link.subnet).ok_or_else(|| {
                Error::new(format!(
                    "link {:?}: {} has no network number {}",
                    link.name, provider.prefix, link.subnet
                ))
            })
        };
        self.file.providers.iter().map(subnet).collect()
    }

    /// The networks of a link and the providers' blocks, as mDHCPv6 lists them.
    pub fn listed_prefixes(&self, link: &Link) -> Result<Vec<Prefix>, Error> {
        let mut listed = self.prefixes_of(link)?;
        listed.extend(self.file.providers.iter().map(|provider| provider.prefix));
        listed.sort_unstable();
        listed.dedup();
        Ok(listed)
    }

    pub fn link(&self, name: &str) -> Result<&Link, Error> {
        let found = self.file.links.iter().find(|link| link.name == name);
        found.ok_or_else(|| Error::new(format!("no [[link]] is called {name:?}")))
    }

    /// The links of a server.
    pub fn links_of(&self, dhcp: &Dhcp) -> Result<Vec<&Link>, Error> {
        dhcp.links.iter().map(|name| self.link(name)).collect()
    }

    /// The interface identifiers on a link that only one client gets, each with the client's DUID.
    pub fn kept_for(&self, link: &Link) -> Result<Vec<(u64, Vec<u8>)>, Error> {
        let hosts = self.file.dns.iter().flat_map(|dns| &dns.hosts).filter(|host| host.link == link.name);
        let kept = hosts.map(|host| Ok(host.duid()?.map(|duid| (host.ifid(), duid))));
        kept.filter_map(Result::transpose).collect()
    }

    /// The server that is to run: the one of this name, or the only one.
    pub fn dhcp(&self, name: Option<&str>) -> Result<&Dhcp, Error> {
        match (name, &self.file.dhcp[..]) {
            (None, [only]) => Ok(only),
            (None, []) => Err(Error::new("the file has no section [[dhcp]]".into())),
            (None, _) => Err(Error::new("the file has several sections [[dhcp]]: name one".into())),
            (Some(name), all) => {
                let found = all.iter().find(|dhcp| dhcp.name == name);
                found.ok_or_else(|| Error::new(format!("no [[dhcp]] is called {name:?}")))
            }
        }
    }
}

impl Provider {
    fn check(&self) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::new(format!("provider {:?}: {what}", self.name)));
        let Some(tunnel) = &self.tunnel else { return Ok(()) };
        if self.prefix.contains(tunnel.from) {
            return wrong(format!(
                "the tunnel begins at {}, inside the prefix that it is to protect",
                tunnel.from
            ));
        }
        if !(1..=MAX_SENDER_LEN).contains(&tunnel.server_name.len()) {
            return wrong(format!("server_name: expected 1 to {MAX_SENDER_LEN} bytes"));
        }
        match &tunnel.kinds {
            Some(kinds) if kinds.is_empty() => wrong("kinds is empty".into()),
            _ => Ok(()),
        }
    }
}

impl Srms {
    /// The time for which a link must be up until its prefix is encouraged again.
    pub fn recovery(&self) -> Result<Duration, Error> {
        let seconds = self.recovery_s.unwrap_or(10.0);
        let valid =
            Duration::try_from_secs_f64(seconds).ok().filter(|time| *time <= Duration::from_secs(86_400));
        valid.ok_or_else(|| Error::new(format!("recovery_s: {seconds} found, expected 0 to 86400")))
    }
}

impl Tunnel {
    /// The file with the secret that it shares with the TMS.
    pub fn secret(&self) -> &Path {
        &self.secret
    }
}

impl Dhcp {
    /// The secret that it shares with the SRMS.
    pub fn secret(&self, config: &Config) -> Result<[u8; 32], Error> {
        config.secret(&self.secret)
    }

    /// The key that signs its messages.
    pub fn key(&self, config: &Config) -> Result<[u8; 32], Error> {
        config.secret(&self.key)
    }

    /// The interface identifiers of hosts without a lease.
    pub fn reserved(&self) -> Vec<u64> {
        self.reserved.iter().copied().map(interface_id).collect()
    }
}

impl Dns {
    /// The address at which the SRMS reaches the server.
    pub fn server(&self) -> Result<SocketAddr, Error> {
        let first = self.srms.server.or_else(|| self.listen.first().copied());
        first.ok_or_else(|| Error::new("[dns] listens nowhere: give at least one address in listen".into()))
    }

    /// The key that the SRMS signs with.
    pub fn srms_key(&self) -> Option<&DnsKey> {
        self.keys.iter().find(|key| key.may == Scope::Prefixes)
    }
}

impl DnsKey {
    pub fn secret(&self, config: &Config) -> Result<[u8; 32], Error> {
        config.secret(&self.secret)
    }
}

impl DnsHost {
    pub fn ifid(&self) -> u64 {
        interface_id(self.ifid)
    }

    /// The DUID of the client that has the identifier alone.
    fn duid(&self) -> Result<Option<Vec<u8>>, Error> {
        let Some(text) = &self.duid else { return Ok(None) };
        let digits: String = text.chars().filter(|it| *it != ':').collect();
        let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
        bytes.filter(|bytes| !bytes.is_empty()).map(Some).ok_or_else(|| {
            Error::new(format!(
                "host {:?}: duid {text:?} found, expected bytes in hexadecimal digits, such as 00:03:00:01:52:54:00:12:34:56",
                self.name
            ))
        })
    }
}

impl RouterInterface {
    /// The address of the interface in a listed block, if the block has the interface's network.
    pub fn address_in(&self, block: Prefix) -> Option<Ipv6Addr> {
        block.subnet(self.subnet)?.join(interface_id(self.ifid))
    }

    /// The addresses of the interface: one in each listed block that no other listed block contains.
    pub fn addresses(&self, listed: &[LinkPrefix]) -> Vec<(Ipv6Addr, LinkPrefix)> {
        let is_largest = |it: &&LinkPrefix| {
            !listed.iter().any(|other| other.prefix != it.prefix && other.prefix.covers(it.prefix))
        };
        let blocks = listed.iter().filter(is_largest);
        blocks.filter_map(|it| Some((self.address_in(it.prefix)?, *it))).collect()
    }
}

impl Customer {
    pub fn secret(&self, config: &Config) -> Result<[u8; 32], Error> {
        config.secret(&self.secret)
    }
}

/// The lower 64 bits of an address.
pub fn interface_id(address: Ipv6Addr) -> u64 {
    u128::from(address) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the guide are those of the tests, so they are right.
    const GUIDE: &str = include_str!("../../../../docs/mast.md");

    fn example(begin: &str) -> &'static str {
        let mut blocks = GUIDE.split("```toml\n").filter_map(|block| block.split("```").next());
        blocks.find(|block| block.starts_with(begin)).expect("the guide has it")
    }

    fn stub() -> &'static str {
        example("state")
    }

    fn parse(text: &str) -> Result<Config, Error> {
        let file = toml::from_str(text).map_err(|error| Error::new(error.to_string()))?;
        let config = Config { path: "/etc/mast/stub.toml".into(), folder: "/etc/mast".into(), file };
        config.check()?;
        Ok(config)
    }

    #[test]
    fn a_secret_that_others_may_read_is_refused_with_what_to_do() {
        use std::os::unix::fs::PermissionsExt as _;
        let path = std::env::temp_dir().join(format!("treecast-mast-secret-{}", std::process::id()));
        std::fs::write(&path, format!("{}\n", "07".repeat(32))).unwrap();
        let mut config = parse(stub()).expect("a stub");
        config.folder = std::env::temp_dir();
        let read = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            config.secret(&path).map_err(|error| error.to_string())
        };
        let (own, exposed) = (read(0o600), read(0o644));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(own, Ok([7; 32]));
        let line = exposed.unwrap_err();
        assert!(line.contains("0644") && line.contains("chmod 600"), "{line}");
    }

    #[test]
    fn a_link_has_a_network_of_each_provider() {
        let config = parse(stub()).expect("a stub");
        let link = config.link("lan1").expect("the link");
        let texts = |prefixes: Vec<Prefix>| prefixes.iter().map(Prefix::to_string).collect::<Vec<_>>();
        assert_eq!(texts(config.prefixes_of(link).unwrap()), ["2001:db8:a:101::/64", "2001:db8:b:101::/64"]);
        assert_eq!(config.listed_prefixes(link).unwrap().len(), 4);
        assert_eq!(config.path(Path::new("a.key")), Path::new("/etc/mast/a.key"));
    }

    #[test]
    fn the_provider_of_the_guide_has_a_tms() {
        let config = parse(example("[tms]")).expect("a provider");
        assert_eq!(config.programs(), ["tms"]);
        let programs = parse(stub()).expect("a stub").programs();
        assert_eq!(programs, ["srms", "dns", "router", "dhcp-dhcp1"]);
    }

    #[test]
    fn an_identifier_is_kept_for_the_client_that_is_named() {
        let config = parse(stub()).expect("a stub");
        let kept = config.kept_for(config.link("lan1").expect("the link")).expect("a number");
        assert_eq!(kept, [(0x80, vec![0, 3, 0, 1, 0x52, 0x54, 0, 0x12, 0x34, 0x56])]);
    }

    #[test]
    fn a_router_is_renumbered_by_the_blocks_that_are_listed() {
        let config = parse(stub()).expect("a stub");
        let interface = &config.file.router.as_ref().expect("a router").interfaces[0];
        let listed = |text: &str| LinkPrefix { prefix: text.parse().unwrap(), preferred_s: 0, valid_s: 9 };
        let all = ["2001:db8:a:101::/64", "2001:db8:a:100::/56", "2001:db8:c::/48", "2001:db8:d:1::/64"];
        let addresses = interface.addresses(&all.map(listed));
        let addresses: Vec<String> = addresses.iter().map(|(address, _)| address.to_string()).collect();
        assert_eq!(addresses, ["2001:db8:a:101::1", "2001:db8:c:1::1"]);
    }

    #[test]
    fn what_cannot_be_right_is_refused() {
        for (old, new, expected) in [
            ("/56\"\ninterface = \"up-b", "/48\"\ninterface = \"up-b", "has bits behind its prefix"),
            (
                "prefix = \"2001:db8:b:100",
                "prefix = \"2001:db8:a:100",
                "the prefixes of \"A\" and \"B\" overlap",
            ),
            ("subnet = 1", "subnet = 256", "2001:db8:a:100::/56 has no network number 256"),
            ("name = \"B\"", "name = \"A\"", "two providers are called \"A\""),
            ("interface = \"up-a\"", "", "provider \"A\": give its access link as interface, or as trap"),
            ("as = 64512", "as = 64512\nbs = 1", "unknown field `bs`"),
            ("00:03:", "0:03:", "duid \"0:03:00"),
            ("name = \"stub1\"", "name = \"\"", "name \"\": expected 1 to 40 bytes"),
        ] {
            let text = stub().replacen(old, new, 1);
            let error = parse(&text).map(drop).expect_err(new).to_string();
            assert!(error.contains(expected), "{new}: {error}");
        }
    }
}
