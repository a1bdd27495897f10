//! A set of positions in the address list: the delivery map and the router map.

use std::fmt;

/// A set of positions, as 32 bits. Bit `i`, counted from the most significant one, stands for the address with
/// index `i`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Map(u32);

impl Map {
    pub const EMPTY: Self = Self(0);

    /// Creates a map from bits. Bit 0 of the map is the most significant one.
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub fn bits(self) -> u32 {
        self.0
    }

    /// A map with one position.
    pub fn of(index: usize) -> Self {
        Self::EMPTY.with(index)
    }

    /// Adds a position, which must be below 32.
    #[must_use]
    pub fn with(self, index: usize) -> Self {
        Self(self.0 | 1 << (31 - index))
    }

    pub fn contains(self, index: usize) -> bool {
        index < 32 && self.0 & 1 << (31 - index) != 0
    }

    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub fn is_subset_of(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// One more than the last position. 0 if the map is empty.
    pub fn end(self) -> usize {
        32 - self.0.trailing_zeros() as usize
    }

    /// The positions, in order.
    pub fn iter(self) -> impl Iterator<Item = usize> + Clone {
        (0..32).filter(move |index| self.contains(*index))
    }
}

impl FromIterator<usize> for Map {
    fn from_iter<I: IntoIterator<Item = usize>>(places: I) -> Self {
        places.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Display for Map {
    /// Writes the bits up to the last position.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..self.end().max(1)).try_for_each(|index| f.write_str(if self.contains(index) { "1" } else { "0" }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of meadcast-thesis-2024, 2.1.4: R5, E2, E3, R6, E4, E5.
    #[test]
    fn the_first_place_is_the_highest_bit() {
        let routers: Map = [0, 3].into_iter().collect();
        assert_eq!((routers.to_string().as_str(), routers.bits()), ("1001", 0b1001 << 28));
        assert_eq!(routers.iter().collect::<Vec<_>>(), [0, 3]);
        assert_eq!((routers.end(), routers.len(), Map::EMPTY.end(), Map::of(31).end()), (4, 2, 0, 32));
        assert!(Map::of(3).is_subset_of(routers) && !Map::of(1).is_subset_of(routers));
        assert!(!routers.contains(32) && Map::EMPTY.is_empty());
    }
}
