//! `--rate`, `--rate-floor` and `--rates`.

use treecast_driver::send::{Control, Rate};
use treecast_wire::ticket::MAX_GROUPS;

use super::parse_rate;

/// The value of `--rate`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Asked {
    Auto,
    Tfmcc,
    Max,
    Fixed(u64),
}

pub(super) fn parse_asked(text: &str) -> Result<Asked, String> {
    match text {
        "auto" => return Ok(Asked::Auto),
        "tfmcc" => return Ok(Asked::Tfmcc),
        _ => {}
    }
    let rate = parse_rate(text).map_err(|line| line.replace("or max", "auto, tfmcc, or max"))?;
    Ok(rate.0.map_or(Asked::Max, Asked::Fixed))
}

/// The value of `--rates`, in bits a second.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rates {
    pub first: u64,
    /// The slower rates, each lower than the one before; at least one.
    pub slower: Vec<u64>,
}

pub(super) fn parse_rates(text: &str) -> Result<Rates, String> {
    let refused = || {
        format!(
            "expected 2 to {MAX_GROUPS} rates from fast to slow, each lower than the one before, as 500M,100M,20M"
        )
    };
    let rates: Option<Vec<u64>> = text.split(',').map(|rate| parse_rate(rate.trim()).ok()?.0).collect();
    let rates = rates.ok_or_else(refused)?;
    let is_falling = rates.windows(2).all(|pair| pair[0] > pair[1]);
    match &rates[..] {
        [first, slower @ ..] if is_falling && (1..usize::from(MAX_GROUPS)).contains(&slower.len()) => {
            Ok(Rates { first: *first, slower: slower.to_vec() })
        }
        _ => Err(refused()),
    }
}

/// Parses the floor, in bits a second.
pub(super) fn parse_floor(text: &str) -> Result<u64, String> {
    let refused = || "expected bits a second from 1k to 400G, like 2M".to_owned();
    parse_rate(text).ok().and_then(|rate| rate.0).ok_or_else(refused)
}

/// The rate of a session or carousel. A carousel has no connections that could tell what its receivers can
/// take.
pub(super) fn rate(asked: Option<Asked>, floor_bps: Option<u64>, is_carousel: bool) -> Result<Rate, String> {
    let rate = match asked {
        None if is_carousel => Rate::Max,
        Some(Asked::Auto | Asked::Tfmcc) if is_carousel => {
            let line =
                "a carousel hears nothing of its receivers: name a --rate that their links bear, or max";
            return Err(line.into());
        }
        None | Some(Asked::Auto) => Rate::Auto { control: Control::Model, floor_bps },
        Some(Asked::Tfmcc) => Rate::Auto { control: Control::Tfmcc, floor_bps },
        Some(Asked::Max) => Rate::Max,
        Some(Asked::Fixed(rate)) => Rate::Fixed(rate),
    };
    match (floor_bps, rate) {
        (Some(floor), Rate::Fixed(rate)) if floor > rate => Err(format!(
            "the floor of {floor} bit/s is above the rate of {rate} bit/s: take a lower --rate-floor"
        )),
        (Some(_), Rate::Fixed(_) | Rate::Max) => {
            Err("--rate-floor says whom --rate auto does not wait for: leave it out, or take --rate auto"
                .into())
        }
        _ => Ok(rate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_paced_by_its_receivers_and_a_carousel_by_its_link() {
        let auto = |control, floor_bps| Ok(Rate::Auto { control, floor_bps });
        assert_eq!(rate(None, None, false), auto(Control::Model, None));
        assert_eq!(rate(Some(Asked::Auto), Some(5), false), auto(Control::Model, Some(5)));
        assert_eq!(rate(Some(Asked::Tfmcc), Some(5), false), auto(Control::Tfmcc, Some(5)));
        assert!(rate(Some(Asked::Tfmcc), None, true).unwrap_err().contains("carousel"));
        assert_eq!(rate(None, None, true), Ok(Rate::Max));
        assert!(rate(Some(Asked::Auto), None, true).unwrap_err().contains("carousel"));
        assert_eq!(rate(parse_asked("20M").ok(), None, true), Ok(Rate::Fixed(20_000_000)));
    }

    #[test]
    fn several_rates_go_from_fast_to_slow() {
        let rates = Rates { first: 500_000_000, slower: vec![100_000_000, 2_500_000] };
        assert_eq!(parse_rates("500M, 100M,2.5M"), Ok(rates));
        for bad in [
            "",
            "500M",
            "100M,500M",
            "100M,100M",
            "100M,0",
            "auto,1M",
            "1M,max",
            "5M,",
            "9M,8M,7M,6M,5M,4M,3M,2M,1M",
        ] {
            let line = parse_rates(bad).unwrap_err();
            assert!(line.contains("2 to 8 rates"), "{bad}: {line}");
        }
    }

    #[test]
    fn a_floor_above_the_rate_or_without_auto_is_refused() {
        let line = rate(Some(Asked::Fixed(1_000_000)), Some(2_000_000), false).unwrap_err();
        assert!(line.contains("above the rate"), "{line}");
        let line = rate(Some(Asked::Max), Some(2_000_000), false).unwrap_err();
        assert!(line.contains("--rate auto"), "{line}");
        for bad in ["0", "max", "auto", "1T", "-5", "1000G"] {
            assert!(parse_floor(bad).is_err(), "{bad}");
        }
        assert!(parse_asked("0").unwrap_err().contains("auto"));
        let words = ["auto", "tfmcc", "max"].map(parse_asked);
        assert_eq!(words, [Ok(Asked::Auto), Ok(Asked::Tfmcc), Ok(Asked::Max)]);
    }
}
