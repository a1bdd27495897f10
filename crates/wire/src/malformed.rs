//! Why a packet with a routing header of ours is not forwarded: one list for each protocol.

/// Declares `Malformed` (what is wrong, with the value that was found) and `Reason` (the same without values, which is what is
/// counted). Each entry has its name in tables and JSON, its line for people, and its variant. The numbers of the reasons are
/// their places in the list, and those of `bpf/mead.h`. `options` is the variant for a wrong Destination Options header.
macro_rules! malformed {
    (options: $options:ident; $($name:literal $line:tt $variant:ident $(($value:ty))? $({ $($field:ident: $type:ty),+ })?;)+) => {
        /// What is wrong, with the value that was found.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
        pub enum Malformed { $(#[error($line)] $variant $(($value))? $({ $($field: $type),+ })?),+ }

        crate::listed! {
            /// What is wrong, without values: what is counted. `bpf/mead.h` has the same numbers.
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
            #[repr(u32)]
            pub enum Reason { $($variant => $name),+ }
        }

        impl Malformed {
            /// What the first bytes alone show: the number of addresses, the length and what must be 0.
            pub(super) fn check_fixed(count: u8, len: u8, expected_len: impl Fn(u8) -> u8, left: u8) -> Result<(), Self> {
                match (count, len, left) {
                    (0, ..) => Err(Self::NoAddress),
                    (33.., ..) => Err(Self::TooManyAddresses(count)),
                    _ if len != expected_len(count) => {
                        Err(Self::HeaderLen { found: len, expected: expected_len(count) })
                    }
                    (.., 0) => Ok(()),
                    _ => Err(Self::SegmentsLeft(left)),
                }
            }

            /// The bytes end before a header of `need` bytes does.
            pub(super) fn short(bytes: &[u8], need: usize) -> Self {
                Self::Truncated { have: bytes.len(), need }
            }

            /// The rules for addresses that packets are delivered to.
            pub(super) fn check_addresses(addresses: impl Iterator<Item = std::net::Ipv6Addr> + Clone) -> Result<(), Self> {
                if let Some(address) = addresses.clone().find(|address| !crate::ipv6::is_forwardable(*address)) {
                    return Err(Self::Address(address));
                }
                // A list that names somebody twice has copies sent there twice.
                let mut seen = std::collections::BTreeSet::new();
                match addresses.into_iter().find(|address| !seen.insert(*address)) {
                    Some(address) => Err(Self::Twice(address)),
                    None => Ok(()),
                }
            }

            pub fn reason(self) -> Reason {
                match self { $(Self::$variant { .. } => Reason::$variant),+ }
            }
        }

        impl From<crate::destination_options::Wrong> for Malformed {
            fn from(wrong: crate::destination_options::Wrong) -> Self {
                use crate::destination_options::Wrong;
                match wrong {
                    Wrong::Truncated { have, need } => Self::Truncated { have, need },
                    Wrong::Options(what) => Self::$options(what),
                }
            }
        }
    };
}

pub(crate) use malformed;
