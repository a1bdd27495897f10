//! Address prefixes of both families, in an order in which a prefix stands right before the prefixes inside it.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use super::Family;

/// A block of addresses, such as `192.0.2.0/24` or `2001:db8::/32`. Bits behind its length are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    family: Family,
    /// The address, with its first bit in the highest bit.
    bits: u128,
    length: u8,
}

impl Prefix {
    /// A prefix of the first `length` bits of `bits`, whose first bit is the highest. `None` if the family's addresses
    /// are shorter.
    pub fn new(family: Family, bits: u128, length: u8) -> Option<Self> {
        (length <= family.address_bits()).then(|| Self { family, bits: bits & mask(length), length })
    }

    /// Parses the octets of a prefix as BGP writes them (RFC 4271, 4.3): only as many as the length needs.
    pub fn from_wire(family: Family, length: u8, octets: &[u8]) -> Option<Self> {
        let mut wide = [0; 16];
        wide.get_mut(..octets.len())?.copy_from_slice(octets);
        Self::new(family, u128::from_be_bytes(wide), length)
    }

    pub fn family(self) -> Family {
        self.family
    }

    /// The number of bits that all addresses of the block share.
    pub fn length(self) -> u8 {
        self.length
    }

    /// The address, with its first bit in the highest bit.
    pub fn bits(self) -> u128 {
        self.bits
    }

    /// Whether `other` is this block, or lies inside it.
    pub fn contains(self, other: Self) -> bool {
        self.family == other.family
            && self.length <= other.length
            && other.bits & mask(self.length) == self.bits
    }

    /// The octets of the prefix as BGP writes them.
    pub fn to_wire(self) -> Vec<u8> {
        self.bits.to_be_bytes()[..usize::from(self.length).div_ceil(8)].to_vec()
    }

    /// The first address of the block.
    pub fn address(self) -> IpAddr {
        match self.family {
            Family::V4 => IpAddr::V4(Ipv4Addr::from_bits((self.bits >> 96) as u32)),
            Family::V6 => IpAddr::V6(Ipv6Addr::from_bits(self.bits)),
        }
    }
}

fn mask(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address(), self.length)
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no prefix: expected one like 192.0.2.0/24 or 2001:db8::/32");
        let (address, length) = text.split_once('/').ok_or_else(wrong)?;
        let length = length.parse().map_err(|_| wrong())?;
        let (family, bits) = match address.parse().map_err(|_| wrong())? {
            IpAddr::V4(address) => (Family::V4, u128::from(address.to_bits()) << 96),
            IpAddr::V6(address) => (Family::V6, address.to_bits()),
        };
        Self::new(family, bits, length).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn a_prefix_is_written_as_it_is_read_and_host_bits_are_cleared() {
        for (text, expected) in [
            ("192.0.2.0/24", "192.0.2.0/24"),
            ("192.0.2.77/24", "192.0.2.0/24"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:db8::1/128", "2001:db8::1/128"),
        ] {
            assert_eq!(prefix(text).to_string(), expected);
            let again =
                Prefix::from_wire(prefix(text).family(), prefix(text).length(), &prefix(text).to_wire());
            assert_eq!(again, Some(prefix(text)));
        }
        for wrong in ["192.0.2.0", "192.0.2.0/33", "2001:db8::/129", "x/1", "192.0.2.0/-1"] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_prefix_stands_before_those_inside_it() {
        let mut all = ["10.1.2.0/24", "10.0.0.0/8", "::/0", "10.1.0.0/16", "11.0.0.0/8"].map(prefix);
        all.sort();
        assert_eq!(all.map(|prefix| prefix.length()), [8, 16, 24, 8, 0]);
        assert!(all[0].contains(all[2]) && !all[0].contains(all[3]));
        assert!(!prefix("0.0.0.0/0").contains(prefix("::/0")), "families are apart");
    }
}
