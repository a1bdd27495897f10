//! `--code`: a short code, by which a receiver on the same network gets the ticket.

use serde_json::json;
use treecast_driver::{
    code::{self, Code, Counter, News},
    send::SendOptions,
};
use treecast_host::interface::Interface;
use treecast_wire::ticket::Ticket;

use crate::advice;

/// A code that is good until this is dropped.
pub(super) struct Offer {
    code: Code,
    json: bool,
    _counter: Counter,
}

impl Offer {
    /// Draws a code, and opens a port where it gets the ticket.
    ///
    /// # Errors
    /// One line, if that is not possible.
    pub fn open(options: &SendOptions, ticket: &Ticket, json: bool) -> Result<Self, String> {
        let interface = match &options.interface {
            Some(name) => Interface::named(name),
            None => Interface::by_route(options.group),
        };
        let interface = interface.map_err(|error| advice::line(&error))?;
        let failed = |error| {
            format!("cannot offer the ticket for a code: {error}; leave out --code, and pass on the ticket")
        };
        let code = code::draw().map_err(failed)?;
        let counter = Counter::open(code, ticket.to_string(), &interface, move |news| tell(news, json));
        Ok(Self { code, json, _counter: counter.map_err(failed)? })
    }

    pub fn show(&self) {
        match self.json {
            true => say!("{}", json!({"event": "code", "code": self.code.to_string()})),
            false => say!("or, on this network: treecast receive {}", self.code),
        }
    }
}

fn tell(news: News, json: bool) {
    match (news, json) {
        (News::Given { to }, true) => say!("{}", json!({"event": "code_given", "address": to})),
        (News::Given { to }, false) => remark!("{to} has got the ticket by the code"),
        (News::Wrong { from, left }, true) => {
            say!("{}", json!({"event": "code_wrong", "address": from, "attempts_left": left}));
        }
        (News::Wrong { from, left: 0 }, false) => remark!(
            "treecast: {from} has tried a wrong code, and that was the last attempt: the code is of no use any more; pass on the ticket, \
             or start anew for another code"
        ),
        (News::Wrong { from, left }, false) => {
            remark!("treecast: {from} has tried a wrong code; attempts left: {left}");
        }
    }
}
