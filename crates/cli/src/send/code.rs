//! `--code`: a short code, by which a receiver on the same network gets the ticket.

use std::net::SocketAddr;

use serde_json::json;
use treecast::{
    Ticket,
    unstable::code::{self, News},
};

use super::SessionArgs;
use crate::advice;

/// A code that is good until this is dropped.
pub(super) struct Offer {
    offer: code::Offer,
    json: bool,
}

impl Offer {
    /// Draws a code, and opens a port where it gets the ticket.
    ///
    /// # Errors
    /// One line, if that is not possible.
    pub fn open(args: &SessionArgs, ticket: Ticket) -> Result<Self, String> {
        let json = args.show.json;
        let group = args.network.group.map(|group| group.address);
        let offer = code::Offer::open(&ticket, args.network.interface.as_deref(), group, move |news| {
            tell(news, json)
        });
        Ok(Self { offer: offer.map_err(|error| advice::line(&error))?, json })
    }

    pub fn show(&self) {
        match self.json {
            true => say!("{}", json!({"event": "code", "code": self.offer.code().to_string()})),
            false => say!("or, on this network: treecast receive {}", self.offer.code()),
        }
    }
}

fn tell(news: News, json: bool) {
    // The port takes IPv6 and IPv4 alike.
    let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    let news = match news {
        News::Given { to } => News::Given { to: plain(to) },
        News::Wrong { from, left } => News::Wrong { from: plain(from), left },
    };
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
