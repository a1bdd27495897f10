//! The receivers of a session that have not ended, as the session file records them. A restarted sender waits
//! for them.
//!
//! There are three kinds of lines. A receiver is identified by its key, or in a plain session by its number, and
//! by its name:
//!
//! ```text
//! came ADDRESS KEY NAME       it is there
//! has KEY NAME                it has everything
//! ended KEY NAME              it has everything, or has said that it ends
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use super::who::Who;

/// The most receivers that are kept.
const MOST: usize = 1000;

/// The most bytes of such lines, whoever comes and goes how often.
const MAX_LEN: u64 = 4 << 20;

const CAME: &str = "came ";
const HAS: &str = "has ";
const ENDED: &str = "ended ";

/// A receiver that an earlier sender of the session has had.
#[derive(Debug, Clone)]
pub(super) struct Absent {
    pub who: Who,
    /// The receiver's last address.
    pub address: SocketAddr,
}

#[derive(Debug, Default, Clone)]
pub(super) struct Roll {
    /// Addresses of the receivers that are there. The key is the text of the receiver's identity.
    there: BTreeMap<String, SocketAddr>,
    /// Texts of the receivers that have everything.
    have: BTreeSet<String>,
    /// Length of the lines so far and of those that will strike out receivers that are there, in bytes.
    len: u64,
}

impl Roll {
    /// Reads from the text of a session file which receivers have come and which of them have ended. Other
    /// lines are skipped.
    pub fn parse(text: &str) -> Self {
        let mut roll = Self::default();
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            if let Some((address, who)) = line.strip_prefix(CAME).and_then(|rest| rest.split_once(' ')) {
                if let Some((address, who)) = address.parse().ok().zip(Who::from_line(who)) {
                    roll.came(&who, address);
                }
            } else if let Some(who) = line.strip_prefix(HAS).and_then(Who::from_line) {
                roll.has(&who, true);
            } else if let Some(who) = line.strip_prefix(ENDED).and_then(Who::from_line) {
                roll.ended(&who);
            }
        }
        roll
    }

    /// Notes that a receiver has come or ended. Returns the line to add to the file, if there is one.
    pub fn came(&mut self, who: &Who, address: SocketAddr) -> Option<String> {
        let text = who.to_string();
        if self.there.contains_key(&text) || self.there.len() >= MOST {
            return None;
        }
        let line = format!("{CAME}{address} {text}\n");
        // A receiver that is written down can be struck out.
        let len = self.len + (line.len() + ENDED.len() + text.len() + 1) as u64;
        if len > MAX_LEN {
            return None;
        }
        self.len = len;
        self.there.insert(text, address);
        Some(line)
    }

    /// Notes that a receiver has everything. Returns the line to add to the file, if there is one. Those that the session is for
    /// (`is_listed`) always have one, others only while there are few.
    pub fn has(&mut self, who: &Who, is_listed: bool) -> Option<String> {
        let text = who.to_string();
        let line = format!("{HAS}{text}\n");
        ((is_listed || self.have.len() < MOST) && self.have.insert(text)).then_some(line)
    }

    /// The receivers that have everything.
    pub fn have(&self) -> impl Iterator<Item = Who> {
        self.have.iter().filter_map(|text| Who::from_line(text))
    }

    /// Notes that a receiver has come or ended. Returns the line to add to the file, if there is one.
    pub fn ended(&mut self, who: &Who) -> Option<String> {
        let text = who.to_string();
        self.there.remove(&text)?;
        Some(format!("{ENDED}{text}\n"))
    }

    /// The receivers that should come again.
    pub fn absent(&self) -> Vec<Absent> {
        let absent = |(text, address): (&String, &SocketAddr)| {
            Some(Absent { who: Who::from_line(text)?, address: *address })
        };
        self.there.iter().filter_map(absent).collect()
    }
}

#[cfg(test)]
mod tests {
    use treecast_wire::message::{Hello, MEMBER_LEN};

    use super::*;
    use crate::security::Identity;

    fn who(name: &str, member: u8) -> Who {
        let mut hello = Hello::new(1, 0, 0, name).unwrap();
        hello.member = [member; MEMBER_LEN];
        Who::new(None, &hello)
    }

    fn address() -> SocketAddr {
        "[fd00::1]:7000".parse().unwrap()
    }

    #[test]
    fn who_has_come_and_not_ended_is_waited_for() {
        let key = Some(Identity::generate().unwrap().public_key());
        let with_key = |name| Who::new(key, &Hello::new(1, 0, 0, name).unwrap());
        let all = [who("a", 1), who("a", 2), who("two words", 3), with_key("a"), with_key("b c")];
        let (mut roll, mut text) = (Roll::default(), "sent 0 5\n\n".to_owned());
        for who in &all {
            text.extend(roll.came(who, address()));
            assert_eq!(roll.came(who, address()), None, "it is there already");
        }
        for who in [&all[0], &all[3]] {
            text.extend(roll.ended(who));
        }
        assert_eq!(roll.ended(&all[0]), None);
        text.push_str("hash 0 x\ncame nowhere who\ncame 1.2.3.4:5 tck1.x y\nended\ncame [::1]:1 00 cut");
        let absent = Roll::parse(&text).absent();
        let is_absent = |who: &Who| absent.iter().any(|absent| absent.who.is(who));
        assert_eq!(all.each_ref().map(is_absent), [false, true, true, false, true]);
        assert!(absent.iter().all(|absent| absent.address == address()) && absent.len() == 3);
    }

    #[test]
    fn the_file_stays_small_whoever_comes_and_goes() {
        let (mut roll, mut len) = (Roll::default(), 0);
        for turn in 0..100_000 {
            let who = who(&format!("{turn} {}", "x".repeat(40)), 1);
            len += roll.came(&who, address()).map_or(0, |line| line.len() as u64);
            len += roll.ended(&who).map_or(0, |line| line.len() as u64);
        }
        assert!(len > MAX_LEN / 2 && len <= MAX_LEN, "{len}");
        let mut roll = Roll::default();
        (0..2 * MOST).for_each(|number| _ = roll.came(&who(&number.to_string(), 1), address()));
        assert_eq!(roll.absent().len(), MOST);
        let mut have = |number: usize, is_listed| roll.has(&who(&number.to_string(), 1), is_listed).is_some();
        assert_eq!((0..2 * MOST).filter(|number| have(*number, false)).count(), MOST);
        assert!((2 * MOST..3 * MOST).all(|number| have(number, true)));
    }
}
