//! A datagram to a group: a packet, and behind it as many others as fit. Zeros may follow, so that the datagram
//! is as long as those that leave with it.
//!
//! ```text
//!  +--------+---------+--------+---------+-----------+
//!  | header | payload | header | payload | zeros ... |
//!  +--------+---------+--------+---------+-----------+
//! ```
//!
//! The first header's packet number belongs to the datagram. The other headers' packet numbers have no meaning.

use crate::{
    ParseError,
    header::{HEADER_LEN, Header},
};

/// Parses the next packet of a datagram. Returns its header and the end of its payload in `rest`; the payload
/// begins right behind the header. `None` if only zeros are left.
///
/// # Errors
/// If the bytes are neither a packet nor zeros, or the packet is longer than `rest`.
pub fn next_packet(rest: &[u8]) -> Result<Option<(Header, usize)>, ParseError> {
    if rest.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let header = Header::parse(rest)?;
    let end = HEADER_LEN + header.payload_len as usize;
    if end > rest.len() {
        return Err(ParseError::invalid(
            "payload length",
            header.payload_len,
            "what the datagram has room for",
        ));
    }
    Ok(Some((header, end)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        header::FileId,
        message::{Message, Reason},
    };

    #[test]
    fn packets_are_found_up_to_the_zeros_behind_them() {
        let messages = [Message::EndOfFile, Message::Withdraw(Reason::new("gone")), Message::Goodbye];
        let mut datagram: Vec<u8> =
            messages.iter().flat_map(|message| message.to_packet(FileId(3))).collect();
        datagram.extend([0; 50]);
        let (mut rest, mut found) = (&datagram[..], Vec::new());
        while let Some((header, end)) = next_packet(rest).unwrap() {
            found.push(Message::parse(&header, &rest[HEADER_LEN..end]).unwrap());
            rest = &rest[end..];
        }
        assert_eq!((found.as_slice(), rest.len()), (&messages[..], 50));
    }

    #[test]
    fn what_is_no_packet_or_cut_off_is_refused() {
        let packet = Message::Withdraw(Reason::new("gone")).to_packet(FileId(3));
        for cut in 1..packet.len() {
            assert!(next_packet(&packet[..cut]).is_err() || packet[..cut].iter().all(|byte| *byte == 0));
        }
        assert!(next_packet(&[1]).is_err() && next_packet(&[1; 64]).is_err());
        assert_eq!((next_packet(&[]), next_packet(&[0; 7])), (Ok(None), Ok(None)));
    }
}
