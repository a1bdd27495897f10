//! Colours and marks.

/// A colour, by what it is for. A page may give each another value for a dark background; the
/// value here is for a light one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ink {
    Surface,
    Text,
    Muted,
    Grid,
    /// One of [`SERIES`].
    Series(usize),
}

/// Light and dark values of the series' colours: Okabe and Ito's palette, which is made for
/// colour-blind eyes, with lighter twins for dark backgrounds.
const SERIES: [(u32, u32); 8] = [
    (0x0072B2, 0x4DB2F0),
    (0x009E73, 0x2CC99B),
    (0x56B4E9, 0x9AD4F7),
    (0xD55E00, 0xFF8A3D),
    (0xCC79A7, 0xE6A3C8),
    (0xC98A00, 0xF0B840),
    (0x6E5BB8, 0xA99BEA),
    (0x7A6A4F, 0xBBAA8A),
];

impl Ink {
    /// All inks, for a page that wants to restyle them.
    pub fn all() -> impl Iterator<Item = Ink> {
        [Ink::Surface, Ink::Text, Ink::Muted, Ink::Grid].into_iter().chain((0..SERIES.len()).map(Ink::Series))
    }

    /// The value for a light background, 0xRRGGBB.
    pub fn light(self) -> u32 {
        match self {
            Ink::Surface => 0xFFFFFF,
            Ink::Text => 0x1B1F24,
            Ink::Muted => 0x59636E,
            Ink::Grid => 0xDDE2E7,
            Ink::Series(index) => SERIES[index % SERIES.len()].0,
        }
    }

    /// The value for a dark background, 0xRRGGBB.
    pub fn dark(self) -> u32 {
        match self {
            Ink::Surface => 0x161B22,
            Ink::Text => 0xE6EDF3,
            Ink::Muted => 0x9DA7B1,
            Ink::Grid => 0x30363D,
            Ink::Series(index) => SERIES[index % SERIES.len()].1,
        }
    }

    /// The name of the style sheet's variable.
    pub fn variable(self) -> String {
        match self {
            Ink::Surface => "--surface".into(),
            Ink::Text => "--text".into(),
            Ink::Muted => "--muted".into(),
            Ink::Grid => "--grid".into(),
            Ink::Series(index) => format!("--series-{}", index % SERIES.len()),
        }
    }
}

/// The shape of a point, so that colour is not all that tells series apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Circle,
    Square,
    Triangle,
    Diamond,
}

/// How a series looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    pub ink: Ink,
    pub mark: Mark,
}

/// How a delivery looks in every plot and table. Multicast is blue and green, unicast warm.
pub fn style_of(delivery: &str) -> Style {
    let (index, mark) = match delivery {
        "nack" => (0, Mark::Circle),
        "after" => (1, Mark::Square),
        "carousel" | "multicast" => (2, Mark::Triangle),
        "tcp" => (3, Mark::Circle),
        "scp" => (4, Mark::Square),
        "udp" => (5, Mark::Triangle),
        // The same name gets the same colour in every report.
        other => (6 + other.bytes().map(usize::from).sum::<usize>() % 2, Mark::Diamond),
    };
    Style { ink: Ink::Series(index), mark }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_differ_from_each_other() {
        let styles = ["nack", "after", "carousel", "tcp", "scp", "udp"].map(style_of);
        for (i, a) in styles.iter().enumerate() {
            assert!(styles[..i].iter().all(|b| a.ink != b.ink));
        }
        assert_eq!(style_of("something new"), style_of("something new"));
    }

    /// A page restyles a plot by its colours' values, so no two inks may share one.
    #[test]
    fn every_ink_has_its_own_value() {
        let values: Vec<u32> = Ink::all().map(Ink::light).collect();
        for (i, value) in values.iter().enumerate() {
            assert!(!values[..i].contains(value), "{value:06X}");
        }
    }
}
