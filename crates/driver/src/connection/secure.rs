//! TLS inside a connection. It replaces reading and writing of the stream's bytes.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
};

use treecast_host::stream::Quiet;

use super::{ConnectionError, is_temporary};
use crate::security::{PublicKey, tls::TlsError};

#[derive(Debug)]
pub(super) struct Secure {
    tls: rustls::Connection,
    /// Records as they came, up to what one read takes.
    raw: Vec<u8>,
    /// The other side has said that nothing more comes.
    has_ended: bool,
    /// Whether the bytes that are still to be written are dropped instead.
    is_discarded: bool,
}

impl Secure {
    pub fn new(tls: rustls::Connection) -> Self {
        Self { tls, raw: Vec::new(), has_ended: false, is_discarded: false }
    }

    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// The other side's key, once it is proved.
    pub fn peer_key(&self) -> Option<PublicKey> {
        let keys = self.tls.peer_certificates().filter(|_| !self.tls.is_handshaking())?;
        PublicKey::from_spki(keys.first()?).ok()
    }

    /// Reads once, up to `len` bytes, and appends all decrypted bytes to `input`. Bytes that stayed in here
    /// would wake nobody. Returns whether there may be more.
    pub fn read(
        &mut self,
        stream: &mut TcpStream,
        len: usize,
        input: &mut Vec<u8>,
    ) -> Result<bool, ConnectionError> {
        if self.has_ended {
            return Err(ConnectionError::Closed);
        }
        self.raw.resize(len, 0);
        let count = match stream.read(&mut self.raw) {
            Ok(0) => return Err(ConnectionError::CutOff),
            Ok(count) => count,
            Err(error) if is_temporary(&error) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let before = input.len();
        let result = self.take_records(count, input);
        // An answer of the handshake, or the alert that says why there is none. What cannot be written now is tried
        // again with the next output.
        _ = self.write_records(stream);
        result?;
        if self.has_ended && input.len() == before { Err(ConnectionError::Closed) } else { Ok(true) }
    }

    fn take_records(&mut self, count: usize, input: &mut Vec<u8>) -> Result<(), ConnectionError> {
        let mut records = &self.raw[..count];
        while !records.is_empty() {
            if self.tls.read_tls(&mut records)? == 0 {
                break;
            }
            let state = self.tls.process_new_packets().map_err(TlsError::from)?;
            self.has_ended |= state.peer_has_closed();
            let start = input.len();
            input.resize(start + state.plaintext_bytes_to_read(), 0);
            self.tls.reader().read_exact(&mut input[start..])?;
        }
        Ok(())
    }

    /// Whether something must still be written.
    pub fn has_output(&self) -> bool {
        self.tls.wants_write() && !self.is_discarded
    }

    /// Encrypts and writes as many of `bytes` as the stream takes. Returns how many of them need not be given
    /// again.
    pub fn write(&mut self, stream: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
        self.write_records(stream)?;
        if self.is_handshaking() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = self.tls.writer().write(bytes)?;
        match self.write_records(stream) {
            Err(error) if !is_temporary(&error) => Err(error),
            _ => Ok(count),
        }
    }

    pub fn discard_output(&mut self) {
        self.is_discarded = true;
    }

    /// Announces that nothing more will be written (close_notify).
    pub fn finish(&mut self, stream: &mut TcpStream) {
        self.tls.send_close_notify();
        // The other side may have gone before; then nothing is left to say.
        _ = self.write_records(stream);
    }

    fn write_records(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        while self.has_output() {
            // It writes all records that wait at once, by several buffers.
            self.tls.write_tls(&mut Quiet(&*stream))?;
        }
        Ok(())
    }
}
