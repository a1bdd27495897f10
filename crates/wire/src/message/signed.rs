//! Signed: a message of a secure carousel with the sender's signature. Messages that end something, and the
//! hashes of blocks, count only if they are signed, because everybody who has the ticket can seal packets.
//!
//! ```text
//!  0              64            68
//!  +--------------+-------------+---------------------------+
//!  | signature    | packet type | that packet's own payload |
//!  +--------------+-------------+---------------------------+
//! ```

use std::fmt;

use super::{BlockHashes, Contents, GroupId, Local, LocalState, Message, Reason, SIGNATURE_LEN};
use crate::{
    ParseError,
    field::Reader,
    header::{FileId, PacketType},
};

/// The first bytes of every signed message. No other signature of treecast covers such bytes.
const DOMAIN: &[u8] = b"treecast carousel 1\0";

/// A message and the sender's signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    pub word: SignedWord,
    /// The signature of [`SignedWord::signed_bytes`].
    pub signature: [u8; SIGNATURE_LEN],
}

/// The messages that a carousel's sender signs, besides manifests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignedWord {
    Contents(Contents),
    Withdraw(Reason),
    Goodbye,
    /// The hashes of the next blocks or repair symbols.
    Blocks(BlockHashes),
    /// How a session with local groups is: the sender's state, said to the session's group.
    State(Box<LocalState>),
}

impl SignedWord {
    /// The bytes that are signed: the object's session and number, and the message.
    pub fn signed_bytes(&self, file: FileId) -> Vec<u8> {
        let mut bytes = DOMAIN.to_vec();
        bytes.extend_from_slice(&file.0.to_be_bytes());
        self.emit(&mut bytes);
        bytes
    }

    /// Converts a message, if it is of a kind that is signed.
    pub fn of(message: &Message) -> Option<Self> {
        match message {
            Message::Contents(contents) => Some(Self::Contents(*contents)),
            Message::Withdraw(reason) => Some(Self::Withdraw(reason.clone())),
            Message::Goodbye => Some(Self::Goodbye),
            Message::Local(Local::State(state)) if state.group == GroupId::SESSION => {
                Some(Self::State(state.clone()))
            }
            _ => None,
        }
    }

    /// The message in its unsigned form. `None` for kinds that are never sent unsigned.
    pub fn into_message(self) -> Option<Message> {
        match self {
            Self::Contents(contents) => Some(Message::Contents(contents)),
            Self::Withdraw(reason) => Some(Message::Withdraw(reason)),
            Self::Goodbye => Some(Message::Goodbye),
            Self::State(state) => Some(Message::Local(Local::State(state))),
            Self::Blocks(_) => None,
        }
    }

    fn packet_type(&self) -> PacketType {
        match self {
            Self::Contents(_) => PacketType::Contents,
            Self::Withdraw(_) => PacketType::Withdraw,
            Self::Goodbye => PacketType::Goodbye,
            Self::Blocks(hashes) => hashes.packet_type(),
            Self::State(_) => PacketType::Local,
        }
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.packet_type() as u32).to_be_bytes());
        match self {
            Self::Contents(contents) => contents.emit(out),
            Self::Withdraw(reason) => reason.emit(out),
            Self::Goodbye => {}
            Self::Blocks(hashes) => hashes.emit(out),
            Self::State(state) => state.emit(out),
        }
    }
}

impl Signed {
    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(payload);
        let signature = reader.array("signature")?;
        let kind = reader.u32("packet type")?;
        let rest = reader.rest();
        let word = match kind {
            kind if kind == PacketType::Contents as u32 => SignedWord::Contents(Contents::parse(rest)?),
            kind if kind == PacketType::Withdraw as u32 => SignedWord::Withdraw(Reason::parse(rest)?),
            kind if kind == PacketType::Goodbye as u32 && rest.is_empty() => SignedWord::Goodbye,
            kind if kind == PacketType::Data as u32 => SignedWord::Blocks(BlockHashes::parse(false, rest)?),
            kind if kind == PacketType::RepairSymbol as u32 => {
                SignedWord::Blocks(BlockHashes::parse(true, rest)?)
            }
            kind if kind == PacketType::Local as u32 => {
                let mut reader = Reader::new(rest);
                let state = LocalState::parse(&mut reader)?;
                reader.end("signed state")?;
                if state.group != GroupId::SESSION {
                    return Err(ParseError::invalid(
                        "group of a signed state",
                        state.group,
                        "0, the session",
                    ));
                }
                SignedWord::State(Box::new(state))
            }
            other => {
                let expected =
                    "Contents, Withdraw, an empty Goodbye, hashes of blocks, or the sender's state";
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
            SignedWord::Blocks(hashes) => write!(f, "{hashes}"),
            SignedWord::State(state) => write!(f, "State {state}"),
        }
    }
}
