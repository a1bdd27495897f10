//! A sheet with a title, a legend, two axes, and marks on it.
//!
//! Lengths are in points of a sheet that is 760 points wide. The SVG of plotters has only whole pixels, so
//! everything is drawn [`SCALE`] times as large. Curves stay smooth, and the viewer scales them down.

use std::cell::RefCell;

use plotters::{
    coord::Shift,
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::{Ink, Mark, Plot, Style, axis::Axis, escape};
use crate::csv::Csv;

const SCALE: f64 = 4.0;
/// The width of a sheet for a page of usual width, in points.
pub const WIDTH: f64 = 760.0;
/// The width of a sheet for a phone, in points.
pub const NARROW: f64 = 400.0;
/// The factor by which plotters makes text smaller than the size that it is given.
const PLOTTERS_FONT_FACTOR: f64 = 1.24;
const FONT: &str = "system-ui, Helvetica, Arial, sans-serif";

const TITLE: f64 = 16.0;
pub const BODY: f64 = 12.5;
pub const SMALL: f64 = 11.0;
/// The mean width of a letter relative to its size, in a wide font.
pub const LETTER: f64 = 0.58;

/// Drawing into a string cannot fail; the type says so only because plotters has one for all backends.
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The parts of a plot around its marks.
pub struct Sheet<'t> {
    /// A name for a file, e.g. `run-time-S1L20`.
    pub name: String,
    pub title: String,
    /// A line for the reader: which runs are shown, and what error bars mean.
    pub subtitle: String,
    /// The height in points, with one line each of title, subtitle and legend. More lines add to it.
    pub height: f64,
    /// The width of the sheet, in points, at most [`WIDTH`].
    pub width: f64,
    pub x_label: &'t str,
    pub y_label: &'t str,
    pub legend: Vec<(String, Style)>,
    /// The width left of the y axis, in points.
    pub left: f64,
    /// The width right of the last x position, in points.
    pub right: f64,
}

impl Default for Sheet<'_> {
    fn default() -> Self {
        Self {
            name: String::new(),
            title: String::new(),
            subtitle: String::new(),
            height: 400.0,
            width: WIDTH,
            x_label: "",
            y_label: "",
            legend: Vec::new(),
            left: 64.0,
            right: 24.0,
        }
    }
}

/// The sheet while it is drawn on. Positions are values on its axes.
pub struct Canvas<'a> {
    area: Area<'a>,
    pub x: Axis,
    pub y: Axis,
    width: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    texts: (TickText<'a>, TickText<'a>),
    names: Names,
    /// SVG elements that show values when a reader points at a mark, in the sheet's own pixels.
    hovers: RefCell<String>,
    /// The places of all lines and marks: the series, x and y.
    drawn: RefCell<Vec<(String, f64, f64)>>,
}

/// The names of the values that are shown when a reader points at a mark.
struct Names {
    legend: Vec<(String, Style)>,
    x: String,
    y: String,
}

/// The largest number of places on a line that show their value.
const MOST_HOVERS_OF_A_LINE: usize = 60;

/// Formats the value of a tick.
pub type TickText<'f> = &'f dyn Fn(f64) -> String;

impl Sheet<'_> {
    /// Draws the sheet with `x` and `y` and whatever `draw` adds to it.
    pub fn plot(
        self,
        x: (Axis, TickText<'_>),
        y: (Axis, TickText<'_>),
        draw: impl FnOnce(&Canvas<'_>),
    ) -> Plot {
        let mut svg = String::new();
        let head = Head::of(&self);
        // The size is in whole pixels, so that the size that plotters writes is known.
        let height = (self.height + head.added).round();
        let (hovers, csv);
        {
            let size = ((self.width * SCALE) as u32, (height * SCALE) as u32);
            let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            let legend_height = if self.legend.is_empty() { 0.0 } else { 24.0 };
            let canvas = Canvas {
                area,
                x: x.0,
                y: y.0,
                width: self.width,
                left: self.left,
                right: self.width - self.right,
                top: 62.0 + head.added + legend_height,
                bottom: height - 52.0,
                texts: (x.1, y.1),
                names: Names {
                    legend: self.legend.clone(),
                    x: self.x_label.to_owned(),
                    y: self.y_label.to_owned(),
                },
                hovers: RefCell::default(),
                drawn: RefCell::default(),
            };
            canvas.heading(&self, &head);
            canvas.grid(x.1, y.1);
            canvas.axis_labels(&self);
            draw(&canvas);
            let _ = canvas.area.present();
            hovers = canvas.hovers.take();
            csv = canvas.csv();
        }
        let svg = svg.replacen("</svg>", &format!("<g class=\"hover\">{hovers}</g>\n</svg>"), 1);
        let width = self.width;
        let drawn = format!("width=\"{}\" height=\"{}\"", width * SCALE, height * SCALE);
        let shown = format!("width=\"{width}\" height=\"{height}\"");
        let svg = svg.replacen(&drawn, &shown, 1);
        Plot { name: file_name(&self.name), title: self.title, svg, width, table: None, csv }
    }
}

/// The words above a plot, divided into lines.
struct Head {
    title: Vec<String>,
    subtitle: Vec<String>,
    /// The place of each entry of the legend, from the left and from the legend's top.
    legend: Vec<(f64, f64)>,
    /// The height of all lines but the first of each, in points.
    added: f64,
}

impl Head {
    fn of(sheet: &Sheet<'_>) -> Self {
        let letters = |size: f64, letter: f64| ((sheet.width - 32.0) / (size * letter)) as usize;
        let title = wrapped(&sheet.title, letters(TITLE, 0.62));
        let subtitle = wrapped(&sheet.subtitle, letters(SMALL + 0.5, 0.565));
        let legend = legend_places(&sheet.legend, sheet.width);
        let more = |lines: &[String], height: f64| lines.len().saturating_sub(1) as f64 * height;
        let added = more(&title, TITLE_LINE)
            + more(&subtitle, SUBTITLE_LINE)
            + legend.last().map_or(0.0, |(_, top)| *top);
        Self { title, subtitle, legend, added }
    }
}

impl Canvas<'_> {
    fn heading(&self, sheet: &Sheet<'_>, head: &Head) {
        let _ = self.area.fill(&colour(Ink::Surface));
        let lines = |lines: &[String], mut top: f64, height: f64, draw: &dyn Fn(f64, &str)| {
            for line in lines {
                draw(top, line);
                top += height;
            }
            // The first line has its place, even if it is not there.
            if lines.is_empty() { top } else { top - height }
        };
        let last = lines(&head.title, 24.0, TITLE_LINE, &|top, line| {
            self.text_at((16.0, top), line, Ink::Text, TITLE, HPos::Left, true);
        });
        let last = lines(&head.subtitle, last + 20.0, SUBTITLE_LINE, &|top, line| {
            self.text_at((16.0, top), line, Ink::Muted, SMALL + 0.5, HPos::Left, false);
        });
        for ((name, style), (left, top)) in sheet.legend.iter().zip(&head.legend) {
            let place = (*left, top + last + 22.0);
            self.mark_at(place, *style, 4.5, true);
            self.text_at((left + 10.0, place.1), name, Ink::Text, BODY, HPos::Left, false);
        }
    }

    fn grid(&self, x_text: TickText<'_>, y_text: TickText<'_>) {
        let mut free = f64::MIN;
        for &tick in &self.x.ticks {
            let (x, text) = (self.x_at(tick), x_text(tick));
            self.line_at(&[(x, self.top), (x, self.bottom)], Ink::Grid, 1.0);
            let half = text.chars().count() as f64 * SMALL * LETTER / 2.0;
            // A text that would cover the one before is left out.
            if x - half >= free {
                self.text_at((x, self.bottom + 14.0), &text, Ink::Muted, SMALL, HPos::Center, false);
                free = x + half;
            }
        }
        for &tick in &self.y.ticks {
            let y = self.y_at(tick);
            self.line_at(&[(self.left, y), (self.right, y)], Ink::Grid, 1.0);
            self.text_at((self.left - 8.0, y), &y_text(tick), Ink::Muted, SMALL, HPos::Right, false);
        }
        self.line_at(&[(self.left, self.bottom), (self.right, self.bottom)], Ink::Muted, 1.0);
    }

    fn axis_labels(&self, sheet: &Sheet<'_>) {
        let middle = (self.left + self.right) / 2.0;
        self.text_at((middle, self.bottom + 36.0), sheet.x_label, Ink::Text, BODY, HPos::Center, false);
        let style = self.font(BODY, false).transform(FontTransform::Rotate270);
        let style = style.color(&colour(Ink::Text)).pos(Pos::new(HPos::Center, VPos::Center));
        let place = pixel((18.0, (self.top + self.bottom) / 2.0));
        let _ = self.area.draw_text(sheet.y_label, &style, place);
    }

    /// Draws a line through values, with a gap where a value is not a number. A value between two gaps is drawn
    /// as a dot.
    pub fn line(&self, points: &[(f64, f64)], ink: Ink, width: f64) {
        for part in points.split(|(x, y)| !x.is_finite() || !y.is_finite()) {
            match part {
                [] => {}
                [one] if points.len() > 1 => self.mark(*one, Style { ink, mark: Mark::Circle }, 1.5, true),
                part => self.whole_line(part, ink, width),
            }
        }
    }

    fn whole_line(&self, points: &[(f64, f64)], ink: Ink, width: f64) {
        let step = points.len().div_ceil(MOST_HOVERS_OF_A_LINE).max(1);
        points.iter().step_by(step).for_each(|point| self.hover(*point, ink));
        points.iter().for_each(|point| self.note_drawn(*point, ink));
        let points: Vec<_> = points.iter().map(|&(x, y)| (self.x_at(x), self.y_at(y))).collect();
        self.line_at(&points, ink, width);
    }

    /// Draws a line of steps: each value holds until the next one.
    pub fn steps(&self, points: &[(f64, f64)], ink: Ink, width: f64) {
        let mut stairs: Vec<(f64, f64)> = Vec::with_capacity(points.len() * 2);
        for &(x, y) in points {
            if let Some(&(_, before)) = stairs.last() {
                stairs.push((x, before));
            }
            stairs.push((x, y));
        }
        self.line(&stairs, ink, width);
    }

    /// Draws a point, filled or hollow.
    pub fn mark(&self, at: (f64, f64), style: Style, size: f64, filled: bool) {
        self.hover(at, style.ink);
        self.note_drawn(at, style.ink);
        self.mark_at((self.x_at(at.0), self.y_at(at.1)), style, size, filled);
    }

    /// Draws a vertical error bar with caps.
    pub fn vertical_bar(&self, x: f64, low: f64, high: f64, ink: Ink) {
        let (x, low, high) = (self.x_at(x), self.y_at(low), self.y_at(high));
        self.line_at(&[(x, low), (x, high)], ink, 1.25);
        for y in [low, high] {
            self.line_at(&[(x - 3.5, y), (x + 3.5, y)], ink, 1.25);
        }
    }

    /// Draws a range along x with caps, `offset` points below the position of `y`.
    pub fn horizontal_bar(&self, y: f64, offset: f64, low: f64, high: f64, ink: Ink) {
        let (y, low, high) = (self.y_at(y) + offset, self.x_at(low), self.x_at(high));
        self.line_at(&[(low, y), (high, y)], ink, 1.5);
        for x in [low, high] {
            self.line_at(&[(x, y - 3.5), (x, y + 3.5)], ink, 1.5);
        }
    }

    /// Draws a filled bar from 0 to `value` along x, `height` points high.
    pub fn bar(&self, y: f64, value: f64, height: f64, ink: Ink) {
        let start = self.x.start();
        self.hover((value, y), ink);
        self.note_drawn((value, y), ink);
        self.filled((value.min(start), value.max(start)), y, height, ink);
    }

    /// Draws a filled range along x, `height` points high.
    pub fn filled(&self, (low, high): (f64, f64), y: f64, height: f64, ink: Ink) {
        let y = self.y_at(y);
        let corners = [pixel((self.x_at(low), y - height / 2.0)), pixel((self.x_at(high), y + height / 2.0))];
        let _ = self.area.draw(&Rectangle::new(corners, colour(ink).filled()));
    }

    /// Draws a square of a heat map. `corner` is its lower left corner; `shade` is from 0 to 1.
    pub fn square(&self, corner: (f64, f64), ink: Ink, shade: f64) {
        let (low, high) = self.square_at(corner);
        let _ = self.area.draw(&Rectangle::new([pixel(low), pixel(high)], colour(ink).mix(shade).filled()));
    }

    /// Shows a text when a reader points at a square.
    pub fn hover_square(&self, corner: (f64, f64), text: &str) {
        let (low, high) = self.square_at(corner);
        let ((left, top), (right, bottom)) = (pixel(low), pixel(high));
        let (width, height) = (right - left, bottom - top);
        *self.hovers.borrow_mut() += &format!(
            "<rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" fill=\"transparent\"><title>{}</title></rect>\n",
            escape(text)
        );
    }

    /// The upper left and lower right corners of a square, with a gap to the next one.
    fn square_at(&self, (x, y): (f64, f64)) -> ((f64, f64), (f64, f64)) {
        let (left, right) = (self.x_at(x), self.x_at(x + 1.0));
        let (bottom, top) = (self.y_at(y), self.y_at(y + 1.0));
        ((left + 1.5, top + 1.5), (right - 1.5, bottom - 1.5))
    }

    /// The name of the series that is drawn in a colour.
    fn series_of(&self, ink: Ink) -> Option<&str> {
        self.names.legend.iter().find(|(_, style)| style.ink == ink).map(|(name, _)| name.as_str())
    }

    fn note_drawn(&self, (x, y): (f64, f64), ink: Ink) {
        let series = self.series_of(ink).unwrap_or_default().to_owned();
        self.drawn.borrow_mut().push((series, x, y));
    }

    /// The places of all lines and marks. Empty where an axis has no values, but words.
    fn csv(&self) -> String {
        let drawn = self.drawn.borrow();
        if drawn.is_empty() || self.x.ticks.is_empty() || self.y.ticks.is_empty() {
            return String::new();
        }
        let mut csv = Csv::new(&["series", &self.names.x, &self.names.y]);
        for (series, x, y) in drawn.iter() {
            csv.row([series.clone(), x.to_string(), y.to_string()]);
        }
        csv.finish()
    }

    /// Shows the values and the series of a place when a reader points at it.
    fn hover(&self, at: (f64, f64), ink: Ink) {
        let series = self.series_of(ink);
        // An axis of rows has words of its own, and no value to show.
        let value = |axis: &Axis, name: &str, value: f64, text: TickText<'_>| {
            (!axis.ticks.is_empty()).then(|| {
                let name = name.trim_end_matches(" (logarithmic)");
                if name.is_empty() { text(value) } else { format!("{name}: {}", text(value)) }
            })
        };
        let lines = [
            series.map(str::to_owned),
            value(&self.y, &self.names.y, at.1, self.texts.1),
            value(&self.x, &self.names.x, at.0, self.texts.0),
        ];
        let text = lines.into_iter().flatten().collect::<Vec<_>>().join("\n");
        let (x, y) = pixel((self.x_at(at.0), self.y_at(at.1)));
        let radius = (7.0 * SCALE) as i32;
        *self.hovers.borrow_mut() += &format!(
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"transparent\"><title>{}</title></circle>\n",
            escape(&text)
        );
    }

    /// Draws a text, moved by `offset` points from a position of values.
    pub fn text(&self, at: (f64, f64), offset: (f64, f64), text: &str, ink: Ink, size: f64, align: HPos) {
        let place = (self.x_at(at.0) + offset.0, self.y_at(at.1) + offset.1);
        self.text_at(place, text, ink, size, align, false);
    }

    /// Draws small text beside a position of values, `lower` points below it: to the right of it, or to the left where
    /// it does not fit.
    pub fn note(&self, at: (f64, f64), lower: f64, text: &str) {
        let is_too_long = text.chars().count() > self.letters_behind(at.0);
        let (align, side) = if is_too_long { (HPos::Right, -4.0) } else { (HPos::Left, 4.0) };
        self.text(at, (side, lower), text, Ink::Muted, SMALL, align);
    }

    /// The number of small letters that fit between a position on the x axis and the right end of the sheet.
    pub fn letters_behind(&self, x: f64) -> usize {
        ((self.width - 8.0 - self.x_at(x)) / (SMALL * LETTER)).max(0.0) as usize
    }

    /// Draws bold text at the left end of the sheet, at a position on the y axis.
    pub fn row_label(&self, y: f64, text: &str, ink: Ink) {
        self.text_at((16.0, self.y_at(y)), text, ink, BODY + 0.5, HPos::Left, true);
    }

    /// Draws small text that ends at the y axis, at a position on it.
    pub fn left_label(&self, y: f64, text: &str) {
        self.text_at((self.left - 8.0, self.y_at(y)), text, Ink::Muted, SMALL, HPos::Right, false);
    }

    fn x_at(&self, value: f64) -> f64 {
        self.left + (self.right - self.left) * self.x.position(value)
    }

    fn y_at(&self, value: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * self.y.position(value)
    }

    fn line_at(&self, points: &[(f64, f64)], ink: Ink, width: f64) {
        let points: Vec<(i32, i32)> = points.iter().copied().map(pixel).collect();
        let stroke = colour(ink).stroke_width((width * SCALE).round() as u32);
        let _ = self.area.draw(&PathElement::new(points, stroke));
    }

    fn mark_at(&self, at: (f64, f64), style: Style, size: f64, filled: bool) {
        let outline = outline(style.mark, at, size);
        let fill = colour(if filled { style.ink } else { Ink::Surface });
        let _ = self.area.draw(&Polygon::new(outline.clone(), fill.filled()));
        // The first side is drawn twice, so that the corner where the outline closes is round, too.
        let closed: Vec<_> = outline.iter().chain(outline.iter().take(2)).copied().collect();
        let stroke = colour(style.ink).stroke_width((1.75 * SCALE) as u32);
        let _ = self.area.draw(&PathElement::new(closed, stroke));
    }

    fn text_at(&self, at: (f64, f64), text: &str, ink: Ink, size: f64, align: HPos, bold: bool) {
        let style = self.font(size, bold).color(&colour(ink)).pos(Pos::new(align, VPos::Center));
        let _ = self.area.draw_text(text, &style, pixel(at));
    }

    fn font(&self, size: f64, bold: bool) -> FontDesc<'static> {
        let weight = if bold { FontStyle::Bold } else { FontStyle::Normal };
        FontDesc::new(FontFamily::Name(FONT), size * SCALE * PLOTTERS_FONT_FACTOR, weight)
    }
}

/// Turns a name into one that is a valid file name in any folder, because anybody may have named a network.
fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
    name.chars().map(plain).take(120).collect()
}

/// The places of the entries of a legend, from the left and from the legend's top. An entry that does not fit
/// into a row of a sheet of this width goes to the next one.
fn legend_places(legend: &[(String, Style)], sheet_width: f64) -> Vec<(f64, f64)> {
    const LEFT: f64 = 22.0;
    let (mut left, mut top) = (LEFT, 0.0);
    let mut places = Vec::with_capacity(legend.len());
    for (name, _) in legend {
        let width = 34.0 + name.chars().count() as f64 * BODY * 0.55;
        if left > LEFT && left + width > sheet_width {
            (left, top) = (LEFT, top + 20.0);
        }
        places.push((left, top));
        left += width;
    }
    places
}

/// The distance of two lines of the title, in points.
const TITLE_LINE: f64 = 20.0;
/// The distance of two lines of the subtitle, in points.
const SUBTITLE_LINE: f64 = 16.0;

/// Divides a text into lines of at most `most` letters, between words.
fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn pixel((x, y): (f64, f64)) -> (i32, i32) {
    ((x * SCALE).round() as i32, (y * SCALE).round() as i32)
}

fn colour(ink: Ink) -> RGBColor {
    let [_, red, green, blue] = ink.light().to_be_bytes();
    RGBColor(red, green, blue)
}

/// The corners of a mark. A circle is a polygon, too, so that all marks are drawn alike.
fn outline(mark: Mark, (x, y): (f64, f64), size: f64) -> Vec<(i32, i32)> {
    let corner = |turn: f64, stretch: f64| {
        let angle = turn * std::f64::consts::TAU;
        pixel((x + size * stretch * angle.sin(), y - size * stretch * angle.cos()))
    };
    let corners = |count: usize, start: f64, stretch: f64| {
        (0..count).map(|i| corner(start + i as f64 / count as f64, stretch)).collect()
    };
    match mark {
        Mark::Circle => corners(24, 0.0, 1.0),
        Mark::Square => corners(4, 0.125, 1.25),
        Mark::Triangle => corners(3, 0.0, 1.3),
        Mark::Diamond => corners(4, 0.0, 1.3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_leads_nowhere_else() {
        assert_eq!(file_name("../../etc/S1<L20>"), "------etc-S1-L20-");
    }

    #[test]
    fn a_legend_that_is_too_long_for_a_row_goes_on_in_the_next() {
        let style = Style { ink: Ink::Series(0), mark: Mark::Circle };
        let legend: Vec<_> = (0..9).map(|n| (format!("{n}:interface:tx"), style)).collect();
        let places = legend_places(&legend, WIDTH);
        assert!(places.iter().all(|(left, _)| *left < WIDTH - 100.0), "{places:?}");
        assert_eq!((places[0].1, places[8].1, places[8].0 < places[4].0), (0.0, 20.0, true));
    }

    #[test]
    fn a_subtitle_that_is_too_long_for_a_line_goes_on_in_the_next() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("", 7), [""; 0]);
    }

    #[test]
    fn a_mark_tells_its_value_and_its_series_and_nothing_of_it_is_markup() {
        let style = Style { ink: Ink::Series(0), mark: Mark::Circle };
        let sheet = Sheet {
            x_label: "clients",
            y_label: "s",
            legend: vec![("<nack>".into(), style)],
            ..Sheet::default()
        };
        let plain = crate::plot::axis::plain;
        let plot = sheet.plot((Axis::from_zero(20.0), &plain), (Axis::from_zero(3.0), &plain), |canvas| {
            canvas.mark((20.0, 1.25), style, 4.0, true);
        });
        assert!(plot.svg.contains("<title>&lt;nack&gt;\ns: 1.25\nclients: 20</title>"), "{}", plot.svg);
    }

    #[test]
    fn a_value_that_is_no_number_is_a_gap_in_the_line() {
        let plain = crate::plot::axis::plain;
        let lines = |points: &[(f64, f64)]| {
            let axes = ((Axis::rows(9.0), &plain as TickText<'_>), (Axis::rows(9.0), &plain as TickText<'_>));
            let plot =
                Sheet::default().plot(axes.0, axes.1, |canvas| canvas.line(points, Ink::Series(0), 2.0));
            plot.svg.lines().filter(|line| line.contains("<polyline") && line.contains("0072B2")).count()
        };
        assert_eq!(lines(&[(0.0, 1.0), (1.0, 1.0), (2.0, f64::NAN), (3.0, 2.0), (4.0, 2.0)]), 2);
        assert_eq!(lines(&[(0.0, 1.0), (1.0, 1.0), (2.0, 0.0), (3.0, 2.0), (4.0, 2.0)]), 1);
    }

    #[test]
    fn a_title_that_is_too_long_for_a_line_makes_the_sheet_higher() {
        let sheet = |title: &str, width| Sheet { title: title.into(), width, ..Sheet::default() };
        let long = "What all links of the network carry while a router is off";
        let heads = [sheet("short", NARROW), sheet(long, WIDTH), sheet(long, NARROW)].map(|s| Head::of(&s));
        assert_eq!(
            heads.each_ref().map(|head| (head.title.len(), head.added)),
            [(1, 0.0), (1, 0.0), (2, TITLE_LINE)]
        );
    }
}
