//! Plots of figures 4.8 and 4.9 of interdomain-2013 (time and processor by the number of receivers), and of figure 3.3
//! (throughput by size).

use super::{
    Ink, Mark, Plot, Style,
    axis::{Axis, plain},
    canvas::Sheet,
    style_of,
};
use crate::{analysis::ModelRow, tables};

/// The time of the slowest client with equation 4.1 through the points; `None` unless there are two numbers of clients.
pub fn time_beside_model(rows: &[ModelRow], size_bytes: u64) -> Option<Plot> {
    let rows: Vec<&ModelRow> = rows.iter().filter(|row| row.size_bytes == size_bytes).collect();
    let values = rows.iter().flat_map(|row| [row.slowest_seconds.max, row.model_seconds]);
    let y = Axis::from_zero(values.fold(0.0, f64::max));
    let sheet = Sheet {
        name: format!("time-beside-model-{size_bytes}"),
        title: format!("How long until the last of all receivers has {}", tables::bytes(size_bytes)),
        subtitle: "Marks: measured, mean and range. Thin lines: equation 4.1, for links without headers. Lower is better."
            .into(),
        y_label: "seconds",
        ..sheet(&rows)
    };
    draw(
        sheet,
        &rows,
        y,
        |row| row.slowest_seconds.mean,
        |canvas, row, ink| {
            let (low, high) = (row.slowest_seconds.min, row.slowest_seconds.max);
            canvas.vertical_bar(f64::from(row.clients), low, high, ink);
        },
    )
}

/// The processor that the sender needed; `None` unless there are two numbers of clients.
pub fn server_cpu(rows: &[ModelRow], size_bytes: u64) -> Option<Plot> {
    let rows: Vec<&ModelRow> =
        rows.iter().filter(|row| row.size_bytes == size_bytes && row.server_cpu_percent.is_some()).collect();
    let cpu = |row: &ModelRow| row.server_cpu_percent.unwrap_or_default();
    let y = Axis::from_zero(rows.iter().map(|row| cpu(row)).fold(0.0, f64::max));
    let sheet = Sheet {
        name: format!("server-cpu-by-clients-{size_bytes}"),
        title: format!("Processor of the sender while it sends {}", tables::bytes(size_bytes)),
        subtitle:
            "Per cent of one processor, the kernel's work for the program's calls included. Lower is better."
                .into(),
        y_label: "per cent",
        ..sheet(&rows)
    };
    let mut plot = draw(sheet, &rows, y, cpu, |_, _, _| {})?;
    plot.title = "Processor of the sender, by number of receivers".into();
    Some(plot)
}

fn sheet(rows: &[&ModelRow]) -> Sheet<'static> {
    let mut deliveries: Vec<&str> = rows.iter().map(|row| row.delivery.as_str()).collect();
    deliveries.sort_unstable();
    deliveries.dedup();
    Sheet {
        x_label: "receivers",
        legend: deliveries.into_iter().map(|delivery| (delivery.to_owned(), style_of(delivery))).collect(),
        ..Sheet::default()
    }
}

fn draw(
    sheet: Sheet<'_>,
    rows: &[&ModelRow],
    y: Axis,
    value: impl Fn(&ModelRow) -> f64,
    more: impl Fn(&super::canvas::Canvas<'_>, &ModelRow, Ink),
) -> Option<Plot> {
    let mut clients: Vec<f64> = rows.iter().map(|row| f64::from(row.clients)).collect();
    clients.sort_by(f64::total_cmp);
    clients.dedup();
    if clients.len() < 2 {
        return None;
    }
    let is_time = sheet.y_label == "seconds";
    let legend = sheet.legend.clone();
    Some(sheet.plot((Axis::from_zero_at(&clients), &plain), (y, &plain), |canvas| {
        for (delivery, style) in legend {
            let of: Vec<&&ModelRow> = rows.iter().filter(|row| row.delivery == delivery).collect();
            if is_time {
                let model: Vec<_> =
                    of.iter().map(|row| (f64::from(row.clients), row.model_seconds)).collect();
                canvas.line(&model, style.ink, 1.0);
            }
            for row in of {
                more(canvas, row, style.ink);
                canvas.mark((f64::from(row.clients), value(row)), style, 4.5, true);
            }
        }
    }))
}

/// The throughput of single receptions, one line a network and delivery.
#[derive(Debug, Clone)]
pub struct ThroughputLine {
    pub name: String,
    pub delivery: String,
    /// Size in bytes, and the mean and standard deviation in bits a second.
    pub points: Vec<(u64, f64, f64)>,
}

/// Figure 3.3; `None` unless there are two sizes.
pub fn throughput_by_size(lines: &[ThroughputLine], clients: u32) -> Option<Plot> {
    let mebibytes = |size_bytes: u64| size_bytes as f64 / f64::from(1 << 20);
    let mut sizes: Vec<f64> =
        lines.iter().flat_map(|line| &line.points).map(|(size_bytes, ..)| mebibytes(*size_bytes)).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    if sizes.len() < 2 {
        return None;
    }
    let highest = lines.iter().flat_map(|line| &line.points).map(|(_, mean, sd)| (mean + sd) / 1e6);
    let y = Axis::from_zero(highest.fold(0.0, f64::max));
    let style = |index: usize| {
        let marks = [Mark::Circle, Mark::Square, Mark::Triangle, Mark::Diamond];
        Style { ink: style_of(&lines[index].delivery).ink, mark: marks[index % marks.len()] }
    };
    let sheet = Sheet {
        name: format!("throughput-by-size-{clients}"),
        title: format!(
            "Throughput of a reception, by size: {clients} client{}",
            if clients == 1 { "" } else { "s" }
        ),
        subtitle: "Size by the time to the checked copy; mean and standard deviation. Higher is better."
            .into(),
        x_label: "size in MiB (logarithmic)",
        y_label: "Mbit/s",
        legend: lines.iter().enumerate().map(|(index, line)| (line.name.clone(), style(index))).collect(),
        ..Sheet::default()
    };
    Some(sheet.plot((Axis::logarithmic_at(&sizes), &plain), (y, &plain), |canvas| {
        for (index, line) in lines.iter().enumerate() {
            let points: Vec<_> = line
                .points
                .iter()
                .map(|(size_bytes, mean, _)| (mebibytes(*size_bytes), mean / 1e6))
                .collect();
            canvas.line(&points, style(index).ink, 2.0);
            for ((x, y), (_, _, sd)) in points.iter().zip(&line.points) {
                canvas.vertical_bar(*x, y - sd / 1e6, y + sd / 1e6, style(index).ink);
                canvas.mark((*x, *y), style(index), 4.5, true);
            }
        }
    }))
}
