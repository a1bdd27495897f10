//! Plots of tables 6 to 9: what serving cost the server.

use plotters::style::text_anchor::HPos;

use super::{
    Ink, Plot,
    axis::{Axis, plain},
    canvas::{BODY, Sheet},
    style_of,
};
use crate::{
    analysis::{ActiveClients, ServerBytes, Setting},
    statistics::Summary,
};

/// The rows of [`crate::analysis::Results::server_by_active_clients`] by delivery.
pub type ByDelivery = [(String, Vec<ActiveClients>)];

/// Megabytes a second that the server sent, against the number of active clients.
pub fn server_rate_by_clients(rows: &ByDelivery, setting: &Setting, schedule: &str) -> Option<Plot> {
    let sheet = Sheet {
        name: format!("server-rate-by-clients-{}-{}", setting.topology, setting.size_bytes),
        title: format!("What the server sends, by number of active clients: {setting}, {schedule}"),
        y_label: "MB/s (10⁶ bytes)",
        ..by_clients_sheet(rows)
    };
    by_clients(sheet, rows, |row| row.sent_mb_per_second)
}

/// Processors that the serving program kept busy, against the number of active clients.
pub fn server_load_by_clients(rows: &ByDelivery, setting: &Setting, schedule: &str) -> Option<Plot> {
    let sheet = Sheet {
        name: format!("server-load-by-clients-{}-{}", setting.topology, setting.size_bytes),
        title: format!("Server load, by number of active clients: {setting}, {schedule}"),
        y_label: "processors kept busy",
        ..by_clients_sheet(rows)
    };
    by_clients(sheet, rows, |row| row.load)
}

/// How many copies of the object the server sent, a bar a delivery.
pub fn server_copies(rows: &[ServerBytes], setting: &Setting, schedule: &str, clients: u32) -> Option<Plot> {
    let mut rows: Vec<&ServerBytes> =
        rows.iter().filter(|row| row.setting == *setting && row.schedule == schedule).collect();
    rows.sort_by(|a, b| a.sent_bytes.total_cmp(&b.sent_bytes));
    let most = rows.last()?.copies();
    let sheet = Sheet {
        name: format!("server-copies-{}-{}", setting.topology, setting.size_bytes),
        title: format!("Copies that the server sends for {clients} clients: {setting}, {schedule}"),
        subtitle: "Bytes on its interface over the object's size, headers and retransmissions included. Lower is better."
            .into(),
        height: 120.0 + rows.len() as f64 * 30.0,
        x_label: "copies",
        left: 110.0,
        right: 60.0,
        ..Sheet::default()
    };
    let y = Axis::rows(rows.len() as f64);
    Some(sheet.plot((Axis::from_zero(most), &plain), (y, &plain), |canvas| {
        for (index, row) in rows.iter().enumerate() {
            let (place, ink) = ((rows.len() - index) as f64 - 0.5, style_of(&row.delivery).ink);
            canvas.row_label(place, &row.delivery, ink);
            canvas.bar(place, row.copies(), 18.0, ink);
            let text = format!("{:.2}", row.copies());
            canvas.text((row.copies(), place), (7.0, 0.0), &text, Ink::Text, BODY, HPos::Left);
        }
    }))
}

fn by_clients_sheet(rows: &ByDelivery) -> Sheet<'static> {
    Sheet {
        subtitle: "Average of the samples with that many active clients; error bars: standard deviation."
            .into(),
        x_label: "active clients",
        legend: rows.iter().map(|(delivery, _)| (delivery.clone(), style_of(delivery))).collect(),
        ..Sheet::default()
    }
}

fn by_clients(
    sheet: Sheet<'_>,
    rows: &ByDelivery,
    value: impl Fn(&ActiveClients) -> Option<Summary>,
) -> Option<Plot> {
    let points = |rows: &[ActiveClients]| -> Vec<(f64, Summary)> {
        rows.iter().filter_map(|row| Some((f64::from(row.clients), value(row)?))).collect()
    };
    let all: Vec<(f64, Summary)> = rows.iter().flat_map(|(_, rows)| points(rows)).collect();
    // Single points with nothing between them are no curve: the table has them.
    let has_line = |rows: &[ActiveClients]| points(rows).windows(2).any(|pair| pair[1].0 - pair[0].0 < 1.5);
    if !rows.iter().any(|(_, rows)| has_line(rows)) {
        return None;
    }
    let most_clients = all.iter().map(|(clients, _)| *clients).reduce(f64::max)?;
    let most = all.iter().map(|(_, s)| s.mean + s.standard_deviation).fold(0.0, f64::max);
    Some(sheet.plot((Axis::from_zero(most_clients), &plain), (Axis::from_zero(most), &plain), |canvas| {
        for (delivery, rows) in rows {
            let (points, style) = (points(rows), style_of(delivery));
            // A line from 2 to 9 clients would say something about 3 to 8.
            for pair in points.windows(2).filter(|pair| pair[1].0 - pair[0].0 < 1.5) {
                canvas.line(&[(pair[0].0, pair[0].1.mean), (pair[1].0, pair[1].1.mean)], style.ink, 1.5);
            }
            for (clients, s) in points {
                if s.standard_deviation > 0.0 {
                    let low = (s.mean - s.standard_deviation).max(0.0);
                    canvas.vertical_bar(clients, low, s.mean + s.standard_deviation, style.ink);
                }
                canvas.mark((clients, s.mean), style, 4.0, true);
            }
        }
    }))
}
