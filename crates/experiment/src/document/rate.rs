//! Reads the rate at which files are sent.

use serde::Deserialize;
use treecast_lab::quantity::{QuantityError, Rate};

/// How fast files are sent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum SendRate {
    /// The rate that the paths to the receivers can carry (congestion control).
    Auto,
    /// The rate of TFMCC, which is what a TCP connection with the worst receiver's losses would get.
    Tfmcc,
    /// The rate at which the slowest attentive receiver takes data.
    Max,
    /// A fixed rate, counted in IP packets with their headers.
    Bps(Rate),
    /// Several groups, each at a lower rate than the one before.
    Several(Vec<Rate>),
}

impl SendRate {
    /// Returns the option of `treecast send` for this rate, and its value.
    pub fn words(&self) -> [String; 2] {
        let (option, value) = match self {
            Self::Auto => ("--rate", "auto".to_owned()),
            Self::Tfmcc => ("--rate", "tfmcc".to_owned()),
            Self::Max => ("--rate", "max".to_owned()),
            Self::Bps(rate) => ("--rate", rate.0.to_string()),
            Self::Several(rates) => {
                ("--rates", rates.iter().map(|rate| rate.0.to_string()).collect::<Vec<_>>().join(","))
            }
        };
        [option.to_owned(), value]
    }
}

impl TryFrom<String> for SendRate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "auto" => Ok(Self::Auto),
            "tfmcc" => Ok(Self::Tfmcc),
            "max" => Ok(Self::Max),
            several if several.contains(',') => several
                .split(',')
                .map(|rate| rate.trim().parse())
                .collect::<Result<_, QuantityError>>()
                .map(Self::Several)
                .map_err(|error: QuantityError| error.to_string()),
            other => {
                let rate = other.parse().map(Self::Bps);
                rate.map_err(|error: QuantityError| error.or("`auto`, `tfmcc` or `max`").to_string())
            }
        }
    }
}
