//! The receiver's side: finds the sender of a code on the link, and gets its ticket.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use thiserror::Error;
use treecast_host::{interface::Interface, stop::Stop};
use treecast_proto::code::Code;
use treecast_wire::{
    code::{self, ANSWER_LEN, Answer, REPLY_LEN, Status},
    ticket::{Ticket, TicketError},
};

use super::{
    exchange::Exchange,
    timed::{self, Timed},
};
use crate::discovery;

/// The longest time that an exchange takes, from the connection to the ticket.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most senders that get a proof of the code: one more than one, because another sender may have a code with the same tag. With
/// each proof, somebody who poses as a sender can check one guess.
const MAX_PROOFS: usize = 2;

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
    #[error(
        "the host at {address} poses as the sender of this code and has not given its ticket ({reason}): nobody else is asked; get the \
         ticket itself, or try again"
    )]
    Impostor { address: SocketAddr, reason: String },
    #[error("the sender's ticket cannot be used: {0}")]
    Ticket(#[from] TicketError),
    #[error("cannot look for the sender: {0}")]
    Io(#[from] io::Error),
}

/// Gets the ticket of the sender that has this code. `time` is that of the search, and again that of all exchanges.
///
/// # Errors
/// Why there is none. A wrong code costs one of the sender's attempts.
pub fn ask(code: &Code, interfaces: &[Interface], time: Duration, stop: &Stop) -> Result<Ticket, AskError> {
    let offers = discovery::find_offers(interfaces, code.tag(), time, stop)?;
    let offers: Vec<_> = offers.into_iter().map(|offer| offer.addresses).collect();
    ask_all(&offers, code, Instant::now() + time, stop)
}

/// Asks senders, each at its addresses, until one gives its ticket, or too many have got a proof.
fn ask_all(offers: &[Vec<SocketAddr>], code: &Code, end: Instant, stop: &Stop) -> Result<Ticket, AskError> {
    let (mut failed, mut proofs) = (AskError::Nobody, 0);
    for addresses in offers {
        for address in addresses {
            if stop.is_requested() || proofs == MAX_PROOFS {
                return Err(failed);
            }
            match ask_at(*address, code, end.min(Instant::now() + PATIENCE), &mut proofs) {
                Ok(ticket) => return Ok(ticket),
                Err(error @ (AskError::Impostor { .. } | AskError::Ticket(_))) => return Err(error),
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

/// Asks one sender. Counts the proof that it gets.
fn ask_at(address: SocketAddr, code: &Code, end: Instant, proofs: &mut usize) -> Result<Ticket, AskError> {
    let broken = |reason: &dyn ToString| AskError::Broken { address, reason: reason.to_string() };
    let exchange = Exchange::begin(code, true).ok_or_else(|| broken(&"no exchange"))?;
    let stream = timed::left(end).and_then(|left| TcpStream::connect_timeout(&address, left));
    let mut stream = Timed::new(stream.map_err(|error| broken(&error))?, end);
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
    *proofs += 1;
    let impostor = |reason: &dyn ToString| AskError::Impostor { address, reason: reason.to_string() };
    stream.write_all(keys.proof()).map_err(|error| impostor(&error))?;
    let mut answer = [0; ANSWER_LEN];
    stream.read_exact(&mut answer).map_err(|error| impostor(&error))?;
    let answer = Answer::parse(&answer).map_err(|error| impostor(&error))?;
    match answer.status {
        Status::Good => {}
        Status::Wrong => return Err(AskError::Wrong { left: answer.attempts_left }),
        Status::Dead => return Err(AskError::Dead),
        Status::Busy => return Err(impostor(&"it is busy with others")),
    }
    let mut sealed = vec![0; answer.sealed_len.into()];
    stream.read_exact(&mut sealed).map_err(|error| impostor(&error))?;
    let text = keys.open(sealed).ok_or_else(|| impostor(&"it does not have the code itself"))?;
    Ok(text.parse()?)
}

#[cfg(test)]
mod tests {
    use std::{
        net::TcpListener,
        sync::{
            Arc, Mutex,
            atomic::{AtomicUsize, Ordering},
        },
        thread,
    };

    use treecast_proto::code::ATTEMPTS;

    use super::{super::counter, *};

    const TICKET: &str = "treecast2.HzwCqgADBZgG_xUAAAAAAAAAAAAAAAAAQhtZAAEG_QAAAAAAAAAAAAAAAAAAARtYAUsid3fU3R_GHG\
                          -IT0hkHQK00SHT_TKMsItVMfys2r-KAAAAAAAAAAB4mr4b";

    fn ask_at(address: SocketAddr, code: &Code) -> Result<Ticket, AskError> {
        super::ask_at(address, code, Instant::now() + PATIENCE, &mut 0)
    }

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

    /// Takes part in exchanges at as many ports, each with another code, and gives this answer. Returns the ports, and how many
    /// proofs have come.
    fn impostors(count: u16, answer: Answer) -> (Vec<SocketAddr>, Arc<AtomicUsize>) {
        let proofs = Arc::new(AtomicUsize::new(0));
        let pose = |number| {
            let (listener, proofs) = (TcpListener::bind("127.0.0.1:0").unwrap(), Arc::clone(&proofs));
            let address = listener.local_addr().unwrap();
            // It ends with the process, because some are never asked.
            thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let exchange = Exchange::begin(&Code::from_random(number), false).unwrap();
                stream.write_all(&code::reply(Status::Good, Some(exchange.message()))).unwrap();
                let mut request_and_proof = [0; code::REQUEST_LEN + code::PROOF_LEN];
                stream.read_exact(&mut request_and_proof).unwrap();
                proofs.fetch_add(1, Ordering::SeqCst);
                let sealed = vec![7; answer.sealed_len.into()];
                stream.write_all(&[&answer.to_bytes()[..], &sealed].concat()).unwrap();
            });
            address
        };
        ((0..count).map(|number| pose(number.into())).collect(), proofs)
    }

    #[test]
    fn somebody_who_only_looks_like_the_sender_gets_few_guesses_and_is_told_from_it() {
        let ask_all = |offers: &[Vec<SocketAddr>]| {
            let end = Instant::now() + Duration::from_secs(60);
            ask_all(offers, &Code::from_random(99), end, &Stop::new().unwrap()).unwrap_err()
        };
        let answer = Answer { status: Status::Good, attempts_left: 0, sealed_len: 40 };
        let (ports, proofs) = impostors(4, answer);
        let line = ask_all(&[ports[..2].to_vec(), ports[2..].to_vec()]).to_string();
        assert!(line.contains("does not have the code itself"), "{line}");
        assert_eq!(proofs.load(Ordering::SeqCst), 1);
        // One that answers as a sender whose code is another one.
        let (ports, proofs) = impostors(8, Answer { status: Status::Wrong, attempts_left: 4, sealed_len: 0 });
        let offers: Vec<_> = ports.into_iter().map(|port| vec![port]).collect();
        assert!(matches!(ask_all(&offers), AskError::Wrong { left: 4 }));
        assert_eq!(proofs.load(Ordering::SeqCst), MAX_PROOFS);
    }
}
