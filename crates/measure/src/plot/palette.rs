//! Colours and marks.

/// A colour, named by its purpose. The value here is for a light background; a page may replace it for a dark
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Ink {
    Surface,
    #[default]
    Text,
    Muted,
    Grid,
    /// A colour of [`SERIES`], by its index.
    Series(usize),
}

/// Light and dark variants of the series' colours: the palette of Okabe and Ito, which is made for colour-blind
/// eyes, with lighter variants for dark backgrounds.
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
    /// All inks, for a page that restyles them.
    pub fn all() -> impl Iterator<Item = Ink> {
        [Ink::Surface, Ink::Text, Ink::Muted, Ink::Grid].into_iter().chain((0..SERIES.len()).map(Ink::Series))
    }

    /// The colour on a light background, as 0xRRGGBB.
    pub fn light(self) -> u32 {
        match self {
            Ink::Surface => 0xFFFFFF,
            Ink::Text => 0x1B1F24,
            Ink::Muted => 0x59636E,
            Ink::Grid => 0xDDE2E7,
            Ink::Series(index) => SERIES[index % SERIES.len()].0,
        }
    }

    /// The colour on a dark background, as 0xRRGGBB.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mark {
    #[default]
    Circle,
    Square,
    Triangle,
    Diamond,
}

/// The appearance of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Style {
    pub ink: Ink,
    pub mark: Mark,
}

/// The styles of all series of a report, so that a series looks the same in all plots and tables.
#[derive(Debug, Clone, Default)]
pub struct Styles {
    styles: Vec<(String, Style)>,
}

impl Styles {
    /// Assigns a style to each name. Well-known deliveries have the same style in every report. The others get
    /// the remaining styles, in order. Where there are more names than colours, a name such as `mead nack` has the
    /// colour of its first word, the fanout.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let mut all: Vec<String> = Vec::new();
        for name in names {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        let has_colours = all.len() <= SERIES.len();
        let word = |name: &str| name.split(' ').next().map(str::to_owned).unwrap_or_default();
        let known = |name: &String| known(name).or_else(|| known(&word(name)).filter(|_| !has_colours));
        let mut taken: Vec<Ink> = all.iter().filter_map(known).map(|style| style.ink).collect();
        let marks = [Mark::Circle, Mark::Square, Mark::Triangle, Mark::Diamond];
        let mut styles = Vec::new();
        for name in all {
            let style = known(&name).unwrap_or_else(|| {
                // The least used ink; if there are several, the first in an order in which neighbours differ
                // most.
                let uses = |ink: &Ink| taken.iter().filter(|other| *other == ink).count();
                let inks = [0, 1, 3, 4, 5, 6, 2, 7].map(Ink::Series);
                let ink = inks.into_iter().min_by_key(uses).unwrap_or(Ink::Text);
                taken.push(ink);
                Style { ink, mark: marks[(taken.len() - 1) % marks.len()] }
            });
            styles.push((name, style));
        }
        Self { styles }
    }

    /// The style of a series.
    pub fn of(&self, name: &str) -> Style {
        self.styles
            .iter()
            .find(|(named, _)| named == name)
            .map_or_else(|| style_of(name), |(_, style)| *style)
    }
}

/// The style of a well-known delivery.
fn known(delivery: &str) -> Option<Style> {
    let (index, mark) = match delivery {
        "nack" => (0, Mark::Circle),
        "after" => (1, Mark::Square),
        "carousel" | "multicast" => (2, Mark::Triangle),
        "tcp" | "unicast" => (3, Mark::Circle),
        "scp" => (4, Mark::Square),
        "udp" => (5, Mark::Triangle),
        "mead" => (6, Mark::Diamond),
        "xcast" => (7, Mark::Square),
        _ => return None,
    };
    Some(Style { ink: Ink::Series(index), mark })
}

/// The style of a delivery in all plots and tables. Multicast is blue and green; unicast has warm colours.
fn style_of(delivery: &str) -> Style {
    // The same name gets the same colour in every report.
    let other = || 6 + delivery.bytes().map(usize::from).sum::<usize>() % 2;
    known(delivery).unwrap_or_else(|| Style { ink: Ink::Series(other()), mark: Mark::Diamond })
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

    #[test]
    fn names_of_a_report_share_no_colour_while_there_are_colours_left() {
        let names =
            ["unicast", "multicast", "mead 24", "mead 10", "mead 10, core", "mead 24, cost", "g", "h"];
        let styles = Styles::new(names.map(String::from));
        let inks = names.map(|name| styles.of(name).ink);
        for (i, ink) in inks.iter().enumerate() {
            assert!(!inks[..i].contains(ink), "{}", names[i]);
        }
        assert_eq!(styles.of("unicast"), style_of("unicast"));
    }

    #[test]
    fn more_deliveries_than_colours_have_the_colours_of_their_fanouts() {
        let names: Vec<String> = ["multicast", "mead", "unicast"]
            .iter()
            .flat_map(|fanout| ["nack", "after", "none"].map(|repair| format!("{fanout} {repair}")))
            .collect();
        let styles = Styles::new(names.clone());
        assert_eq!(styles.of("multicast nack").ink, style_of("multicast").ink);
        assert_eq!(styles.of("multicast none").ink, styles.of("multicast after").ink);
        let few = Styles::new(names[..3].to_vec());
        assert_ne!(few.of("multicast none").ink, few.of("multicast after").ink);
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
