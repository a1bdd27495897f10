//! Plots of flows that share a link: what each takes of it, what waits in front of it, and what is dropped there.

use std::time::Duration;

use super::{
    Ink, Mark, Plot, Style,
    axis::{Axis, plain},
    canvas::Sheet,
};
use crate::analysis::{Rate, SharingRun};

/// The rate of each flow over time, and the link's; `None` without samples.
pub fn link_rates(run: &SharingRun) -> Option<Plot> {
    let longest = longest(run)?;
    let highest = run.info.rates.iter().map(|(_, bps)| *bps as f64 / 1e6).fold(0.0, f64::max);
    let name =
        |index: usize, name: &str| if index == 0 { name.to_owned() } else { format!("its rival: {name}") };
    let flows = run.info.flows.iter().enumerate();
    let flows = flows.map(|(index, flow)| (name(index, &flow.name), style(index)));
    let legend = flows.chain([("the link's rate".to_owned(), LINK)]).collect();
    let measured = run.measured.as_ref().map(|measured| measured.sentence() + "; ").unwrap_or_default();
    let (queue, round_trip) = (run.info.queue_bytes as f64 / 1e3, run.info.round_trip_ms);
    let subtitle = format!("{measured}a queue of {queue:.0} kB, {round_trip:.0} ms there and back.");
    let sheet =
        Sheet { legend, ..sheet(run, "rates", "What each flow takes of the link", subtitle, "Mbit/s") };
    Some(sheet.plot((Axis::from_zero(longest), &plain), (Axis::from_zero(highest * 1.1), &plain), |canvas| {
        let rates = run.info.rates.iter().map(|(at, bps)| (*at, *bps as f64 / 1e6));
        let last = run.info.rates.last().map(|(_, bps)| (longest, *bps as f64 / 1e6));
        canvas.steps(&rates.chain(last).collect::<Vec<_>>(), LINK.ink, 1.25);
        for (index, rates) in run.flows.iter().enumerate() {
            canvas.line(&points(rates, |rate| rate.per_second * 8.0 / 1e6), style(index).ink, 1.75);
        }
    }))
}

/// What waits in front of the link over time.
pub fn link_queue(run: &SharingRun) -> Option<Plot> {
    let longest = longest(run)?;
    let subtitle =
        format!("It holds {:.0} kB; what comes then is dropped.", run.info.queue_bytes as f64 / 1e3);
    let sheet = sheet(run, "queue", "What waits in front of the link", subtitle, "kB");
    let top = Axis::from_zero(run.info.queue_bytes as f64 / 1e3);
    Some(sheet.plot((Axis::from_zero(longest), &plain), (top, &plain), |canvas| {
        let points = run.waiting.iter().map(|(at, bytes)| (at.as_secs_f64(), *bytes as f64 / 1e3));
        canvas.line(&points.collect::<Vec<_>>(), style(0).ink, 1.5);
    }))
}

/// The loss in front of the link over time, each point over half a second.
pub fn link_loss(run: &SharingRun) -> Option<Plot> {
    const HALF: Duration = Duration::from_millis(500);
    let longest = longest(run)?;
    let steps = (0..(longest / HALF.as_secs_f64()) as u32).map(|step| HALF * step);
    let points: Vec<(f64, f64)> =
        steps.map(|at| ((at + HALF / 2).as_secs_f64(), run.loss(at, at + HALF) * 100.0)).collect();
    let highest = points.iter().map(|(_, loss)| *loss).fold(5.0, f64::max);
    let subtitle = "The share of packets that its queue drops, each point over half a second.".into();
    let sheet = sheet(run, "loss", "Loss in front of the link", subtitle, "per cent");
    Some(sheet.plot((Axis::from_zero(longest), &plain), (Axis::from_zero(highest), &plain), |canvas| {
        canvas.line(&points, style(1).ink, 1.75);
        if let [.., _, (at, bps)] = run.info.rates[..] {
            canvas.reference(at, &format!("the link drops to {} Mbit/s", plain(bps as f64 / 1e6)));
        }
    }))
}

const LINK: Style = Style { ink: Ink::Muted, mark: Mark::Square };

fn style(flow: usize) -> Style {
    // Blue and vermilion: as far apart as the palette has them.
    let (series, mark) = if flow == 0 { (0, Mark::Circle) } else { (3, Mark::Diamond) };
    Style { ink: Ink::Series(series), mark }
}

fn sheet(
    run: &SharingRun,
    kind: &str,
    what: &str,
    subtitle: String,
    y_label: &'static str,
) -> Sheet<'static> {
    let info = &run.data.run.info;
    Sheet {
        name: format!("{kind}-{}-{}-{}", info.topology, info.delivery, info.repeat + 1),
        title: format!("{what}: {}, {} #{}", info.topology, info.delivery, info.repeat + 1),
        subtitle,
        x_label: "seconds since the run's start",
        y_label,
        ..Sheet::default()
    }
}

/// When the last sample was taken, in seconds.
fn longest(run: &SharingRun) -> Option<f64> {
    run.flows.first()?.last().map(|rate| rate.to.as_secs_f64())
}

/// A point in the middle of each interval.
fn points(rates: &[Rate], value: impl Fn(&Rate) -> f64) -> Vec<(f64, f64)> {
    rates.iter().map(|rate| (rate.middle().as_secs_f64(), value(rate))).collect()
}
