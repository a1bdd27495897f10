//! The floating-point codes for times (RFC 9777, 5.1.3 and 5.1.9; RFC 9776, 4.1.1 and 4.1.7).
//!
//! A code below 2^(m+3) is the value itself. Above, its top bit is set, 3 bits of exponent and m bits
//! of mantissa follow, and the value is (mantissa | 2^m) << (exponent + 3).

/// Decodes a code to its value.
pub(crate) fn decode(code: u16, mantissa_bits: u32) -> u32 {
    if u32::from(code) < 1 << (mantissa_bits + 3) {
        return u32::from(code);
    }
    let mantissa = u32::from(code) & ((1 << mantissa_bits) - 1);
    let exponent = (u32::from(code) >> mantissa_bits) & 7;
    (mantissa | 1 << mantissa_bits) << (exponent + 3)
}

/// Encodes the largest value that a code can hold and that does not exceed `value`.
pub(crate) fn encode(value: u32, mantissa_bits: u32) -> u16 {
    let threshold = 1 << (mantissa_bits + 3);
    if value < threshold {
        return value as u16;
    }
    let largest = ((1 << (mantissa_bits + 1)) - 1) << 10;
    let value = value.min(largest);
    let exponent = value.ilog2() - mantissa_bits - 3;
    let mantissa = (value >> (exponent + 3)) & ((1 << mantissa_bits) - 1);
    (threshold | exponent << mantissa_bits | mantissa) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_examples_of_the_formula() {
        assert_eq!(decode(127, 4), 127);
        assert_eq!(decode(0x80, 4), 128);
        assert_eq!(decode(0xff, 4), 31_744);
        assert_eq!(decode(0x7fff, 12), 32_767);
        assert_eq!(decode(0x8000, 12), 32_768);
        assert_eq!(decode(0xffff, 12), 8_387_584);
    }

    #[test]
    fn every_code_survives_decoding_and_encoding() {
        for code in 0..=u16::from(u8::MAX) {
            assert_eq!(encode(decode(code, 4), 4), code);
        }
        for code in 0..=u16::MAX {
            assert_eq!(encode(decode(code, 12), 12), code);
        }
    }

    #[test]
    fn a_value_between_two_codes_is_rounded_down_and_a_huge_one_capped() {
        for value in 0..40_000 {
            let decoded = decode(encode(value, 4), 4);
            assert!(decoded <= value && value.min(31_744) - decoded <= value / 16, "{value} {decoded}");
        }
        assert_eq!(encode(u32::MAX, 12), u16::MAX);
    }
}
