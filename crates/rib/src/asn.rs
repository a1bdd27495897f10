//! Autonomous system numbers (ASNs) that name no single network.

/// The kind of network that an ASN stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsnKind {
    /// One network, known by this number everywhere.
    Public,
    /// A network that only its upstream knows by this number (RFC 6996): 64512 to 65534, and 4200000000 to 4294967294.
    Private,
    /// No network at all: 0 (RFC 7607), AS_TRANS (RFC 6793), documentation (RFC 5398), and the last ASNs (RFC 7300).
    Reserved,
}

/// Classifies an ASN.
///
/// The paper interdomain-2013 (6.2.2) counts 64512 through 65535 as private. RFC 7300 later reserved 65535.
pub fn kind(asn: u32) -> AsnKind {
    match asn {
        64_512..=65_534 | 4_200_000_000..=4_294_967_294 => AsnKind::Private,
        0 | 23_456 | 64_496..=64_511 | 65_535..=65_551 | u32::MAX => AsnKind::Reserved,
        _ => AsnKind::Public,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_ranges_are_right() {
        for (asn, expected) in [
            (0, AsnKind::Reserved),
            (1, AsnKind::Public),
            (23_456, AsnKind::Reserved),
            (64_495, AsnKind::Public),
            (64_511, AsnKind::Reserved),
            (64_512, AsnKind::Private),
            (65_534, AsnKind::Private),
            (65_535, AsnKind::Reserved),
            (65_552, AsnKind::Public),
            (4_199_999_999, AsnKind::Public),
            (4_200_000_000, AsnKind::Private),
            (4_294_967_295, AsnKind::Reserved),
        ] {
            assert_eq!(kind(asn), expected, "{asn}");
        }
    }
}
