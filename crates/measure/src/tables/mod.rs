//! Tables, as text for a terminal and as HTML, and how they write numbers.

mod quantity;
mod units;

pub use quantity::{Scale, quantity, three_digits};
pub use units::{bytes, rate, seconds};

/// A table. Columns of numbers are right-aligned; each column says whether it is one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    pub title: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
    /// Notes that a reader needs to understand the table.
    pub notes: Vec<String>,
    /// The meaning of green and of red cells. `None`: green is as it should be, red is not.
    pub key: Option<[&'static str; 2]>,
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

/// The text of a cell, and its emphasis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    pub text: String,
    pub mark: Mark,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Plain,
    /// A delivery's name, in the colour that it has in the plots.
    Delivery,
    Good,
    Warning,
    /// Neither good nor bad.
    Muted,
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
    pub fn new(title: impl Into<String>, columns: &[impl AsRef<str>]) -> Self {
        let column = |name: &_| {
            let name: &str = AsRef::<str>::as_ref(name);
            let align = if name.starts_with('<') { Align::Left } else { Align::Right };
            Column { name: name.trim_start_matches('<').to_owned(), align }
        };
        Self { title: title.into(), columns: columns.iter().map(column).collect(), ..Self::default() }
    }

    /// The table without columns and rows that contain only dashes. `None` if nothing is left.
    pub fn tidied(&self) -> Option<Self> {
        let is_dash = |cell: &Cell| matches!(cell.text.as_str(), "" | "-");
        let is_number =
            |index: usize| self.columns.get(index).is_some_and(|column| column.align == Align::Right);
        let says = |row: &&Vec<Cell>| {
            let mut numbers = row.iter().enumerate().filter(|(index, _)| is_number(*index)).peekable();
            numbers.peek().is_none()
                || numbers.any(|(_, cell)| !is_dash(cell))
                || row.iter().any(|cell| matches!(cell.mark, Mark::Good | Mark::Warning | Mark::Muted))
        };
        let rows: Vec<&Vec<Cell>> = self.rows.iter().filter(says).collect();
        let says = |index: usize| rows.iter().any(|row| row.get(index).is_some_and(|cell| !is_dash(cell)));
        let kept: Vec<usize> = (0..self.columns.len()).filter(|index| says(*index)).collect();
        (!kept.is_empty()).then(|| Self {
            columns: kept.iter().map(|index| self.columns[*index].clone()).collect(),
            rows: rows.iter().map(|row| kept.iter().map(|index| row[*index].clone()).collect()).collect(),
            ..Self { rows: Vec::new(), ..self.clone() }
        })
    }

    /// The meaning of green and red in this table. `None` if no cell has such a colour.
    pub fn key(&self) -> Option<[&'static str; 2]> {
        let is_coloured = |cell: &Cell| matches!(cell.mark, Mark::Good | Mark::Warning);
        let coloured = self.rows.iter().flatten().any(is_coloured);
        coloured.then(|| self.key.unwrap_or(["as it should be", "not as it should be"]))
    }

    /// The table as text for a terminal: title, heading, rows and notes, each line with its end.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}\n{}", self.title, self.lines());
        for note in &self.notes {
            text += &format!("{note}\n");
        }
        text
    }

    /// The heading and the rows as text for a terminal, each line with its end.
    pub fn lines(&self) -> String {
        let widths: Vec<usize> = (0..self.columns.len()).map(|index| self.width(index)).collect();
        let heading: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        let mut text = self.line(&heading, &widths);
        for row in &self.rows {
            let cells: Vec<&str> = row.iter().map(|cell| cell.text.as_str()).collect();
            text += &self.line(&cells, &widths);
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
    fn what_says_nothing_is_left_out() {
        let mut table = Table::new("Fruit", &["<NAME", "COUNT", "PAPER"]);
        table.rows.push(vec!["pear".into(), "7".into(), "-".into()]);
        table.rows.push(vec!["plum".into(), "-".into(), "".into()]);
        assert_eq!(table.tidied().unwrap().to_text(), "Fruit\nNAME  COUNT\npear      7\n");
        table.rows.remove(0);
        assert_eq!(table.tidied(), None, "a table of dashes");
        let words = Table { rows: vec![vec!["a".into(), "".into()]], ..Table::new("Words", &["<A", "<B"]) };
        assert_eq!(words.tidied().unwrap().columns.len(), 1);
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new("Fruit", &["<NAME", "COUNT"]);
        table.rows.push(vec!["pear".into(), "7".into()]);
        table.rows.push(vec!["Äpfel".into(), "123456".into()]);
        table.notes.push("Counted by hand.".into());
        assert_eq!(table.to_text(), "Fruit\nNAME    COUNT\npear        7\nÄpfel  123456\nCounted by hand.\n");
    }
}
