//! What helps against an error or a warning, beside what its words say. This crate knows no options: a program words a
//! remedy by the options that it has.

use std::{fmt, io, ops::Deref};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use treecast_host::interface::Choice;

/// What helps against an error or a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Remedy {
    /// Another network interface.
    OtherInterface,
    /// An interface that has an address.
    AddressedInterface,
    /// The loopback interface, for a session on this host alone.
    Loopback,
    /// A group of the other family of addresses.
    OtherFamily,
    /// Another way than multicast, or to find out where packets are dropped.
    OtherFanout,
    /// To find out where packets are dropped.
    FindLoss,
    /// To let the session's ports through, or to find out where packets are dropped.
    OpenPorts,
    /// Objects whose names begin with a dot are to be taken.
    TakeHidden,
    /// To send without repair symbols.
    NoSymbols,
    /// To refuse tickets of plain sessions.
    RefusePlain,
    /// To add the receiver's key to the sender's list.
    ListKey,
    /// To make a key that lasts longer than a session, and add it to the sender's list.
    ListNewKey,
    /// To make a key of the receiver's own.
    OwnKey,
    /// To admit more receivers, also from one address.
    AdmitMore,
    /// To wait longer for a sender that says nothing.
    Patience,
    /// To look longer for a sender that is away.
    Reconnect,
    /// To send shorter blocks.
    ShorterBlocks,
    /// To put fewer addresses into a packet.
    FewerAddresses,
    /// To give routers the domain's key.
    GiveRoutersKey,
    /// To let more objects of a feed wait.
    LongerQueue,
    /// To name the older version of an object.
    NameOldVersion,
    /// To name no older version.
    NoOldVersion,
    /// To end a carousel that cannot see whether anybody listens.
    EndCarousel,
    /// To name another file for the record of what a feed has sent.
    OtherRecord,
    /// To name the ticket's file, or the ticket itself.
    NameTicket,
    /// To announce the session by another name.
    OtherName,
    /// To answer Prometheus at another address.
    OtherMetrics,
    /// To pass on the ticket in place of a code.
    NoCode,
    /// To name no port.
    NoPort,
    /// To choose the folder of a file apart from its name.
    NameFolder,
    /// To listen to fewer groups.
    FewerGroups,
}

/// One line for a person, and what helps. Events write and read the line alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advised {
    pub line: String,
    /// `None`: the line itself says what to do, or nothing helps.
    pub remedy: Option<Remedy>,
}

impl Advised {
    /// A line that this remedy belongs to.
    pub fn by(remedy: Remedy, line: impl Into<String>) -> Self {
        Self { line: line.into(), remedy: Some(remedy) }
    }

    /// The line of an error, and the remedy that it carries.
    pub fn of(error: &io::Error) -> Self {
        Self { line: error.to_string(), remedy: remedy_of(error) }
    }

    /// The same remedy behind another line.
    pub(crate) fn map(self, word: impl FnOnce(String) -> String) -> Self {
        Self { line: word(self.line), remedy: self.remedy }
    }
}

impl<T: Into<String>> From<T> for Advised {
    fn from(line: T) -> Self {
        Self { line: line.into(), remedy: None }
    }
}

impl Deref for Advised {
    type Target = str;

    fn deref(&self) -> &str {
        &self.line
    }
}

impl fmt::Display for Advised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

impl std::error::Error for Advised {}

impl Serialize for Advised {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.line.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Advised {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

/// The remedy that an error of a file carries.
pub fn remedy_of(error: &io::Error) -> Option<Remedy> {
    error.get_ref()?.downcast_ref::<Advised>()?.remedy
}

/// The line for an interface that was taken although others would do as well, towards these hosts. `None` where there was no choice.
pub(crate) fn by_chance(choice: &Choice, hosts: &str) -> Option<Advised> {
    let names: Vec<_> = choice.others.iter().map(|other| other.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        other_interface(format!(
            "no route says which interface leads to {hosts}: {} was taken, and {} would do as well; keep it",
            choice.interface.name,
            names.join(", ")
        ))
    })
}

/// A line that ends with the advice to take another interface.
pub(crate) fn other_interface(line: String) -> Advised {
    Advised::by(Remedy::OtherInterface, line + ", or name another interface")
}
