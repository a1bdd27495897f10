//! Sending bytes that are only borrowed.

use std::{fmt, marker::PhantomData, sync::Arc};

use super::{Group, Transfer};
use crate::{Error, Object, wait::Watched};

/// Sends borrowed bytes; see [`Group::scope`].
///
/// Bytes that do not live as long as the scope are refused by the compiler:
///
/// ```compile_fail,E0597
/// # let group = treecast::Group::builder().interface("lo").start().unwrap();
/// group.scope(|scope| {
///     let bytes = vec![1, 2, 3];
///     scope.send_bytes("bytes", &bytes)
/// });
/// ```
pub struct Scope<'env> {
    group: &'env Group,
    /// The number of borrows that the session has.
    borrows: Arc<Watched<usize>>,
    /// The bytes live as long as `'env`, neither shorter nor longer.
    _borrowed: PhantomData<&'env mut &'env ()>,
}

impl<'env> Scope<'env> {
    pub(super) fn new(group: &'env Group) -> Self {
        Self { group, borrows: Arc::default(), _borrowed: PhantomData }
    }

    /// Sends bytes under a name, without a copy. See [`Group::send_bytes`].
    ///
    /// # Errors
    /// This returns the errors of [`Group::send`].
    pub fn send_bytes(&self, name: impl Into<String>, bytes: &'env [u8]) -> Result<Transfer, Error> {
        self.send(name, bytes, None)
    }

    /// Sends bytes under a name, with a [retransmission factor](Object::retransmission_factor).
    ///
    /// # Errors
    /// This returns the errors of [`Group::send`].
    pub fn send_bytes_with_factor(
        &self,
        name: impl Into<String>,
        bytes: &'env [u8],
        factor: f64,
    ) -> Result<Transfer, Error> {
        self.send(name, bytes, Some(factor))
    }

    fn send(
        &self,
        name: impl Into<String>,
        bytes: &'env [u8],
        factor: Option<f64>,
    ) -> Result<Transfer, Error> {
        self.borrows.change(|borrows| *borrows += 1);
        let borrow = Borrow { start: bytes.as_ptr(), len: bytes.len(), borrows: self.borrows.clone() };
        let object = Object::bytes(name, borrow);
        self.group.send(match factor {
            Some(factor) => object.retx_factor(factor),
            None => object,
        })
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scope")
    }
}

/// Ends a scope, however it is left: waits until the session has no borrow any more.
pub(super) struct Borrowed<'a, 'env>(pub &'a Scope<'env>);

impl Drop for Borrowed<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.group.shared.stop();
        }
        self.0.borrows.wait(|borrows| (*borrows == 0).then_some(()));
    }
}

/// Bytes that the session has borrowed.
struct Borrow {
    start: *const u8,
    len: usize,
    borrows: Arc<Watched<usize>>,
}

// SAFETY: the bytes are only read, and `&[u8]` is Send and Sync.
unsafe impl Send for Borrow {}
// SAFETY: as above.
unsafe impl Sync for Borrow {}

impl AsRef<[u8]> for Borrow {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: pointer and length are those of a slice that lives as long as 'env. `Borrowed` lets nobody leave `Group::scope`,
        // and so nobody end 'env, while this borrow is counted.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl Drop for Borrow {
    fn drop(&mut self) {
        self.borrows.change(|borrows| *borrows -= 1);
    }
}
