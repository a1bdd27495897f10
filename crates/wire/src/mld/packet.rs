//! MLD with its IPv6 header, for code that reads whole packets and has no raw ICMPv6 socket.

use std::net::Ipv6Addr;

use super::{Message, NEXT_HEADER_ICMPV6, verify};
use crate::ipv6;

/// The next header number of hop-by-hop options (RFC 8200, section 4.3).
const NEXT_HEADER_HOP_BY_HOP: u8 = 0;

/// Parses an IPv6 packet with MLD. Returns its source and the message. `None` if it is damaged, or does not
/// meet the rules for MLD: a link-local source address, a hop limit of 1, and the router alert (RFC 9777,
/// sections 5.1.14 and 5.2.13).
pub fn parse_packet(packet: &[u8]) -> Option<(Ipv6Addr, Message)> {
    let (ip, payload) = ipv6::Header::parse(packet).ok()?;
    if ip.next_header != NEXT_HEADER_HOP_BY_HOP
        || ip.hop_limit != 1
        || !ip.source.is_unicast_link_local()
        || *payload.first()? != NEXT_HEADER_ICMPV6
    {
        return None;
    }
    let (options, body) = payload.split_at_checked((usize::from(*payload.get(1)?) + 1) * 8)?;
    if !has_router_alert(options) {
        return None;
    }
    verify(body, ip.source, ip.destination).ok()?;
    Some((ip.source, Message::parse(body).ok()?))
}

/// Whether a hop-by-hop options header holds the router alert of MLD (RFC 2711, 2.1).
pub fn has_router_alert(header: &[u8]) -> bool {
    let mut options = header.get(2..).unwrap_or_default();
    loop {
        match options {
            [5, 2, 0, 0, ..] => return true,
            [0, rest @ ..] => options = rest,
            [_, len, rest @ ..] if rest.len() >= usize::from(*len) => options = &rest[usize::from(*len)..],
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        super::{Query, V1, seal},
        *,
    };

    const GROUP: Ipv6Addr = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 9);
    const QUERIER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 7);

    fn packet(hop_limit: u8, source: Ipv6Addr, options: &[u8], message: &Message) -> Vec<u8> {
        let mut body = message.to_bytes();
        seal(&mut body, source, GROUP);
        ipv6::Header { hop_limit, ..ipv6::Header::new(source, GROUP, 0) }.packet(&[options, &body])
    }

    fn query() -> Message {
        let general = Query::general(Duration::from_secs(1), Duration::from_secs(20));
        Message::Query(Query { group: Some(GROUP), ..general })
    }

    #[test]
    fn only_a_neighbours_message_is_one() {
        let alert = [58, 0, 5, 2, 0, 0, 1, 0];
        let longer = [58, 1, 1, 8, 0, 0, 0, 0, 0, 0, 0, 0, 5, 2, 0, 0];
        let good = packet(1, QUERIER, &alert, &query());
        assert_eq!(parse_packet(&good), Some((QUERIER, query())));
        let old = Message::OldQuery(V1 { max_response: Duration::from_secs(1), group: Some(GROUP) });
        assert_eq!(parse_packet(&packet(1, QUERIER, &longer, &old)), Some((QUERIER, old)));
        let padded = [&good[..], &[0; 6]].concat();
        assert_eq!(parse_packet(&padded), Some((QUERIER, query())), "padding of a short frame");

        assert_eq!(parse_packet(&packet(2, QUERIER, &alert, &query())), None, "from afar");
        assert_eq!(parse_packet(&packet(1, Ipv6Addr::LOCALHOST, &alert, &query())), None);
        assert_eq!(parse_packet(&packet(1, QUERIER, &[58, 0, 1, 4, 0, 0, 0, 0], &query())), None);
        for at in [6, 40, 41, 42, 48, 52] {
            let mut changed = good.clone();
            changed[at] ^= 0x40;
            assert_eq!(parse_packet(&changed), None, "octet {at}");
        }
        assert!((0..good.len()).all(|len| parse_packet(&good[..len]).is_none()));
    }

    #[test]
    fn the_router_alert_is_found_wherever_it_stands() {
        assert!(has_router_alert(&[58, 0, 5, 2, 0, 0, 1, 0]), "as hosts send it");
        assert!(has_router_alert(&[58, 0, 5, 2, 0, 0, 0, 0]), "as bridges send it");
        assert!(has_router_alert(&[58, 0, 0, 0, 5, 2, 0, 0]));
        assert!(has_router_alert(&[58, 0, 1, 0, 5, 2, 0, 0]));
        assert!(!has_router_alert(&[58, 0, 5, 2, 0, 1, 1, 0]), "RSVP's");
        assert!(!has_router_alert(&[58, 0, 1, 4, 0, 0, 0, 0]));
        assert!(!has_router_alert(&[58, 0, 1, 9, 0, 0, 0, 0]), "a length beyond the end");
        assert!(!has_router_alert(&[58]));
    }
}
