//! Lacking: which bytes of an object are missing, as one range or more in order, each as in Retx-Request.

use std::{fmt, ops::Range};

use super::RetransmissionRequest;
use crate::ParseError;

/// The most ranges in a message.
const MAX_RANGES: usize = 64;

/// Ranges of bytes that are missing. They are in order and do not overlap, so that whoever reads them goes over an object once
/// at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lacking(Vec<RetransmissionRequest>);

impl Lacking {
    /// Creates messages of these ranges, which are in order and do not overlap, as few as fit into packets of so many bytes.
    pub fn of_all(ranges: impl IntoIterator<Item = Range<u64>>, block_len: u16) -> Vec<Self> {
        let most = (usize::from(block_len) / RetransmissionRequest::LEN).clamp(1, MAX_RANGES);
        let ranges: Vec<_> =
            ranges.into_iter().filter_map(|range| RetransmissionRequest::new(range).ok()).collect();
        ranges.chunks(most).map(|ranges| Self(ranges.to_vec())).collect()
    }

    /// The missing ranges. One that is empty ends a report.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().map(RetransmissionRequest::range)
    }

    pub(super) fn parse(payload: &[u8]) -> Result<Self, ParseError> {
        let ranges = payload.chunks(RetransmissionRequest::LEN).map(RetransmissionRequest::parse);
        let ranges: Vec<_> = ranges.collect::<Result<_, _>>()?;
        if ranges.is_empty() || ranges.len() > MAX_RANGES {
            return Err(ParseError::invalid("ranges", ranges.len(), "1 to 64"));
        }
        let (mut pairs, shown) = (ranges.windows(2), |request: &RetransmissionRequest| request.range().start);
        match pairs.find(|pair| pair[1].range().start < pair[0].range().end) {
            Some(pair) => Err(ParseError::invalid(
                "start position",
                shown(&pair[1]),
                "no value below the end of the range before",
            )),
            None => Ok(Self(ranges)),
        }
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        self.0.iter().for_each(|range| range.emit(out));
    }
}

impl From<RetransmissionRequest> for Lacking {
    fn from(range: RetransmissionRequest) -> Self {
        Self(vec![range])
    }
}

impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, range) in self.0.iter().enumerate() {
            write!(f, "{}{range}", if number == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_ranges_as_fit_are_one_message() {
        let ranges = (0..100).map(|number| number * 10..number * 10 + 5);
        let lens = |block_len| -> Vec<_> {
            let messages = Lacking::of_all(ranges.clone(), block_len);
            messages.iter().map(|message| message.ranges().count()).collect()
        };
        assert_eq!((lens(1_400), lens(512)), (vec![64, 36], vec![32, 32, 32, 4]));
        assert_eq!(lens(1).len(), 100);
    }

    #[test]
    fn ranges_that_are_none_too_many_or_out_of_order_are_refused() {
        let refusal = |ranges: &[Range<u64>]| {
            let mut bytes = Vec::new();
            ranges
                .iter()
                .for_each(|range| RetransmissionRequest::new(range.clone()).unwrap().emit(&mut bytes));
            Lacking::parse(&bytes).map_err(|error| error.to_string())
        };
        assert_eq!(refusal(&[5..7, 7..9]).unwrap().ranges().collect::<Vec<_>>(), [5..7, 7..9]);
        let out_of_order = "start position: 6 found, expected no value below the end of the range before";
        assert_eq!(refusal(&[5..7, 6..9]).unwrap_err(), out_of_order);
        assert_eq!(refusal(&[]).unwrap_err(), "ranges: 0 found, expected 1 to 64");
        let many: Vec<_> = (0..65).map(|number| number..number + 1).collect();
        assert_eq!(refusal(&many).unwrap_err(), "ranges: 65 found, expected 1 to 64");
        assert!(Lacking::parse(&[0; 17]).is_err(), "a part of a range");
    }
}
