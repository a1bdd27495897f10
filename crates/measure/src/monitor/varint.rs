//! Numbers of as few bytes as they need: seven bits a byte, the lowest first, the top bit set on all
//! but the last.

/// Appends a number.
pub fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Appends a signed number; small ones of either sign are short.
pub fn put_signed(bytes: &mut Vec<u8>, value: i64) {
    put(bytes, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends a string behind its length.
pub fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// Takes a number from the front of `bytes`; `None` when it is not whole or needs more than 64 bits.
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let low = u64::from(byte & 0x7f);
        if low << shift >> shift != low {
            return None;
        }
        value |= low << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Takes a signed number.
pub fn take_signed(bytes: &mut &[u8]) -> Option<i64> {
    take(bytes).map(|value| (value >> 1) as i64 ^ -((value & 1) as i64))
}

/// Takes a string.
pub fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let len = usize::try_from(take(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(value: u64, signed: i64) {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            put_signed(&mut bytes, signed);
            let mut rest = &bytes[..];
            prop_assert_eq!(take(&mut rest), Some(value));
            prop_assert_eq!(take_signed(&mut rest), Some(signed));
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn no_bytes_are_taken_beyond_the_end(bytes: Vec<u8>) {
            let mut rest = &bytes[..];
            while take_text(&mut rest).is_some() {}
            let mut rest = &bytes[..];
            while take(&mut rest).is_some() {}
        }
    }

    #[test]
    fn small_numbers_are_short_and_too_large_ones_refused() {
        let mut bytes = Vec::new();
        put_signed(&mut bytes, -64);
        assert_eq!(bytes.len(), 1);
        assert_eq!(take(&mut &[0xff; 10][..]), None);
        assert_eq!(take(&mut &[0x80][..]), None);
    }
}
