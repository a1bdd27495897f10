//! Plots of figures 4.10 to 4.13 of interdomain-2013: robustness and throughput by the number of receivers.

use super::{
    Ink, Mark, Plot, Style,
    axis::{Axis, plain},
    canvas::Sheet,
};

/// What is plotted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedQuantity {
    /// In per cent.
    Robustness,
    /// In Mbit/s.
    Throughput,
}

/// The mean of a configuration's runs with one number of receivers.
#[derive(Debug, Clone)]
pub struct FeedPoint {
    /// The configuration.
    pub line: String,
    pub clients: u32,
    pub value: f64,
    pub deviation: f64,
    /// The paper's value.
    pub paper: Option<f64>,
}

/// A line a configuration, and the paper's values as hollow marks; `None` without points.
pub fn feed(points: &[FeedPoint], quantity: FeedQuantity, priority: &str) -> Option<Plot> {
    let mut lines: Vec<&str> = Vec::new();
    points.iter().for_each(|point| {
        if !lines.contains(&point.line.as_str()) {
            lines.push(&point.line);
        }
    });
    let mut clients: Vec<f64> = points.iter().map(|point| f64::from(point.clients)).collect();
    clients.sort_by(f64::total_cmp);
    clients.dedup();
    let highest =
        points.iter().flat_map(|point| [point.value, point.paper.unwrap_or(0.0)]).reduce(f64::max)?;
    let (name, what, y_label, top) = match quantity {
        FeedQuantity::Robustness => ("robustness", "Robustness of slow receivers", "per cent", 100.0),
        FeedQuantity::Throughput => {
            ("throughput", "Throughput of fast receivers", "Mbit/s", highest.max(100.0))
        }
    };
    let sheet = Sheet {
        name: format!("feed-{name}-{priority}"),
        title: format!("{what}, by number of receivers: priority {priority}"),
        subtitle:
            "Filled: ours, mean and standard deviation. Hollow: the paper's table 4.9. Higher is better."
                .into(),
        x_label: "receivers",
        y_label,
        legend: lines.iter().enumerate().map(|(index, line)| ((*line).to_owned(), style(index))).collect(),
        height: 460.0,
        ..Sheet::default()
    };
    let (x, y) = (Axis::from_zero_at(&clients), Axis::to_exactly(top));
    Some(sheet.plot((x, &plain), (y, &plain), |canvas| {
        for (index, line) in lines.iter().enumerate() {
            let style = style(index);
            let of_line: Vec<&FeedPoint> = points.iter().filter(|point| point.line == *line).collect();
            let ours: Vec<_> = of_line.iter().map(|point| (f64::from(point.clients), point.value)).collect();
            canvas.line(&ours, style.ink, 2.0);
            for point in of_line {
                let x = f64::from(point.clients);
                if point.deviation > 0.0 {
                    canvas.vertical_bar(
                        x,
                        point.value - point.deviation,
                        point.value + point.deviation,
                        style.ink,
                    );
                }
                canvas.mark((x, point.value), style, 4.5, true);
                if let Some(paper) = point.paper {
                    canvas.mark((x, paper), style, 4.5, false);
                }
            }
        }
    }))
}

fn style(index: usize) -> Style {
    let marks = [Mark::Circle, Mark::Square, Mark::Triangle, Mark::Diamond];
    Style { ink: Ink::Series(index), mark: marks[index % marks.len()] }
}
