//! Hands complete files on, before the sender hears that they are here.

use std::{fmt, sync::Arc};

/// A file that is complete, verified, and has its name.
#[derive(Debug, Clone, Copy)]
pub struct Complete<'a> {
    pub name: &'a str,
    /// The number of other files of the session that have begun, and have not ended.
    pub others: usize,
}

/// The result of handing a file on: `None` while that is under way, and an error in words if it has failed.
pub type Taken = Option<Result<(), String>>;

/// Takes complete files, and is asked about each until it has taken it. The sender hears that a file is here only then.
#[derive(Clone)]
pub struct Taker(Arc<dyn Fn(Complete<'_>) -> Taken + Send + Sync>);

impl Taker {
    pub fn new(take: impl Fn(Complete<'_>) -> Taken + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    pub fn take(&self, file: Complete<'_>) -> Taken {
        (self.0)(file)
    }
}

impl fmt::Debug for Taker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Taker")
    }
}
