//! Asks a switch how busy its processor is, by SNMP version 2c (RFC 3416): one object, or the column hrProcessorLoad of the
//! HOST-RESOURCES-MIB (RFC 2790).
//!
//! The messages are those of `treecast-wire`.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    time::{Duration, Instant},
};

use thiserror::Error;
pub use treecast_wire::snmp::Oid;
use treecast_wire::snmp::{Answer, Ask, parse_answer, request};

/// hrProcessorLoad: the mean share of the last minute, in percent, in which each processor was not idle.
const PROCESSOR_LOAD: [u32; 11] = [1, 3, 6, 1, 2, 1, 25, 3, 3, 1, 2];

/// The values that a load may have, in percent.
const PERCENT: std::ops::RangeInclusive<i64> = 0..=100;

/// The most rows of a column that are read. No switch has so many processors.
const MAX_ROWS: usize = 256;

/// The time that an answer is waited for, and the number of times that a request is sent.
const PATIENCE: Duration = Duration::from_millis(700);
const TRIES: u32 = 2;

/// The longest answer to a request for one variable.
const MAX_ANSWER: usize = 1500;

/// The reason why a switch's load is not known.
#[derive(Debug, Error)]
pub enum SnmpError {
    #[error("no answer from {0}: is an SNMP agent there, and is the community right?")]
    NoAnswer(SocketAddr),
    #[error("{agent} has no number from 0 to 100 at {object}")]
    NoNumber { agent: SocketAddr, object: Oid },
    #[error("cannot ask {agent}: {source}")]
    Socket { agent: SocketAddr, source: io::Error },
}

/// A switch that is asked.
pub struct Switch {
    agent: SocketAddr,
    community: String,
    socket: UdpSocket,
    requests: i64,
}

impl Switch {
    /// Opens a socket to an agent. Nothing is sent.
    pub fn open(agent: SocketAddr, community: &str) -> Result<Self, SnmpError> {
        let open = || {
            let any =
                if agent.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
            socket.connect(agent)?;
            Ok(socket)
        };
        let socket = open().map_err(|source| SnmpError::Socket { agent, source })?;
        Ok(Self { agent, community: community.to_owned(), socket, requests: 0 })
    }

    /// Returns how busy the switch's processors are, from 0 to 1: the value of `object` in percent, or the mean of
    /// hrProcessorLoad.
    pub fn load(&mut self, object: Option<&Oid>) -> Result<f64, SnmpError> {
        if let Some(object) = object {
            let answer = self.ask(Ask::This, object)?;
            let value = answer.value.filter(|percent| answer.error == 0 && PERCENT.contains(percent));
            let missing = || SnmpError::NoNumber { agent: self.agent, object: object.clone() };
            return value.map(|percent| percent as f64 / 100.0).ok_or_else(missing);
        }
        let column = Oid::new(&PROCESSOR_LOAD).expect("the name of an object");
        let (mut at, mut sum, mut rows) = (column.clone(), 0, 0);
        while rows < MAX_ROWS {
            let answer = self.ask(Ask::Next, &at)?;
            // An agent that goes back would be asked for ever.
            let is_further = answer.error == 0 && answer.object.is_below(&column, &at);
            let Some(percent) = answer.value.filter(|percent| is_further && PERCENT.contains(percent)) else {
                break;
            };
            (at, sum, rows) = (answer.object, sum + percent, rows + 1);
        }
        match rows {
            0 => Err(SnmpError::NoNumber { agent: self.agent, object: column }),
            _ => Ok(sum as f64 / rows as f64 / 100.0),
        }
    }

    fn ask(&mut self, ask: Ask, object: &Oid) -> Result<Answer, SnmpError> {
        self.requests += 1;
        let request = request(ask, &self.community, self.requests, object);
        for _ in 0..TRIES {
            // An agent that is not there may be told by ICMP, as an error of the socket: that is no answer, too.
            if self.socket.send(&request).is_ok()
                && let Some(answer) = self.answer()
            {
                return Ok(answer);
            }
        }
        Err(SnmpError::NoAnswer(self.agent))
    }

    /// Waits for the answer to the last request.
    fn answer(&self) -> Option<Answer> {
        let end = Instant::now() + PATIENCE;
        let mut buffer = [0; MAX_ANSWER];
        loop {
            let left = end.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.socket.set_read_timeout(Some(left)).ok()?;
            let length = self.socket.recv(&mut buffer).ok()?;
            let answer = parse_answer(&buffer[..length]).filter(|answer| answer.request == self.requests);
            if answer.is_some() || Instant::now() >= end {
                return answer;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use treecast_wire::snmp::{answer, parse_request};

    use super::*;

    /// Answers as an agent does, from a table of objects in their order, until it has been asked `times` times.
    fn agent(table: Vec<(&'static str, i64)>, times: usize) -> (SocketAddr, std::thread::JoinHandle<()>) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let address = socket.local_addr().unwrap();
        let table: Vec<(Oid, i64)> =
            table.iter().map(|(name, value)| (name.parse().unwrap(), *value)).collect();
        let serve = move || {
            for _ in 0..times {
                let mut buffer = [0; 500];
                let (length, from) = socket.recv_from(&mut buffer).unwrap();
                let (ask, number, asked) = parse_request(&buffer[..length]).unwrap();
                let found = match ask {
                    Ask::This => table.iter().find(|(name, _)| *name == asked),
                    Ask::Next => table.iter().find(|(name, _)| *name > asked),
                };
                let (name, value) = found.map_or((&asked, None), |(name, value)| (name, Some(*value)));
                socket.send_to(&answer("public", number, name, value), from).unwrap();
            }
        };
        (address, std::thread::spawn(serve))
    }

    #[test]
    fn the_load_is_the_mean_of_all_processors_or_a_named_object() {
        let table = vec![
            ("1.3.6.1.2.1.1.3.0", 4711),
            ("1.3.6.1.2.1.25.3.3.1.2.196608", 20),
            ("1.3.6.1.2.1.25.3.3.1.2.196609", 40),
            ("1.3.6.1.4.1.674.10895.1.0", 81),
        ];
        let (address, agent) = agent(table, 4);
        let mut switch = Switch::open(address, "public").unwrap();
        assert_eq!(switch.load(None).unwrap(), 0.3);
        let own = "1.3.6.1.4.1.674.10895.1.0".parse().unwrap();
        assert_eq!(switch.load(Some(&own)).unwrap(), 0.81);
        agent.join().unwrap();
    }

    #[test]
    fn an_agent_without_the_object_and_one_that_is_not_there_are_told_apart() {
        let (address, agent) = agent(vec![("1.3.6.1.2.1.1.3.0", 1)], 1);
        let error = Switch::open(address, "public").unwrap().load(None).unwrap_err().to_string();
        assert!(error.ends_with("has no number from 0 to 100 at 1.3.6.1.2.1.25.3.3.1.2"), "{error}");
        agent.join().unwrap();
        // The socket holds the port, and nobody reads it.
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = Switch::open(silent.local_addr().unwrap(), "public").unwrap().load(None).unwrap_err();
        assert!(error.to_string().starts_with("no answer from 127.0.0.1:"), "{error}");
    }

    #[test]
    fn a_load_that_is_no_percentage_is_not_believed() {
        for wrong in [-3, 4711, i64::MAX] {
            let (address, agent) = agent(vec![("1.3.6.1.4.1.1.0", wrong)], 1);
            let object = "1.3.6.1.4.1.1.0".parse().unwrap();
            let error = Switch::open(address, "public").unwrap().load(Some(&object)).unwrap_err();
            assert!(matches!(error, SnmpError::NoNumber { .. }), "{wrong}: {error}");
            agent.join().unwrap();
        }
    }
}
