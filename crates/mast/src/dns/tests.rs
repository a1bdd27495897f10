//! Tests of the server as a whole: requests in, answers out.

use std::slice;

use hickory_proto::{
    op::{Message, MessageType, OpCode, Query, ResponseCode},
    rr::{
        DNSClass, Name, RData, Record, RecordType, TSigner,
        rdata::{AAAA, CNAME, NS},
    },
};
use proptest::prelude::*;

use super::{
    client::PrefixUpdate,
    keys::{Keys, Scope, signer},
    records::{APL, InterfaceId, ListedPrefix},
    server::{Server, Transport},
    zone::Zone,
};

const NOW: u64 = 1_800_000_000;
const A: &str = "2001:db8:a:1::/64";
const B: &str = "2001:db8:b:1::/64";

fn name(text: &str) -> Name {
    Name::from_ascii(text).expect("a name")
}

fn key(name: &str, secret: &[u8]) -> TSigner {
    signer(name, secret).expect("a key")
}

/// A server whose host `h1` is in a network with a prefix of each of two providers.
fn server() -> Server {
    let mut zone = Zone::new(name("stub.example."), name("ns.stub.example."), 1, 2);
    for prefix in [A, B] {
        let listed = ListedPrefix { prefix: prefix.parse().expect("a prefix"), is_negated: false };
        zone.add(&name("lan.stub.example."), 2, listed.to_data());
    }
    let id = InterfaceId { ifid: 0x11, network: name("lan.stub.example.") };
    zone.add(&name("h1.stub.example."), 2, id.to_data());
    zone.add(&name("www.stub.example."), 2, RData::CNAME(CNAME(name("h1.stub.example."))));
    let mut keys = Keys::default();
    keys.add(key("srms.", b"the secret of the SRMS, 32 bytes"), Scope::Prefixes, NOW - 1);
    keys.add(key("admin.", b"the secret of a person, 32 bytes"), Scope::All, NOW - 1);
    Server::new(zone, keys)
}

fn srms() -> TSigner {
    key("srms.", b"the secret of the SRMS, 32 bytes")
}

fn ask(server: &mut Server, question: &str, record_type: RecordType) -> Message {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.add_query(Query::query(name(question), record_type));
    let answer = server.answer(NOW, &message.to_vec().expect("bytes"), Transport::Udp).expect("an answer");
    Message::from_vec(&answer).expect("a message")
}

fn addresses(server: &mut Server, question: &str) -> Vec<String> {
    let answer = ask(server, question, RecordType::AAAA);
    let address = |record: &Record| match &record.data {
        RData::AAAA(AAAA(address)) => Some(address.to_string()),
        _ => None,
    };
    answer.answers.iter().filter_map(address).collect()
}

fn discourage(block: &str, is_discouraged: bool) -> PrefixUpdate {
    PrefixUpdate {
        zone: name("stub.example."),
        networks: vec![name("lan.stub.example.")],
        blocks: vec![(block.parse().expect("a prefix"), is_discouraged)],
        ttl: 2,
    }
}

/// Sends an update; returns what its sender says of the answer.
fn send(server: &mut Server, update: &PrefixUpdate, key: &TSigner, now: u64) -> Result<(), String> {
    let (bytes, mut check) = update.message(9, key, now).expect("a message");
    check.check(&server.answer(now, &bytes, Transport::Udp).expect("an answer"))
}

#[test]
fn prefixes_and_ifids_are_joined_and_discouraged_prefixes_left_out() {
    let mut server = server();
    let both = ["2001:db8:a:1::11", "2001:db8:b:1::11"];
    assert_eq!(addresses(&mut server, "h1.stub.example."), both);
    assert_eq!(addresses(&mut server, "WWW.stub.EXAMPLE."), both, "through an alias, in any case");

    assert_eq!(send(&mut server, &discourage("2001:db8:a::/48", true), &srms(), NOW + 1), Ok(()));
    assert_eq!(addresses(&mut server, "h1.stub.example."), both[1..]);
    assert_eq!(send(&mut server, &discourage("2001:db8:a::/48", true), &srms(), NOW + 2), Ok(()), "again");
    assert_eq!(send(&mut server, &discourage("2001:db8:b::/48", true), &srms(), NOW + 3), Ok(()));
    assert_eq!(addresses(&mut server, "h1.stub.example."), both, "all are, so all are given");
    assert_eq!(send(&mut server, &discourage("2001:db8:b::/48", false), &srms(), NOW + 4), Ok(()));
    assert_eq!(addresses(&mut server, "h1.stub.example."), both[1..]);
    assert_eq!(send(&mut server, &discourage("2001:db8:a::/48", false), &srms(), NOW + 5), Ok(()));
    assert_eq!(addresses(&mut server, "h1.stub.example."), both);
    assert_eq!(ask(&mut server, "lan.stub.example.", APL).answers.len(), 2, "no status is left over");
    assert_eq!(server.counts.updates, 5);
}

#[test]
fn names_and_types_that_are_not_there_are_told_apart() {
    let mut server = server();
    let code =
        |answer: &Message| (answer.metadata.response_code, answer.answers.len(), answer.authorities.len());
    assert_eq!(code(&ask(&mut server, "h1.stub.example.", RecordType::A)), (ResponseCode::NoError, 0, 1));
    assert_eq!(code(&ask(&mut server, "h2.stub.example.", RecordType::AAAA)), (ResponseCode::NXDomain, 0, 1));
    assert_eq!(code(&ask(&mut server, "stub.example.", RecordType::SOA)), (ResponseCode::NoError, 1, 0));
    assert_eq!(code(&ask(&mut server, "stub.example.", RecordType::AXFR)), (ResponseCode::Refused, 0, 0));
    assert_eq!(code(&ask(&mut server, "other.example.", RecordType::AAAA)), (ResponseCode::Refused, 0, 0));
}

#[test]
fn updates_that_are_forged_changed_or_repeated_change_nothing() {
    let mut server = server();
    let both = addresses(&mut server, "h1.stub.example.");
    let update = discourage("2001:db8:a::/48", true);
    let forger = key("srms.", b"some other secret, of 32 bytes..");
    let unknown = key("nobody.", b"the secret of the SRMS, 32 bytes");
    assert!(send(&mut server, &update, &forger, NOW).is_err());
    assert!(send(&mut server, &update, &unknown, NOW).is_err());
    assert_eq!(server.counts.wrong_signatures, 2);

    // Unsigned.
    let (bytes, _) = update.message(9, &srms(), NOW).expect("a message");
    let mut unsigned = Message::from_vec(&bytes).expect("a message");
    unsigned.take_signature();
    let answer = server.answer(NOW, &unsigned.to_vec().expect("bytes"), Transport::Udp).expect("an answer");
    assert_eq!(Message::from_vec(&answer).expect("a message").metadata.response_code, ResponseCode::Refused);

    // Every octet behind the number changed, which a server may change (RFC 8945, 5.3).
    for at in 2..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        _ = server.answer(NOW, &changed, Transport::Udp);
        assert_eq!(server.counts.updates, 0, "octet {at}");
    }
    // From another time.
    for time in [NOW - 301, NOW + 301] {
        let (bytes, _) = update.message(9, &srms(), time).expect("a message");
        _ = server.answer(NOW, &bytes, Transport::Udp);
    }
    assert_eq!(addresses(&mut server, "h1.stub.example."), both);

    // Recorded, and played again when things are back to normal.
    assert_eq!(send(&mut server, &update, &srms(), NOW), Ok(()));
    assert_eq!(
        send(&mut server, &discourage("2001:db8:a::/48", false), &srms(), NOW),
        Ok(()),
        "the same second"
    );
    let first = server.answer(NOW, &bytes, Transport::Udp).expect("the answer of before");
    assert_eq!(Message::from_vec(&first).expect("a message").metadata.response_code, ResponseCode::NoError);
    assert_eq!(addresses(&mut server, "h1.stub.example."), both);
    assert_eq!(send(&mut server, &discourage("2001:db8:a::/48", false), &srms(), NOW + 1), Ok(()));
    let later = server.answer(NOW + 2, &bytes, Transport::Udp).expect("an answer");
    assert_eq!(Message::from_vec(&later).expect("a message").metadata.response_code, ResponseCode::NotAuth);
    assert_eq!(addresses(&mut server, "h1.stub.example."), both);
    // A server that was started again has forgotten what it did.
    let mut keys = Keys::default();
    keys.add(srms(), Scope::Prefixes, NOW + 10);
    let mut server = Server::new(server.zone().clone(), keys);
    _ = server.answer(NOW + 10, &bytes, Transport::Udp);
    assert_eq!(addresses(&mut server, "h1.stub.example."), both);
}

/// An update by a person's key. Its class tells what is done, as in RFC 2136, section 2.5.
fn change(server: &mut Server, at: u64, prerequisites: &[Record], changes: &[Record]) -> ResponseCode {
    let mut message = Message::new(3, MessageType::Query, OpCode::Update);
    message.add_query(Query::query(name("stub.example."), RecordType::SOA));
    message.add_answers(prerequisites.iter().cloned());
    message.add_authorities(changes.iter().cloned());
    message.finalize(&key("admin.", b"the secret of a person, 32 bytes"), NOW + at).expect("signed");
    let answer =
        server.answer(NOW + at, &message.to_vec().expect("bytes"), Transport::Tcp).expect("an answer");
    Message::from_vec(&answer).expect("a message").metadata.response_code
}

fn record(of: &str, class: DNSClass, ttl: u32, data: RData) -> Record {
    let mut record = Record::from_rdata(name(of), ttl, data);
    record.dns_class = class;
    record
}

#[test]
fn an_update_follows_rfc_2136() {
    let mut server = server();
    let h2 = "h2.stub.example.";
    let address = || RData::AAAA(AAAA("2001:db8::2".parse().expect("an address")));
    let is_new = record(h2, DNSClass::NONE, 0, RData::Update0(RecordType::ANY));
    let added = record(h2, DNSClass::IN, 9, address());
    assert_eq!(
        change(&mut server, 1, slice::from_ref(&is_new), slice::from_ref(&added)),
        ResponseCode::NoError
    );
    assert_eq!(change(&mut server, 2, &[is_new], slice::from_ref(&added)), ResponseCode::YXDomain);
    assert_eq!(addresses(&mut server, h2), ["2001:db8::2"]);
    let has_set = record(h2, DNSClass::IN, 0, address());
    let other = record(h2, DNSClass::IN, 0, RData::AAAA(AAAA("::9".parse().expect("an address"))));
    let gone = record(h2, DNSClass::NONE, 0, address());
    assert_eq!(
        change(&mut server, 3, slice::from_ref(&other), slice::from_ref(&gone)),
        ResponseCode::NXRRSet
    );
    let beyond = record("h2.other.example.", DNSClass::IN, 9, address());
    assert_eq!(change(&mut server, 4, &[], &[gone.clone(), beyond]), ResponseCode::NotZone, "all or nothing");
    assert_eq!(addresses(&mut server, h2), ["2001:db8::2"]);
    assert_eq!(change(&mut server, 5, &[has_set], &[gone]), ResponseCode::NoError);
    assert_eq!(addresses(&mut server, h2), Vec::<String>::new());

    // The zone itself stays.
    let all = record("stub.example.", DNSClass::ANY, 0, RData::Update0(RecordType::ANY));
    let last = record("stub.example.", DNSClass::NONE, 0, RData::NS(NS(name("ns.stub.example."))));
    assert_eq!(change(&mut server, 6, &[], &[all, last]), ResponseCode::NoError);
    assert_eq!(ask(&mut server, "stub.example.", RecordType::NS).answers.len(), 1);
    let no_list = RData::Unknown { code: APL, rdata: hickory_proto::rr::rdata::NULL::with(vec![1]) };
    let broken = record("lan.stub.example.", DNSClass::IN, 9, no_list);
    assert_eq!(change(&mut server, 7, &[], &[broken]), ResponseCode::FormErr);
}

#[test]
fn the_key_of_the_srms_changes_the_status_of_prefixes_only() {
    let mut server = server();
    let listed = |is_negated| ListedPrefix { prefix: A.parse().expect("a prefix"), is_negated }.to_data();
    let address = RData::AAAA(AAAA("2001:db8::bad".parse().expect("an address")));
    let (lan, h1) = ("lan.stub.example.", "h1.stub.example.");
    for change in [
        record(h1, DNSClass::IN, 9, address),
        record(lan, DNSClass::IN, 9, listed(false)),
        record(lan, DNSClass::NONE, 0, listed(false)),
        record(lan, DNSClass::ANY, 0, RData::Update0(APL)),
        record(h1, DNSClass::IN, 9, listed(true)),
    ] {
        let mut message = Message::new(3, MessageType::Query, OpCode::Update);
        message.add_query(Query::query(name("stub.example."), RecordType::SOA));
        message.add_authority(change);
        message.finalize(&srms(), NOW).expect("signed");
        let bytes = message.to_vec().expect("bytes");
        let answer = server.answer(NOW, &bytes, Transport::Udp).expect("an answer");
        let answer = Message::from_vec(&answer).expect("a message");
        assert_eq!(answer.metadata.response_code, ResponseCode::Refused, "{:?}", message.authorities);
    }
    assert_eq!(addresses(&mut server, h1).len(), 2);
}

#[test]
fn a_zone_does_not_grow_without_bound() {
    let mut server = server();
    let full = super::zone::MAX_RECORDS as u32;
    let mut refused = 0;
    for (at, first) in (0..full + 1_000).step_by(500).enumerate() {
        let data = |number: u32| RData::AAAA(AAAA(u128::from(number).into()));
        let many: Vec<_> = (first..first + 500)
            .map(|number| record(&format!("n{number}.stub.example."), DNSClass::IN, 9, data(number)))
            .collect();
        refused += usize::from(change(&mut server, at as u64 + 1, &[], &many) == ResponseCode::Refused);
    }
    assert!(refused > 0 && server.zone().room() < 500, "{refused}");
}

#[test]
fn an_answer_that_is_too_long_for_udp_is_cut_and_comes_by_tcp() {
    let mut server = server();
    let many: Vec<_> = (0..100u128)
        .map(|number| record("big.stub.example.", DNSClass::IN, 9, RData::AAAA(AAAA(number.into()))))
        .collect();
    assert_eq!(change(&mut server, 1, &[], &many), ResponseCode::NoError);
    let cut = ask(&mut server, "big.stub.example.", RecordType::AAAA);
    assert_eq!((cut.metadata.truncation, cut.answers.len()), (true, 0));
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.add_query(Query::query(name("big.stub.example."), RecordType::AAAA));
    let whole = server.answer(NOW, &message.to_vec().expect("bytes"), Transport::Tcp).expect("an answer");
    assert_eq!(Message::from_vec(&whole).expect("a message").answers.len(), 100);
}

proptest! {
    #[test]
    fn any_bytes_are_answered_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        _ = server().answer(NOW, &bytes, Transport::Udp);
    }

    /// Octets of a valid update are replaced, so that deeper code is reached than by random bytes. Those of its
    /// signature are not: the case of a key's name has no meaning.
    #[test]
    fn a_damaged_update_changes_nothing(damage in proptest::collection::vec((2usize..200, any::<u8>()), 1..4)) {
        let (mut bytes, _) = discourage("2001:db8:a::/48", true).message(9, &srms(), NOW).expect("a message");
        let mut unsigned = Message::from_vec(&bytes).expect("a message");
        unsigned.take_signature();
        let len = unsigned.to_vec().expect("bytes").len();
        let before = bytes.clone();
        for (at, octet) in damage {
            bytes[2 + (at % (len - 2))] = octet;
        }
        // The header's reserved bit has no meaning (RFC 1035, 4.1.1), and the parser leaves it out.
        bytes[3] &= !0x40;
        prop_assume!(bytes != before);
        let mut server = server();
        _ = server.answer(NOW, &bytes, Transport::Udp);
        prop_assert_eq!(server.counts.updates, 0);
    }
}
