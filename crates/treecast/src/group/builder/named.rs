//! Options by the names that they have in the command, with values as people write them. So a program can hand on options that it
//! does not know.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    sync::Arc,
    time::Duration,
};

use treecast_driver::send::Listed;
use treecast_host::quantity::{self, QuantityError};

use super::{
    GroupBuilder,
    values::{SECOND, YEAR},
};
use crate::{
    Error, ErrorKind,
    limits::{BLOCK_LENS, COMPRESSION_LEVELS, LEAST_STALL_LIMIT, RATES_BPS},
};

/// An option of a group, with its value.
#[derive(Clone)]
pub struct GroupOption(Arc<dyn Fn(GroupBuilder) -> GroupBuilder + Send + Sync>);

type Read = Result<GroupOption, String>;

/// The name of an option, and what reads its values.
type Row = (&'static str, fn(&str) -> Read);

/// The options that have names.
const OPTIONS: &[Row] = &[
    ("allow", |text| taken(text, GroupBuilder::allow)),
    ("announce", |text| taken(text, GroupBuilder::announce)),
    ("at-once", |text| read(count(text, 1..=1024), |builder, objects| builder.at_once(objects as usize))),
    ("block", |text| {
        let lens = *BLOCK_LENS.start() as u32..=*BLOCK_LENS.end() as u32;
        read(count(text, lens), |builder, bytes| builder.block(bytes as u16))
    }),
    ("code", |text| switch(text, GroupBuilder::code)),
    ("compress", |text| read(level(text), GroupBuilder::compress)),
    ("control", |text| read(socket(text), GroupBuilder::control)),
    ("delta", |text| switch(text, GroupBuilder::delta)),
    ("exclude", |text| taken(text, GroupBuilder::exclude)),
    ("expires", |text| read(quantity::time(text, SECOND..=YEAR), GroupBuilder::expires)),
    ("fanout", |text| read(text.parse(), GroupBuilder::fanout)),
    ("fec", |text| read(text.parse(), GroupBuilder::fec)),
    ("give-up-after", |text| read(text.parse(), GroupBuilder::give_up_after)),
    ("group", |text| match text.parse::<SocketAddr>() {
        Ok(group) => Ok(GroupOption::new(move |builder| builder.group(group.ip()).port(group.port()))),
        Err(_) => read(address(text), GroupBuilder::group),
    }),
    ("interface", |text| taken(text, GroupBuilder::interface)),
    ("key", |text| taken(text, GroupBuilder::key)),
    ("linger", |text| read(time(text), |builder, time| builder.linger(time).listed_wait(time))),
    ("metrics", |text| read(socket(text), GroupBuilder::metrics)),
    ("per-address", |text| read(count(text, 1..=u32::MAX), GroupBuilder::per_address)),
    ("plain", |text| switch(text, GroupBuilder::plain)),
    ("port", |text| read(count(text, 1..=u16::MAX.into()), |builder, port| builder.port(port as u16))),
    ("priority", |text| read(text.parse(), GroupBuilder::priority)),
    ("rate", |text| read(text.parse(), GroupBuilder::rate)),
    ("rate-floor", |text| read(quantity::rate_bps(text, RATES_BPS), GroupBuilder::rate_floor)),
    ("rates", |text| read(rates(text), GroupBuilder::rates)),
    ("repair", |text| read(text.parse(), GroupBuilder::repair)),
    ("retx-factor", |text| read(factor(text), GroupBuilder::retx_factor)),
    ("retx-minimum", |text| read(time(text), GroupBuilder::retx_minimum)),
    ("session", |text| taken(text, GroupBuilder::session)),
    ("source", |text| read(address(text), GroupBuilder::source)),
    ("stall-limit", |text| {
        read(quantity::time(text, LEAST_STALL_LIMIT..=86_400 * SECOND), GroupBuilder::stall_limit)
    }),
    ("strict", |text| switch(text, GroupBuilder::strict)),
    ("to-standing", |text| read(listed(text), GroupBuilder::to_standing)),
    ("ttl", |text| read(count(text, 1..=255), |builder, hops| builder.ttl(hops as u8))),
    ("wait", |text| read(count(text, 1..=u32::MAX), GroupBuilder::wait)),
    ("wait-at-least", |text| read(count(text, 1..=u32::MAX), GroupBuilder::wait_at_least)),
    ("wait-timeout", |text| match text {
        "never" => Ok(GroupOption::new(|builder| builder.wait_timeout(YEAR))),
        _ => read(time(text), GroupBuilder::wait_timeout),
    }),
];

/// The level of zstd where none is asked for: its own default.
const DEFAULT_LEVEL: i32 = 3;

impl GroupOption {
    /// Reads the value of an option. Switches have the values `true` and `false`.
    ///
    /// # Errors
    /// What was expected in place of the value, or that no option has this name.
    pub fn read(name: &str, value: &str) -> Result<Self, String> {
        let found = OPTIONS.iter().find(|(known, _)| *known == name);
        found.map_or_else(|| Err(format!("no option is called {name}")), |(_, read)| read(value))
    }

    /// An option that a function sets.
    pub fn new(set: impl Fn(GroupBuilder) -> GroupBuilder + Send + Sync + 'static) -> Self {
        Self(Arc::new(set))
    }

    /// The names of all options that have one.
    pub fn names() -> impl Iterator<Item = &'static str> {
        OPTIONS.iter().map(|(name, _)| *name)
    }

    /// Sets the option.
    pub fn set(&self, builder: GroupBuilder) -> GroupBuilder {
        (self.0)(builder)
    }
}

impl fmt::Debug for GroupOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupOption").finish_non_exhaustive()
    }
}

impl GroupBuilder {
    /// Sets an option by the name and the value that it has in `treecast send --help`: `.option("stall-limit", "2m")`. Switches have the
    /// values `true` and `false`. Options of carousels, local groups and feeds have no name here.
    ///
    /// # Errors
    /// [`ErrorKind::Options`] if there is no such option, or it cannot have this value.
    pub fn option(self, name: &str, value: &str) -> Result<Self, Error> {
        let option = GroupOption::read(name, value)
            .map_err(|why| Error::new(ErrorKind::Options, format!("{name} = {value:?}: {why}")))?;
        Ok(option.set(self))
    }
}

fn read<T: Clone + Send + Sync + 'static, E: ToString>(
    value: Result<T, E>,
    set: impl Fn(GroupBuilder, T) -> GroupBuilder + Send + Sync + 'static,
) -> Read {
    let value = value.map_err(|why| why.to_string())?;
    Ok(GroupOption::new(move |builder| set(builder, value.clone())))
}

/// An option whose value is a text or path as it is.
fn taken(text: &str, set: impl Fn(GroupBuilder, String) -> GroupBuilder + Send + Sync + 'static) -> Read {
    read(Ok::<_, String>(text.to_owned()), set)
}

/// An option that is on or off.
fn switch(text: &str, set: fn(GroupBuilder) -> GroupBuilder) -> Read {
    match text {
        "true" => Ok(GroupOption::new(set)),
        "false" => Ok(GroupOption::new(|builder| builder)),
        _ => Err("expected true or false".to_owned()),
    }
}

fn count(text: &str, range: RangeInclusive<u32>) -> Result<u32, QuantityError> {
    let range = u64::from(*range.start())..=u64::from(*range.end());
    quantity::number(text, range).map(|number| number as u32)
}

fn time(text: &str) -> Result<Duration, QuantityError> {
    quantity::time(text, Duration::ZERO..=YEAR)
}

fn address(text: &str) -> Result<IpAddr, &'static str> {
    text.parse().map_err(|_| "expected an address like fd00::1 or 192.0.2.1")
}

fn socket(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "expected an address and a port, like [fd00::1]:5000 or 192.0.2.1:5000")
}

/// Reads `zstd` or `zstd:LEVEL`.
fn level(text: &str) -> Result<i32, String> {
    let level = match text.split_once(':') {
        None if text == "zstd" => Some(DEFAULT_LEVEL),
        Some(("zstd", level)) => level.parse().ok().filter(|level| COMPRESSION_LEVELS.contains(level)),
        _ => None,
    };
    let (least, most) = COMPRESSION_LEVELS.into_inner();
    level.ok_or_else(|| format!("expected zstd, or zstd:{least} to zstd:{most}"))
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (0.0..=1e6).contains(factor));
    factor.ok_or_else(|| "expected a number of 0 or more".into())
}

fn rates(text: &str) -> Result<Vec<u64>, String> {
    let rates: Result<_, _> = text.split(',').map(|rate| quantity::rate_bps(rate, RATES_BPS)).collect();
    rates.map_err(|error| format!("expected rates from fast to slow, as 500M,100M,20M; {error}"))
}

/// The standing receivers of a list. An empty text stands for all that trust the sender.
fn listed(text: &str) -> Result<Vec<Listed>, String> {
    if text.is_empty() { Ok(Vec::new()) } else { Listed::parse(text).map_err(|error| error.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: &str, value: &str) -> String {
        GroupOption::read(name, value).err().unwrap_or_default()
    }

    #[test]
    fn an_option_has_the_values_of_the_command() {
        for (name, value) in [
            ("stall-limit", "2m"),
            ("give-up-after", "x3"),
            ("give-up-after", "2m"),
            ("rate", "tfmcc"),
            ("rate", "2.5Gbit"),
            ("rates", "500M, 100M,2.5M"),
            ("compress", "zstd"),
            ("compress", "zstd:19"),
            ("plain", "false"),
            ("to-standing", ""),
            ("fec", "20%"),
            ("wait-timeout", "0.25"),
        ] {
            assert_eq!(refused(name, value), "", "{name} {value}");
        }
        for (name, value, why) in [
            ("stall-limit", "9", "from 10s to 1d"),
            ("give-up-after", "3x", "x3 for three"),
            ("give-up-after", "x0", "x1 to x1000000"),
            ("retx-factor", "NaN", "0 or more"),
            ("rate", "0", "from 1k to 400G"),
            ("rate", "fast", "or auto, tfmcc or max"),
            ("rates", "1M,max", "from fast to slow"),
            ("compress", "zstd:0", "zstd:1 to zstd:19"),
            ("compress", "3", "zstd:1 to zstd:19"),
            ("block", "70000", "from 580 to 65475"),
            ("plain", "yes", "true or false"),
            ("stall_limit", "2m", "no option is called stall_limit"),
        ] {
            assert!(refused(name, value).contains(why), "{name} {value}: {}", refused(name, value));
        }
        let error = GroupBuilder::default().option("wait", "0").unwrap_err();
        assert_eq!((error.kind(), error.to_string().contains("wait = \"0\"")), (ErrorKind::Options, true));
    }
}
