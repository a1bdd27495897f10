//! Reason: one line for a person, UTF-8, to the end of the message.

use std::fmt;

use crate::ParseError;

/// The longest reason in bytes.
pub const MAX_REASON_LEN: usize = 512;

/// The reason why an object was withdrawn or failed, or a receiver put out. It is for people; no program acts
/// on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason(String);

impl Reason {
    /// Creates a reason from any text. Control characters become spaces, and a text that is too long is cut.
    pub fn new(text: &str) -> Self {
        let mut line = String::new();
        for character in text.chars().map(|c| if c.is_control() { ' ' } else { c }) {
            if line.len() + character.len_utf8() > MAX_REASON_LEN {
                break;
            }
            line.push(character);
        }
        Self(line)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        if payload.len() > MAX_REASON_LEN {
            return Err(ParseError::invalid(
                "reason",
                format!("{} bytes", payload.len()),
                "at most 512 bytes",
            ));
        }
        let text = std::str::from_utf8(payload)
            .map_err(|_| ParseError::invalid("reason", payload.escape_ascii(), "UTF-8"))?;
        if text.chars().any(char::is_control) {
            return Err(ParseError::invalid("reason", format!("{text:?}"), "no control characters"));
        }
        Ok(Self(text.to_owned()))
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_bytes());
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
