//! Decides about objects by their names.

use std::{fmt, sync::Arc};

/// A filter that decides whether an object of a name is meant.
#[derive(Clone)]
pub struct NameFilter(Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl NameFilter {
    pub fn new(accepts: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(accepts))
    }

    pub fn accepts(&self, name: &str) -> bool {
        (self.0)(name)
    }
}

impl fmt::Debug for NameFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NameFilter")
    }
}
