//! Ours beside what others have published.

use plotters::style::text_anchor::HPos;

use super::{
    Ink, Mark, Plot, Style,
    axis::{Axis, plain},
    canvas::{SMALL, Sheet},
    style_of,
};
use crate::tables;

/// One delivery in one network: the average run time, ours and theirs, in terms of the time that one
/// copy takes at link rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    pub topology: String,
    pub size_bytes: u64,
    pub delivery: String,
    pub ours: f64,
    pub theirs: f64,
    /// The size that theirs is of, the nearest that there is.
    pub their_size_bytes: u64,
}

/// A row a pair; `None` when there is none.
pub fn beside_the_paper(pairs: &[Pair]) -> Option<Plot> {
    pairs.first()?;
    let rows = pairs.len() as f64;
    let legend = |name: &str, mark| (name.to_owned(), Style { ink: Ink::Muted, mark });
    let sheet = Sheet {
        name: "beside-the-paper".into(),
        title: "Average run time beside the paper's, all clients asking at once".into(),
        subtitle: "In terms of the time that one copy takes at link rate. Lower is better.".into(),
        height: 138.0 + rows * 24.0,
        x_label: "times one copy (logarithmic)",
        legend: vec![
            legend("ours", Mark::Circle),
            legend(
                "hollow: librecast-updates-2022; of another size where one is written beside",
                Mark::Diamond,
            ),
        ],
        left: 210.0,
        right: 76.0,
        ..Sheet::default()
    };
    let x = Axis::logarithmic(pairs.iter().flat_map(|pair| [pair.ours, pair.theirs]));
    Some(sheet.plot((x, &plain), (Axis::rows(rows), &plain), |canvas| {
        for (index, pair) in pairs.iter().enumerate() {
            let (y, ink) = (rows - index as f64 - 0.5, style_of(&pair.delivery).ink);
            canvas.row_label(y, &pair.delivery, ink);
            let network = format!("{}, {}", pair.topology, tables::bytes(pair.size_bytes));
            canvas.text((f64::MIN_POSITIVE, y), (-8.0, 0.0), &network, Ink::Muted, SMALL, HPos::Right);
            canvas.line(&[(pair.ours, y), (pair.theirs, y)], ink, 1.5);
            canvas.mark((pair.theirs, y), Style { ink, mark: Mark::Diamond }, 4.5, false);
            if pair.their_size_bytes != pair.size_bytes {
                let (size, at) = (tables::bytes(pair.their_size_bytes), (pair.ours.max(pair.theirs), y));
                canvas.text(at, (9.0, 0.0), &size, Ink::Muted, SMALL, HPos::Left);
            }
            canvas.mark((pair.ours, y), Style { ink, mark: Mark::Circle }, 4.5, true);
        }
    }))
}
