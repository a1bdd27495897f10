//! Reading and writing of fixed-width fields, with the field's name in every error, and macros for what consists of them.

use crate::ParseError;

/// Declares the body of a message that consists of fixed-width fields, and its length as `LEN`. Behind each field stands its
/// name in errors. `check` is a method that refuses values that are not allowed.
/// `shown` is the text for people.
macro_rules! fixed_body {
    (
        $(#[$attribute:meta])*
        pub struct $body:ident in $message:literal $(, shown $shown:literal)? $(, checked by $check:ident)? {
            $($(#[$doc:meta])* $visible:vis $field:ident: $type:ty = $name:literal),+ $(,)?
        }
    ) => {
        $(#[$attribute])*
        pub struct $body { $($(#[$doc])* $visible $field: $type),+ }

        impl $body {
            /// Length of the body in bytes: the sum of the lengths of its fields.
            pub const LEN: usize = 0 $(+ <$type as crate::field::Field>::LEN)+;

            pub(super) fn parse(payload: &[u8]) -> Result<Self, crate::ParseError> {
                let mut reader = crate::field::Reader::up_to(Self::LEN, payload, $message)?;
                let body = Self { $($field: crate::field::Field::read(&mut reader, $name)?),+ };
                $(body.$check()?;)?
                Ok(body)
            }

            pub(super) fn emit(&self, out: &mut Vec<u8>) {
                $(crate::field::Field::emit(&self.$field, out);)+
            }
        }

        fixed_body!(@show $body, ($($shown)?), $($field),+);
    };
    (@show $body:ident, (), $($field:ident),+) => {};
    (@show $body:ident, ($shown:literal), $($field:ident),+) => {
        impl std::fmt::Display for $body {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                #[allow(unused_variables, reason = "not all fields are shown")]
                let Self { $($field),+ } = self;
                write!(f, $shown)
            }
        }
    };
}

pub(crate) use fixed_body;

/// A value of fixed width.
pub trait Field: Sized {
    /// Length on the wire in bytes.
    const LEN: usize;

    fn read(reader: &mut Reader<'_>, name: &'static str) -> Result<Self, ParseError>;

    fn emit(&self, out: &mut Vec<u8>);
}

macro_rules! fields {
    ($from:ident, $to:ident: $($value:ty),+) => {
        $(impl Field for $value {
            const LEN: usize = size_of::<Self>();

            fn read(reader: &mut Reader<'_>, name: &'static str) -> Result<Self, ParseError> {
                reader.array::<{ size_of::<Self>() }>(name).map(Self::$from)
            }

            fn emit(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.$to());
            }
        })+
    };
}

fields!(from_be_bytes, to_be_bytes: u8, u16, u32, u64);
fields!(from, octets: std::net::Ipv4Addr, std::net::Ipv6Addr);

impl<const N: usize> Field for [u8; N] {
    const LEN: usize = N;

    fn read(reader: &mut Reader<'_>, name: &'static str) -> Result<Self, ParseError> {
        reader.array(name)
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

/// The lowest of 32 flags; no other is known.
impl Field for bool {
    const LEN: usize = u32::LEN;

    fn read(reader: &mut Reader<'_>, name: &'static str) -> Result<Self, ParseError> {
        match reader.u32(name)? {
            flags @ (0 | 1) => Ok(flags == 1),
            flags => Err(ParseError::invalid(name, flags, "0 or 1")),
        }
    }

    fn emit(&self, out: &mut Vec<u8>) {
        u32::from(*self).emit(out);
    }
}

/// Walks over a byte slice field by field.
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Creates a reader of at most `len` bytes.
    ///
    /// # Errors
    /// If there are more. The error names `message`.
    pub fn up_to(len: usize, bytes: &'a [u8], message: &'static str) -> Result<Self, ParseError> {
        let (bytes, behind) = bytes.split_at(len.min(bytes.len()));
        Self::new(behind).end(message).map(|()| Self::new(bytes))
    }

    /// The next `len` bytes.
    pub fn take(&mut self, field: &'static str, len: usize) -> Result<&'a [u8], ParseError> {
        if self.bytes.len() < len {
            return Err(ParseError::Truncated { field, have: self.bytes.len(), need: len });
        }
        let (head, tail) = self.bytes.split_at(len);
        self.bytes = tail;
        Ok(head)
    }

    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], ParseError> {
        Ok(self.take(field, N)?.try_into().expect("take returns N bytes"))
    }

    pub fn u8(&mut self, field: &'static str) -> Result<u8, ParseError> {
        Ok(self.array::<1>(field)?[0])
    }

    pub fn u16(&mut self, field: &'static str) -> Result<u16, ParseError> {
        Ok(u16::from_be_bytes(self.array(field)?))
    }

    pub fn u32(&mut self, field: &'static str) -> Result<u32, ParseError> {
        Ok(u32::from_be_bytes(self.array(field)?))
    }

    pub fn u64(&mut self, field: &'static str) -> Result<u64, ParseError> {
        Ok(u64::from_be_bytes(self.array(field)?))
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What is left, to the end.
    pub fn rest(self) -> &'a [u8] {
        self.bytes
    }

    /// Refuses bytes behind the last field.
    pub fn end(self, field: &'static str) -> Result<(), ParseError> {
        match self.bytes.len() {
            0 => Ok(()),
            n => Err(ParseError::invalid(field, format!("{n} bytes more"), "the end of the message")),
        }
    }
}
