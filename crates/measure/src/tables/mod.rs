//! Tables: in the paper's form, as text for a terminal and as HTML.

mod paper_form;
mod quantity;
mod units;

pub use paper_form::{router_table, run_time_tables, runs_table, server_bytes_table, server_tables};
pub use quantity::{Scale, quantity, three_digits};
pub use units::{bytes, rate, seconds};

/// A table. Numbers are right-aligned, which a column says for itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    pub title: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
    /// What a reader has to know to read it right.
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub align: Align,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// The text of a cell, and whether a reader's eye should be drawn to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    pub text: String,
    pub mark: Mark,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Plain,
    /// A delivery's name: it gets the colour that it has in the plots.
    Delivery,
    Good,
    Warning,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), mark: Mark::Plain }
    }
}

impl Cell {
    pub fn marked(text: impl Into<String>, mark: Mark) -> Self {
        Self { text: text.into(), mark }
    }
}

impl Table {
    /// An empty table. A column whose name starts with `<` is left-aligned.
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        let column = |name: &&str| match name.strip_prefix('<') {
            Some(name) => Column { name: name.to_owned(), align: Align::Left },
            None => Column { name: (*name).to_owned(), align: Align::Right },
        };
        Self { title: title.into(), columns: columns.iter().map(column).collect(), ..Self::default() }
    }

    /// The table for a terminal: title, heading, rows and notes, each line ended.
    pub fn to_text(&self) -> String {
        let widths: Vec<usize> = (0..self.columns.len()).map(|index| self.width(index)).collect();
        let heading: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        let mut text = format!("{}\n", self.title);
        text += &self.line(&heading, &widths);
        for row in &self.rows {
            let cells: Vec<&str> = row.iter().map(|cell| cell.text.as_str()).collect();
            text += &self.line(&cells, &widths);
        }
        for note in &self.notes {
            text += &format!("{note}\n");
        }
        text
    }

    fn width(&self, index: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(index)).map(|cell| cell.text.chars().count());
        cells.chain([self.columns[index].name.chars().count()]).max().unwrap_or(0)
    }

    fn line(&self, cells: &[&str], widths: &[usize]) -> String {
        let padded =
            cells.iter().zip(widths).zip(&self.columns).map(|((cell, &width), column)| match column.align {
                Align::Left => format!("{cell:<width$}"),
                Align::Right => format!("{cell:>width$}"),
            });
        let line = padded.collect::<Vec<_>>().join("  ");
        format!("{}\n", line.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new("Fruit", &["<NAME", "COUNT"]);
        table.rows.push(vec!["pear".into(), "7".into()]);
        table.rows.push(vec!["Äpfel".into(), "123456".into()]);
        table.notes.push("Counted by hand.".into());
        assert_eq!(table.to_text(), "Fruit\nNAME    COUNT\npear        7\nÄpfel  123456\nCounted by hand.\n");
    }
}
