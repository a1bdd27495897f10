//! DHCPv6 messages at a server and at clients of MAST: no panic, and no lease beyond the bound.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use treecast_mast::dhcp::{
    client::{self, Client, Wants},
    server::{self, Now, Server},
    wire,
};

fuzz_target!(|bytes: &[u8]| {
    let now = Now { monotonic: Duration::from_secs(1), unix_us: 1 };
    let config = server::Config {
        duid: vec![0, 3, 0, 1],
        prefixes: vec!["2001:db8:a:1::/64".parse().expect("a prefix")],
        preferred_s: 600,
        valid_s: 900,
        dns_servers: Vec::new(),
        reserved: Vec::new(),
        kept_for: Vec::new(),
        max_leases: 2,
        key: (&[7; 32]).into(),
        push_interval: Duration::from_secs(60),
    };
    let key = config.key.verifying_key();
    let mut server = Server::new(config, now);
    server.set_states(now, &[]);
    _ = server.handle(now, bytes);
    assert!(server.leases() <= 2);
    for (server_key, wants) in [(Some(key), Wants::Addresses), (None, Wants::Addresses), (None, Wants::Prefixes)] {
        let config = client::Config { duid: vec![0, 3, 0, 1, 2], group: 1, ifid: None, server_key, wants, seed: [1; 32] };
        let mut client = Client::new(config, now.monotonic);
        _ = client.poll(now.monotonic);
        client.handle(now.monotonic, bytes);
        _ = client.addresses(now.monotonic);
    }
    _ = wire::verify(bytes, &key);
});
