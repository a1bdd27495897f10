//! Zeros in a run of blocks: what is not sent, and not written.

use std::ops::Range;

/// The shortest stretch of zeros, in bytes, that is told in place of its blocks. Each one cuts a super-packet in two.
const SHORTEST: usize = 8 * 1024;

/// Bytes that are compared at once.
const STRIDE: usize = 64;

/// A stretch of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// The bytes of the run.
    pub bytes: Range<usize>,
    pub is_zero: bool,
}

/// Whether all bytes are zero.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(STRIDE).all(|stride| *stride == [0; STRIDE][..stride.len()])
}

/// The first stretch of a run of blocks from `start` on: blocks that are all zero, or those up to the next ones that are. A
/// run that is zero to its end counts however short it is.
pub(crate) fn first_stretch(run: &[u8], start: usize, block_len: usize) -> Stretch {
    let block_len = block_len.max(1);
    // Where the zeros begin that reach up to the block that is looked at.
    let mut zeros = None;
    for (at, block) in (start..).step_by(block_len).zip(run[start..].chunks(block_len)) {
        match (is_zero(block), zeros) {
            (true, None) => zeros = Some(at),
            (true, Some(_)) | (false, None) => {}
            (false, Some(first)) if at - first < SHORTEST => zeros = None,
            (false, Some(first)) if first == start => return Stretch { bytes: start..at, is_zero: true },
            (false, Some(first)) => return Stretch { bytes: start..first, is_zero: false },
        }
    }
    match zeros.filter(|first| *first == start || run.len() - first >= SHORTEST) {
        Some(first) if first == start => Stretch { bytes: start..run.len(), is_zero: true },
        Some(first) => Stretch { bytes: start..first, is_zero: false },
        None => Stretch { bytes: start..run.len(), is_zero: false },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stretches of a run in blocks of 1,000 bytes, as "d0-5000 z5000-40000".
    fn stretches(run: &[u8]) -> String {
        let (mut start, mut words) = (0, Vec::new());
        while start < run.len() {
            let Stretch { bytes, is_zero } = first_stretch(run, start, 1000);
            words.push(format!("{}{}-{}", if is_zero { "z" } else { "d" }, bytes.start, bytes.end));
            start = bytes.end;
        }
        words.join(" ")
    }

    #[test]
    fn long_stretches_of_zero_blocks_are_found_and_short_ones_stay() {
        let mut run = vec![0; 60_500];
        assert_eq!(stretches(&run), "z0-60500");
        run[0] = 1;
        assert_eq!(stretches(&run), "d0-1000 z1000-60500");
        run[19_999] = 1;
        assert_eq!(stretches(&run), "d0-1000 z1000-19000 d19000-20000 z20000-60500");
        run[9_000] = 1;
        assert_eq!(stretches(&run), "d0-10000 z10000-19000 d19000-20000 z20000-60500");
        run[11_000] = 1;
        assert_eq!(stretches(&run), "d0-20000 z20000-60500");
        run[60_499] = 1;
        assert_eq!(stretches(&run), "d0-20000 z20000-60000 d60000-60500");
        run[30_000] = 1;
        let expected = "d0-20000 z20000-30000 d30000-31000 z31000-60000 d60000-60500";
        assert_eq!(stretches(&run), expected);
        run.fill(1);
        assert_eq!(stretches(&run), "d0-60500");
    }

    #[test]
    fn a_short_run_of_zeros_counts_and_the_end_of_another_does_not() {
        assert_eq!(stretches(&[0; 10]), "z0-10");
        let mut run = vec![0; 9_000];
        run[0] = 1;
        assert_eq!(stretches(&run), "d0-9000");
    }

    #[test]
    fn one_byte_anywhere_is_not_zero() {
        for len in [1, 63, 64, 65, 200] {
            assert!(is_zero(&vec![0; len]));
            for at in 0..len {
                let mut bytes = vec![0; len];
                bytes[at] = 0x80;
                assert!(!is_zero(&bytes), "{at} of {len}");
            }
        }
        assert!(is_zero(&[]));
    }
}
