//! Plots as SVG, each able to stand alone: a title that says what is shown, units on the axes, a
//! legend, and no font or style sheet from elsewhere.
//!
//! A delivery has one colour and one mark in all plots, from a palette that stays distinct for
//! colour-blind eyes.

mod axis;
mod canvas;
pub mod generic;
mod palette;

use crate::tables::Table;

pub use axis::{Axis, plain};
pub use canvas::{Canvas, NARROW, Sheet, TickText, WIDTH};
pub use palette::{Ink, Mark, Style, Styles};

/// A plot, as SVG text that can be written to a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// A name for a file, e.g. `run-time-S1L20`.
    pub name: String,
    pub title: String,
    pub svg: String,
    /// The width of the drawing, in points.
    pub width: f64,
    /// The values that are drawn, where no other table of the report has them.
    pub table: Option<Table>,
    /// All values that are drawn, as comma-separated values (RFC 4180) with a heading, for a spreadsheet. Empty: the plot
    /// is a drawing.
    pub csv: String,
}

/// Escapes a text for HTML or SVG, also for the value of a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html += "&amp;",
            '<' => html += "&lt;",
            '>' => html += "&gt;",
            '"' => html += "&quot;",
            '\'' => html += "&#39;",
            // These do not allow control characters, not even escaped.
            c if c.is_control() && c != '\n' => html.push('\u{fffd}'),
            c => html.push(c),
        }
    }
    html
}
