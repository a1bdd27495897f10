//! Tests of client and server together.

use std::time::Duration;

use ed25519_dalek::SigningKey;
use proptest::prelude::*;

use super::{
    client::{self, Client, Wants},
    server::{self, Now, Server},
    wire::{self, LinkPrefix},
};
use crate::{
    Prefix,
    message::{Preference, PrefixState},
};

const A: &str = "2001:db8:a:1::/64";
const B: &str = "2001:db8:b:1::/64";
const DUID: &[u8] = &[0, 3, 0, 1, 2, 0, 0, 0, 0, 1];

fn prefix(text: &str) -> Prefix {
    text.parse().expect("a prefix")
}

fn at(seconds: f64) -> Now {
    let monotonic = Duration::from_secs_f64(1_000.0 + seconds);
    Now { monotonic, unix_us: 1_800_000_000_000_000 + monotonic.as_micros() as u64 }
}

fn new_server() -> Server {
    let config = server::Config {
        duid: DUID.to_vec(),
        prefixes: vec![prefix(A), prefix(B)],
        preferred_s: 600,
        valid_s: 900,
        dns_servers: vec!["2001:db8:a:1::53".parse().expect("an address")],
        reserved: vec![1],
        kept_for: vec![(0x80, [&[0, 3, 0, 1][..], &7_u64.to_be_bytes()].concat())],
        max_leases: 4,
        key: SigningKey::from_bytes(&[7; 32]),
        push_interval: Duration::from_secs(10),
    };
    Server::new(config, at(0.0))
}

/// A server that SRMP has told that all is well.
fn server() -> Server {
    let mut server = new_server();
    server.set_states(at(0.0), &[]);
    server
}

fn client_with(seed: u64, key: Option<&SigningKey>, wants: Wants) -> Client {
    let config = client::Config {
        duid: [&[0, 3, 0, 1][..], &seed.to_be_bytes()].concat(),
        group: 1,
        ifid: None,
        server_key: key.map(SigningKey::verifying_key),
        wants,
        seed: *blake3::hash(&seed.to_be_bytes()).as_bytes(),
    };
    Client::new(config, at(0.0).monotonic)
}

fn client() -> Client {
    client_with(5, Some(&SigningKey::from_bytes(&[7; 32])), Wants::Addresses)
}

/// Lets a client speak with a server until it has nothing to say at once.
fn talk(client: &mut Client, server: &mut Server, now: Now) {
    while let Some(message) = client.poll(now.monotonic) {
        if let Some(answer) = server.handle(now, &message) {
            client.handle(now.monotonic, &answer);
        }
    }
}

/// The client's addresses at a time, and whether each is discouraged.
fn addresses(client: &Client, now: Now) -> Vec<(String, bool)> {
    let mut all: Vec<_> = client
        .addresses(now.monotonic)
        .into_iter()
        .map(|it| (format!("{}/{}", it.address, it.prefix_length), it.preferred_until.is_zero()))
        .collect();
    all.sort();
    all
}

fn state(block: &str, is_discouraged: bool, epoch: u64) -> PrefixState {
    let preference = if is_discouraged { Preference::Discouraged } else { Preference::Encouraged };
    PrefixState { prefix: prefix(block), preference, epoch }
}

fn statuses(client: &Client, now: Now) -> Vec<bool> {
    addresses(client, now).into_iter().map(|(_, is_discouraged)| is_discouraged).collect()
}

#[test]
fn a_client_joins_all_prefixes_and_a_push_discourages_one_until_it_is_back() {
    let (mut server, mut client) = (server(), client());
    talk(&mut client, &mut server, at(0.0));
    let both = addresses(&client, at(0.0));
    assert_eq!(both.len(), 2, "{both:?}");
    assert!(both[0].0.starts_with("2001:db8:a:1:") && both[0].0.ends_with("/64"), "{both:?}");
    assert_eq!(both[0].0.replace(":a:", ":b:"), both[1].0, "the same identifier");
    assert_eq!(statuses(&client, at(0.0)), [false, false]);
    assert!(server.poll(at(0.9)).is_some(), "the first push");

    assert!(server.set_states(at(1.0), &[state("2001:db8:a::/48", true, 1)]));
    let push = server.poll(at(1.0)).expect("a push at once");
    client.handle(at(1.0).monotonic, &push);
    assert_eq!(statuses(&client, at(1.0)), [true, false]);
    assert!(server.poll(at(1.1)).is_none());
    assert!(server.poll(at(1.3)).is_some() && server.poll(at(2.1)).is_some(), "nobody acknowledges it");

    // A lease that is renewed meanwhile, and a new client, hear the same.
    talk(&mut client, &mut server, at(301.0));
    assert_eq!(statuses(&client, at(301.0)), [true, false]);
    let mut other = client_with(6, Some(&SigningKey::from_bytes(&[7; 32])), Wants::Addresses);
    talk(&mut other, &mut server, at(301.0));
    assert_eq!(statuses(&other, at(301.0)), [true, false]);

    assert!(!server.set_states(at(302.0), &[state("2001:db8:a::/48", false, 0)]), "an old epoch");
    assert!(server.set_states(at(302.0), &[state("2001:db8:a::/48", false, 2)]));
    let push = server.poll(at(302.0)).expect("a push");
    client.handle(at(302.0).monotonic, &push);
    assert_eq!(statuses(&client, at(302.0)), [false, false]);
    assert_eq!(addresses(&client, at(302.0)), both);
}

#[test]
fn pushes_that_are_forged_changed_or_repeated_change_nothing() {
    let (mut server, mut client) = (server(), client());
    let early = server.poll(at(0.0)).expect("a push");
    client.handle(at(0.0).monotonic, &early);
    assert_eq!(client.dropped.foreign, 1, "it has no lease yet");
    talk(&mut client, &mut server, at(0.0));
    let before = addresses(&client, at(0.0));

    let rogue = |duid: &[u8], key: &SigningKey| {
        let listed = LinkPrefix { prefix: prefix(A), preferred_s: 0, valid_s: 900 };
        let signed = wire::Signed { counter: u64::MAX, answers: None };
        wire::sign(wire::push(duid, &[listed]), signed, key).expect("bytes")
    };
    client.handle(at(1.0).monotonic, &rogue(DUID, &SigningKey::from_bytes(&[9; 32])));
    assert_eq!(client.dropped.forged, 1);
    client.handle(at(1.0).monotonic, &rogue(&[0, 3, 0, 1, 9], &SigningKey::from_bytes(&[9; 32])));
    let listed = LinkPrefix { prefix: prefix(A), preferred_s: 0, valid_s: 900 };
    let unsigned = wire::encode(&wire::push(DUID, &[listed])).expect("bytes");
    client.handle(at(1.0).monotonic, &unsigned);
    client.handle(at(1.0).monotonic, &early);
    assert_eq!(client.dropped.replayed, 1);
    assert_eq!(addresses(&client, at(1.0)), before);

    server.set_states(at(2.0), &[state(A, true, 1)]);
    let push = server.poll(at(2.0)).expect("a push");
    for octet in 0..push.len() {
        let mut changed = push.clone();
        changed[octet] ^= 1;
        client.handle(at(2.0).monotonic, &changed);
        assert_eq!(addresses(&client, at(2.0)), before, "octet {octet}");
    }
    client.handle(at(2.0).monotonic, &push);
    assert_eq!(statuses(&client, at(2.0)), [true, false]);
    server.set_states(at(3.0), &[state(A, false, 2)]);
    client.handle(at(3.0).monotonic, &server.poll(at(3.0)).expect("a push"));
    client.handle(at(4.0).monotonic, &push);
    assert_eq!(statuses(&client, at(4.0)), [false, false], "a recorded push, played again");
}

/// A rogue server without the key gives no lease, either.
#[test]
fn a_client_with_a_key_takes_nothing_of_another_server() {
    let mut config_key = client_with(5, Some(&SigningKey::from_bytes(&[8; 32])), Wants::Addresses);
    let mut server = server();
    talk(&mut config_key, &mut server, at(0.0));
    assert!(!config_key.is_bound() && config_key.dropped.forged == 1);
    let mut without = client_with(6, None, Wants::Addresses);
    talk(&mut without, &mut server, at(0.0));
    assert_eq!(addresses(&without, at(0.0)).len(), 2);
    server.set_states(at(1.0), &[state(A, true, 1)]);
    without.handle(at(1.0).monotonic, &server.poll(at(1.0)).expect("a push"));
    assert_eq!((statuses(&without, at(1.0)), without.dropped.forged), (vec![false, false], 1));
}

/// mRCS asks for the prefixes again after 600 s. A push of before must not be believed meanwhile.
#[test]
fn a_recorded_push_is_not_believed_while_the_client_asks_again() {
    let key = SigningKey::from_bytes(&[7; 32]);
    for (wants, later) in [(Wants::Prefixes, 601.0), (Wants::Addresses, 301.0)] {
        let (mut server, mut client) = (server(), client_with(5, Some(&key), wants));
        server.set_states(at(0.0), &[state(A, true, 1)]);
        let old = server.poll(at(0.0)).expect("a push");
        server.set_states(at(1.0), &[state(A, false, 2)]);
        talk(&mut client, &mut server, at(1.0));
        assert!(client.poll(at(later).monotonic).is_some(), "it asks again");
        client.handle(at(later).monotonic, &old);
        assert_eq!((client.dropped.replayed, client.prefixes()[0].preferred_s), (1, 600));
    }
}

/// Somebody who collects signed answers, until one has the transaction's number of a later request.
#[test]
fn an_answer_to_another_request_with_the_same_transaction_number_is_not_believed() {
    let key = SigningKey::from_bytes(&[7; 32]);
    for (wants, later) in [(Wants::Prefixes, 601.0), (Wants::Addresses, 301.0)] {
        let (mut server, mut client) = (server(), client_with(5, Some(&key), wants));
        talk(&mut client, &mut server, at(0.0));
        let request = client.poll(at(later).monotonic).expect("it asks again");
        for number in [None, Some(wire::challenge(4711))] {
            let mut other = wire::decode(&request).expect("a message");
            other.opts_mut().remove(dhcproto::v6::OptionCode::Authentication);
            number.into_iter().for_each(|number| other.opts_mut().insert(number));
            let collected =
                server.handle(at(later), &wire::encode(&other).expect("bytes")).expect("an answer");
            client.handle(at(later).monotonic, &collected);
        }
        assert_eq!(client.dropped.replayed, 2);
        server.set_states(at(later), &[state(A, true, 1)]);
        let answer = server.handle(at(later), &request).expect("an answer");
        client.handle(at(later).monotonic, &answer);
        let is_discouraged = client.is_discouraged("2001:db8:a:1::7".parse().expect("an address"));
        assert_eq!((client.dropped.replayed, is_discouraged), (2, true), "the right answer is believed");
    }
}

/// A restart takes back nothing that a server has told, even if its clock is set back.
#[test]
fn counters_and_epochs_go_on_after_a_restart() {
    let (mut server, mut client) = (server(), client());
    server.set_states(at(100.0), &[state(A, true, 9)]);
    talk(&mut client, &mut server, at(100.0));
    let mut again = new_server();
    again.restore(at(0.0), server.kept(at(100.0)));
    assert_eq!(again.leases(), 1);
    assert!(again.poll(at(30.0)).is_none(), "nobody has told it that the states are still so");
    again.set_states(at(31.0), &[state(A, false, 8)]);
    client.handle(at(101.0).monotonic, &again.poll(at(31.0)).expect("a push"));
    assert_eq!(
        (client.dropped.replayed, statuses(&client, at(101.0))),
        (0, vec![true, false]),
        "an old epoch"
    );
    again.set_states(at(32.0), &[state(A, false, 10)]);
    client.handle(at(102.0).monotonic, &again.poll(at(32.0)).expect("a push"));
    assert_eq!(statuses(&client, at(102.0)), [false, false]);
}

#[test]
fn an_identifier_that_is_kept_for_a_client_goes_to_nobody_else() {
    let key = SigningKey::from_bytes(&[7; 32]);
    let mut server = server();
    let ifid = |client: &Client| u128::from(client.addresses(at(0.0).monotonic)[0].address) as u64;
    let asks = |seed: u64, wish: Option<u64>, server: &mut Server| {
        let config = client::Config {
            duid: [&[0, 3, 0, 1][..], &seed.to_be_bytes()].concat(),
            group: 1,
            ifid: wish,
            server_key: Some(key.verifying_key()),
            wants: Wants::Addresses,
            seed: *blake3::hash(&seed.to_be_bytes()).as_bytes(),
        };
        let mut client = Client::new(config, at(0.0).monotonic);
        talk(&mut client, server, at(0.0));
        ifid(&client)
    };
    assert_ne!(asks(6, Some(0x80), &mut server), 0x80, "it is kept for another client");
    assert_eq!(asks(7, Some(0x81), &mut server), 0x80, "it has one that is kept for it");
    assert_eq!(asks(7, None, &mut server), 0x80);
}

#[test]
fn a_server_that_was_started_again_does_not_call_a_discouraged_prefix_preferred() {
    let (mut server, mut client) = (server(), client());
    server.set_states(at(0.0), &[state(A, true, 1)]);
    talk(&mut client, &mut server, at(0.0));
    assert_eq!(statuses(&client, at(0.0)), [true, false]);
    let mut again = new_server();
    assert!(again.poll(at(30.0)).is_none(), "it knows nothing yet");
    talk(&mut client, &mut again, at(301.0));
    assert_eq!(statuses(&client, at(301.0)), [true, false], "renewed");
    assert!(again.set_states(at(302.0), &[state(A, false, 2)]), "the first states are pushed");
    client.handle(at(302.0).monotonic, &again.poll(at(302.0)).expect("a push"));
    assert_eq!(statuses(&client, at(302.0)), [false, false]);
}

/// The pushes that tell of the states may have come before the first answer, which lists nothing.
#[test]
fn a_client_that_heard_of_no_prefixes_asks_again_soon() {
    let key = SigningKey::from_bytes(&[7; 32]);
    for wants in [Wants::Prefixes, Wants::Addresses] {
        let (mut server, mut client) = (new_server(), client_with(5, Some(&key), wants));
        talk(&mut client, &mut server, at(0.0));
        assert!(client.is_bound() && client.prefixes().is_empty());
        server.set_states(at(0.1), &[]);
        talk(&mut client, &mut server, at(2.1));
        assert_eq!(client.prefixes().len(), 2);
        assert!(client.deadline() > at(300.0).monotonic - Duration::from_secs(1), "then it need not hurry");
    }
}

#[test]
fn a_client_does_not_get_the_identifier_of_a_router_or_name_server() {
    for (wish, is_given) in [(1, false), (0x53, false), (0x11, true)] {
        let config = client::Config {
            duid: DUID.to_vec(),
            group: 1,
            ifid: Some(wish),
            server_key: None,
            wants: Wants::Addresses,
            seed: [3; 32],
        };
        let (mut server, mut client) = (server(), Client::new(config, at(0.0).monotonic));
        talk(&mut client, &mut server, at(0.0));
        let got = u128::from(client.addresses(at(0.0).monotonic)[0].address) as u64;
        assert_eq!(got == wish, is_given, "{wish:x}");
    }
}

#[test]
fn a_lease_ends_when_no_server_renews_it() {
    let (mut server, mut client) = (server(), client());
    talk(&mut client, &mut server, at(0.0));
    let mut kinds = Vec::new();
    let mut now = at(0.0);
    while now.monotonic < at(950.0).monotonic {
        now = at((client.deadline().max(now.monotonic) - at(0.0).monotonic).as_secs_f64() + 0.001);
        if let Some(message) = client.poll(now.monotonic) {
            kinds.push(message[0]);
        }
    }
    kinds.dedup();
    assert_eq!(kinds, [5, 6, 1], "Renew, Rebind, Solicit");
    assert_eq!(addresses(&client, now), []);
    talk(&mut client, &mut server, at(2_000.0));
    assert_eq!(addresses(&client, at(2_000.0)).len(), 2);
}

#[test]
fn leases_do_not_grow_without_bound() {
    let mut server = server();
    let key = SigningKey::from_bytes(&[7; 32]);
    let bound = |seed: u64, now: Now, server: &mut Server| {
        let mut client = client_with(seed, Some(&key), Wants::Addresses);
        talk(&mut client, server, now);
        client.is_bound()
    };
    let all = (0..8).filter(|seed| bound(*seed, at(0.0), &mut server)).count();
    assert_eq!((all, server.leases()), (4, 4), "max_leases");
    assert!(bound(9, at(1_000.0), &mut server), "after the old ones have ended");
}

#[test]
fn a_client_that_wants_prefixes_only_gets_no_address() {
    let mut server = server();
    let mut client = client_with(5, Some(&SigningKey::from_bytes(&[7; 32])), Wants::Prefixes);
    talk(&mut client, &mut server, at(0.0));
    assert_eq!((client.prefixes().len(), client.addresses(at(0.0).monotonic).len()), (2, 0));
    server.set_states(at(1.0), &[state("2001:db8:b::/48", true, 1)]);
    client.handle(at(1.0).monotonic, &server.poll(at(1.0)).expect("a push"));
    assert!(client.is_discouraged("2001:db8:b:1::7".parse().expect("an address")));
    assert_eq!(server.leases(), 0);
}

proptest! {
    #[test]
    fn any_bytes_are_handled_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0u8..14) {
        let (mut server, mut client) = (server(), client());
        talk(&mut client, &mut server, at(0.0));
        let before = addresses(&client, at(0.0));
        let bytes = [&[kind][..], &bytes].concat();
        if let Some(answer) = server.handle(at(1.0), &bytes) {
            client.handle(at(1.0).monotonic, &answer);
        }
        client.handle(at(1.0).monotonic, &bytes);
        prop_assert_eq!(addresses(&client, at(1.0)), before);
    }
}
