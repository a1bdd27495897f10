//! Comma-separated values (RFC 4180).

use std::borrow::Cow;

/// A text of comma-separated values that is being written.
pub struct Csv(String);

impl Csv {
    /// A text with this heading.
    pub fn new<T: AsRef<str>>(heads: &[T]) -> Self {
        let mut csv = Self(String::new());
        csv.row(heads);
        csv
    }

    /// Adds a row.
    pub fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        for (at, cell) in cells.into_iter().enumerate() {
            if at > 0 {
                self.0.push(',');
            }
            self.0 += &field(cell.as_ref());
        }
        self.0 += "\r\n";
    }

    pub fn finish(self) -> String {
        self.0
    }
}

/// A text as one field. Spreadsheets take a text that begins with certain characters for a formula. So an apostrophe is put before
/// it, which they do not show.
pub fn field(text: &str) -> Cow<'_, str> {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
    let text = if is_formula { Cow::Owned(format!("'{text}")) } else { Cow::Borrowed(text) };
    match text.contains([',', '"', '\n', '\r']) {
        true => Cow::Owned(format!("\"{}\"", text.replace('"', "\"\""))),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_with_commas_quotes_and_lines_stay_one_cell() {
        let mut csv = Csv::new(&["name", "time (s)"]);
        csv.row(["nack, with \"FEC\"", "1.5"]);
        csv.row(["two\nlines", ""]);
        let expected = "name,time (s)\r\n\"nack, with \"\"FEC\"\"\",1.5\r\n\"two\nlines\",\r\n";
        assert_eq!(csv.finish(), expected);
    }

    #[test]
    fn no_field_is_a_formula() {
        let fields = ["=1+1", "@x", "-lab", "+49", "-5", "-1.5e3", "\t=1", "a=1", "=\"a\",b"].map(field);
        assert_eq!(
            fields,
            ["'=1+1", "'@x", "'-lab", "+49", "-5", "-1.5e3", "'\t=1", "a=1", "\"'=\"\"a\"\",b\""]
        );
    }
}
