//! `--rate`, `--rate-floor` and `--rates`.

use treecast::{Rate, limits::RATES_BPS};
use treecast_host::quantity::{self, QuantityError};

pub(super) fn parse_asked(text: &str) -> Result<Rate, QuantityError> {
    match text {
        "auto" => return Ok(Rate::Auto),
        "tfmcc" => return Ok(Rate::Tfmcc),
        "max" => return Ok(Rate::Max),
        _ => {}
    }
    parse_bps(text).map(Rate::Bps).map_err(|error| error.or("auto, tfmcc or max"))
}

/// The value of `--rates`, in bits a second.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rates(pub Vec<u64>);

pub(super) fn parse_rates(text: &str) -> Result<Rates, String> {
    let rates: Result<_, _> = text.split(',').map(parse_bps).collect();
    rates.map(Rates).map_err(|error| format!("expected rates from fast to slow, as 500M,100M,20M; {error}"))
}

/// Parses a rate at which packets can be sent, in bits a second.
pub(super) fn parse_bps(text: &str) -> Result<u64, QuantityError> {
    quantity::rate_bps(text, RATES_BPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_rates_are_numbers() {
        assert_eq!(parse_rates("500M, 100M,2.5M"), Ok(Rates(vec![500_000_000, 100_000_000, 2_500_000])));
        for bad in ["", "100M,0", "auto,1M", "1M,max", "5M,"] {
            let line = parse_rates(bad).unwrap_err();
            assert!(line.contains("from fast to slow"), "{bad}: {line}");
        }
    }

    #[test]
    fn a_rate_is_a_number_or_a_word() {
        for bad in ["0", "max", "auto", "1T", "-5", "1000G"] {
            assert!(parse_bps(bad).is_err(), "{bad}");
        }
        assert!(parse_asked("0").unwrap_err().to_string().contains("or auto, tfmcc or max"));
        let words = ["auto", "tfmcc", "max", "20M"].map(parse_asked);
        assert_eq!(words, [Rate::Auto, Rate::Tfmcc, Rate::Max, Rate::Bps(20_000_000)].map(Ok));
    }
}
