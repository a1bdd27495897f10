//! Short codes, by which a receiver gets a ticket over the local network (`treecast send --code`).
//!
//! A code is three words of a list of 1,024, drawn at random: 30 bits. Senders announce 6 of them as the code's [`Code::tag`], so
//! that a receiver finds its sender and guesses at no other one. The other 24 bits are the password of a password-authenticated
//! key exchange (SPAKE2). [`Desk`] counts the guesses: with five, one in 3.3 million strangers gets in.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// The list of words, in alphabetical order. No slip of one letter, and no swap of two, makes one of another.
const WORDS: &str = include_str!("words.txt");

/// The number of words in the list.
const COUNT: usize = 1024;

/// The number of words in a code.
const LEN: usize = 3;

/// The number of bits of a code that are drawn.
pub const BITS: u32 = LEN as u32 * COUNT.ilog2();

/// The number of bits of a code that its tag tells.
const TAG_BITS: u32 = 6;

/// The number of wrong codes after which a code is dead.
pub const ATTEMPTS: u8 = 5;

/// The number of exchanges that may go on at the same time. Further strangers have to come again.
const MAX_EXCHANGES: usize = 16;

/// A code: three words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Code([u16; LEN]);

/// The reason why a text is no code.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CodeError {
    #[error(
        "a code has {LEN} words, as in acorn-pony-walrus, and there are {0}: see what `treecast send` has printed"
    )]
    Count(usize),
    #[error("no code has the word {word:?}{near}: see what `treecast send` has printed", near = did_you_mean(*near))]
    Word { word: String, near: Option<&'static str> },
}

fn did_you_mean(near: Option<&str>) -> String {
    near.map_or_else(String::new, |near| format!(" (is it {near:?}?)"))
}

impl Code {
    /// The code that these random bits stand for.
    pub fn from_random(random: u32) -> Self {
        Self([0, 10, 20].map(|shift| (random >> shift) as u16 % COUNT as u16))
    }

    /// The tag that senders announce of a code.
    pub fn tag(&self) -> u8 {
        let hash = blake3::derive_key("treecast 2026-11 tag of a code", self.to_string().as_bytes());
        hash[0] >> (8 - TAG_BITS)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = WORDS.split_whitespace();
        let words =
            self.0.map(|index| words.clone().nth(index.into()).or_else(|| words.next()).unwrap_or_default());
        f.write_str(&words.join("-"))
    }
}

/// Leaves the words out, because this text may end up in a log.
impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Code(hidden)")
    }
}

/// Whether a text looks like a code and not like a ticket: several words of letters.
pub fn looks_like_code(text: &str) -> bool {
    let words: Vec<&str> = words(text).collect();
    words.len() > 1 && words.iter().all(|word| word.chars().all(char::is_alphabetic))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(['-', '_', ' ']).filter(|word| !word.is_empty())
}

impl FromStr for Code {
    type Err = CodeError;

    fn from_str(text: &str) -> Result<Self, CodeError> {
        let text = text.trim().to_lowercase();
        let words: Vec<&str> = words(&text).collect();
        let [first, second, third] = words[..] else { return Err(CodeError::Count(words.len())) };
        Ok(Self([index(first)?, index(second)?, index(third)?]))
    }
}

fn index(word: &str) -> Result<u16, CodeError> {
    let known = WORDS.split_whitespace();
    if let Some(index) = known.clone().position(|known| known == word) {
        return Ok(index as u16);
    }
    let near = nearest(word, known);
    let word = word.chars().take(MAX_TYPED_LEN).collect();
    Err(CodeError::Word { word, near })
}

/// The most letters of a mistyped word that are looked at and shown.
const MAX_TYPED_LEN: usize = 20;

/// The price of a slip in [`distance`]. Two neighbouring letters that are swapped are the commonest slip of all.
const SWAPPED: usize = 2;
const OTHER_SLIP: usize = 3;

/// The known word that was probably meant. `None` if each differs by more than two slips, or several by two.
fn nearest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let typed: Vec<char> = typed.chars().take(MAX_TYPED_LEN).collect();
    let mut near: Vec<(usize, &str)> = known.map(|word| (distance(&typed, word), word)).collect();
    near.sort();
    match near[..] {
        // A word with one slip is like one of the list, or like two.
        [(price, word), ..] if price <= OTHER_SLIP => Some(word),
        [(price, word), (next, _), ..] if price <= 2 * OTHER_SLIP && price < next => Some(word),
        _ => None,
    }
}

/// The price of the slips that make `typed` of a word: a letter more, less or another one, or two neighbours swapped. (The optimal
/// string alignment distance, with prices.)
fn distance(typed: &[char], word: &str) -> usize {
    let word: Vec<char> = word.chars().collect();
    // Rows for the letters typed so far: two before, one before, and the present one.
    let mut rows = [Vec::new(), Vec::new(), (0..=word.len()).map(|len| len * OTHER_SLIP).collect::<Vec<_>>()];
    for at in 1..=typed.len() {
        rows.rotate_left(1);
        let mut row = vec![at * OTHER_SLIP];
        for to in 1..=word.len() {
            let is_same = typed[at - 1] == word[to - 1];
            let another = rows[1][to - 1] + if is_same { 0 } else { OTHER_SLIP };
            let mut least = another.min(rows[1][to] + OTHER_SLIP).min(row[to - 1] + OTHER_SLIP);
            let is_swapped =
                at > 1 && to > 1 && typed[at - 1] == word[to - 2] && typed[at - 2] == word[to - 1];
            if is_swapped {
                least = least.min(rows[0][to - 2] + SWAPPED);
            }
            row.push(least);
        }
        rows[2] = row;
    }
    rows[2].last().copied().unwrap_or_default()
}

/// The sender's answer to somebody who asks with a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// The code was right: the ticket is told.
    Right,
    /// The code was wrong, and so many may still be tried.
    Wrong { left: u8 },
    /// The code is dead: nothing is told, whether the code was right or not.
    Dead,
}

/// The sender's count of guesses. It knows nothing of the code itself.
#[derive(Debug)]
pub struct Desk {
    left: u8,
    exchanges: usize,
}

impl Default for Desk {
    fn default() -> Self {
        Self { left: ATTEMPTS, exchanges: 0 }
    }
}

impl Desk {
    /// Whether too many wrong codes have been tried.
    pub fn is_dead(&self) -> bool {
        self.left == 0
    }

    /// Begins an exchange. Returns false if the code is dead, or too many exchanges go on. Each exchange that has begun must end with
    /// [`Self::leave`].
    pub fn enter(&mut self) -> bool {
        let has_room = !self.is_dead() && self.exchanges < MAX_EXCHANGES;
        self.exchanges += usize::from(has_room);
        has_room
    }

    /// An exchange has ended, in whatever way.
    pub fn leave(&mut self) {
        self.exchanges = self.exchanges.saturating_sub(1);
    }

    /// Judges a proof that has come. The caller compares it first; only this method says what may be told.
    pub fn judge(&mut self, is_right: bool) -> Judgement {
        if self.is_dead() {
            return Judgement::Dead;
        }
        if is_right {
            return Judgement::Right;
        }
        self.left -= 1;
        match self.left {
            0 => Judgement::Dead,
            left => Judgement::Wrong { left },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn words_of_the_list_cannot_be_mistaken_for_each_other() {
        let words: Vec<&str> = WORDS.split_whitespace().collect();
        assert_eq!((words.len(), BITS), (COUNT, 30));
        assert!(words.is_sorted() && words.iter().collect::<BTreeSet<_>>().len() == COUNT);
        assert!(
            words
                .iter()
                .all(|word| (4..=8).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_lowercase()))
        );
        for (index, word) in words.iter().enumerate() {
            let letters: Vec<char> = word.chars().collect();
            let near = words[index + 1..].iter().find(|other| distance(&letters, other) <= OTHER_SLIP);
            assert_eq!(near, None, "{word}");
        }
    }

    #[test]
    fn a_code_is_its_text_and_any_random_number_is_a_code() {
        for random in [0, 1, 0x3fff_ffff, 0x2345_6789, u32::MAX] {
            let code = Code::from_random(random);
            let text = code.to_string();
            assert_eq!(text.parse(), Ok(code));
            assert_eq!(text.to_uppercase().replace('-', " ").parse(), Ok(code), "as people type it");
            assert!(looks_like_code(&text) && code.tag() < 1 << TAG_BITS);
        }
        assert!(!looks_like_code("treecast2.abc-def") && !looks_like_code("ticket"));
        let tags: BTreeSet<u8> = (0..1000).map(|random| Code::from_random(random).tag()).collect();
        assert_eq!(tags.len(), 1 << TAG_BITS);
    }

    #[test]
    fn a_mistyped_code_is_explained() {
        let line = |text: &str| text.parse::<Code>().unwrap_err().to_string();
        let code = Code::from_random(77_777_777).to_string();
        let (first, rest) = code.split_once('-').unwrap();
        for mistyped in [format!("{}x", first), first[1..].to_owned(), format!("x{}", &first[1..])] {
            let line = line(&format!("{mistyped}-{rest}"));
            assert!(line.contains(&format!("{mistyped:?}")) && !line.contains('\n'), "{line}");
            assert!(line.contains("(is it "), "{line}");
        }
        assert!(line("apple-river").contains("a code has 3 words"));
        // Two neighbours that are swapped count less than another letter, as in "apron".
        for (typed, meant) in
            [("acron", "acorn"), ("walrsu", "walrus"), ("acornn", "acorn"), ("walurss", "walrus")]
        {
            let line = line(&format!("{typed}-pony-walrus"));
            assert!(line.contains(&format!("{typed:?} (is it {meant:?}?)")), "{line}");
        }
        assert!(line("qqqq-river-qqqq").contains("no code has the word \"qqqq\":"));
    }

    #[test]
    fn each_wrong_guess_costs_an_attempt_and_a_dead_code_tells_nobody_anything() {
        let mut desk = Desk::default();
        assert_eq!(desk.judge(true), Judgement::Right, "right codes cost nothing");
        let judged: Vec<_> = (0..ATTEMPTS).map(|_| desk.judge(false)).collect();
        let expected: Vec<_> = (1..ATTEMPTS).rev().map(|left| Judgement::Wrong { left }).collect();
        assert_eq!(judged[..expected.len()], expected);
        assert_eq!(judged.last(), Some(&Judgement::Dead));
        assert!((0..10_000).all(|guess| desk.judge(guess % 2 == 0) == Judgement::Dead));
        assert!(!desk.enter());
    }

    #[test]
    fn only_so_many_guesses_are_under_way() {
        let mut desk = Desk::default();
        assert_eq!((0..10_000).filter(|_| desk.enter()).count(), MAX_EXCHANGES);
        desk.leave();
        assert!(desk.enter() && !desk.enter());
    }
}
