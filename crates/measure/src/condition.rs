//! Conditions on the parameters of runs, and the parsing of their numbers.

/// A condition on a run's parameter, or on the `node` or `role` of a row. With `=`, the parameter must be one
/// of `values`.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    pub key: String,
    pub relation: Relation,
    pub values: Vec<String>,
}

/// The relation between two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    Less,
    AtMost,
    Greater,
    AtLeast,
    Equal,
    NotEqual,
}

/// The units of numbers in expressions and in the data files of papers: the text, the factor to the base unit, and the
/// base unit.
const UNITS: [(&str, f64, &str); 35] = [
    ("%", 0.01, ""),
    ("s", 1.0, "s"),
    ("ms", 1e-3, "s"),
    ("us", 1e-6, "s"),
    ("µs", 1e-6, "s"),
    ("μs", 1e-6, "s"),
    ("ns", 1e-9, "s"),
    ("min", 60.0, "s"),
    ("h", 3_600.0, "s"),
    ("d", 86_400.0, "s"),
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
    ("TB", 1e12, "B"),
    ("KiB", 1024.0, "B"),
    ("MiB", 1_048_576.0, "B"),
    ("GiB", 1_073_741_824.0, "B"),
    ("TiB", 1_099_511_627_776.0, "B"),
    ("B/s", 1.0, "B/s"),
    ("kB/s", 1e3, "B/s"),
    ("MB/s", 1e6, "B/s"),
    ("GB/s", 1e9, "B/s"),
    ("bit/s", 1.0, "bit/s"),
    ("kbit/s", 1e3, "bit/s"),
    ("Mbit/s", 1e6, "bit/s"),
    ("Gbit/s", 1e9, "bit/s"),
    ("packets", 1.0, "packets"),
    ("packets/s", 1.0, "packets/s"),
];

impl Condition {
    /// The condition that a parameter has one value.
    pub fn equal(key: &str, value: &str) -> Self {
        Self { key: key.to_owned(), relation: Relation::Equal, values: vec![value.to_owned()] }
    }

    /// Whether the condition is about a row of a run, and not about the run.
    pub fn is_of_row(&self) -> bool {
        matches!(self.key.as_str(), "node" | "role")
    }

    /// Whether the value `is` meets the condition. Numbers are compared as numbers, everything else as text.
    pub fn holds(&self, is: &str) -> bool {
        let compare = |wanted: &String| match (number(is), number(wanted)) {
            (Some(is), Some(wanted)) => self.relation.holds(is, wanted),
            _ => match self.relation {
                Relation::Equal => is == wanted,
                Relation::NotEqual => is != wanted,
                _ => false,
            },
        };
        match self.relation {
            Relation::NotEqual => self.values.iter().all(compare),
            _ => self.values.iter().any(compare),
        }
    }
}

/// The factor from a unit to its base unit, and the base unit. The error names all units.
pub(crate) fn unit(named: &str) -> Result<(f64, &'static str), String> {
    let found = UNITS.iter().find(|(name, ..)| *name == named).map(|(_, factor, base)| (*factor, *base));
    found.ok_or_else(|| format!("there is no unit `{named}`: there are {}", all_units()))
}

fn all_units() -> String {
    UNITS.map(|(name, ..)| name).join(", ")
}

/// Parses a parameter's text as a number, with the same units as in expressions.
pub fn number(text: &str) -> Option<f64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1.0, text), |rest| (-1.0, rest));
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let (value, _, length) = leading_number(digits).ok()?;
    (length == digits.len()).then_some(sign * value)
}

/// Parses the number at the beginning of a text. Returns its value in base units, its unit, and its length in
/// bytes.
pub(crate) fn leading_number(rest: &str) -> Result<(f64, &'static str, usize), String> {
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
    // The longest unit, so that `5 B/s` is a rate and `5 B / s` is a quotient.
    let is_next = |name: &str| {
        let after = behind.strip_prefix(name);
        after.is_some_and(|after| {
            name == "%" || !after.starts_with(|c: char| is_letter(c) || c.is_ascii_digit())
        })
    };
    match UNITS.iter().filter(|(name, ..)| is_next(name)).max_by_key(|(name, ..)| name.len()) {
        Some((name, factor, unit)) => {
            let length = rest.len() - behind.len() + name.len();
            Ok((value * factor, unit, length))
        }
        None if rest[digits.len()..].starts_with(is_letter) => {
            let suffix = leading(behind, is_letter);
            Err(format!("`{digits}{suffix}`: the units are {}", all_units()))
        }
        None => Ok((value, "", digits.len())),
    }
}

pub(crate) fn is_letter(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

pub(crate) fn leading(text: &str, belongs: impl Fn(char) -> bool) -> &str {
    &text[..text.find(|c| !belongs(c)).unwrap_or(text.len())]
}

impl Relation {
    pub(crate) const ALL: [Self; 6] =
        [Self::Less, Self::AtMost, Self::Greater, Self::AtLeast, Self::Equal, Self::NotEqual];

    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::Greater => ">",
            Self::AtLeast => ">=",
            Self::Equal => "==",
            Self::NotEqual => "!=",
        }
    }

    /// Whether `left` stands in this relation to `right`.
    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Less => left < right,
            Self::AtMost => left <= right,
            Self::Greater => left > right,
            Self::AtLeast => left >= right,
            Self::Equal => left == right,
            Self::NotEqual => left != right,
        }
    }

    /// The relation with its sides exchanged: `a <= b` is `b >= a`.
    pub fn turned(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::Greater => Self::Less,
            Self::AtMost => Self::AtLeast,
            Self::AtLeast => Self::AtMost,
            same => same,
        }
    }

    /// The relation in words, before a value.
    pub fn words(self) -> &'static str {
        match self {
            Self::Less => "under",
            Self::AtMost => "at most",
            Self::Greater => "over",
            Self::AtLeast => "at least",
            Self::Equal => "exactly",
            Self::NotEqual => "not",
        }
    }
}

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.relation == Relation::Equal { "=" } else { self.relation.sign() };
        write!(f, "{} {sign} {}", self.key, self.values.join(" | "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_as_numbers_where_both_are() {
        let holds = |relation, wanted: &[&str], is: &str| {
            let values = wanted.iter().map(|value| (*value).to_owned()).collect();
            Condition { key: "a".into(), relation, values }.holds(is)
        };
        assert!(holds(Relation::Equal, &["33554432"], "32Mi"));
        assert!(holds(Relation::Equal, &["0.02"], "2%"));
        assert!(holds(Relation::AtLeast, &["5"], "12"));
        assert!(!holds(Relation::AtLeast, &["5"], "4"));
        assert!(holds(Relation::Equal, &["nack", "tcp"], "tcp"));
        assert!(!holds(Relation::NotEqual, &["nack", "tcp"], "tcp"));
        assert!(!holds(Relation::Less, &["3"], "nack"));
        assert_eq!(
            [number("-3"), number("1e3"), number("25 M"), number("3x"), number("")],
            [Some(-3.0), Some(1000.0), Some(25e6), None, None]
        );
        assert_eq!((number("1h"), number("2 d")), (Some(3_600.0), Some(172_800.0)));
        assert_eq!(leading_number("5 Mbit/s <= 6"), Ok((5e6, "bit/s", 8)));
        assert_eq!(leading_number("5 B/size"), Ok((5.0, "B", 3)), "divided by a measure");
        assert_eq!(leading_number("5 1"), Ok((5.0, "", 1)));
    }
}
