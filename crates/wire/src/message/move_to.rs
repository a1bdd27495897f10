//! Move: the number of the group that a receiver listens to, in one octet. 0 is the fastest group.

use crate::{ParseError, field::fixed_body, ticket::MAX_GROUPS};

fixed_body! {
    /// The group from now on.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Move in "move", shown "group={group}", checked by check {
        group: u8 = "group",
    }
}

impl Move {
    /// Creates a message about a move to this group.
    ///
    /// # Errors
    /// If no session has that many groups.
    pub fn new(group: u8) -> Result<Self, ParseError> {
        let to = Self { group };
        to.check().map(|()| to)
    }

    fn check(self) -> Result<(), ParseError> {
        if self.group < MAX_GROUPS { Ok(()) } else { Err(ParseError::invalid("group", self.group, "0 to 7")) }
    }

    pub fn group(self) -> u8 {
        self.group
    }
}
