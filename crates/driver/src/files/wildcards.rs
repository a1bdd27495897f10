//! Shell patterns for names of files, as rsync has them, matched byte by byte. Braces mean nothing. No wildcard matches `/`, except
//! `**` as a whole component.
//!
//! A library for this brings regular expressions, which take 0.4 MB of the program.

/// A pattern, component by component.
#[derive(Debug)]
pub(super) struct Wildcards(Vec<Component>);

#[derive(Debug)]
enum Component {
    Tokens(Vec<Token>),
    /// `**`: any number of components, also none. At the end of a pattern it stands before a `*`, so that it is one at least.
    Any,
}

#[derive(Debug)]
enum Token {
    Byte(u8),
    /// `?`
    Any,
    /// `[...]`: the bytes that are in one of these ranges. With `!` or `^`, those that are in none.
    Class {
        ranges: Vec<(u8, u8)>,
        is_negated: bool,
    },
    /// `*`
    Star,
}

impl Wildcards {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(pattern: &str) -> Result<Self, String> {
        let (mut components, mut rest) = (Vec::new(), pattern.as_bytes());
        loop {
            components.push(Component::read(&mut rest)?);
            if next(&mut rest).is_none() {
                break;
            }
        }
        if let Some(Component::Any) = components.last() {
            components.push(Component::Tokens(vec![Token::Star]));
        }
        Ok(Self(components))
    }

    /// Whether the whole name matches.
    pub fn matches(&self, name: &[u8]) -> bool {
        matches(&self.0, &name.split(|byte| *byte == b'/').collect::<Vec<_>>())
    }
}

/// A part of a pattern for a sequence of names or bytes.
trait Part<One> {
    /// Whether it stands for any number of them.
    fn is_star(&self) -> bool;

    /// Whether it stands for this one.
    fn takes(&self, one: &One) -> bool;
}

/// Whether a pattern matches the whole of a sequence. When one does not fit, the last star takes one more. No earlier star has to.
fn matches<One>(pattern: &[impl Part<One>], sequence: &[One]) -> bool {
    let (mut part, mut at, mut star) = (0, 0, None);
    while at < sequence.len() {
        match (pattern.get(part), &mut star) {
            (Some(one), _) if one.is_star() => {
                part += 1;
                star = Some((part, at));
            }
            (Some(one), _) if one.takes(&sequence[at]) => (part, at) = (part + 1, at + 1),
            (_, Some((after, from))) => {
                *from += 1;
                (part, at) = (*after, *from);
            }
            (_, None) => return false,
        }
    }
    pattern[part..].iter().all(Part::is_star)
}

impl Part<&[u8]> for Component {
    fn is_star(&self) -> bool {
        matches!(self, Self::Any)
    }

    fn takes(&self, name: &&[u8]) -> bool {
        matches!(self, Self::Tokens(tokens) if matches(tokens, name))
    }
}

impl Part<u8> for Token {
    fn is_star(&self) -> bool {
        matches!(self, Self::Star)
    }

    fn takes(&self, byte: &u8) -> bool {
        match self {
            Self::Byte(one) => one == byte,
            Self::Any => true,
            Self::Star => false,
            Self::Class { ranges, is_negated } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(byte)) != *is_negated
            }
        }
    }
}

impl Component {
    /// Reads up to the next `/` that is in no class.
    fn read(rest: &mut &[u8]) -> Result<Self, String> {
        if let Some(after) = rest.strip_prefix(b"**")
            && matches!(after.first(), None | Some(b'/'))
        {
            *rest = after;
            return Ok(Self::Any);
        }
        let mut tokens = Vec::new();
        while rest.first().is_some_and(|byte| *byte != b'/')
            && let Some(byte) = next(rest)
        {
            tokens.push(match byte {
                b'?' => Token::Any,
                b'*' => Token::Star,
                b'[' => Token::class(rest)?,
                b'\\' => Token::Byte(next(rest).ok_or("dangling '\\'")?),
                byte => Token::Byte(byte),
            });
        }
        Ok(Self::Tokens(tokens))
    }
}

impl Token {
    /// Reads a class, of which the opening bracket is read. `]` and `-` stand for themselves at its start, `-` also at its end.
    fn class(rest: &mut &[u8]) -> Result<Self, String> {
        let is_negated = matches!(rest.first(), Some(b'!' | b'^'));
        if is_negated {
            next(rest);
        }
        let (mut ranges, mut is_range) = (Vec::<(u8, u8)>::new(), false);
        loop {
            let byte = next(rest).ok_or("unclosed character class; missing ']'")?;
            match (byte, ranges.last_mut()) {
                (b']', Some(_)) => break,
                (b'-', Some(_)) if !is_range => {
                    is_range = true;
                    continue;
                }
                (b'[', _) if !is_range && let Some((named, after)) = named_class(rest) => {
                    ranges.extend(named);
                    *rest = after;
                }
                (_, Some((first, last))) if is_range => {
                    *last = byte;
                    if byte < *first {
                        return Err(format!("invalid range; '{}' > '{}'", *first as char, byte as char));
                    }
                }
                _ => ranges.push((byte, byte)),
            }
            is_range = false;
        }
        if is_range {
            ranges.push((b'-', b'-'));
        }
        Ok(Self::Class { ranges, is_negated })
    }
}

/// Ranges of bytes, each with its first and last one.
type Ranges = &'static [(u8, u8)];

/// The ranges of a class such as `[:digit:]`, of which the opening bracket is read, and what follows it.
fn named_class(text: &[u8]) -> Option<(Ranges, &[u8])> {
    const NAMED: [(&[u8], Ranges); 12] = [
        (b":alnum:]", &[(b'0', b'9'), (b'A', b'Z'), (b'a', b'z')]),
        (b":alpha:]", &[(b'A', b'Z'), (b'a', b'z')]),
        (b":blank:]", &[(b'\t', b'\t'), (b' ', b' ')]),
        (b":cntrl:]", &[(0, 0x1f), (0x7f, 0x7f)]),
        (b":digit:]", &[(b'0', b'9')]),
        (b":graph:]", &[(b'!', b'~')]),
        (b":lower:]", &[(b'a', b'z')]),
        (b":print:]", &[(b' ', b'~')]),
        (b":punct:]", &[(b'!', b'/'), (b':', b'@'), (b'[', b'`'), (b'{', b'~')]),
        (b":space:]", &[(b'\t', b'\r'), (b' ', b' ')]),
        (b":upper:]", &[(b'A', b'Z')]),
        (b":xdigit:]", &[(b'0', b'9'), (b'A', b'F'), (b'a', b'f')]),
    ];
    NAMED.iter().find_map(|(name, ranges)| Some((*ranges, text.strip_prefix(*name)?)))
}

fn next(rest: &mut &[u8]) -> Option<u8> {
    let (first, others) = rest.split_first()?;
    *rest = others;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_as_a_whole() {
        let cases: [(&str, &[&str], &[&str]); 15] = [
            ("a*c*e", &["ace", "abcde", "acecce"], &["ac", "aced", "a/ce"]),
            ("**/x", &["x", "a/x", "a/b/x"], &["ax", "x/a"]),
            ("a/**", &["a/b", "a/b/c"], &["a", "b/a"]),
            ("a/**/b", &["a/b", "a/x/y/b"], &["a/bb", "ab"]),
            ("**", &["a", "a/b"], &[]),
            ("a**b", &["ab", "axb"], &["a/b"]),
            ("[!a-c]?", &["dx"], &["ax", "d", "/x"]),
            ("[]-]x", &["]x", "-x"], &["ax"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("[[:digit:]f]", &["7", "f"], &["d", ":"]),
            ("[[:no:]", &["[", ":", "n"], &["a"]),
            (r"\[a", &["[a"], &["a"]),
            ("*", &[".a"], &["a/b"]),
            ("{a}", &["{a}"], &["a"]),
            ("x[a/b]", &["xa", "xb"], &["x/"]),
        ];
        for (pattern, matching, others) in cases {
            let wildcards = Wildcards::new(pattern).unwrap();
            assert!(matching.iter().all(|name| wildcards.matches(name.as_bytes())), "{pattern}");
            assert!(!others.iter().any(|name| wildcards.matches(name.as_bytes())), "{pattern}");
        }
    }

    #[test]
    fn errors_say_what_is_wrong() {
        for (pattern, expected) in [
            ("[a", "unclosed character class; missing ']'"),
            ("[b-a]", "invalid range; 'b' > 'a'"),
            (r"a\", "dangling '\\'"),
        ] {
            assert_eq!(Wildcards::new(pattern).unwrap_err(), expected);
        }
    }

    /// Each `**` could take each number of components.
    #[test]
    fn many_stars_for_components_take_no_longer() {
        let pattern = Wildcards::new(&format!("{}b", "**/a/".repeat(50))).unwrap();
        assert!(!pattern.matches("a/".repeat(250).as_bytes()));
        assert!(pattern.matches(format!("{}b", "a/".repeat(250)).as_bytes()));
    }

    /// Each star could take each number of bytes.
    #[test]
    fn many_stars_take_no_longer() {
        let pattern = Wildcards::new(&"a*".repeat(100)).unwrap();
        assert!(!pattern.matches(format!("{}b", "ba".repeat(100)).as_bytes()));
        assert!(
            !Wildcards::new(&format!("{}b", "a*".repeat(50))).unwrap().matches("a".repeat(250).as_bytes())
        );
    }
}
