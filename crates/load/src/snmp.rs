//! Asks a switch how busy its processor is, by SNMP version 2c (RFC 3416): one object, or the column hrProcessorLoad of the
//! HOST-RESOURCES-MIB (RFC 2790).
//!
//! Only what this needs is here: requests for one variable, and answers with one. [`parse_answer`] touches no socket.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    str::FromStr,
    time::{Duration, Instant},
};

use serde::Deserialize;
use thiserror::Error;

/// hrProcessorLoad: the mean share of the last minute, in percent, in which each processor was not idle.
const PROCESSOR_LOAD: [u32; 11] = [1, 3, 6, 1, 2, 1, 25, 3, 3, 1, 2];

/// The values that a load may have, in percent.
const PERCENT: std::ops::RangeInclusive<i64> = 0..=100;

/// The most rows of a column that are read. No switch has so many processors.
const MAX_ROWS: usize = 256;

/// How long an answer is waited for, and how often a request is sent.
const PATIENCE: Duration = Duration::from_millis(700);
const TRIES: u32 = 2;

/// The longest answer to a request for one variable.
const MAX_ANSWER: usize = 1500;

/// The most numbers in the name of an object (RFC 3416, 4.1).
const MAX_NUMBERS: usize = 128;

const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const NULL: u8 = 0x05;
const OBJECT: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const GET: u8 = 0xa0;
const GET_NEXT: u8 = 0xa1;
const RESPONSE: u8 = 0xa2;
/// Counter32, Gauge32 and TimeTicks, which hold numbers without a sign.
const UNSIGNED: [u8; 3] = [0x41, 0x42, 0x43];
/// noSuchObject, noSuchInstance and endOfMibView: nothing is there.
const NOTHING: [u8; 3] = [0x80, 0x81, 0x82];

/// The name of an object, such as `1.3.6.1.2.1.25.3.3.1.2.1`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Oid(Vec<u32>);

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The number of the request.
    pub request: i64,
    /// The agent's error status. Zero: none.
    pub error: i64,
    pub object: Oid,
    /// The object's value. `None`: nothing is there, or it is no number.
    pub value: Option<i64>,
}

/// Why a switch's load is not known.
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
            let answer = self.ask(GET, object)?;
            let value = answer.value.filter(|percent| answer.error == 0 && PERCENT.contains(percent));
            let missing = || SnmpError::NoNumber { agent: self.agent, object: object.clone() };
            return value.map(|percent| percent as f64 / 100.0).ok_or_else(missing);
        }
        let column = Oid(PROCESSOR_LOAD.to_vec());
        let (mut at, mut sum, mut rows) = (column.clone(), 0, 0);
        while rows < MAX_ROWS {
            let answer = self.ask(GET_NEXT, &at)?;
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

    fn ask(&mut self, kind: u8, object: &Oid) -> Result<Answer, SnmpError> {
        self.requests += 1;
        let request = request(kind, &self.community, self.requests, object);
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

impl Oid {
    /// Whether the object is in a column, behind `last`.
    fn is_below(&self, column: &Self, last: &Self) -> bool {
        self.0.starts_with(&column.0) && self.0 > last.0
    }
}

impl FromStr for Oid {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("`{text}`: expected the name of an object, like 1.3.6.1.2.1.25.3.3.1.2.1");
        let numbers: Result<Vec<u32>, _> = text.trim_start_matches('.').split('.').map(str::parse).collect();
        let numbers = numbers.map_err(|_| expected())?;
        let is_valid = (2..=MAX_NUMBERS).contains(&numbers.len()) && numbers[0] <= 2 && numbers[1] < 40;
        is_valid.then_some(Self(numbers)).ok_or_else(expected)
    }
}

impl TryFrom<String> for Oid {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl std::fmt::Display for Oid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&numbers.join("."))
    }
}

/// A request for one object, or for the one behind it.
fn request(kind: u8, community: &str, number: i64, object: &Oid) -> Vec<u8> {
    let version_2c = integer(1);
    let variable = tagged(SEQUENCE, &[named(object), tagged(NULL, &[])]);
    let variables = tagged(SEQUENCE, &[variable]);
    let body = tagged(kind, &[integer(number), integer(0), integer(0), variables]);
    tagged(SEQUENCE, &[version_2c, tagged(OCTET_STRING, &[community.as_bytes().to_vec()]), body])
}

/// An element of BER: tag, length, and the parts of its value.
fn tagged(tag: u8, parts: &[Vec<u8>]) -> Vec<u8> {
    let length: usize = parts.iter().map(Vec::len).sum();
    let mut bytes = vec![tag];
    match length {
        0..=127 => bytes.push(length as u8),
        _ => {
            bytes.push(0x82);
            bytes.extend((length as u16).to_be_bytes());
        }
    }
    parts.iter().for_each(|part| bytes.extend(part));
    bytes
}

fn integer(value: i64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    // A leading byte that only repeats the sign is left out.
    let is_spare = |pair: &[u8]| (pair[0] == 0 && pair[1] < 0x80) || (pair[0] == 0xff && pair[1] >= 0x80);
    let spare = bytes.windows(2).take_while(|pair| is_spare(pair)).count();
    tagged(INTEGER, &[bytes[spare..].to_vec()])
}

fn named(object: &Oid) -> Vec<u8> {
    let first = object.0[0] * 40 + object.0[1];
    let mut bytes = Vec::new();
    for number in std::iter::once(&first).chain(&object.0[2..]) {
        let groups = (0..5).rev().map(|group| (number >> (7 * group)) as u8 & 0x7f);
        let mut digits: Vec<u8> = groups.skip_while(|digit| *digit == 0).collect();
        if digits.is_empty() {
            digits.push(0);
        }
        let last = digits.len() - 1;
        digits[..last].iter_mut().for_each(|digit| *digit |= 0x80);
        bytes.extend(digits);
    }
    tagged(OBJECT, &[bytes])
}

/// Reads an answer with one variable. `None`: it is none.
pub fn parse_answer(bytes: &[u8]) -> Option<Answer> {
    let (message, _) = element(bytes, SEQUENCE)?;
    let (_, message) = element(message, INTEGER)?;
    let (_, message) = element(message, OCTET_STRING)?;
    let (body, _) = element(message, RESPONSE)?;
    let (request, body) = element(body, INTEGER)?;
    let (error, body) = element(body, INTEGER)?;
    let (_, body) = element(body, INTEGER)?;
    let (variables, _) = element(body, SEQUENCE)?;
    let (variable, _) = element(variables, SEQUENCE)?;
    let (object, value) = element(variable, OBJECT)?;
    let (tag, value, _) = any_element(value)?;
    let value = match tag {
        INTEGER => Some(number(value, true)?),
        tag if UNSIGNED.contains(&tag) => Some(number(value, false)?),
        tag if NOTHING.contains(&tag) => None,
        _ => None,
    };
    Some(Answer {
        request: number(request, true)?,
        error: number(error, true)?,
        object: object_name(object)?,
        value,
    })
}

/// Splits the bytes into the value of an element with this tag, and what follows.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, value, rest) = any_element(bytes)?;
    (found == tag).then_some((value, rest))
}

fn any_element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=127 => (usize::from(first), rest),
        0x81 => (usize::from(*rest.first()?), rest.get(1..)?),
        0x82 => (usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?])), rest.get(2..)?),
        _ => return None,
    };
    let (value, rest) = rest.split_at_checked(length)?;
    Some((tag, value, rest))
}

fn number(bytes: &[u8], is_signed: bool) -> Option<i64> {
    // An unsigned number of 32 bits may have a leading zero.
    if bytes.is_empty() || bytes.len() > 8 {
        return None;
    }
    let start = if is_signed && bytes[0] >= 0x80 { -1 } else { 0 };
    Some(bytes.iter().fold(start, |sum: i64, byte| sum.wrapping_shl(8) | i64::from(*byte)))
}

fn object_name(bytes: &[u8]) -> Option<Oid> {
    let mut numbers: Vec<u32> = Vec::new();
    let mut current: u32 = 0;
    for byte in bytes {
        if current >> 25 != 0 || numbers.len() > MAX_NUMBERS {
            return None;
        }
        current = current << 7 | u32::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            numbers.push(std::mem::take(&mut current));
        }
    }
    let first = *numbers.first()?;
    let top = (first / 40).min(2);
    numbers.splice(..1, [top, first - top * 40]);
    Some(Oid(numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers as an agent does, from a table of objects in their order, until it has been asked `times` times.
    fn agent(table: Vec<(&'static str, i64)>, times: usize) -> (SocketAddr, std::thread::JoinHandle<()>) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let address = socket.local_addr().unwrap();
        let table: Vec<(Oid, i64)> =
            table.iter().map(|(name, value)| (name.parse().unwrap(), *value)).collect();
        let answer = move || {
            for _ in 0..times {
                let mut buffer = [0; 500];
                let (length, from) = socket.recv_from(&mut buffer).unwrap();
                let (kind, number, asked) = parse_request(&buffer[..length]);
                let found = match kind {
                    GET => table.iter().find(|(name, _)| *name == asked),
                    _ => table.iter().find(|(name, _)| name.0 > asked.0),
                };
                let (name, value) = found
                    .cloned()
                    .map_or_else(|| (asked, tagged(NOTHING[2], &[])), |(name, value)| (name, integer(value)));
                let variables = tagged(SEQUENCE, &[tagged(SEQUENCE, &[named(&name), value])]);
                let body = tagged(RESPONSE, &[integer(number), integer(0), integer(0), variables]);
                let community = tagged(OCTET_STRING, &[b"public".to_vec()]);
                socket.send_to(&tagged(SEQUENCE, &[integer(1), community, body]), from).unwrap();
            }
        };
        (address, std::thread::spawn(answer))
    }

    fn parse_request(bytes: &[u8]) -> (u8, i64, Oid) {
        let (message, _) = element(bytes, SEQUENCE).unwrap();
        let (_, message) = element(message, INTEGER).unwrap();
        let (community, message) = element(message, OCTET_STRING).unwrap();
        assert_eq!(community, b"public");
        let (kind, body, _) = any_element(message).unwrap();
        let (request, body) = element(body, INTEGER).unwrap();
        let (_, body) = element(body, INTEGER).unwrap();
        let (_, body) = element(body, INTEGER).unwrap();
        let (variables, _) = element(body, SEQUENCE).unwrap();
        let (variable, _) = element(variables, SEQUENCE).unwrap();
        let (object, _) = element(variable, OBJECT).unwrap();
        (kind, number(request, true).unwrap(), object_name(object).unwrap())
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

    /// From RFC 1157 agents' traffic: sysUpTime.0 = 0x1234567, a number of four bytes without a sign.
    #[test]
    fn golden_bytes_are_read_and_cut_ones_are_refused() {
        let answer = [
            0x30, 0x2b, 0x02, 0x01, 0x01, 0x04, 0x06, b'p', b'u', b'b', b'l', b'i', b'c', 0xa2, 0x1e, 0x02,
            0x02, 0x01, 0x02, 0x02, 0x01, 0x00, 0x02, 0x01, 0x00, 0x30, 0x12, 0x30, 0x10, 0x06, 0x08, 0x2b,
            0x06, 0x01, 0x02, 0x01, 0x01, 0x03, 0x00, 0x43, 0x04, 0x81, 0x23, 0x45, 0x67,
        ];
        let read = parse_answer(&answer).unwrap();
        assert_eq!((read.request, read.error, read.value), (258, 0, Some(0x8123_4567)));
        assert_eq!(read.object.to_string(), "1.3.6.1.2.1.1.3.0");
        for length in 0..answer.len() {
            assert_eq!(parse_answer(&answer[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn names_of_objects_are_read_from_text_and_written_in_groups_of_seven_bits() {
        let object: Oid = ".1.3.6.1.4.1.674.0".parse().unwrap();
        assert_eq!(named(&object), [6, 8, 0x2b, 6, 1, 4, 1, 0x85, 0x22, 0]);
        for wrong in ["", "1", "1.x", "9.1", "1.40", "1.3.4294967296"] {
            assert!(wrong.parse::<Oid>().unwrap_err().contains("expected the name of an object"), "{wrong}");
        }
        assert_eq!(
            [integer(0), integer(128), integer(-1)],
            [vec![2, 1, 0], vec![2, 2, 0, 128], vec![2, 1, 255]]
        );
    }
}
