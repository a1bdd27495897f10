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
use crate::{discovery, security::random};

/// The longest time that an exchange takes, from the connection to the ticket.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most senders that get a proof of the code. Another sender may have a code with the same tag, and others may pose as the
/// sender. With each proof, one of these can check one guess, of 16 million.
const MAX_PROOFS: usize = 8;

/// The time that each of many senders gets at least.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);

/// The reason why a code gets no ticket.
#[derive(Debug, Error)]
pub enum AskError {
    #[error(
        "no sender on this network has this code: see that it is the one that `treecast send` has printed, that the sender still runs, \
         and that both hosts are on one network"
    )]
    Nobody,
    #[error("no sender that can be heard here has this code, and others may be there: {0}")]
    Deaf(String),
    #[error(
        "the host at {address} says that the code is wrong ({left} wrong codes more, and it takes none any more), and nobody else \
         has it: see what `treecast send` has printed"
    )]
    Wrong { address: SocketAddr, left: u8 },
    #[error(
        "the host at {address} says that too many wrong codes were tried, and nobody else has this code: see whether the sender \
         says so, too, and ask for its ticket, or for a new code"
    )]
    Dead { address: SocketAddr },
    #[error("the sender at {address} does not answer as one that has a code ({reason})")]
    Broken { address: SocketAddr, reason: String },
    #[error(
        "the host at {address} poses as the sender of this code and has not given its ticket ({reason}), and nobody else has: get the \
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
/// The reason why there is no ticket. A wrong code costs one of the sender's attempts.
pub fn ask(code: &Code, interfaces: &[Interface], time: Duration, stop: &Stop) -> Result<Ticket, AskError> {
    let (offers, problem) = discovery::find_offers(interfaces, code.tag(), time, stop)?;
    if let Some(problem) = problem.filter(|_| offers.is_empty()) {
        return Err(AskError::Deaf(problem));
    }
    let offers = offers.into_iter().map(|offer| offer.addresses).collect();
    ask_all(&in_random_order(offers)?, code, Instant::now() + time, stop)
}

/// Shuffles offers. So nobody can choose by the name of an offer that it is asked before the true sender, and take
/// all proofs.
fn in_random_order<T>(offers: Vec<T>) -> io::Result<Vec<T>> {
    let with_key = |offer| random::<16>().map(|key| (key, offer));
    let mut offers = offers.into_iter().map(with_key).collect::<io::Result<Vec<_>>>()?;
    offers.sort_by_key(|(key, _)| *key);
    Ok(offers.into_iter().map(|(_, offer)| offer).collect())
}

/// Asks senders, each at its addresses, until one gives its ticket, or too many have got a proof.
fn ask_all(offers: &[Vec<SocketAddr>], code: &Code, end: Instant, stop: &Stop) -> Result<Ticket, AskError> {
    let (mut failed, mut proofs) = (AskError::Nobody, 0);
    for (asked, addresses) in offers.iter().enumerate() {
        for address in addresses {
            if stop.is_requested() || proofs == MAX_PROOFS {
                return Err(failed);
            }
            // Hosts that do not answer leave time for the others.
            let left = end.saturating_duration_since(Instant::now());
            let share = left / (offers.len() - asked) as u32;
            let patience = share.clamp(LEAST_PATIENCE, PATIENCE);
            let error = match ask_at(*address, code, end.min(Instant::now() + patience), &mut proofs) {
                Ok(ticket) => return Ok(ticket),
                Err(error) => error,
            };
            // The same sender would say the same at its other addresses, and take it for another attempt. What it says is not
            // proved, so that the others are asked all the same.
            let has_answered = !matches!(error, AskError::Broken { .. });
            if error.weight() > failed.weight() {
                failed = error;
            }
            if has_answered {
                break;
            }
        }
    }
    Err(failed)
}

impl AskError {
    /// The error with the highest weight is told, if several senders have failed.
    fn weight(&self) -> u8 {
        match self {
            Self::Nobody | Self::Deaf(_) | Self::Io(_) => 0,
            Self::Broken { .. } => 1,
            Self::Dead { .. } => 2,
            Self::Wrong { .. } => 3,
            Self::Impostor { .. } | Self::Ticket(_) => 4,
        }
    }
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
        Status::Dead => return Err(AskError::Dead { address }),
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
        Status::Wrong => return Err(AskError::Wrong { address, left: answer.attempts_left }),
        Status::Dead => return Err(AskError::Dead { address }),
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
        assert!(matches!(ask_at(address, &right), Err(AskError::Dead { .. })), "now nobody gets it");
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
        assert_eq!(proofs.load(Ordering::SeqCst), 2, "each is asked at one address");
        // One that answers as a sender whose code is another one.
        let (ports, proofs) =
            impostors(12, Answer { status: Status::Wrong, attempts_left: 4, sealed_len: 0 });
        let offers: Vec<_> = ports.into_iter().map(|port| vec![port]).collect();
        assert!(matches!(ask_all(&offers), AskError::Wrong { left: 4, .. }));
        assert_eq!(proofs.load(Ordering::SeqCst), MAX_PROOFS);
    }

    /// The last of sixteen offers comes to one of the first eight places in half of all tries.
    #[test]
    fn nobody_chooses_its_place_among_those_that_are_asked() {
        let place =
            |()| in_random_order((0..16).collect()).unwrap().iter().position(|one| *one == 15).unwrap();
        let asked = [(); 200].map(place).into_iter().filter(|place| *place < MAX_PROOFS).count();
        assert!((50..150).contains(&asked), "{asked} of 200");
    }

    /// Anybody on the link can say that a code is dead, before there is any proof.
    #[test]
    fn hosts_that_refuse_or_hang_do_not_keep_the_sender_from_giving_its_ticket() {
        let right = Code::from_random(123_456_789);
        let (port, _counter) = counter::tests::open(right, TICKET, |_| {});
        let refuser = TcpListener::bind("127.0.0.1:0").unwrap();
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let (poser, _proofs) =
            impostors(1, Answer { status: Status::Good, attempts_left: 0, sealed_len: 40 });
        let at = [refuser.local_addr().unwrap(), silent.local_addr().unwrap(), poser[0]];
        thread::spawn(move || {
            for stream in refuser.incoming() {
                let (mut stream, mut request) = (stream.unwrap(), [0; code::REQUEST_LEN]);
                stream.read_exact(&mut request).unwrap();
                stream.write_all(&code::reply(Status::Dead, None)).unwrap();
            }
        });
        let real = SocketAddr::from(([127, 0, 0, 1], port));
        let offers: Vec<_> = at.iter().chain([&real]).map(|address| vec![*address]).collect();
        let stop = Stop::new().unwrap();
        let end = || Instant::now() + Duration::from_secs(20);
        assert_eq!(ask_all(&offers, &right, end(), &stop).unwrap().to_string(), TICKET);
        let line = ask_all(&offers[..1], &right, end(), &stop).unwrap_err().to_string();
        assert!(
            line.contains(&at[0].to_string()) && line.contains("see whether the sender says so, too"),
            "{line}"
        );
    }
}
