//! Destination Options headers (RFC 8200, sections 4.2 and 4.6): reading the options of one, and padding one
//! that is written.

use crate::field::Reader;

const PAD1: u8 = 0;
const PADN: u8 = 1;

/// The longest header that is read, in bytes.
pub(crate) const MAX_LEN: usize = 256;

/// The reason why a header cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrong {
    Truncated { have: usize, need: usize },
    Options(&'static str),
}

/// Calls `read` with the type and body of each option. `read` returns whether it knows the option. An unknown
/// option is skipped if its type allows that. `bytes` begins with the header. Returns the number of the next
/// header, and the length of this one.
pub(crate) fn walk<E: From<Wrong>>(
    bytes: &[u8],
    mut read: impl FnMut(u8, &[u8]) -> Result<bool, E>,
) -> Result<(u8, usize), E> {
    let short = |need| Wrong::Truncated { have: bytes.len(), need };
    let [next_header, units, ..] = *bytes else { return Err(short(8).into()) };
    let len = (usize::from(units) + 1) * 8;
    if len > MAX_LEN {
        return Err(Wrong::Options("more than 256 bytes of them found").into());
    }
    let mut area = Reader::new(bytes.get(2..len).ok_or(short(len))?);
    while let Ok(kind) = area.u8("option type") {
        if kind == PAD1 {
            continue;
        }
        let body = body(&mut area)?;
        let is_skipped = kind == PADN || kind >> 6 == 0;
        if !read(kind, body)? && !is_skipped {
            return Err(Wrong::Options("one that may not be skipped found").into());
        }
    }
    Ok((next_header, len))
}

fn body<'a>(area: &mut Reader<'a>) -> Result<&'a [u8], Wrong> {
    let len = area.u8("option length").map_err(|_| Wrong::Options("one without a length found"))?;
    area.take("option", len.into()).map_err(|_| Wrong::Options("one beyond the header's end found"))
}

/// Pads a header to a multiple of 8 bytes, and writes its length field.
pub(crate) fn close(bytes: &mut Vec<u8>) {
    match bytes.len().next_multiple_of(8) - bytes.len() {
        0 => {}
        1 => bytes.push(PAD1),
        missing => {
            bytes.extend_from_slice(&[PADN, missing as u8 - 2]);
            bytes.extend(std::iter::repeat_n(0, missing - 2));
        }
    }
    bytes[1] = (bytes.len() / 8 - 1) as u8;
}
