//! What a run carried before something went wrong on purpose, meanwhile, and after.

use super::UseCaseRow;

/// Something that was watched.
#[derive(Debug, Clone, PartialEq)]
pub struct EventLine {
    /// `network`, `sender`, `receivers`, or a link.
    pub name: String,
    /// In each second from the first datagram on.
    pub mb_per_second: Vec<f64>,
    /// None where the run is too short to tell.
    pub levels: Option<Levels>,
    /// What the thesis read before, meanwhile and after, in MB/s.
    pub thesis: Option<[f64; 3]>,
}

/// In MB/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Levels {
    pub before: f64,
    /// Between the first event and the last, or the end where there is one event.
    pub lowest: f64,
    pub highest: f64,
    pub after: f64,
    /// The highest of all seconds, the first discovery included: as high as the plot's line.
    pub peak: f64,
}

/// The first discovery, with unicast meanwhile, is over by then.
const BEGINNING: usize = 3;

/// Whole seconds at the end that are taken for what comes after all.
const ENDING: usize = 3;

/// The network, the senders, the receivers and each watched link.
pub fn event_lines(row: &UseCaseRow<'_>) -> Vec<EventLine> {
    let measured = row.measured;
    // What begins with the last whole second is not whole.
    let whole = (measured.seconds as usize).min(measured.per_second.len());
    let seconds = &measured.per_second[..whole];
    let payload = row.info.payload_bytes as f64;
    let mut lines = vec![
        ("network".to_owned(), seconds.iter().map(|second| second.network_bytes).collect::<Vec<_>>()),
        ("sender".to_owned(), seconds.iter().map(|second| second.sender_bytes).collect()),
        ("receivers".to_owned(), seconds.iter().map(|second| second.came as f64 * payload).collect()),
    ];
    let watched = measured.watched.iter();
    lines.extend(watched.map(|link| (link.name.clone(), link.bytes.iter().take(whole).copied().collect())));
    let events: Vec<f64> = measured.events.iter().map(|event| event.at_s).collect();
    let line = |(name, bytes): (String, Vec<f64>)| {
        let mb_per_second: Vec<f64> = bytes.iter().map(|bytes| bytes / 1e6).collect();
        let thesis = row.info.thesis_levels.as_ref().filter(|levels| levels.of == name);
        EventLine {
            levels: levels(&mb_per_second, &events),
            thesis: thesis.map(|levels| levels.mb_per_second),
            name,
            mb_per_second,
        }
    };
    lines.into_iter().map(line).collect()
}

fn levels(seconds: &[f64], events: &[f64]) -> Option<Levels> {
    let first = *events.first()?;
    let last = if events.len() > 1 { *events.last()? } else { seconds.len() as f64 };
    let mean = |part: &[f64]| (!part.is_empty()).then(|| part.iter().sum::<f64>() / part.len() as f64);
    let before = seconds.get(BEGINNING..first as usize)?;
    let meanwhile = seconds.get(first.ceil() as usize..(last as usize).min(seconds.len()))?;
    let after = &seconds[seconds.len().saturating_sub(ENDING)..];
    Some(Levels {
        before: mean(before)?,
        lowest: meanwhile.iter().copied().reduce(f64::min)?,
        highest: meanwhile.iter().copied().reduce(f64::max)?,
        after: mean(after)?,
        peak: seconds.iter().copied().reduce(f64::max)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_of_whole_seconds_before_between_and_after_events() {
        let seconds = [9.0, 9.0, 9.0, 2.0, 4.0, 7.0, 0.5, 6.0, 5.0, 3.0, 3.0, 3.0];
        let expected = Levels { before: 3.0, lowest: 0.5, highest: 6.0, after: 3.0, peak: 9.0 };
        assert_eq!(levels(&seconds, &[5.4, 8.2]), Some(expected));
        let to_the_end = levels(&seconds, &[5.4]).unwrap();
        assert_eq!((to_the_end.lowest, to_the_end.highest), (0.5, 6.0));
        assert_eq!(levels(&seconds, &[]), None);
        assert_eq!(levels(&seconds, &[1.0, 2.0]), None, "there is nothing before");
    }
}
