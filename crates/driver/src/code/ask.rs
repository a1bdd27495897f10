//! The receiver's side: finds the sender of a code on the link, and gets its ticket.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use thiserror::Error;
use treecast_host::{interface::Interface, stop::Stop};
use treecast_proto::code::Code;
use treecast_wire::{
    code::{self, ANSWER_LEN, Answer, REPLY_LEN, Status},
    ticket::{Ticket, TicketError},
};

use super::exchange::Exchange;
use crate::discovery;

/// The longest wait for a sender's next bytes.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a code gets no ticket.
#[derive(Debug, Error)]
pub enum AskError {
    #[error(
        "no sender on this network has this code: see that it is the one that `treecast send` has printed, that the sender still runs, \
         and that both hosts are on one network"
    )]
    Nobody,
    #[error(
        "the code is wrong ({left} wrong codes more, and the sender takes none any more): see what `treecast send` has printed"
    )]
    Wrong { left: u8 },
    #[error(
        "too many wrong codes were tried, and the sender takes none any more: ask for its ticket, or for a new code"
    )]
    Dead,
    #[error("the sender at {address} does not answer as one that has a code ({reason})")]
    Broken { address: SocketAddr, reason: String },
    #[error("the sender's ticket cannot be used: {0}")]
    Ticket(#[from] TicketError),
    #[error("cannot look for the sender: {0}")]
    Io(#[from] io::Error),
}

/// Gets the ticket of the sender that has this code.
///
/// # Errors
/// Why there is none. A wrong code costs one of the sender's attempts.
pub fn ask(code: &Code, interfaces: &[Interface], time: Duration, stop: &Stop) -> Result<Ticket, AskError> {
    let mut failed = AskError::Nobody;
    for offer in discovery::find_offers(interfaces, code.tag(), time, stop)? {
        for address in offer.addresses {
            match ask_at(address, code) {
                Ok(ticket) => return Ok(ticket),
                // The same sender would say the same at its other addresses, and take it for another attempt. Another sender may
                // have a code with the same tag.
                Err(error @ (AskError::Wrong { .. } | AskError::Dead)) => {
                    failed = error;
                    break;
                }
                Err(error) if matches!(failed, AskError::Nobody) => failed = error,
                Err(_) => {}
            }
        }
    }
    Err(failed)
}

fn ask_at(address: SocketAddr, code: &Code) -> Result<Ticket, AskError> {
    let broken = |reason: &dyn ToString| AskError::Broken { address, reason: reason.to_string() };
    let exchange = Exchange::begin(code, true).ok_or_else(|| broken(&"no exchange"))?;
    let mut stream = connect(address).map_err(|error| broken(&error))?;
    stream.write_all(&code::request(exchange.message())).map_err(|error| broken(&error))?;
    let mut reply = [0; REPLY_LEN];
    stream.read_exact(&mut reply).map_err(|error| broken(&error))?;
    let (status, theirs) = code::parse_reply(&reply).map_err(|error| broken(&error))?;
    match status {
        Status::Good => {}
        Status::Dead => return Err(AskError::Dead),
        Status::Wrong | Status::Busy => return Err(broken(&"it is busy with others: try again")),
    }
    let keys = exchange.finish(&theirs).ok_or_else(|| broken(&"its message is none of an exchange"))?;
    stream.write_all(keys.proof()).map_err(|error| broken(&error))?;
    let mut answer = [0; ANSWER_LEN];
    stream.read_exact(&mut answer).map_err(|error| broken(&error))?;
    let answer = Answer::parse(&answer).map_err(|error| broken(&error))?;
    match answer.status {
        Status::Good => {}
        Status::Wrong => return Err(AskError::Wrong { left: answer.attempts_left }),
        Status::Dead => return Err(AskError::Dead),
        Status::Busy => return Err(broken(&"it is busy with others: try again")),
    }
    let mut sealed = vec![0; answer.sealed_len.into()];
    stream.read_exact(&mut sealed).map_err(|error| broken(&error))?;
    let text = keys.open(sealed).ok_or_else(|| broken(&"it does not have the code itself"))?;
    Ok(text.parse()?)
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, Mutex},
        thread,
    };

    use treecast_proto::code::ATTEMPTS;

    use super::{super::counter, *};

    const TICKET: &str = "treecast2.HzwCqgADBZgG_xUAAAAAAAAAAAAAAAAAQhtZAAEG_QAAAAAAAAAAAAAAAAAAARtYAUsid3fU3R_GHG\
                          -IT0hkHQK00SHT_TKMsItVMfys2r-KAAAAAAAAAAB4mr4b";

    #[test]
    fn ten_thousand_guesses_of_many_strangers_succeed_in_none_and_kill_the_code() {
        let news = Arc::new(Mutex::new(Vec::new()));
        let own = Arc::clone(&news);
        let on_news = move |event| own.lock().unwrap().push(event);
        let right = Code::from_random(123_456_789);
        let (port, _counter) = counter::tests::open(right, TICKET, on_news);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(ask_at(address, &right).unwrap().to_string(), TICKET);
        // Strangers at several addresses of this host guess at the same time.
        let guess = |from: u32| {
            (0..2_500)
                .filter(|number| ask_at(address, &Code::from_random(from * 2_500 + number)).is_ok())
                .count()
        };
        let got: usize = thread::scope(|scope| {
            let guessers: Vec<_> = (0..4).map(|from| scope.spawn(move || guess(from))).collect();
            guessers.into_iter().map(|guesser| guesser.join().unwrap()).sum()
        });
        assert_eq!(got, 0);
        assert!(matches!(ask_at(address, &right), Err(AskError::Dead)), "now nobody gets it");
        let news = news.lock().unwrap();
        let wrong = news.iter().filter(|event| matches!(event, counter::News::Wrong { .. })).count();
        assert!(news.iter().any(|event| matches!(event, counter::News::Wrong { left: 0, .. })), "{news:?}");
        assert!(wrong >= ATTEMPTS.into() && wrong < 30, "{wrong}: guesses that were under way count, too");
    }

    #[test]
    fn somebody_who_only_looks_like_the_sender_learns_nothing_and_is_told_from_it() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let impostor = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let exchange = Exchange::begin(&Code::from_random(1), false).unwrap();
            stream.write_all(&code::reply(Status::Good, Some(exchange.message()))).unwrap();
            let mut request_and_proof = [0; code::REQUEST_LEN + code::PROOF_LEN];
            stream.read_exact(&mut request_and_proof).unwrap();
            let answer = Answer { status: Status::Good, attempts_left: 0, sealed_len: 40 };
            stream.write_all(&[&answer.to_bytes()[..], &[7; 40]].concat()).unwrap();
        });
        let line = ask_at(address, &Code::from_random(2)).unwrap_err().to_string();
        impostor.join().unwrap();
        assert!(line.contains("does not have the code itself"), "{line}");
    }
}
