//! Phrases in messages that an option of the program remedies. This crate knows no options: the program looks
//! for the phrase in a message, and adds the option's name.

use treecast_host::interface::Choice;

/// An object's name begins with a dot.
pub const HIDDEN: &str = "hidden names are not allowed";

/// The decoder of repair symbols has failed.
pub const WITHOUT_SYMBOLS: &str = "have it sent without repair symbols";

/// The session is plain.
pub const PLAIN: &str = "the session is plain: nothing is encrypted, and nobody proves who he is";

/// The sender admits only listed keys, and this receiver's key is not listed.
pub const NOT_LISTED: &str = "to the allow list";

/// The receiver needs a key that lasts longer than a session.
pub const OWN_KEY: &str = "`treecast keys new`";

/// Too many receivers are at one address.
pub const PER_ADDRESS: &str = "there already from its address";

/// A receiver has heard nothing for as long as it waits.
pub const SILENT: &str = "nothing has come from the sender for";

/// The group is of a family that a receiver lacks.
pub const OTHER_FAMILY: &str = "or have the session sent to a group of";

/// The interface that was chosen does not do.
pub const OTHER_INTERFACE: &str = "or name another interface";

/// Blocks are too long for the way to some receivers.
pub const SHORTER_BLOCKS: &str = "start a session with blocks of";

/// Packets carry so many addresses that there is too little room for data.
pub const FEWER_ADDRESSES: &str = "or put fewer addresses into a packet";

/// No router has the domain's key.
pub const ROUTER_KEY: &str = "give them this one";

/// Files come into a folder faster than they are sent.
pub const SPOOL_FULL: &str = "the feed comes faster than it is sent";

/// The line for an interface that was taken although others would do as well, towards these hosts. `None` where there was no choice.
pub(crate) fn by_chance(choice: &Choice, hosts: &str) -> Option<String> {
    let names: Vec<_> = choice.others.iter().map(|other| other.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "no route says which interface leads to {hosts}: {} was taken, and {} would do as well; keep it, {OTHER_INTERFACE}",
            choice.interface.name,
            names.join(", ")
        )
    })
}
