//! What a router says of its forwarding (RFC 8487, section 3.2.4; IANA's registry "Mtrace2 Forwarding Codes").

use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal, $words:literal;)+) => {
        /// The forwarding code of a response block.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ForwardingCode {
            $($(#[$doc])* $variant,)+
            /// A code that the registry does not have.
            Unknown(u8),
        }

        impl ForwardingCode {
            /// All codes of the registry, the smallest first.
            pub const REGISTERED: [Self; [$($number),+].len()] = [$(Self::$variant),+];

            pub fn from_number(number: u8) -> Self {
                match number {
                    $($number => Self::$variant,)+
                    other => Self::Unknown(other),
                }
            }

            /// The number on the wire.
            pub fn number(self) -> u8 {
                match self {
                    $(Self::$variant => $number,)+
                    Self::Unknown(number) => number,
                }
            }

            /// The registry's name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                    Self::Unknown(_) => "UNKNOWN",
                }
            }

            /// The meaning, for people.
            pub fn words(self) -> &'static str {
                match self {
                    $(Self::$variant => $words,)+
                    Self::Unknown(_) => "gives a code that is not known",
                }
            }
        }
    };
}

codes! {
    NoError = 0x00, "NO_ERROR", "forwards";
    WrongInterface = 0x01, "WRONG_IF", "does not forward to this network";
    PruneSent = 0x02, "PRUNE_SENT", "has asked the next router to stop sending";
    PruneReceived = 0x03, "PRUNE_RCVD", "was asked to stop sending";
    Scoped = 0x04, "SCOPED", "keeps the group in its scope";
    NoRoute = 0x05, "NO_ROUTE", "has no route to the source";
    WrongLastHop = 0x06, "WRONG_LAST_HOP", "is not the router that serves this host";
    NotForwarding = 0x07, "NOT_FORWARDING", "does not forward the group now";
    ReachedRendezvousPoint = 0x08, "REACHED_RP", "is the rendezvous point";
    ReversePathInterface = 0x09, "RPF_IF", "takes the source's packets from this network";
    NoMulticast = 0x0a, "NO_MULTICAST", "does not route multicast on this network";
    InfoHidden = 0x0b, "INFO_HIDDEN", "hides one or more routers";
    ReachedGateway = 0x0c, "REACHED_GW", "is a gateway that hides what is behind it";
    UnknownQuery = 0x0d, "UNKNOWN_QUERY", "does not know this extended query";
    FatalError = 0x80, "FATAL_ERROR", "cannot ask the next router";
    NoSpace = 0x81, "NO_SPACE", "had no more room in the message";
    Prohibited = 0x82, "ADMIN_PROHIB", "does not allow traces";
}

impl fmt::Display for ForwardingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(number) => write!(f, "UNKNOWN({number:#04x})"),
            known => f.write_str(known.name()),
        }
    }
}
