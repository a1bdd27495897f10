//! Keeps the addresses of an interface as they should be.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    net::Ipv6Addr,
    os::fd::AsFd,
    process::{Command, Stdio},
    time::Duration,
};

use treecast_host::{
    interface::index_of,
    netlink::{Netlink, requests::Lifetimes},
    poller::wait_readable,
    process::{Watched, with_all_signals},
};

use super::{Event, Tell, kernel, status};

/// The lifetime that never ends.
pub const FOR_EVER: u32 = u32::MAX;

/// The time that a program has to set addresses.
const PATIENCE: Duration = Duration::from_secs(10);

/// An address as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    pub address: Ipv6Addr,
    pub prefix_length: u8,
    pub times: Lifetimes,
    /// The ends of the lifetimes, by any clock. While they stay, the kernel counts the lifetimes down by itself.
    pub ends: [Duration; 2],
}

impl Wanted {
    /// Whether the kernel has nothing to change.
    fn is_as(&self, set: &Self) -> bool {
        let is_preferred = |it: &Self| it.times.preferred_s > 0;
        (self.prefix_length, self.ends, is_preferred(self))
            == (set.prefix_length, set.ends, is_preferred(set))
    }
}

/// The treatment of an address that is no longer wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unwanted {
    Remove,
    /// Old connections may use it for so many seconds.
    Discourage(u32),
}

/// The means by which addresses are set.
pub enum Setter {
    /// This host's kernel.
    Kernel(Netlink),
    /// A program that reads lines for `ip -6 -batch -`.
    Program(Vec<String>),
}

/// The addresses of one interface that were set.
pub struct Addresses {
    interface: String,
    set: BTreeMap<Ipv6Addr, Wanted>,
}

impl Addresses {
    pub fn new(interface: &str) -> Self {
        Self { interface: interface.to_owned(), set: BTreeMap::new() }
    }

    /// Sets what differs from what was set last. What could not be set is tried at the next call. An address that could not be removed
    /// may be gone already, and is left.
    pub fn apply(&mut self, setter: &mut Setter, wanted: &[Wanted], unwanted: Unwanted, tell: Tell<'_>) {
        let is_wanted = |address: &Ipv6Addr| wanted.iter().any(|it| it.address == *address);
        let gone: Vec<Wanted> =
            self.set.iter().filter(|(address, _)| !is_wanted(address)).map(|(_, it)| *it).collect();
        for old in gone {
            let Wanted { address, prefix_length, .. } = old;
            let done = match unwanted {
                Unwanted::Remove => setter.remove(&self.interface, address, prefix_length),
                Unwanted::Discourage(valid_s) => {
                    let times = Lifetimes { preferred_s: 0, valid_s };
                    setter.set(&self.interface, &Wanted { times, ..old })
                }
            };
            self.told(done, address, tell);
            self.set.remove(&address);
            tell(Event::AddressRemoved { interface: self.interface.clone(), address });
        }
        for new in wanted {
            let known = self.set.get(&new.address).copied();
            if known.is_some_and(|known| new.is_as(&known)) {
                continue;
            }
            // The kernel does not change the length of a prefix.
            if let Some(old) = known.filter(|known| known.prefix_length != new.prefix_length) {
                let removed = setter.remove(&self.interface, old.address, old.prefix_length);
                self.told(removed, old.address, tell);
            }
            let done = setter.set(&self.interface, new);
            if !self.told(done, new.address, tell) {
                continue;
            }
            self.set.insert(new.address, *new);
            let preferred = new.times.preferred_s > 0;
            if known.is_none_or(|known| (known.times.preferred_s > 0) != preferred) {
                tell(Event::Address { interface: self.interface.clone(), address: new.address, preferred });
            }
        }
    }

    /// The addresses that were set, and whether new connections should use each.
    pub fn status(&self) -> status::Interface {
        let addresses = self.set.values().map(|set| (set.address, set.times.preferred_s > 0)).collect();
        status::Interface { name: self.interface.clone(), addresses }
    }

    /// Forgets addresses that the interface has lost, so that they are set again.
    pub fn look(&mut self, netlink: &mut Netlink) -> io::Result<()> {
        let interfaces = netlink.interfaces()?;
        let own = interfaces.values().find(|it| it.name == self.interface);
        self.set.retain(|address, _| own.is_some_and(|own| own.addresses.contains(&(*address).into())));
        Ok(())
    }

    /// Tells about a failure. Returns whether there was none.
    fn told(&self, done: io::Result<()>, address: Ipv6Addr, tell: Tell<'_>) -> bool {
        if let Err(error) = &done {
            let what = format!("cannot set {address} on {}", self.interface);
            tell(Event::Failed { what, error: error.to_string() });
        }
        done.is_ok()
    }
}

impl Setter {
    fn set(&mut self, interface: &str, wanted: &Wanted) -> io::Result<()> {
        let Wanted { address, prefix_length, times, .. } = *wanted;
        match self {
            Self::Kernel(netlink) => {
                kernel::set_address(netlink, index_of(interface)?, address, prefix_length, times)
            }
            Self::Program(command) => {
                let lifetime = |seconds: u32| match seconds {
                    FOR_EVER => "forever".to_owned(),
                    seconds => seconds.to_string(),
                };
                let [preferred, valid] = [times.preferred_s, times.valid_s].map(lifetime);
                let line = format!(
                    "address replace {address}/{prefix_length} dev {interface} valid_lft {valid} preferred_lft {preferred}\n"
                );
                start(command, &line)
            }
        }
    }

    fn remove(&mut self, interface: &str, address: Ipv6Addr, prefix_length: u8) -> io::Result<()> {
        match self {
            Self::Kernel(netlink) => match index_of(interface) {
                Ok(index) => kernel::remove_address(netlink, index, address, prefix_length),
                // Its addresses are gone with it.
                Err(_) => Ok(()),
            },
            Self::Program(command) => {
                start(command, &format!("address del {address}/{prefix_length} dev {interface}\n"))
            }
        }
    }
}

/// Starts a program with a line on its standard input, and waits for its end.
fn start(command: &[String], line: &str) -> io::Result<()> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let (reader, mut writer) = io::pipe()?;
    // A pipe takes more than a line without a reader.
    writer.write_all(line.as_bytes())?;
    drop(writer);
    let mut command = Command::new(program);
    command.args(arguments).stdin(reader).stdout(Stdio::null());
    with_all_signals(&mut command);
    let child = Watched::start(&mut command)?;
    if wait_readable([Some(child.as_fd())], PATIENCE)? != [true] {
        return Err(io::Error::other(format!("{program} has not ended within {} s", PATIENCE.as_secs())));
    }
    let ended = child.end()?;
    if ended.code == Some(0) { Ok(()) } else { Err(io::Error::other(ended.describe())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(address: &str, preferred_s: u32) -> Wanted {
        Wanted {
            address: address.parse().unwrap(),
            prefix_length: 64,
            times: Lifetimes { preferred_s, valid_s: FOR_EVER },
            ends: [Duration::ZERO; 2],
        }
    }

    #[test]
    fn a_program_gets_a_line_for_each_change_and_none_for_what_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("lines");
        let mut setter =
            Setter::Program(["sh", "-c", &format!("cat >> {}", file.display())].map(String::from).to_vec());
        let mut addresses = Addresses::new("lan0");
        let mut told = Vec::new();
        let mut apply = |wanted: &[Wanted], unwanted| {
            addresses.apply(&mut setter, wanted, unwanted, &mut |event| told.push(event.to_string()));
        };
        apply(&[wanted("2001:db8::1", FOR_EVER)], Unwanted::Remove);
        apply(&[wanted("2001:db8::1", FOR_EVER)], Unwanted::Remove);
        apply(&[wanted("2001:db8::1", 0)], Unwanted::Remove);
        apply(&[], Unwanted::Discourage(60));
        let lines = std::fs::read_to_string(file).unwrap();
        let expected = [
            "address replace 2001:db8::1/64 dev lan0 valid_lft forever preferred_lft forever",
            "address replace 2001:db8::1/64 dev lan0 valid_lft forever preferred_lft 0",
            "address replace 2001:db8::1/64 dev lan0 valid_lft 60 preferred_lft 0",
        ];
        assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
        assert_eq!(
            told,
            [
                "2001:db8::1 on lan0 is preferred",
                "2001:db8::1 on lan0 is discouraged",
                "2001:db8::1 on lan0 is removed",
            ]
        );
    }

    #[test]
    fn what_a_program_refuses_is_told_and_tried_again() {
        let mut setter = Setter::Program(vec!["false".into()]);
        let mut addresses = Addresses::new("lan0");
        let mut told = 0;
        for _ in 0..2 {
            addresses.apply(&mut setter, &[wanted("2001:db8::1", 1)], Unwanted::Remove, &mut |event| {
                told += usize::from(matches!(event, Event::Failed { .. }));
            });
        }
        assert_eq!(told, 2);
    }
}
