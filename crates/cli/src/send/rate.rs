//! `--rate`, `--rate-floor` and `--rates`.

use treecast::Rate;

use super::parse_rate;

pub(super) fn parse_asked(text: &str) -> Result<Rate, String> {
    match text {
        "auto" => return Ok(Rate::Auto),
        "tfmcc" => return Ok(Rate::Tfmcc),
        _ => {}
    }
    let rate = parse_rate(text).map_err(|line| line.replace("or max", "auto, tfmcc, or max"))?;
    Ok(rate.0.map_or(Rate::Max, Rate::Bps))
}

/// The value of `--rates`, in bits a second.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rates(pub Vec<u64>);

pub(super) fn parse_rates(text: &str) -> Result<Rates, String> {
    let rates: Option<_> = text.split(',').map(|rate| parse_rate(rate.trim()).ok()?.0).collect();
    rates.map(Rates).ok_or_else(|| "expected rates from fast to slow, as 500M,100M,20M".to_owned())
}

/// Parses the floor, in bits a second.
pub(super) fn parse_floor(text: &str) -> Result<u64, String> {
    let refused = || "expected bits a second from 1k to 400G, like 2M".to_owned();
    parse_rate(text).ok().and_then(|rate| rate.0).ok_or_else(refused)
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
            assert!(parse_floor(bad).is_err(), "{bad}");
        }
        assert!(parse_asked("0").unwrap_err().contains("auto"));
        let words = ["auto", "tfmcc", "max", "20M"].map(parse_asked);
        assert_eq!(words, [Rate::Auto, Rate::Tfmcc, Rate::Max, Rate::Bps(20_000_000)].map(Ok));
    }
}
