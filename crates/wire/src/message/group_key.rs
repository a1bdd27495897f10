//! GroupKey: the key with which packets to the group will be sealed ([`crate::seal`]). It travels from the
//! sender to one receiver, only over an encrypted control connection.
//!
//! ```text
//! key id 8 | secret 32
//! ```

use std::fmt;

use crate::{field::fixed_body, seal::KeyId};

fixed_body! {
    /// A key of the group.
    #[derive(Clone, PartialEq, Eq)]
    pub struct GroupKey in "Group-Key", shown "key={id}" {
        pub id: KeyId = "key id",
        /// The secret that the key is derived from.
        pub secret: [u8; 32] = "secret",
    }
}

/// Leaves the secret out, because this text may end up in a log.
impl fmt::Debug for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GroupKey({self})")
    }
}
