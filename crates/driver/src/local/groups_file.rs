//! The file that fixes local groups by hand (the paper's static LGCP, lgmp-mbone-1999, 4.1). Every member has the same file.
//!
//! ```text
//! # name [< name of the group above]: controller, then the other members
//! london: 192.0.2.1 192.0.2.2
//! paris < london: 198.51.100.1 198.51.100.2 198.51.100.3
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

use thiserror::Error;
use treecast_host::{interface::Interface, text};
use treecast_proto::local::Seat;
use treecast_wire::message::{GroupId, Member};

/// The largest file that is read, in bytes.
const MAX_LEN: u64 = 16 << 20;

/// The reason why a file of groups cannot be used.
#[derive(Debug, Error)]
pub enum GroupsFileError {
    #[error("cannot read the groups in {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}, line {line}: {why}", path.display())]
    Line { path: PathBuf, line: usize, why: String },
    #[error("{} names no group", path.display())]
    Empty { path: PathBuf },
    #[error("{} names {receiver}, which is no receiver of this session", path.display())]
    Unknown { path: PathBuf, receiver: IpAddr },
    #[error("no group in {} has {receiver}, a receiver of this session: add it to a group", path.display())]
    NotNamed { path: PathBuf, receiver: IpAddr },
    #[error("no group in {} has an address of this host on interface {interface}", path.display())]
    NotThere { path: PathBuf, interface: String },
}

/// Groups made by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupsFile {
    path: PathBuf,
    groups: Vec<WrittenGroup>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct WrittenGroup {
    /// The place in the list of the group above. `None`: the sender is above.
    above: Option<usize>,
    /// The members' addresses. The first one is the controller's.
    members: Vec<IpAddr>,
}

impl GroupsFile {
    /// Reads the file.
    ///
    /// # Errors
    /// If it is no regular file, cannot be read, or is longer than 16 MiB. If it does not make sense: a receiver twice, a
    /// group above that no line before it names.
    pub fn read(path: &Path) -> Result<Self, GroupsFileError> {
        let text = text::read(path, MAX_LEN)
            .map_err(|source| GroupsFileError::Read { path: path.to_owned(), source })?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, GroupsFileError> {
        let (mut groups, mut names, mut seen) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.split('#').next().unwrap_or_default().trim();
            if text.is_empty() {
                continue;
            }
            let wrong = |why: String| GroupsFileError::Line { path: path.to_owned(), line, why };
            let expected = || wrong("expected NAME: ADDRESS..., or NAME < NAME ABOVE: ADDRESS...".into());
            // Addresses have colons, too.
            let (head, members) = text.split_once(": ").ok_or_else(expected)?;
            let (name, above) =
                head.split_once('<').map_or((head, None), |(name, above)| (name, Some(above.trim())));
            let above = above.map(|above| {
                let known = names.get(above).copied();
                known.ok_or_else(|| wrong(format!("no group before it is called {above:?}")))
            });
            let above = above.transpose()?;
            if names.insert(name.trim().to_owned(), groups.len()).is_some() {
                return Err(wrong(format!("another group is called {:?}", name.trim())));
            }
            let mut group = WrittenGroup { above, members: Vec::new() };
            for member in members.split_whitespace() {
                let member: IpAddr =
                    member.parse().map_err(|_| wrong(format!("{member:?} is no IP address")))?;
                if let Some(before) = seen.insert(member, line) {
                    return Err(wrong(format!("{member} is in the group of line {before} already")));
                }
                group.members.push(member);
            }
            if group.members.is_empty() {
                return Err(expected());
            }
            groups.push(group);
        }
        if groups.is_empty() {
            return Err(GroupsFileError::Empty { path: path.to_owned() });
        }
        Ok(Self { path: path.to_owned(), groups })
    }

    /// Checks that the groups name exactly the session's `receivers`.
    ///
    /// # Errors
    /// The first address that is in only one of the two.
    pub fn check(&self, receivers: &[IpAddr]) -> Result<(), GroupsFileError> {
        let known: BTreeSet<&IpAddr> = receivers.iter().collect();
        let members = || self.groups.iter().flat_map(|group| &group.members);
        if let Some(receiver) = members().find(|member| !known.contains(member)) {
            return Err(GroupsFileError::Unknown { path: self.path.clone(), receiver: *receiver });
        }
        let named: BTreeSet<&IpAddr> = members().collect();
        match receivers.iter().find(|receiver| !named.contains(receiver)) {
            Some(receiver) => Err(GroupsFileError::NotNamed { path: self.path.clone(), receiver: *receiver }),
            None => Ok(()),
        }
    }

    /// The number of members of all groups whose addresses are of the session's family.
    pub fn receivers(&self, is_ipv4: bool) -> u32 {
        let members = self.groups.iter().flat_map(|group| &group.members);
        members.filter(|ip| ip.is_ipv4() == is_ipv4).count() as u32
    }

    /// The largest number of members that a group has besides its controller.
    pub fn most_members(&self) -> usize {
        self.groups.iter().map(|group| group.members.len() - 1).max().unwrap_or_default()
    }

    /// The address of this host's interface by which the others know it: of its addresses that are in the file, one of the session's
    /// family.
    ///
    /// # Errors
    /// If no group has such an address.
    pub fn own_address(&self, interface: &Interface, is_ipv4: bool) -> Result<IpAddr, GroupsFileError> {
        let named = |own: &&IpAddr| {
            own.is_ipv4() == is_ipv4 && self.groups.iter().any(|group| group.members.contains(own))
        };
        interface.addresses.iter().find(named).copied().ok_or_else(|| {
            let interface = interface.name.clone();
            GroupsFileError::NotThere { path: self.path.clone(), interface }
        })
    }

    /// The place of the member with the address `me`, below `sender`. All members have the same port. `None` if no group has it.
    pub fn seat(&self, me: SocketAddr, sender: Member) -> Option<Seat> {
        let at = |ip: IpAddr| Member(SocketAddr::new(ip, me.port()));
        let number = self.groups.iter().position(|group| group.members.contains(&me.ip()))?;
        let group = &self.groups[number];
        let members = group.members.iter().filter(|ip| ip.is_ipv4() == me.is_ipv4()).count();
        Some(Seat {
            group: GroupId(number as u32 + 1),
            controller: at(group.members[0]),
            parent: group.above.map_or(sender, |above| at(self.groups[above].members[0])),
            members: (members - 1).min(u16::MAX.into()) as u16,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::scratch;

    fn parse(text: &str) -> Result<GroupsFile, String> {
        GroupsFile::parse(Path::new("groups"), text).map_err(|error| error.to_string())
    }

    /// The number of receivers in the groups.
    fn receivers(file: &GroupsFile) -> usize {
        file.groups.iter().map(|group| group.members.len()).sum()
    }

    #[test]
    fn a_member_finds_its_group_its_controller_and_the_one_above() {
        let file =
            parse("# three sites\nlondon: 192.0.2.1 192.0.2.2 fd00::2\n\nparis < london: 192.0.2.3 # here\n")
                .unwrap();
        let sender = Member("192.0.2.9:9".parse().unwrap());
        let seat = |own: &str| file.seat(SocketAddr::new(own.parse().unwrap(), 7_001), sender);
        let member = |text: &str| Member(text.parse().unwrap());
        let controller = member("192.0.2.1:7001");
        let london = Seat { group: GroupId(1), controller, parent: sender, members: 1 };
        assert_eq!((seat("192.0.2.1").unwrap(), seat("192.0.2.2").unwrap()), (london, london));
        let controller = member("192.0.2.3:7001");
        let paris = Seat { group: GroupId(2), controller, parent: london.controller, members: 0 };
        assert_eq!((seat("192.0.2.3").unwrap(), file.receivers(true), file.receivers(false)), (paris, 3, 1));
        assert_eq!((seat("192.0.2.4"), file.most_members()), (None, 2));
    }

    #[test]
    fn a_host_with_several_addresses_is_known_by_the_one_in_the_file() {
        let interface = |addresses: &[&str]| Interface {
            name: "eth0".into(),
            addresses: addresses.iter().map(|ip| ip.parse().unwrap()).collect(),
            ..Interface::named("lo").unwrap()
        };
        let file = parse("london: 192.0.2.1 fd00::2").unwrap();
        let own = |addresses: &[&str], is_ipv4| file.own_address(&interface(addresses), is_ipv4);
        let both = ["198.51.100.1", "192.0.2.1", "fd00::1", "fd00::2"];
        assert_eq!(own(&both, true).unwrap().to_string(), "192.0.2.1");
        assert_eq!(own(&both, false).unwrap().to_string(), "fd00::2");
        assert!(own(&["192.0.2.1"], false).unwrap_err().to_string().contains("interface eth0"));
    }

    #[test]
    fn a_receiver_that_only_the_file_or_only_the_session_names_is_told() {
        let file = parse("london: 192.0.2.1 fd00::2\nparis: 192.0.2.3").unwrap();
        let check = |receivers: &[&str]| {
            let receivers: Vec<IpAddr> = receivers.iter().map(|ip| ip.parse().unwrap()).collect();
            file.check(&receivers).map_err(|error| error.to_string())
        };
        assert_eq!(check(&["fd00::2", "192.0.2.3", "192.0.2.1"]), Ok(()));
        let unknown = check(&["192.0.2.1", "192.0.2.3"]).unwrap_err();
        assert_eq!(unknown, "groups names fd00::2, which is no receiver of this session");
        let not_named = check(&["192.0.2.1", "fd00::2", "192.0.2.9", "192.0.2.3"]).unwrap_err();
        assert!(not_named.starts_with("no group in groups has 192.0.2.9, a receiver"), "{not_named}");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, said) in [
            ("a: 192.0.2.1\nb: 192.0.2.2 192.0.2.1", "groups, line 2: 192.0.2.1 is in the group of line 1"),
            ("a < b: 192.0.2.1\nb: 192.0.2.2", "line 1: no group before it is called \"b\""),
            ("a: host7", "line 1: \"host7\" is no IP address"),
            ("a 192.0.2.1", "line 1: expected NAME"),
            ("a: ", "line 1: expected NAME"),
            ("a: 192.0.2.1\na: 192.0.2.2", "line 2: another group is called \"a\""),
            ("# nothing\n", "groups names no group"),
        ] {
            let line = parse(text).unwrap_err();
            assert!(line.contains(said), "{text}: {line}");
        }
    }
    #[test]
    fn what_is_no_file_or_too_long_is_refused_in_one_line() {
        let folder = scratch("groups-file");
        let (pipe, long) = (folder.join("pipe"), folder.join("long"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let file = std::fs::File::create(&long).unwrap();
        let read = |path: &Path| GroupsFile::read(path).unwrap_err().to_string();
        let said = |path: &Path, why: &str| {
            assert_eq!(read(path), format!("cannot read the groups in {}: {why}", path.display()));
        };
        said(&pipe, "it is no regular file");
        said(Path::new("/dev/zero"), "it is no regular file");
        said(&folder, "it is a folder");
        file.set_len(MAX_LEN + 1).unwrap();
        said(&long, "it is longer than 16 MiB");
        file.set_len(MAX_LEN).unwrap();
        assert!(read(&long).contains("line 1: expected NAME"), "the longest file is read whole");
        std::fs::write(&long, [0xff]).unwrap();
        said(&long, "it holds no text");
        std::fs::write(&long, "london: 192.0.2.1\n").unwrap();
        assert_eq!(receivers(&GroupsFile::read(&long).unwrap()), 1);
    }
}
