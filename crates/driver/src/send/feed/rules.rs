//! The terms on which objects of a feed are sent, by rules on their names.

use std::time::Duration;

use crate::name_filter::NameFilter;

/// The terms on which an object is sent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Terms {
    /// Objects of a higher priority leave first, and are dropped last where a spool is full.
    pub priority: i32,
    /// The time after which the object is not sent and not sent again any more, from its arrival on. `None`: no limit.
    pub expires_after: Option<Duration>,
    /// The time for retransmissions of the object, as a multiple of the time of its multicast. `None`: the session's.
    /// A session with local groups has no such time.
    pub retransmission_timeout_factor: Option<f64>,
}

/// A rule: the terms of objects whose names match.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Rule {
    pub names: NameFilter,
    pub terms: Terms,
}

impl Rule {
    /// Objects of these names get these terms.
    pub fn new(names: NameFilter, terms: Terms) -> Self {
        Self { names, terms }
    }
}

/// The terms of the first rule that matches a name. An object without a rule has the session's terms.
pub(super) fn terms_of(rules: &[Rule], name: &str) -> Terms {
    rules.iter().find(|rule| rule.names.accepts(name)).map_or_else(Terms::default, |rule| rule.terms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rule = |begin: &'static str, priority| {
            let names = NameFilter::new(move |name| name.starts_with(begin));
            Rule::new(names, Terms { priority, ..Terms::default() })
        };
        let rules = [rule("radar/", 2), rule("", 1)];
        let priority = |name| terms_of(&rules, name).priority;
        assert_eq!((priority("radar/1"), priority("model")), (2, 1));
        assert_eq!(terms_of(&rules[..1], "model"), Terms::default());
    }
}
