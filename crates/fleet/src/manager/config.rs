//! The configuration of a manager: `/etc/treecast/manager.toml`.

use std::{net::IpAddr, path::Path, str::FromStr, time::Duration};

use serde::Deserialize;
use treecast_host::quantity::Time;

use super::{
    keep::Keep,
    notices::{Hook, Mail},
    oidc::Login,
};
use crate::agent::config::{self, ConfigError};

/// Where the configuration is looked for when no file is named.
pub const DEFAULT_FILE: &str = "/etc/treecast/manager.toml";

/// What a manager's host says about it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub metrics: Metrics,
    pub keep: Keep,
    pub notices: Watched,
    /// Programs that are told what matters.
    pub hooks: Vec<Hook>,
    /// People who are told what matters.
    pub mail: Vec<Mail>,
    /// The identity provider by which people log in. `None`: they log in by links and tokens.
    pub login: Option<Login>,
}

/// What notices are given about.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Watched {
    /// How long a host may be away until that matters. `None`: a minute.
    pub away_after: Option<Time>,
}

impl Watched {
    /// Returns how long a host may be away until that matters.
    pub fn away_after(&self) -> Duration {
        self.away_after.map_or(Duration::from_secs(60), |time| time.0)
    }
}

/// Who may read the manager's figures.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Metrics {
    /// The addresses that read `/metrics` without a token.
    pub from: Vec<Network>,
}

impl Config {
    /// Reads a configuration. Without a file, the default one counts if it is there.
    ///
    /// # Errors
    /// If the file cannot be read, or has a fault.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        config::load(file, DEFAULT_FILE, Self::parse)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let config: Self = config::from_toml(text)?;
        config.keep.check()?;
        config.mail.iter().try_for_each(Mail::check)?;
        Ok(config)
    }
}

/// Addresses that begin with the same bits, such as `192.0.2.0/24`. A single address has no `/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Network {
    address: IpAddr,
    prefix_len: u32,
}

impl Network {
    /// Whether an address is one of these.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.leading_zeros() >= self.prefix_len
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differing = own.to_bits() ^ other.to_bits();
                differing.leading_zeros() >= self.prefix_len
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no address: write 192.0.2.1 or 2001:db8::/64");
        let (address, prefix_len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len.parse::<u32>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let prefix_len = prefix_len.unwrap_or(longest);
        if prefix_len > longest {
            return Err(wrong());
        }
        Ok(Self { address, prefix_len })
    }
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_the_addresses_that_begin_like_it() {
        let is_in = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().contains(address.parse().unwrap())
        };
        assert!(is_in("192.0.2.0/24", "192.0.2.77") && is_in("192.0.2.1", "::ffff:192.0.2.1"));
        assert!(is_in("::/0", "2001:db8::1") && is_in("2001:db8::/64", "2001:db8::9"));
        assert!(!is_in("192.0.2.0/24", "192.0.3.1") && !is_in("192.0.2.1", "192.0.2.2"));
        assert!(!is_in("0.0.0.0/0", "2001:db8::1"));
        assert!("192.0.2.0/33".parse::<Network>().is_err() && "host".parse::<Network>().is_err());
    }

    #[test]
    fn a_mistake_is_told_with_its_line() {
        let told = |text: &str| Config::parse(text).unwrap_err();
        assert_eq!(Config::parse("").unwrap(), Config::default());
        assert!(
            told("[metrics]\nfrom = [\"x\"]").contains("line 2"),
            "{}",
            told("[metrics]\nfrom = [\"x\"]")
        );
        assert!(told("[metrik]").contains("metrik"));
        assert!(told("[keep]\nreports_days = 0").contains("reports_days"));
    }
}
