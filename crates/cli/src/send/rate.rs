//! `--rate` and `--rate-floor`.

use treecast_driver::send::Rate;

use super::parse_rate;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Asked {
    Auto,
    Max,
    Fixed(u64),
}

pub(super) fn parse_asked(text: &str) -> Result<Asked, String> {
    if text == "auto" {
        return Ok(Asked::Auto);
    }
    let rate = parse_rate(text).map_err(|line| line.replace("or max", "auto, or max"))?;
    Ok(rate.0.map_or(Asked::Max, Asked::Fixed))
}

/// Bits a second of the floor.
pub(super) fn parse_floor(text: &str) -> Result<u64, String> {
    let refused = || "expected bits a second from 1k to 1000G, like 2M".to_owned();
    parse_rate(text).ok().and_then(|rate| rate.0).ok_or_else(refused)
}

/// The rate of a session or, without connections that could tell what its receivers bear, of a carousel.
pub(super) fn rate(asked: Option<Asked>, floor_bps: Option<u64>, is_carousel: bool) -> Result<Rate, String> {
    let rate = match asked {
        None if is_carousel => Rate::Max,
        Some(Asked::Auto) if is_carousel => {
            let line =
                "a carousel hears nothing of its receivers: name a --rate that their links bear, or max";
            return Err(line.into());
        }
        None | Some(Asked::Auto) => Rate::Auto { floor_bps },
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
        assert_eq!(rate(None, None, false), Ok(Rate::Auto { floor_bps: None }));
        assert_eq!(rate(Some(Asked::Auto), Some(5), false), Ok(Rate::Auto { floor_bps: Some(5) }));
        assert_eq!(rate(None, None, true), Ok(Rate::Max));
        assert!(rate(Some(Asked::Auto), None, true).unwrap_err().contains("carousel"));
        assert_eq!(rate(parse_asked("20M").ok(), None, true), Ok(Rate::Fixed(20_000_000)));
    }

    #[test]
    fn a_floor_above_the_rate_or_without_auto_is_refused() {
        let line = rate(Some(Asked::Fixed(1_000_000)), Some(2_000_000), false).unwrap_err();
        assert!(line.contains("above the rate"), "{line}");
        let line = rate(Some(Asked::Max), Some(2_000_000), false).unwrap_err();
        assert!(line.contains("--rate auto"), "{line}");
        for bad in ["0", "max", "auto", "1T", "-5"] {
            assert!(parse_floor(bad).is_err(), "{bad}");
        }
        assert!(parse_asked("0").unwrap_err().contains("auto"));
        assert_eq!([parse_asked("auto"), parse_asked("max")], [Ok(Asked::Auto), Ok(Asked::Max)]);
    }
}
