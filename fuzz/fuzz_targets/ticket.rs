//! The ticket: as a person types it, and, behind a right checksum, as another program makes it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treecast_wire::ticket::Ticket;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        check(text);
    }
    check(&Ticket::seal(bytes));
});

fn check(text: &str) {
    if let Ok(ticket) = text.parse::<Ticket>() {
        assert_eq!(ticket.to_string().parse(), Ok(ticket));
    }
}
