//! Signed: a message of a secure carousel that ends something, with the sender's signature. Everybody who has the ticket can
//! seal packets, so these count only so.
//!
//! ```text
//!  0              64            68
//!  +--------------+-------------+---------------------------+
//!  | signature    | packet type | that packet's own payload |
//!  +--------------+-------------+---------------------------+
//! ```

use std::fmt;

use super::{Contents, Message, Reason, SIGNATURE_LEN};
use crate::{
    ParseError,
    field::Reader,
    header::{FileId, PacketType},
};

/// What the signature is good for, and nothing else's is.
const DOMAIN: &[u8] = b"treecast carousel 1\0";

/// A message and the sender's signature of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    pub word: SignedWord,
    /// Of [`SignedWord::signed_bytes`].
    pub signature: [u8; SIGNATURE_LEN],
}

/// What a carousel's sender signs besides manifests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignedWord {
    Contents(Contents),
    Withdraw(Reason),
    Goodbye,
}

impl SignedWord {
    /// What is signed: which object of which session, and the words.
    pub fn signed_bytes(&self, file: FileId) -> Vec<u8> {
        let mut bytes = DOMAIN.to_vec();
        bytes.extend_from_slice(&file.0.to_be_bytes());
        self.emit(&mut bytes);
        bytes
    }

    /// The message, if it is one of those that are signed.
    pub fn of(message: &Message) -> Option<Self> {
        match message {
            Message::Contents(contents) => Some(Self::Contents(*contents)),
            Message::Withdraw(reason) => Some(Self::Withdraw(reason.clone())),
            Message::Goodbye => Some(Self::Goodbye),
            _ => None,
        }
    }

    pub fn into_message(self) -> Message {
        match self {
            Self::Contents(contents) => Message::Contents(contents),
            Self::Withdraw(reason) => Message::Withdraw(reason),
            Self::Goodbye => Message::Goodbye,
        }
    }

    fn packet_type(&self) -> PacketType {
        match self {
            Self::Contents(_) => PacketType::Contents,
            Self::Withdraw(_) => PacketType::Withdraw,
            Self::Goodbye => PacketType::Goodbye,
        }
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.packet_type() as u32).to_be_bytes());
        match self {
            Self::Contents(contents) => contents.emit(out),
            Self::Withdraw(reason) => reason.emit(out),
            Self::Goodbye => {}
        }
    }
}

impl Signed {
    /// Length of the payload in bytes.
    pub fn emitted_len(&self) -> usize {
        let word = match &self.word {
            SignedWord::Contents(_) => Contents::LEN,
            SignedWord::Withdraw(reason) => reason.emitted_len(),
            SignedWord::Goodbye => 0,
        };
        SIGNATURE_LEN + 4 + word
    }

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let signature = reader.array("signature")?;
        let kind = reader.u32("packet type")?;
        let rest = reader.rest();
        let word = match kind {
            kind if kind == PacketType::Contents as u32 => SignedWord::Contents(Contents::parse(rest)?),
            kind if kind == PacketType::Withdraw as u32 => SignedWord::Withdraw(Reason::parse(rest)?),
            kind if kind == PacketType::Goodbye as u32 && rest.is_empty() => SignedWord::Goodbye,
            other => {
                let expected = "Contents, Withdraw or an empty Goodbye";
                return Err(ParseError::invalid("packet type", format!("{other:#x}"), expected));
            }
        };
        Ok(Self { word, signature })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.signature);
        self.word.emit(out);
    }
}

impl fmt::Display for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.word {
            SignedWord::Contents(contents) => write!(f, "Contents {contents}"),
            SignedWord::Withdraw(reason) => write!(f, "Withdraw {reason}"),
            SignedWord::Goodbye => write!(f, "Goodbye"),
        }
    }
}
