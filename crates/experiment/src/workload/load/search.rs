//! Makes the trials of a run, one or as many as a search needs.

use std::io;

use treecast_load::threshold::{Search, Step, Threshold, Trial};

use super::{keys::Ask, plan::PlannedLoad, play::Played};

/// The results of a run.
pub struct Found {
    /// The trial at the threshold, or the only one. When a search bore nothing, the last one.
    pub played: Played,
    /// The threshold that the search has found. `None`: nothing was searched.
    pub threshold: Option<Threshold>,
    /// The threshold that the links allow: a rate in packets a second of each sender, or a number of hosts. `None`:
    /// no link has a rate.
    pub predicted: Option<f64>,
}

/// Makes the trials of a run by `attempt`, which is handed the number of hosts and the rate in packets a second of each sender.
/// It returns `None` when the user wants to stop.
pub fn trials(
    load: &PlannedLoad,
    mut attempt: impl FnMut(usize, f64) -> io::Result<Option<Played>>,
) -> io::Result<Option<Found>> {
    let allowed = load.cast(load.hosts).layout.predicted_rate();
    let once =
        |played: Option<Played>| played.map(|played| Found { played, threshold: None, predicted: allowed });
    match load.ask {
        Ask::Rate(rate) => attempt(load.hosts, rate).map(once),
        Ask::Share(share) => attempt(load.hosts, share * allowed.unwrap_or_default()).map(once),
        Ask::SearchRate(bounds) => {
            let search = Search::new(bounds.rates(), allowed);
            searched(search, allowed, |rate| attempt(load.hosts, rate))
        }
        Ask::SearchHosts(bounds, rate) => {
            let range = bounds.hosts(load.hosts);
            let bears = |hosts: &usize| {
                load.cast(*hosts).layout.predicted_rate().is_none_or(|allowed| allowed >= rate)
            };
            let predicted = (2..=load.hosts).rev().find(bears).map(|hosts| hosts as f64);
            searched(Search::new(range, predicted), predicted, |hosts| attempt(hosts as usize, rate))
        }
    }
}

fn searched(
    mut search: Search,
    predicted: Option<f64>,
    mut attempt: impl FnMut(f64) -> io::Result<Option<Played>>,
) -> io::Result<Option<Found>> {
    let mut kept: Option<(bool, Played)> = None;
    loop {
        let value = match search.step() {
            Step::Try(value) => value,
            Step::Over(threshold) => {
                let threshold = Some(threshold);
                return Ok(kept.map(|(_, played)| Found { played, threshold, predicted }));
            }
        };
        let Some(played) = attempt(value)? else { return Ok(None) };
        let trial = Trial { value, lost: played.lost(), limits: played.limits.clone() };
        let before = search.borne();
        search.told(trial);
        let is_borne = search.borne() != before;
        // A trial that was not borne is kept only until one is.
        if is_borne || kept.as_ref().is_none_or(|(is_kept_borne, _)| !is_kept_borne) {
            kept = Some((is_borne, played));
        }
    }
}
