//! Announcements, SAP and the exchange of codes: golden packets, and the properties of their parsers.

use crate::vectors;
use proptest::prelude::*;
use treecast_wire::{
    announcement::{self, Announcement, Audience, ForStanding},
    code::{self, Answer, Status},
    header::SessionId,
    sap::{self, Packet},
    ticket::{Repair, Security, Ticket},
};

fn announcement() -> Announcement {
    let ticket = Ticket {
        control: vec![
            "[fd00::1]:7000".parse().expect("an address"),
            "192.0.2.1:7000".parse().expect("an address"),
        ],
        security: Some(Security { sender_key: [7; 32], secret: None }),
        ..Ticket::new(SessionId(0xfeed), Repair::Nack, 1420, "[ff15::1]:5000".parse().expect("an address"))
    };
    let mut announcement = Announcement::new("büro image", ticket).expect("a good name");
    (announcement.number, announcement.valid_seconds) = (1_795_000_000_123, 200);
    (announcement.objects, announcement.bytes) = (3, 1 << 32);
    announcement.begun = 1_794_000_000_000;
    announcement
}

/// The same session, for receivers that the sender has a list of.
fn named() -> Announcement {
    let standing = ForStanding::Named { list: 0xfeed_0007 };
    let mut announcement = announcement();
    announcement.audience = Audience { people: false, standing, awaits_results: true };
    announcement
}

#[test]
fn the_vectors_hold_what_is_announced_and_exchanged() {
    let bytes = announcement().to_bytes(&[9; 64]);
    vectors::must_hold("announcement-session", &bytes, &format!("{}\n", announcement()));
    assert_eq!(Announcement::parse(&bytes), Ok((announcement(), [9; 64])));
    assert_eq!(announcement().signed_bytes()[30..], bytes[..bytes.len() - 64]);
    let to_named = named().to_bytes(&[9; 64]);
    vectors::must_hold("announcement-named", &to_named, &format!("{}\n", named()));
    assert_eq!(Announcement::parse(&to_named), Ok((named(), [9; 64])));
    for (name, origin) in [("ipv4", "192.0.2.1"), ("ipv6", "fd00::1")] {
        let packet = Packet {
            is_deletion: false,
            hash: 0xfeed,
            origin: origin.parse().expect("an address"),
            payload_type: sap::PAYLOAD_TYPE,
            payload: &bytes,
        };
        assert!(packet.to_bytes().len() <= 1280 - 48);
        let text = format!(
            "announcement with hash feed from {origin}, {} bytes of {}\n",
            bytes.len(),
            sap::PAYLOAD_TYPE
        );
        vectors::must_hold(&format!("sap-{name}"), &packet.to_bytes(), &text);
        assert_eq!(Packet::parse(&packet.to_bytes()), Ok(packet));
    }
    vectors::must_hold("code-request", &code::request(&[5; 33]), "request\n");
    vectors::must_hold("code-reply", &code::reply(Status::Good, Some(&[6; 33])), "good reply\n");
    let answer = Answer { status: Status::Wrong, attempts_left: 4, sealed_len: 0 };
    vectors::must_hold("code-answer", &answer.to_bytes(), "wrong, 4 attempts left\n");
    assert_eq!(Answer::parse(&answer.to_bytes()), Ok(answer));
    assert_eq!(code::parse_request(&code::request(&[5; 33])), Ok([5; 33]));
    assert_eq!(code::parse_reply(&code::reply(Status::Dead, None)), Ok((Status::Dead, [0; 33])));
}

#[test]
fn what_is_no_announcement_is_refused() {
    let bytes = announcement().to_bytes(&[9; 64]);
    for len in 0..bytes.len() {
        assert!(Announcement::parse(&bytes[..len]).is_err(), "{len} bytes");
    }
    assert!(Announcement::parse(&[&bytes[..], &[0]].concat()).is_err(), "one byte more");
    let error = |at: usize, value: u8| {
        let mut changed = bytes.clone();
        changed[at] = value;
        Announcement::parse(&changed).expect_err("it is not valid").to_string()
    };
    assert!(error(3, b'1').starts_with("magic: "), "the version before");
    assert!(error(13, 1).starts_with("validity: "), "more than an hour");
    assert!(error(44, 7).starts_with("name: "));
    assert!(error(73, b'!').starts_with("ticket: "));
    for (audience, list) in [(0, 0), (8, 0), (17, 0), (4, 1), (5, 0), (1, 1), (2, 1)] {
        let line = {
            let mut changed = bytes.clone();
            (changed[36], changed[40]) = (audience, list);
            Announcement::parse(&changed).expect_err("it is for nobody").to_string()
        };
        assert!(line.starts_with("audience: "), "{audience} {list}: {line}");
    }
    let plain = Ticket { security: None, ..announcement().ticket().clone() };
    assert!(Announcement::new("x", plain).expect_err("it has no key").to_string().contains("plain"));
    for name in ["", "a\nb", &"x".repeat(65)] {
        assert!(Announcement::new(name, announcement().ticket().clone()).is_err(), "{name:?}");
    }
}

#[test]
fn every_ticket_with_the_most_addresses_fits() {
    let address =
        |port: u16| format!("[2001:db8:1111:2222:3333:4444:5555:6666]:{port}").parse().expect("an address");
    let ticket = Ticket {
        control: (0..16).map(|port| address(60_000 + port)).collect(),
        source: Some("2001:db8::1".parse().expect("an address")),
        security: Some(Security { sender_key: [7; 32], secret: Some([8; 32]) }),
        ..announcement().ticket().clone()
    };
    let announcement = Announcement::new(&"x".repeat(64), ticket).expect("it fits");
    assert!(announcement.to_bytes(&[0; 64]).len() <= announcement::MAX_LEN);
}

#[test]
fn other_versions_and_encrypted_packets_of_sap_are_refused() {
    let bytes = Packet {
        is_deletion: true,
        hash: 1,
        origin: "192.0.2.1".parse().expect("an address"),
        payload_type: "",
        payload: b"v=0\r\n",
    }
    .to_bytes();
    let parsed = Packet::parse(&bytes).expect("it is one of SDP, without a type");
    assert_eq!((parsed.is_deletion, parsed.payload_type, parsed.payload), (true, "", &b"v=0\r\n"[..]));
    for (flags, why) in [(0x40, "version"), (0x22, "flags"), (0x21, "flags")] {
        let mut changed = bytes.clone();
        changed[0] = flags;
        assert!(Packet::parse(&changed).expect_err("it is not ours").to_string().starts_with(why));
    }
    for len in 0..8 {
        assert!(Packet::parse(&bytes[..len]).is_err(), "{len} bytes");
    }
}

proptest! {
    #[test]
    fn nothing_panics_and_what_parses_is_emitted_again(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok((announcement, signature)) = Announcement::parse(&bytes) {
            prop_assert_eq!(announcement.to_bytes(&signature), bytes.clone());
        }
        let _ = Packet::parse(&bytes);
        let _ = code::parse_request(&bytes);
        let _ = code::parse_reply(&bytes);
        if let Ok(answer) = Answer::parse(&bytes) {
            prop_assert_eq!(&answer.to_bytes()[..], &bytes[..]);
        }
    }

    #[test]
    fn a_changed_byte_makes_another_announcement_or_none(at in 0_usize..400, bit in 0_u8..8) {
        let bytes = announcement().to_bytes(&[9; 64]);
        let at = at % (bytes.len() - 64);
        let mut changed = bytes;
        changed[at] ^= 1 << bit;
        if let Ok((parsed, _)) = Announcement::parse(&changed) {
            prop_assert_ne!(parsed.signed_bytes(), announcement().signed_bytes());
        }
    }
}
