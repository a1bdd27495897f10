//! The number of frames that each packet becomes in a network of one or two switches, and the rate that its links
//! allow.

/// The pattern of traffic between hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Every host sends to all others, as in congested-multicast-2019.
    ManyToMany,
    /// The first host sends to all others.
    OneToMany,
    /// All hosts but the first send, and the first one receives.
    ManyToOne,
}

/// The hosts of a run, and the links between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    pub pattern: Pattern,
    /// The number of hosts on each switch. With two switches, a cable joins them.
    pub switches: Vec<usize>,
    /// The length of a frame as the links count it, in bytes.
    pub frame_bytes: usize,
    /// The rate of each host's cable in each direction, in bits a second. `None`: not limited.
    pub link_bps: Option<u64>,
    /// The rate of the cable between the switches in each direction, in bits a second. `None`: not limited.
    pub trunk_bps: Option<u64>,
}

impl Pattern {
    /// Every pattern.
    pub const ALL: [Self; 3] = [Self::ManyToMany, Self::OneToMany, Self::ManyToOne];

    /// The pattern's name in files and tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::ManyToMany => "many-to-many",
            Self::OneToMany => "one-to-many",
            Self::ManyToOne => "many-to-one",
        }
    }

    /// Whether the host with this number, from 0, sends.
    pub fn sends(self, host: usize) -> bool {
        match self {
            Self::ManyToMany => true,
            Self::OneToMany => host == 0,
            Self::ManyToOne => host != 0,
        }
    }

    /// Whether the host with this number, from 0, receives.
    pub fn receives(self, host: usize) -> bool {
        self == Self::ManyToMany || !self.sends(host)
    }
}

impl Layout {
    /// Returns the number of hosts on all switches.
    pub fn hosts(&self) -> usize {
        self.switches.iter().sum()
    }

    /// Returns how many frames a receiver's cable carries when every sender sends one packet.
    pub fn frames_to_receiver(&self) -> usize {
        match self.pattern {
            Pattern::OneToMany => 1,
            Pattern::ManyToMany | Pattern::ManyToOne => self.hosts().saturating_sub(1),
        }
    }

    /// Returns how many frames the cable between the switches carries in its busier direction when every sender sends one
    /// packet. Zero with one switch.
    pub fn frames_over_trunk(&self) -> usize {
        match (&self.switches[..], self.pattern) {
            ([first, second, ..], Pattern::ManyToMany) => *first.max(second),
            ([_, second, ..], Pattern::OneToMany) => 1.min(*second),
            ([_, second, ..], Pattern::ManyToOne) => *second,
            _ => 0,
        }
    }

    /// Returns how many frames a switch sends in the pattern many-to-many when every host sends one packet. No switch sends a
    /// frame back to where it came from.
    pub fn frames_of_switch(&self, switch: usize) -> usize {
        let own = self.switches.get(switch).copied().unwrap_or(0);
        let others = self.hosts() - own;
        let to_trunk = if others > 0 { own } else { 0 };
        own * own.saturating_sub(1) + to_trunk + others * own
    }

    /// Returns the rate, in packets a second of each sender, at which the first link is full. `None` when no link has a rate.
    pub fn predicted_rate(&self) -> Option<f64> {
        let full = |rate_bps: Option<u64>, frames: usize| {
            let rate_bps = rate_bps.filter(|_| frames > 0)?;
            Some(rate_bps as f64 / 8.0 / (frames * self.frame_bytes) as f64)
        };
        // A sender's own cable carries its packets the other way.
        let links = full(self.link_bps, self.frames_to_receiver().max(1));
        let trunk = full(self.trunk_bps, self.frames_over_trunk());
        links.into_iter().chain(trunk).reduce(f64::min)
    }
}

impl std::str::FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::word).join(", ");
        Self::ALL
            .into_iter()
            .find(|pattern| pattern.word() == text)
            .ok_or_else(|| format!("unknown pattern `{text}`: expected one of {}", known()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn testbed(pattern: Pattern) -> Layout {
        Layout {
            pattern,
            switches: vec![47, 48],
            frame_bytes: 60,
            link_bps: Some(1_000_000_000),
            trunk_bps: Some(40_000_000_000),
        }
    }

    /// The paper prints 4,559 frames for each switch. Its own explanation gives 4,465, which is right for the first switch.
    #[test]
    fn the_first_switch_of_the_paper_sends_4465_frames_and_the_second_4560() {
        let layout = testbed(Pattern::ManyToMany);
        assert_eq!([layout.frames_of_switch(0), layout.frames_of_switch(1)], [4465, 4560]);
        let [first, second] = [47, 48];
        assert_eq!(first * (first + 1) + first * first, 4465, "the paper's explanation (5.2)");
        // Together: each of 95 hosts hears 94 others, and each packet crosses the cable between the switches once.
        assert_eq!(4465 + 4560, 95 * 94 + first + second);
    }

    /// The paper concludes from 985.7 Mbit/s that a port of 1 Gbit/s was full. It had added up all 48 ports.
    #[test]
    fn no_cable_of_the_paper_was_full_at_its_threshold() {
        let predicted = testbed(Pattern::ManyToMany).predicted_rate().unwrap();
        assert!((22_163.0..22_164.0).contains(&predicted), "{predicted} packets/s where the paper found 450");
    }

    #[test]
    fn the_slowest_link_of_each_pattern_is_found() {
        assert_eq!(testbed(Pattern::OneToMany).frames_over_trunk(), 1);
        assert_eq!(testbed(Pattern::ManyToOne).frames_over_trunk(), 48);
        let narrow = Layout { trunk_bps: Some(960_000), frame_bytes: 50, ..testbed(Pattern::ManyToMany) };
        assert_eq!(narrow.predicted_rate(), Some(50.0));
        let two = Layout { switches: vec![2], link_bps: Some(400_000), trunk_bps: None, ..narrow };
        assert_eq!(two.predicted_rate(), Some(1000.0));
        assert_eq!(Layout { link_bps: None, ..two }.predicted_rate(), None);
    }

    #[test]
    fn patterns_have_the_right_senders_and_receivers() {
        let roles = |pattern: Pattern| [0, 1].map(|host| (pattern.sends(host), pattern.receives(host)));
        assert_eq!(roles(Pattern::ManyToMany), [(true, true); 2]);
        assert_eq!(roles(Pattern::OneToMany), [(true, false), (false, true)]);
        assert_eq!(roles(Pattern::ManyToOne), [(false, true), (true, false)]);
        assert_eq!("one-to-many".parse(), Ok(Pattern::OneToMany));
        assert!("all".parse::<Pattern>().unwrap_err().contains("many-to-many, one-to-many"));
    }
}
