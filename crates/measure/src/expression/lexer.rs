//! Divides the text of an expression into tokens.

use crate::condition::{is_letter, leading, leading_number};

/// A token, and the column, from 1, at which it begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub kind: Kind,
    pub column: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// A number in base units, and its unit (`s`, `B` or empty).
    Number(f64, &'static str),
    /// A name: a measure, a parameter, a function, or one of the words `and`, `by`, `run` and `node`.
    Word(String),
    /// Text in double quotes.
    Text(String),
    /// An operator or a bracket.
    Sign(&'static str),
    End,
}

/// Operators and brackets, the longer ones first.
const SIGNS: [&str; 17] =
    ["<=", ">=", "==", "!=", "<", ">", "=", "+", "-", "*", "/", "(", ")", "{", "}", ",", "|"];

/// Divides `text` into tokens. The last one is [`Kind::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let column = text[..text.len() - rest.len()].chars().count() + 1;
        let (kind, length) = next(rest).map_err(|what| format!("column {column}: {what}"))?;
        tokens.push(Token { kind, column });
        rest = rest[length..].trim_start();
    }
    tokens.push(Token { kind: Kind::End, column: text.chars().count() + 1 });
    Ok(tokens)
}

/// Reads the first token of `rest`, which does not begin with a space. Returns it with its length in bytes.
fn next(rest: &str) -> Result<(Kind, usize), String> {
    let first = rest.chars().next().unwrap_or(' ');
    if first.is_ascii_digit() || first == '.' {
        let (value, unit, length) = leading_number(rest)?;
        return Ok((Kind::Number(value, unit), length));
    }
    if is_letter(first) {
        let word = leading(rest, |c| is_letter(c) || c.is_ascii_digit());
        return Ok((Kind::Word(word.to_owned()), word.len()));
    }
    if first == '"' {
        let end = rest[1..].find('"').ok_or("the text that begins here has no closing quote")?;
        return Ok((Kind::Text(rest[1..=end].to_owned()), end + 2));
    }
    match SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
        Some(sign) => Ok((Kind::Sign(sign), sign.len())),
        None => Err(format!("`{first}` has no meaning here")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        tokens(text).unwrap().into_iter().map(|token| token.kind).collect()
    }

    #[test]
    fn numbers_have_suffixes_with_and_without_a_space() {
        let number = |value, unit| vec![Kind::Number(value, unit), Kind::End];
        assert_eq!(kinds("0.5"), number(0.5, ""));
        assert_eq!(kinds("100 ms"), number(0.1, "s"));
        assert_eq!(kinds("32Mi"), number(33_554_432.0, ""));
        assert_eq!(kinds("20%"), number(0.2, ""));
        assert_eq!(kinds("2.5MB"), number(2.5e6, "B"));
        assert_eq!(kinds("1_000"), number(1000.0, ""));
        assert_eq!(kinds("1e-3"), number(1e-3, ""));
        assert_eq!(kinds("2 and"), [Kind::Number(2.0, ""), Kind::Word("and".into()), Kind::End]);
    }

    #[test]
    fn what_has_no_meaning_is_named_with_its_column() {
        assert_eq!(tokens("time # 3").unwrap_err(), "column 6: `#` has no meaning here");
        assert!(tokens("3 <= 5x").unwrap_err().starts_with("column 6: `5x`: the units are %, s, ms"));
        assert!(tokens("time{a = \"b}").unwrap_err().contains("no closing quote"));
    }
}
