//! The faults of input that a reader could not use, counted by reason.

use std::{collections::BTreeMap, fmt, io};

use serde::Serialize;

macro_rules! faults {
    ($($name:ident, $is_error:literal, $words:literal;)*) => {
        /// A reason why a part of a file was not used.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Fault { $(#[doc = $words] $name,)* }

        impl Fault {
            /// All reasons.
            pub const ALL: &'static [Fault] = &[$(Fault::$name,)*];

            /// The reason, in words for a person.
            pub fn words(self) -> &'static str {
                match self { $(Fault::$name => $words,)* }
            }

            /// Whether the file is damaged there. Otherwise it holds something that the analysis does not need.
            pub fn is_error(self) -> bool {
                match self { $(Fault::$name => $is_error,)* }
            }
        }
    };
}

faults! {
    FileEnds, true, "the file ends inside a record";
    WrongLength, true, "the length of a record is wrong";
    NoRecord, true, "octets that are no record, skipped in one run";
    UnknownType, true, "the type of a record is unknown";
    RecordCutShort, true, "a record ends inside a field";
    PrefixTooLong, true, "a prefix is longer than an address of its family";
    AttributesCutShort, true, "path attributes end inside a field";
    NoPath, true, "a route has no AS_PATH";
    PathMalformed, true, "an AS_PATH has a wrong segment";
    UnknownPeer, true, "a route's peer is not in the table of peers (the route is used)";
    MessageMalformed, true, "a BGP message has a wrong length or marker";
    LineMalformed, true, "a line has no meaning in this file";
    UnknownRelation, true, "a relation between two ASes is unknown";
    EmptyPath, false, "a route has an empty AS_PATH: it begins at the collector";
    OtherRecord, false, "a record of a type that holds no routes";
    OldRecord, false, "a record of BGP in a deprecated format (RFC 6396, appendix B), which is not read";
    OtherMessage, false, "a BGP message that is no update";
    OtherFamily, false, "routes that are not unicast routes of IPv4 or IPv6";
}

/// Whether a decompressor says that its input is wrong or ends too early.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | Other | UnexpectedEof)
}

/// The number of times that each reason occurred.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Faults(pub BTreeMap<Fault, u64>);

impl Faults {
    pub fn add(&mut self, fault: Fault) {
        self.add_many(fault, 1);
    }

    pub fn add_many(&mut self, fault: Fault, count: u64) {
        if count > 0 {
            *self.0.entry(fault).or_default() += count;
        }
    }

    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(fault, count)| self.add_many(*fault, *count));
    }

    /// The number of times that the file was found damaged.
    pub fn errors(&self) -> u64 {
        self.0.iter().filter(|(fault, _)| fault.is_error()).map(|(_, count)| count).sum()
    }

    pub fn count(&self, fault: Fault) -> u64 {
        self.0.get(&fault).copied().unwrap_or(0)
    }
}

/// Every reason with its count, in one line: `a record ends inside a field (3 times), the type of a record is unknown (once)`.
impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (fault, count)) in self.0.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            match count {
                1 => write!(f, "{comma}{} (once)", fault.words())?,
                count => write!(f, "{comma}{} ({count} times)", fault.words())?,
            }
        }
        Ok(())
    }
}
