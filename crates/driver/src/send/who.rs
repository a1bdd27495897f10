//! The identity of a receiver.

use std::fmt;

use treecast_wire::message::{Hello, MEMBER_LEN};

use crate::security::PublicKey;

/// The identity by which a receiver is known again when it comes over another connection.
#[derive(Debug, Clone)]
pub(super) struct Who {
    /// The key that it has proved to have; none in a plain session.
    pub key: Option<PublicKey>,
    /// The number of a receiver of a plain session, and zeros in a secure one.
    pub member: [u8; MEMBER_LEN],
    /// The name that the receiver gives itself.
    pub name: String,
}

impl Who {
    pub fn new(key: Option<PublicKey>, hello: &Hello) -> Self {
        Self { key, member: hello.member, name: hello.name().to_owned() }
    }

    /// The identity of a receiver before it comes.
    pub fn expected(key: Option<PublicKey>, name: &str) -> Self {
        Self { key, member: [0; MEMBER_LEN], name: name.to_owned() }
    }

    /// Whether both are one receiver: by the key that both have proved, and by the name, because receivers may share a
    /// key; in a plain session by a number that nobody else has heard, and not by the name, which anybody may take.
    pub fn is(&self, other: &Self) -> bool {
        match self.key {
            Some(_) => self.key == other.key && self.name == other.name,
            None => other.key.is_none() && self.member == other.member && self.member != [0; MEMBER_LEN],
        }
    }

    /// Reads a line as [`fmt::Display`] writes it.
    pub fn from_line(line: &str) -> Option<Self> {
        let (mark, name) = line.split_once(' ')?;
        let name = name.to_owned();
        if let Ok(key) = mark.parse() {
            return Some(Self { key: Some(key), member: [0; MEMBER_LEN], name });
        }
        let has_all = mark.len() == 2 * MEMBER_LEN;
        let member = u128::from_str_radix(mark, 16).ok().filter(|_| has_all)?.to_be_bytes();
        Some(Self { key: None, member, name })
    }

    /// Whether this receiver can be taken for one that has left, where it does no harm if it is another one.
    pub fn may_be(&self, departed: &Self) -> bool {
        self.key == departed.key && (self.key.is_some() || self.name == departed.name)
    }
}

/// Writes one line: a name has no control characters.
impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key {
            Some(key) => write!(f, "{key} {}", self.name),
            None => write!(f, "{:032x} {}", u128::from_be_bytes(self.member), self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::Identity;

    #[test]
    fn a_receiver_is_known_again_by_its_key_or_its_number_and_never_by_its_name_alone() {
        let keys = [(); 2].map(|()| Some(Identity::generate().unwrap().public_key()));
        let who = |key, member, name| {
            let mut hello = Hello::new(1, 0, 0, name).unwrap();
            hello.member = [member; MEMBER_LEN];
            Who::new(key, &hello)
        };
        let secure = who(keys[0], 0, "a");
        assert!(secure.is(&who(keys[0], 0, "a")) && !secure.is(&who(keys[1], 0, "a")));
        assert!(!secure.is(&who(keys[0], 0, "b")), "they share a key");
        assert!(!secure.is(&who(None, 0, "a")) && !who(None, 0, "a").is(&secure));
        let plain = who(None, 7, "a");
        assert!(plain.is(&who(None, 7, "b")) && !plain.is(&who(None, 8, "a")));
        assert!(!who(None, 0, "a").is(&who(None, 0, "a")), "neither has said who it is");
    }
}
