//! The activity of a session: the number of clients that were getting the files over time, and how busy the server
//! was meanwhile (librecast-updates-2022, 5.2, tables 6 to 9).

use std::time::Duration;

use treecast_measure::{Db, DbError, rates::Rate, series};

use crate::{client::Fared, filing::Series, record::Record};

/// The series of a session, with their units: the number of clients that were getting the files, and the number of
/// processors that the programs at the sender kept busy. Both have a point for each sample of these programs.
pub const SERIES: &[(&str, &str)] = &[("active_clients", ""), ("sender_load", "")];

/// Returns the [`SERIES`] of a run.
pub fn over_time(db: &Db, record: &Record, sender: &str, clients: &[Fared]) -> Result<Vec<Series>, DbError> {
    let rates = db.counted(record.node(sender), series::PROCESS_CPU_NS)?.rates();
    let points = |value: &dyn Fn(&Rate) -> f64| {
        rates.iter().map(|rate| (rate.from.as_secs_f64(), value(rate))).collect()
    };
    let active = points(&|rate| f64::from(active(clients, rate.from, rate.to)));
    Ok(Series::of(SERIES, [active, points(&|rate| rate.per_second / 1e9)]))
}

/// Returns the number of clients that were getting the files, averaged over the part of an interval in which any were.
fn active(clients: &[Fared], from: Duration, to: Duration) -> u32 {
    let within = |fared: &Fared| {
        let (start, end) = (fared.started?.max(from), fared.finished.map_or(to, |finished| finished.min(to)));
        (start < end).then_some((start, end))
    };
    let mut active: Vec<_> = clients.iter().filter_map(within).collect();
    active.sort_unstable();
    let (mut sum, mut any, mut covered) = (Duration::ZERO, Duration::ZERO, from);
    for (start, end) in active {
        sum += end - start;
        any += end.saturating_sub(start.max(covered));
        covered = covered.max(end);
    }
    if any.is_zero() { 0 } else { sum.div_duration_f64(any).round() as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_count_while_they_are_getting_the_files() {
        let second = Duration::from_secs;
        let client = |started, finished: Option<u64>| Fared {
            started: Some(second(started)),
            finished: finished.map(second),
            ..Fared::default()
        };
        let clients = [client(1, Some(4)), client(2, Some(3)), client(8, None), Fared::default()];
        let within = |from, to| active(&clients, second(from), second(to));
        assert_eq!([within(0, 1), within(1, 2), within(2, 3), within(3, 4), within(4, 8)], [0, 1, 2, 1, 0]);
        assert_eq!(within(8, 99), 1, "a client without a copy is active until the end");
        assert_eq!(within(3, 7), 1, "the time without any client does not count");
    }
}
