//! What is known of a host: facts that its agent tells, by which hosts are selected, too.

use std::{
    collections::BTreeMap,
    fs,
    net::{IpAddr, UdpSocket},
    path::Path,
};

use serde::{Deserialize, Serialize};
use treecast_host::{folder, interface};
use treecast_measure::db::Machine;
use utoipa::ToSchema;

/// The facts of a host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Facts {
    #[schema(required)]
    pub hostname: String,
    /// The name and version of the distribution.
    #[schema(required)]
    pub system: String,
    #[schema(required)]
    pub kernel: String,
    /// The processor architecture, as `uname -m` calls it.
    #[schema(required)]
    pub architecture: String,
    #[schema(required)]
    pub processor: String,
    #[schema(required)]
    pub processors: u32,
    #[schema(required)]
    pub memory_bytes: u64,
    /// The free space of the disk on which the agent keeps files, in bytes.
    #[schema(required)]
    pub free_bytes: u64,
    /// The version of treecast.
    #[schema(required)]
    pub version: String,
    /// The kernel's number of this start of the host (`/proc/sys/kernel/random/boot_id`).
    #[schema(required)]
    pub boot: String,
    /// The interfaces that are up, but for the loopback.
    #[schema(required)]
    pub interfaces: Vec<Interface>,
    /// The interface that leads to the manager, or the first.
    #[schema(required)]
    pub interface: String,
    /// The active version of each release.
    #[schema(required)]
    pub releases: BTreeMap<String, String>,
}

/// An interface of a host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Interface {
    #[schema(required)]
    pub name: String,
    #[schema(required, value_type = Vec<String>)]
    pub addresses: Vec<IpAddr>,
}

impl Facts {
    /// Gathers the facts of this host. What cannot be found out stays empty. `folder` is where the agent keeps files, and
    /// `manager` is the address of its manager.
    pub fn gather(folder: &Path, version: &str, manager: Option<IpAddr>) -> Self {
        let machine = Machine::here(version);
        let interfaces = interfaces();
        Self {
            hostname: machine.hostname,
            system: system(&fs::read_to_string("/etc/os-release").unwrap_or_default()),
            kernel: machine.kernel,
            architecture: std::env::consts::ARCH.to_owned(),
            processor: machine.cpu_model,
            processors: machine.cpus,
            memory_bytes: machine.memory_bytes,
            free_bytes: fs::File::open(folder).ok().and_then(folder::free_bytes).unwrap_or(0),
            version: machine.treecast_version,
            boot: line("/proc/sys/kernel/random/boot_id"),
            interface: towards(manager, &interfaces),
            interfaces,
            releases: BTreeMap::new(),
        }
    }

    /// Returns the value of a fact for a selection.
    pub fn value(&self, key: &str) -> Option<String> {
        let text = match key {
            "hostname" => self.hostname.clone(),
            "system" => self.system.clone(),
            "kernel" => self.kernel.clone(),
            "arch" | "architecture" => self.architecture.clone(),
            "processors" => self.processors.to_string(),
            "memory" => self.memory_bytes.to_string(),
            "free" => self.free_bytes.to_string(),
            "version" => self.version.clone(),
            "interface" => self.interface.clone(),
            "address" => self.address()?.to_string(),
            // The version of a release: `release.NAME`.
            _ => self.releases.get(key.strip_prefix("release.")?)?.clone(),
        };
        Some(text)
    }

    /// Returns the address of the interface that leads to the manager: one that routers pass on, if there is one.
    pub fn address(&self) -> Option<IpAddr> {
        self.address_of(&self.interface)
    }

    /// Returns an address of an interface: IPv6 before IPv4, because groups of IPv6 need no planning, and addresses that routers pass
    /// on before those of the link alone.
    pub fn address_of(&self, interface: &str) -> Option<IpAddr> {
        let interface = self.interfaces.iter().find(|of| of.name == interface)?;
        interface.addresses.iter().copied().min_by_key(|address| (is_of_link(*address), address.is_ipv4()))
    }
}

/// Whether an address is valid on its link alone.
fn is_of_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// Returns the interfaces that are up and have an address, but for the loopback.
pub fn interfaces() -> Vec<Interface> {
    let all = interface::list().unwrap_or_default().into_iter();
    let is_useful = |found: &interface::Interface| {
        found.is_up
            && !found.addresses.is_empty()
            && found.addresses.iter().all(|address| !address.is_loopback())
    };
    all.filter(is_useful)
        .map(|found| Interface { name: found.name.clone(), addresses: found.addresses.clone() })
        .collect()
}

/// Returns the interface that leads to an address, and otherwise the first.
pub fn towards(manager: Option<IpAddr>, interfaces: &[Interface]) -> String {
    let source = manager.and_then(|manager| {
        let any = if manager.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).ok()?;
        // Nothing is sent.
        socket.connect((manager, 9)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    });
    let leads = |interface: &&Interface| source.is_some_and(|source| interface.addresses.contains(&source));
    let found = interfaces.iter().find(leads).or(interfaces.first());
    found.map_or_else(String::new, |interface| interface.name.clone())
}

/// Returns `PRETTY_NAME` of os-release(5).
fn system(text: &str) -> String {
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or("Linux").trim_matches(['"', '\'']).to_owned()
}

fn line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_facts() {
        let facts = Facts::gather(Path::new("/tmp"), "1.2.3", None);
        assert!(facts.processors > 0 && facts.free_bytes > 0 && facts.boot.len() == 36, "{facts:?}");
        assert_eq!(facts.value("version").as_deref(), Some("1.2.3"));
        assert_eq!(facts.value("colour"), None);
    }

    #[test]
    fn an_address_that_routers_pass_on_comes_first() {
        let addresses = ["fe80::1", "192.0.2.1", "2001:db8::1"].map(|text| text.parse().unwrap()).into();
        let interfaces = vec![Interface { name: "eth0".into(), addresses }];
        let facts = Facts { interface: towards(None, &interfaces), interfaces, ..Facts::default() };
        assert_eq!(facts.address(), Some("2001:db8::1".parse().unwrap()));
    }

    #[test]
    fn the_system_is_named_as_its_users_call_it() {
        assert_eq!(system("NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"), "Debian GNU/Linux 12");
        assert_eq!(system(""), "Linux");
    }
}
