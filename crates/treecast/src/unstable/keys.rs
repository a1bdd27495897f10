//! Keys that identify senders and receivers, in files that only their owner can read.

pub use treecast_driver::security::{
    DEFAULT_KEY_NAME, Identity, KeyFileError, KeyFolder, PublicKey, is_key_name,
};
