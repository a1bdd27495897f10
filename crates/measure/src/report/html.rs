//! HTML: tables, plots, and the page around them.

use super::Report;
use crate::{
    plot::{Ink, Plot, Styles, escape},
    tables::{Align, Cell, Mark, Table},
};

/// The largest number of rows in a table. Longer tables are cut in the middle; the database has all rows.
const MAX_ROWS: usize = 240;

/// A page that is being written. Text from callers is escaped. HTML comes only from literals of this module and
/// its callers.
#[derive(Default)]
pub struct Page {
    body: String,
    /// The anchor and name of each section.
    contents: Vec<(String, String)>,
    plots: Vec<Plot>,
    /// The colours of deliveries.
    styles: Styles,
    /// The length of the body before and after the heading of the current section.
    section: Option<(usize, usize)>,
}

impl Page {
    /// An empty page, in which each delivery has one colour.
    pub fn new(styles: Styles) -> Self {
        Self { styles, ..Self::default() }
    }

    /// The colours of deliveries.
    pub fn styles(&self) -> &Styles {
        &self.styles
    }

    /// Adds HTML that a caller made from literals and escaped text.
    pub fn raw(&mut self, html: &str) {
        self.body += html;
        self.body.push('\n');
    }

    /// Opens a section with an entry in the contents. `about` follows its name in smaller letters. A section
    /// that stays empty is removed when it ends.
    pub fn section(&mut self, name: &str, about: &str) {
        let before = self.body.len();
        let anchor = format!("section-{}", self.contents.len() + 1);
        let (heading, about) = (escape(name), escape(about));
        self.raw(&format!("<section id=\"{anchor}\"><h2>{heading} <small>{about}</small></h2>"));
        self.contents.push((anchor, name.to_owned()));
        self.section = Some((before, self.body.len()));
    }

    pub fn end_section(&mut self) {
        if let Some((before, _)) = self.section.take().filter(|(_, behind)| *behind == self.body.len()) {
            self.body.truncate(before);
            self.contents.pop();
            return;
        }
        self.raw("</section>");
    }

    pub fn paragraph(&mut self, text: &str) {
        self.raw(&format!("<p>{}</p>", escape(text)));
    }

    /// Adds a box with good or bad news.
    pub fn banner(&mut self, good: bool, text: &str) {
        let (class, sign) = if good { ("good", "✓") } else { ("warning", "!") };
        let text = escape(text);
        self.raw(&format!("<p class=\"banner {class}\"><b aria-hidden=\"true\">{sign}</b> {text}</p>"));
    }

    /// Adds a plot, and the same plot for a phone, if it differs.
    pub fn plot(&mut self, plot: Plot, narrow: Option<Plot>) {
        match narrow.filter(|narrow| narrow.width < plot.width) {
            Some(narrow) => {
                self.raw(&figure("wide", &plot, &plot.csv));
                self.raw(&figure("narrow", &narrow, &plot.csv));
            }
            None => self.raw(&figure("plot", &plot, &plot.csv)),
        }
        self.folded_tables("Table: the values of this plot", plot.table.as_slice());
        self.plots.push(plot);
    }

    /// Adds a table without its empty columns and rows. Adds nothing if nothing is left.
    pub fn table(&mut self, table: &Table) {
        if let Some(table) = table.tidied() {
            let html = table_html(&table, &self.styles);
            self.raw(&html);
        }
    }

    /// Adds a part that is folded until a reader opens it. Adds nothing if `write` adds nothing.
    pub fn folded(&mut self, summary: &str, write: impl FnOnce(&mut Page)) {
        let before = self.body.len();
        write(self);
        if self.body.len() > before {
            let opening = format!("<details><summary>{}</summary>\n", escape(summary));
            self.body.insert_str(before, &opening);
            self.raw("</details>");
        }
    }

    /// Adds tables that are folded until a reader opens them.
    pub fn folded_tables(&mut self, summary: &str, tables: &[Table]) {
        let filled = tables.iter().filter(|table| !table.rows.is_empty());
        self.folded(summary, |page| filled.for_each(|table| page.table(table)));
    }

    /// Adds an SVG drawing from elsewhere as an image, in which no script can run.
    pub fn picture(&mut self, svg: &str, description: &str) {
        self.raw(&format!(
            "<figure class=\"picture\"><img alt=\"{}\" src=\"data:image/svg+xml,{}\"></figure>",
            escape(description),
            percent_encode(svg)
        ));
    }

    /// Completes the page.
    pub fn finish(self, title: &str) -> Report {
        let contents: String = self
            .contents
            .iter()
            .map(|(anchor, name)| format!("<a href=\"#{anchor}\">{}</a>", escape(name)))
            .collect();
        let html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>{title}</title>\n<style>\n{colours}{style}</style>\n</head>\n<body>\n\
             <nav>{contents}</nav>\n<main>\n{body}</main>\n<script>\n{script}</script>\n</body>\n</html>\n",
            title = escape(title),
            colours = colour_sheet(),
            style = include_str!("style.css"),
            script = include_str!("save.js"),
            body = self.body,
        );
        Report { html, plots: self.plots }
    }
}

fn table_html(table: &Table, styles: &Styles) -> String {
    let align = |index: usize| match table.columns.get(index).map(|column| column.align) {
        Some(Align::Left) => " class=\"left\"",
        _ => "",
    };
    let mut html =
        format!("<div class=\"table\"><table><caption>{}</caption><thead><tr>", escape(&table.title));
    for (index, column) in table.columns.iter().enumerate() {
        html += &format!("<th scope=\"col\"{}>{}</th>", align(index), escape(&column.name));
    }
    html += "</tr></thead><tbody>";
    let row_html = |row: &Vec<Cell>| {
        let cells = row
            .iter()
            .enumerate()
            .map(|(index, cell)| format!("<td{}>{}</td>", align(index), cell_html(cell, styles)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    if table.rows.len() > MAX_ROWS {
        let (first, last) = (&table.rows[..MAX_ROWS / 2], &table.rows[table.rows.len() - MAX_ROWS / 2..]);
        html += &first.iter().map(row_html).collect::<String>();
        let left_out = table.rows.len() - MAX_ROWS;
        html += &format!(
            "<tr><td class=\"left muted\" colspan=\"{}\">{left_out} rows left out; the results database has them</td></tr>",
            table.columns.len()
        );
        html += &last.iter().map(row_html).collect::<String>();
    } else {
        html += &table.rows.iter().map(row_html).collect::<String>();
    }
    html += "</tbody></table>";
    if let Some([good, bad]) = table.key() {
        html += &format!(
            "<p class=\"note\"><span class=\"ok\">Green</span>: {}. <span class=\"bad\">Red</span>: {}.</p>",
            escape(good),
            escape(bad)
        );
    }
    for note in &table.notes {
        html += &format!("<p class=\"note\">{}</p>", escape(note));
    }
    html + "</div>"
}

fn cell_html(cell: &Cell, styles: &Styles) -> String {
    let text = escape(&cell.text);
    match cell.mark {
        Mark::Plain => with_whole_dates(&text),
        Mark::Delivery => {
            let colour = styles.of(&cell.text).ink.variable();
            format!("<span class=\"delivery\" style=\"--c:var({colour})\">{text}</span>")
        }
        Mark::Good => format!("<span class=\"ok\">{text}</span>"),
        Mark::Warning => format!("<span class=\"bad\">{text}</span>"),
        Mark::Muted => format!("<span class=\"muted\">{text}</span>"),
    }
}

/// The text with words such as `2012-12-01` kept in one line, where others wrap.
fn with_whole_dates(text: &str) -> String {
    let is_date = |word: &str| word.contains('-') && word.starts_with(|letter: char| letter.is_ascii_digit());
    if !text.split(' ').any(is_date) {
        return text.to_owned();
    }
    let words = text.split(' ').map(|word| match is_date(word) {
        true => format!("<span class=\"whole\">{word}</span>"),
        false => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A plot with buttons that save it. The page's script makes the files from what the page holds, and without a network.
fn figure(class: &str, plot: &Plot, csv: &str) -> String {
    let mut formats = vec!["PNG", "SVG"];
    if !csv.is_empty() {
        formats.push("CSV");
    }
    let buttons: String = formats
        .iter()
        .map(|format| format!("<button type=\"button\" data-save=\"{format}\">{format}</button>"))
        .collect();
    format!(
        "<figure class=\"{class}\" data-name=\"{}\" data-csv=\"{}\">{}<p class=\"save\">Save as {buttons}</p></figure>",
        escape(&plot.name),
        escape(&csv.replace('\r', "")),
        inline_svg(plot)
    )
}

/// The plot as a part of a page: as wide as the page allows, and in the page's colours.
fn inline_svg(plot: &Plot) -> String {
    let mut svg = plot.svg.clone();
    if let Some(start) = svg.find("<svg ")
        && let Some(end) = svg[start..].find("viewBox")
    {
        let label = format!(
            "<svg style=\"--width:{:.0}px\" role=\"img\" aria-label=\"{}\" ",
            plot.width,
            escape(&plot.title)
        );
        svg.replace_range(start..start + end, &label);
    }
    for ink in Ink::all() {
        svg = svg.replace(&format!("\"#{:06X}\"", ink.light()), &format!("\"var({})\"", ink.variable()));
    }
    svg
}

fn colour_sheet() -> String {
    let variables = |value: fn(Ink) -> u32| -> String {
        Ink::all().map(|ink| format!("{}:#{:06X};", ink.variable(), value(ink))).collect()
    };
    format!(
        ":root{{color-scheme:light dark;{}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{}}}}}\n",
        variables(Ink::light),
        variables(Ink::dark)
    )
}

fn percent_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b'-'
            | b'_'
            | b'.'
            | b'/'
            | b' '
            | b'='
            | b':'
            | b',' => {
                encoded.push(byte as char);
            }
            _ => encoded += &format!("%{byte:02X}"),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_can_be_taken_for_html() {
        let nasty = "<script>alert('x')</script> & \"quotes\" \u{1}";
        assert_eq!(
            escape(nasty),
            "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;quotes&quot; \u{fffd}"
        );
        let mut page = Page::default();
        let mut table = Table::new(nasty, &[nasty]);
        table.rows.push(vec![Cell::marked(nasty, Mark::Delivery)]);
        table.notes.push(nasty.into());
        page.section(nasty, nasty);
        page.banner(true, nasty);
        page.folded_tables(nasty, &[table]);
        page.picture(nasty, nasty);
        page.end_section();
        let report = page.finish(nasty);
        // The page's own script is the only one.
        assert_eq!(report.html.matches("<script").count(), 1, "{}", report.html);
        assert!(!report.html.contains("alert('"), "{}", report.html);
    }

    /// A plot can be saved as a picture and its values as a table, whatever it is called and whatever its values are.
    #[test]
    fn a_plot_has_buttons_that_save_it_and_its_values() {
        let plot = Plot {
            name: "a-b".into(),
            title: "t".into(),
            svg: "<svg width=\"4\" height=\"3\" viewBox=\"0 0 4 3\"></svg>".into(),
            width: 4.0,
            table: None,
            csv: "x,\"<b>\"\r\n1,2\r\n".into(),
        };
        let mut page = Page::default();
        page.plot(plot.clone(), None);
        page.plot(Plot { csv: String::new(), ..plot }, None);
        let html = page.finish("t").html;
        let buttons = |format: &str| html.matches(&format!("data-save=\"{format}\"")).count();
        assert_eq!([buttons("PNG"), buttons("SVG"), buttons("CSV")], [2, 2, 1]);
        assert!(html.contains("data-csv=\"x,&quot;&lt;b&gt;&quot;\n1,2\n\""), "{html}");
    }

    #[test]
    fn a_section_without_content_is_not_there() {
        let mut page = Page::default();
        page.section("Empty", "");
        page.table(&Table { rows: vec![vec!["-".into()]], ..Table::new("dashes", &["N"]) });
        page.end_section();
        page.section("Filled", "");
        page.paragraph("text");
        page.end_section();
        let html = page.finish("t").html;
        assert!(!html.contains("Empty") && !html.contains("dashes"), "{html}");
        assert!(html.contains("<a href=\"#section-1\">Filled</a>"), "{html}");
    }

    #[test]
    fn a_long_table_is_cut_in_the_middle_and_says_so() {
        let mut table = Table::new("long", &["N"]);
        table.rows = (0..1000).map(|n| vec![format!("row{n}").into()]).collect();
        let html = table_html(&table, &Styles::default());
        assert!(html.contains("760 rows left out"));
        assert!(html.contains(">row119<") && html.contains(">row880<"));
        assert!(!html.contains(">row120<") && !html.contains(">row879<"));
    }
}
