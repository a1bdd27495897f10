//! What a group sends.

use std::{fmt, path::PathBuf, sync::Arc};

use treecast_driver::files::{NamedSource, Source, check_name};

use crate::{Error, ErrorKind, limits::within};

/// The largest factor for the time of retransmissions.
const MOST_FACTOR: f64 = 1e6;

/// The number of an object in its group. Numbers grow in the order in which objects are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(pub(crate) u64);

impl ObjectId {
    /// The number, from 0 on.
    pub fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A file or bytes in memory to send, with its name at receivers and its retransmission factor.
///
/// ```
/// # use treecast::Object;
/// let product = Object::bytes("radar/0417", vec![1, 2, 3]).retx_factor(10.0);
/// let image = Object::file("/srv/image.iso").named("images/today.iso");
/// ```
#[must_use = "an object does nothing until a group sends it"]
#[derive(Debug)]
pub struct Object {
    content: Content,
    name: Option<String>,
    factor: Option<f64>,
}

enum Content {
    File(PathBuf),
    Bytes(Box<dyn AsRef<[u8]> + Send + Sync>),
}

impl Object {
    /// A file on disk. Its name at receivers is its own, without its folder. It must not change until it is done.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::new(Content::File(path.into()), None)
    }

    /// Bytes in memory, under this name. They are not copied. The group drops them before it tells that they are done, so they
    /// may be owned (`Vec<u8>`), shared (`Arc<[u8]>`), mapped, or static. For bytes of a shorter lifetime see
    /// [`Group::scope`](crate::Group::scope).
    pub fn bytes(name: impl Into<String>, bytes: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self::new(Content::Bytes(Box::new(bytes)), Some(name.into()))
    }

    fn new(content: Content, name: Option<String>) -> Self {
        Self { content, name, factor: None }
    }

    /// The name at receivers: a relative path with `/` between folders.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The time for which the sender answers requests for retransmissions of this object, as a multiple of the time that its
    /// multicast takes: retx_timeout_factor of interdomain-2013, section 4.6.2. A small factor favours fast receivers, a large
    /// one slow receivers. 0 to 1,000,000. Without it, the object has the group's
    /// ([`GroupBuilder::retx_factor`](crate::GroupBuilder::retx_factor)).
    pub fn retx_factor(mut self, factor: f64) -> Self {
        self.factor = Some(factor);
        self
    }

    /// See [`Object::retx_factor`].
    #[deprecated(note = "it is called `retx_factor`, as the command's option is")]
    pub fn retransmission_factor(self, factor: f64) -> Self {
        self.retx_factor(factor)
    }

    /// What the driver sends. `hold` wraps bytes in memory. At a `compression` level, what becomes smaller by it is compressed.
    pub(crate) fn into_source(
        self,
        compression: Option<i32>,
        hold: impl FnOnce(Memory) -> Arc<Held>,
    ) -> Result<Prepared, Error> {
        let factor = self.factor.map(checked_factor).transpose()?;
        let file_error = |error| Error::of(ErrorKind::File, error);
        let (name, source) = match self.content {
            Content::File(path) => {
                let own = || path.file_name().map(|name| name.to_string_lossy().into_owned());
                let name = self.name.or_else(own).unwrap_or_default();
                (name, Source::new(&path).map_err(file_error)?)
            }
            Content::Bytes(bytes) => {
                let name = self.name.unwrap_or_default();
                let source = Source::memory(&name, hold(bytes));
                (name, source)
            }
        };
        check_name(&name).map_err(|why| {
            Error::new(ErrorKind::File, format!("no object can have the name {name:?}: {why}"))
        })?;
        let mut named = NamedSource { name, source };
        if let Some(level) = compression {
            named.source.compress(level).map_err(file_error)?;
        }
        named.begin().map_err(file_error)?;
        Ok(Prepared { named, factor })
    }
}

/// Bytes in memory.
pub(crate) type Memory = Box<dyn AsRef<[u8]> + Send + Sync>;

/// An object as the driver takes it.
pub(crate) struct Prepared {
    pub named: NamedSource,
    pub factor: Option<f64>,
}

/// Bytes in memory that the session holds. When the last copy goes, the bytes are dropped, and then `released` is called.
pub(crate) struct Held {
    bytes: Option<Memory>,
    released: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Held {
    pub fn new(bytes: Memory, released: impl FnOnce() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { bytes: Some(bytes), released: Some(Box::new(released)) })
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref().map_or(&[], |bytes| (**bytes).as_ref())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.bytes = None;
        if let Some(released) = self.released.take() {
            released();
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.fmt(f),
            Self::Bytes(bytes) => write!(f, "{} bytes", (**bytes).as_ref().len()),
        }
    }
}

pub(crate) fn checked_factor(factor: f64) -> Result<f64, Error> {
    within("retransmission factor", factor, 0.0..=MOST_FACTOR).map(|()| factor)
}
