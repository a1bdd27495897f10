//! Reading and writing of fixed-width fields, with the field's name in every error.

use crate::ParseError;

/// Walks over a byte slice field by field.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
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
