//! The options of `treecast send` that say who is admitted, and when the session starts.

use crate::arguments;

const DEFAULT_WAIT: u32 = 1;

/// When a session starts, and how many receivers it admits.
#[derive(clap::Args)]
pub(super) struct StartArgs {
    /// Start when N receivers are there [default: 1]. While it waits, Enter at the terminal, the signal SIGUSR1 and
    /// `treecast status --start` start with those that are there; a number with Enter, and `treecast status --wait N`, change it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
          allow_negative_numbers = true)]
    pub wait: Option<u32>,
    /// Give up when the receivers of --wait are not there after this many seconds. never waits until somebody comes, or Ctrl-C [default: never at a
    /// terminal, with a carousel and for `treecast feed`; else 60, also with --to-standing and --wait-at-least]
    #[arg(long, value_name = "SECONDS|never", value_parser = arguments::seconds_or_never, allow_hyphen_values = true)]
    pub wait_timeout: Option<u64>,
    /// Do not give up if at least this many receivers are there: start with them, and serve the others as they
    /// come [default: all of --wait]
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    pub wait_at_least: Option<u32>,
}

impl StartArgs {
    /// The time after which the session gives up, in seconds, if it is not the default. `at_terminal`: a person waits, who can end it
    /// at any time.
    pub fn patience(&self, at_terminal: bool) -> Option<u64> {
        self.wait_timeout.or(at_terminal.then_some(arguments::LONGEST_SECONDS))
    }

    /// The number of receivers with which the session starts, if so many are named.
    pub fn wanted(&self, named: usize) -> u32 {
        self.wait.unwrap_or((named as u32).max(DEFAULT_WAIT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_waited_for_without_end_and_others_as_long_as_is_said() {
        let args = |wait_timeout| StartArgs { wait: None, wait_timeout, wait_at_least: None };
        assert_eq!(args(None).patience(true), Some(arguments::LONGEST_SECONDS));
        assert_eq!(args(None).patience(false), None, "the default is the library's");
        assert_eq!([true, false].map(|at_terminal| args(Some(7)).patience(at_terminal)), [Some(7); 2]);
    }
}
