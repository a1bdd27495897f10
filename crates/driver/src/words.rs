//! Lists as a person reads them.

use std::fmt::Display;

/// "a", "a, b", "a, b and 3 more": the first of them, `most` by name; nothing when there are none.
pub fn some_of<T: Display>(all: &[T], most: usize) -> String {
    let named: Vec<String> = all.iter().take(most).map(T::to_string).collect();
    match all.len() - named.len() {
        0 => named.join(", "),
        others => format!("{} and {others} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_named_and_the_others_counted() {
        let some = |all: &[&str]| some_of(all, 2);
        assert_eq!(some(&[]), "");
        assert_eq!(some(&["a"]), "a");
        assert_eq!(some(&["a", "b"]), "a, b");
        assert_eq!(some(&["a", "b", "c", "d"]), "a, b and 2 more");
    }
}
