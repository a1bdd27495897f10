//! A receiver's answer to the announcement of an object: the paper's per-file notification (interdomain-2013, 4.3.1).

use std::{fmt, sync::Arc};

/// An object that is announced.
#[derive(Debug, Clone, Copy)]
pub struct Offer<'a> {
    pub name: &'a str,
    /// Size of the object, in bytes.
    pub bytes: u64,
}

/// Whether an announced object is wanted, and under which name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    Take,
    /// Take it under another name, a path below the receiver's folder.
    TakeAs(String),
    Refuse,
}

/// Decides about announced objects. It may be asked about an object more than once, and its answer stays the same.
#[derive(Clone)]
pub struct Chooser(Arc<dyn Fn(Offer<'_>) -> Choice + Send + Sync>);

impl Chooser {
    pub fn new(choose: impl Fn(Offer<'_>) -> Choice + Send + Sync + 'static) -> Self {
        Self(Arc::new(choose))
    }

    pub fn choose(&self, offer: Offer<'_>) -> Choice {
        (self.0)(offer)
    }
}

impl fmt::Debug for Chooser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Chooser")
    }
}
