//! Plots of the MEADcast thesis' figures 5.1 to 5.8: by the number of receivers, over time, and by link.

use plotters::style::text_anchor::HPos;

use super::{
    Ink, Plot, Style, Styles,
    axis::{Axis, plain},
    canvas::{BODY, SMALL, Sheet},
    generic::{Gathered, GroupOfValues, PaperValue, PlotSpec, bars},
};
use crate::{
    analysis::{Saved, UseCaseCell, UseCaseRow},
    db::SecondOfRun,
};

/// What is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    Network,
    Sender,
    Time,
    Latency,
}

impl Quantity {
    pub const ALL: [Self; 4] = [Self::Network, Self::Sender, Self::Time, Self::Latency];

    fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Sender => "sender",
            Self::Time => "time",
            Self::Latency => "latency",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Network => "Bytes on all links",
            Self::Sender => "Bytes that leave the sender",
            Self::Time => "Time until all has come",
            Self::Latency => "Mean latency",
        }
    }

    /// The thesis' figure that shows it by the number of receivers.
    fn figure(self) -> &'static str {
        match self {
            Self::Network => "5.3",
            Self::Sender => "5.4",
            Self::Time => "5.1",
            Self::Latency => "5.6",
        }
    }

    fn of(self, row: &UseCaseRow<'_>) -> f64 {
        match self {
            Self::Network => row.network_bytes / 1e6,
            Self::Sender => row.sender_bytes / 1e6,
            Self::Time => row.seconds,
            Self::Latency => row.measured.latency.mean_ms,
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Network | Self::Sender => "MB",
            Self::Time => "seconds",
            Self::Latency => "ms",
        }
    }
}

/// Rows of a chart of savings; more of them no page can show.
const MOST_BARS: usize = 40;

/// What each delivery saves against unicast on all links and at the sender, and what the thesis' saved, in per cent.
pub fn savings(rows: &[UseCaseRow<'_>], styles: &Styles) -> Vec<Plot> {
    let of = |measure: &str, title: &str, saved: fn(&Saved) -> f64| {
        let spec = PlotSpec::bars(title, "cell", measure);
        let group = |row: &UseCaseRow| {
            let ours = row.saved.as_ref().map(saved)?;
            let theirs = row.info.thesis.iter().filter(|figure| figure.measure == measure);
            let theirs = theirs.map(|figure| figure.saved).reduce(f64::max);
            let receivers = row.cell.receivers_per_network;
            Some(GroupOfValues {
                x: format!("{}, {receivers} a net", row.cell.load),
                series: row.info.delivery.clone(),
                style: styles.of(&row.info.delivery),
                values: vec![ours * 100.0],
                is_saturated: row.saturated,
                paper: theirs.map(|value| PaperValue { value, range: None, nearest: String::new() }),
                ..GroupOfValues::default()
            })
        };
        let mut groups: Vec<GroupOfValues> = rows.iter().filter_map(group).collect();
        // The largest cells are the last ones.
        groups.drain(..groups.len().saturating_sub(MOST_BARS));
        let gathered = Gathered {
            name: format!("savings-{measure}"),
            title: title.into(),
            subtitle: "Against one copy by unicast for each receiver. More is better.".into(),
            label: "per cent saved".into(),
            paper: Some("hollow: meadcast-thesis-2024".into()),
            spec: &spec,
            groups,
        };
        bars::plot(&gathered, false)
    };
    let network = of("network", "Bytes saved on all links", |saved| saved.network);
    network.into_iter().chain(of("sender", "Bytes saved at the sender", |saved| saved.sender)).collect()
}

/// A line a delivery, against receivers in a network; a plot a load. Nothing where all have as many.
pub fn by_receivers(rows: &[UseCaseRow<'_>], quantity: Quantity, styles: &Styles) -> Vec<Plot> {
    let mut loads: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        let load = (row.cell.use_case.as_str(), row.cell.load.as_str());
        if !loads.contains(&load) {
            loads.push(load);
        }
    }
    loads.into_iter().filter_map(|(use_case, load)| of_load(rows, use_case, load, quantity, styles)).collect()
}

fn of_load(
    rows: &[UseCaseRow<'_>],
    use_case: &str,
    load: &str,
    quantity: Quantity,
    styles: &Styles,
) -> Option<Plot> {
    let mine: Vec<&UseCaseRow> =
        rows.iter().filter(|row| row.cell.use_case == use_case && row.cell.load == load).collect();
    let mut counts: Vec<f64> = mine.iter().map(|row| row.cell.receivers_per_network as f64).collect();
    counts.dedup();
    if counts.len() < 2 {
        return None;
    }
    let names = deliveries(&mine);
    let highest = mine.iter().map(|row| quantity.of(row)).fold(0.0, f64::max);
    let sheet = Sheet {
        name: format!("{use_case}-{load}-{}", quantity.name()),
        title: format!("{}: {use_case}, {load}", quantity.title()),
        subtitle: format!("As figure {} of the thesis; lower is better.", quantity.figure()),
        x_label: "receivers in a network",
        y_label: quantity.unit(),
        legend: legend(&names, styles),
        ..Sheet::default()
    };
    let (x, y) = (Axis::from_zero_at(&counts), Axis::from_zero(highest));
    Some(sheet.plot((x, &plain), (y, &plain), |canvas| {
        for name in &names {
            let style = styles.of(name);
            let of_delivery = mine.iter().filter(|row| row.info.delivery == *name);
            let points: Vec<(f64, f64)> =
                of_delivery.map(|row| (row.cell.receivers_per_network as f64, quantity.of(row))).collect();
            canvas.line(&points, style.ink, 1.75);
            points.iter().for_each(|point| canvas.mark(*point, style, 4.0, true));
        }
    }))
}

/// What is drawn second by second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverTime {
    Network,
    Sender,
    Latency,
    /// What the sender is sent.
    Responses,
    Loss,
    WorstLatency,
}

impl OverTime {
    /// Of all deliveries.
    pub const ALL: [Self; 3] = [Self::Network, Self::Sender, Self::Latency];
    /// The effect of discoveries, (a) to (c) of figure 5.8.
    pub const OF_DISCOVERY: [Self; 3] = [Self::Responses, Self::Loss, Self::WorstLatency];

    fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Sender => "sender",
            Self::Latency => "latency",
            Self::Responses => "responses",
            Self::Loss => "loss",
            Self::WorstLatency => "worst-latency",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Network => "What all links carry over time",
            Self::Sender => "What leaves the sender over time",
            Self::Latency => "Mean latency over time",
            Self::Responses => "What comes to the sender over time",
            Self::Loss => "What is lost of each second's packets",
            Self::WorstLatency => "Highest latency over time",
        }
    }

    /// What the thesis shows of it.
    fn subtitle(self) -> &'static str {
        match self {
            Self::Network | Self::Sender => "As figure 5.2 of the thesis, second by second.",
            Self::Latency => "As figure 5.7 of the thesis, second by second.",
            Self::Responses => "As figure 5.8 (a) of the thesis: responses come in rounds, one a discovery.",
            Self::Loss => {
                "As figure 5.8 (b): in the thesis most during the first discovery, when all get unicast, and again in later ones."
            }
            Self::WorstLatency => {
                "As figure 5.8 (c): in the thesis a peak in each discovery, the first by far the highest."
            }
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Network | Self::Sender => "MB/s",
            Self::Latency | Self::WorstLatency => "ms",
            Self::Responses => "kB/s",
            Self::Loss => "per cent",
        }
    }

    /// Not a number in a second in which nothing came whose latency there would be.
    fn of(self, second: &SecondOfRun) -> f64 {
        match self {
            Self::Latency | Self::WorstLatency if second.came == 0 => f64::NAN,
            Self::Network => second.network_bytes / 1e6,
            Self::Sender => second.sender_bytes / 1e6,
            Self::Latency => second.latency_mean_ms,
            Self::Responses => second.to_sender_bytes / 1e3,
            Self::Loss => second.loss * 100.0,
            Self::WorstLatency => second.latency_max_ms,
        }
    }
}

/// Second by second, a line a delivery (figures 5.2, 5.7 and 5.8); all rows are of one cell.
pub fn over_time(rows: &[&UseCaseRow<'_>], quantity: OverTime, styles: &Styles) -> Option<Plot> {
    let UseCaseCell { use_case, load, receivers_per_network } = &rows.first()?.cell;
    let points = |row: &UseCaseRow| -> Vec<(f64, f64)> {
        let seconds = row.measured.per_second.iter().enumerate();
        seconds.map(|(at, second)| (at as f64 + 0.5, quantity.of(second))).collect()
    };
    let lines: Vec<Vec<(f64, f64)>> = rows.iter().map(|row| points(row)).collect();
    let bounds = |of: fn(&(f64, f64)) -> f64| lines.iter().flatten().map(of).fold(0.0, f64::max);
    let (longest, highest) = (bounds(|point| point.0), bounds(|point| point.1));
    let names = deliveries(rows);
    let sheet = Sheet {
        name: format!("{use_case}-{load}-{receivers_per_network}-{}-over-time", quantity.name()),
        title: format!(
            "{}: {use_case}, {load}, {receivers_per_network} receivers in a network",
            quantity.title()
        ),
        subtitle: quantity.subtitle().into(),
        x_label: "seconds",
        y_label: quantity.unit(),
        legend: legend(&names, styles),
        ..Sheet::default()
    };
    Some(sheet.plot((Axis::from_zero(longest), &plain), (Axis::from_zero(highest), &plain), |canvas| {
        for (line, row) in lines.iter().zip(rows) {
            canvas.line(line, styles.of(&row.info.delivery).ink, 1.5);
        }
    }))
}

/// How many links are shown.
const LINKS: usize = 16;

/// The links that carry most, a bar a delivery (figure 5.5); unicast, which is far above, is left out.
pub fn by_link(rows: &[&UseCaseRow<'_>], styles: &Styles) -> Option<Plot> {
    let rows: Vec<&&UseCaseRow> = rows.iter().filter(|row| row.info.delivery != "unicast").take(4).collect();
    let first = rows.first()?;
    let mut links: Vec<(&str, u64)> =
        first.measured.links.iter().map(|link| (link.name.as_str(), link.sent)).collect();
    links.sort_by_key(|(_, sent)| std::cmp::Reverse(*sent));
    links.truncate(LINKS);
    let sent = |row: &UseCaseRow, name: &str| {
        let mut links = row.measured.links.iter();
        links.find(|link| link.name == name).map_or(0.0, |link| link.sent as f64 / 1e6)
    };
    let highest =
        rows.iter().flat_map(|row| links.iter().map(|(name, _)| sent(row, name))).fold(0.0, f64::max);
    let lines = (links.len() * (rows.len() + 1)) as f64;
    let UseCaseCell { use_case, load, receivers_per_network } = &first.cell;
    let longest = links.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0) as f64;
    let names: Vec<&str> = rows.iter().map(|row| row.info.delivery.as_str()).collect();
    let sheet = Sheet {
        name: format!("{use_case}-{load}-{receivers_per_network}-by-link"),
        title: format!(
            "What links carry: {use_case}, {load}, {receivers_per_network} receivers in a network"
        ),
        subtitle: "As figure 5.5 of the thesis: the links that the first delivery fills most.".into(),
        height: 160.0 + lines * 9.0,
        x_label: "MB",
        legend: legend(&names, styles),
        left: 30.0 + longest * (BODY + 0.5) * 0.62,
        right: 60.0,
        ..Sheet::default()
    };
    Some(sheet.plot((Axis::from_zero(highest), &plain), (Axis::rows(lines), &plain), |canvas| {
        for (place, (name, _)) in links.iter().enumerate() {
            let top = lines - (place * (rows.len() + 1)) as f64;
            canvas.row_label(top - rows.len() as f64 / 2.0, name, Ink::Text);
            for (index, row) in rows.iter().enumerate() {
                let (y, value) = (top - index as f64 - 0.5, sent(row, name));
                canvas.bar(y, value, 7.0, styles.of(&row.info.delivery).ink);
                canvas.text((value, y), (4.0, 0.0), &plain(value), Ink::Muted, SMALL * 0.8, HPos::Left);
            }
        }
    }))
}

fn deliveries<'a>(rows: &[&'a UseCaseRow<'_>]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.info.delivery.as_str()) {
            names.push(&row.info.delivery);
        }
    }
    names
}

fn legend(names: &[&str], styles: &Styles) -> Vec<(String, Style)> {
    names.iter().map(|name| ((*name).to_owned(), styles.of(name))).collect()
}
