//! Begin-of-File (interdomain-2013, table 4.1).
//!
//! ```text
//!  0             1           9                     265
//!  +-------------+-----------+----------------------+
//!  |transfer type| file size | file name, zero-filled|
//!  +-------------+-----------+----------------------+
//! ```

use std::fmt;

use crate::{ParseError, field::Reader};

/// Width of the name field in bytes. A name is UTF-8 (the paper says ASCII) and may fill it.
pub const FILE_NAME_LEN: usize = 256;

/// Where an object comes from and goes to. The paper gives no numbers; these are in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum TransferType {
    MemoryToMemory = 0,
    MemoryToDisk = 1,
    DiskToMemory = 2,
    DiskToDisk = 3,
}

/// Announces an object: its size in bytes and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeginOfFile {
    pub transfer_type: TransferType,
    pub file_size: u64,
    file_name: String,
}

impl BeginOfFile {
    /// Length of the payload in bytes.
    pub const LEN: usize = 1 + 8 + FILE_NAME_LEN;

    /// # Errors
    /// When the name is empty, longer than [`FILE_NAME_LEN`] bytes or contains a zero byte.
    pub fn new(transfer_type: TransferType, file_size: u64, file_name: &str) -> Result<Self, ParseError> {
        if file_name.is_empty() || file_name.len() > FILE_NAME_LEN {
            return Err(ParseError::invalid(
                "file name",
                format!("{} bytes", file_name.len()),
                "1 to 256 bytes",
            ));
        }
        if file_name.contains('\0') {
            return Err(ParseError::invalid("file name", format!("{file_name:?}"), "no zero byte"));
        }
        Ok(Self { transfer_type, file_size, file_name: file_name.to_owned() })
    }

    /// The name as the sender gave it. It is the receiver's task to see that it stays in its folder.
    pub fn file_name(&self) -> &str {
        &self.file_name
    }

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let transfer_type = match reader.u8("transfer type")? {
            0 => TransferType::MemoryToMemory,
            1 => TransferType::MemoryToDisk,
            2 => TransferType::DiskToMemory,
            3 => TransferType::DiskToDisk,
            other => return Err(ParseError::invalid("transfer type", other, "0 to 3")),
        };
        let file_size = reader.u64("file size")?;
        let field = reader.take("file name", FILE_NAME_LEN)?;
        reader.end("begin of file")?;
        let len = field.iter().position(|byte| *byte == 0).unwrap_or(FILE_NAME_LEN);
        if field[len..].iter().any(|byte| *byte != 0) {
            return Err(ParseError::invalid("file name", "bytes behind its end", "zero bytes"));
        }
        let name = std::str::from_utf8(&field[..len])
            .map_err(|_| ParseError::invalid("file name", field[..len].escape_ascii(), "UTF-8"))?;
        Self::new(transfer_type, file_size, name)
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.transfer_type as u8);
        out.extend_from_slice(&self.file_size.to_be_bytes());
        let mut field = [0; FILE_NAME_LEN];
        field[..self.file_name.len()].copy_from_slice(self.file_name.as_bytes());
        out.extend_from_slice(&field);
    }
}

impl fmt::Display for BeginOfFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "type={:?} size={} name={:?}", self.transfer_type, self.file_size, self.file_name)
    }
}
