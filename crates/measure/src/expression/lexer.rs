//! Divides the text of an expression into tokens.

/// One token and the column, from 1, at which it begins.
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

/// Suffixes of numbers: the factor to the base unit, and the base unit.
const SUFFIXES: [(&str, f64, &str); 18] = [
    ("%", 0.01, ""),
    ("s", 1.0, "s"),
    ("ms", 1e-3, "s"),
    ("us", 1e-6, "s"),
    ("min", 60.0, "s"),
    ("k", 1e3, ""),
    ("M", 1e6, ""),
    ("G", 1e9, ""),
    ("Ki", 1024.0, ""),
    ("Mi", 1_048_576.0, ""),
    ("Gi", 1_073_741_824.0, ""),
    ("B", 1.0, "B"),
    ("kB", 1e3, "B"),
    ("MB", 1e6, "B"),
    ("GB", 1e9, "B"),
    ("KiB", 1024.0, "B"),
    ("MiB", 1_048_576.0, "B"),
    ("GiB", 1_073_741_824.0, "B"),
];

/// Operators and brackets, the longer ones first.
const SIGNS: [&str; 17] =
    ["<=", ">=", "==", "!=", "<", ">", "=", "+", "-", "*", "/", "(", ")", "{", "}", ",", "|"];

/// The tokens of `text`; the last one is [`Kind::End`].
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

/// The first token of `rest`, which does not begin with a space, and its length in bytes.
fn next(rest: &str) -> Result<(Kind, usize), String> {
    let first = rest.chars().next().unwrap_or(' ');
    if first.is_ascii_digit() || first == '.' {
        return number(rest);
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

fn number(rest: &str) -> Result<(Kind, usize), String> {
    let mut digits = leading(rest, |c| c.is_ascii_digit() || c == '.' || c == '_');
    // An exponent, such as 1e6 or 1e-3.
    let behind = &rest[digits.len()..];
    if let Some(exponent) = behind.strip_prefix(['e', 'E']) {
        let sign = exponent.starts_with(['-', '+']) as usize;
        let power = leading(&exponent[sign..], |c| c.is_ascii_digit());
        if !power.is_empty() {
            digits = &rest[..digits.len() + 1 + sign + power.len()];
        }
    }
    let value: f64 = digits.replace('_', "").parse().map_err(|_| format!("`{digits}` is no number"))?;
    let behind = rest[digits.len()..].trim_start();
    let suffix = if behind.starts_with('%') { "%" } else { leading(behind, is_letter) };
    match SUFFIXES.iter().find(|(name, ..)| *name == suffix) {
        Some((name, factor, unit)) => {
            let length = rest.len() - behind.len() + name.len();
            Ok((Kind::Number(value * factor, unit), length))
        }
        None if rest[digits.len()..].starts_with(is_letter) => {
            Err(format!("`{digits}{suffix}`: the units are {}", SUFFIXES.map(|(name, ..)| name).join(", ")))
        }
        None => Ok((Kind::Number(value, ""), digits.len())),
    }
}

fn is_letter(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn leading(text: &str, belongs: impl Fn(char) -> bool) -> &str {
    &text[..text.find(|c| !belongs(c)).unwrap_or(text.len())]
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
