//! SNMP version 2c (RFC 3416): requests for one object and their answers, and notifications that a link is up or down.
//!
//! Only what the load generator and MAST need is here. A message that cannot be read is `None`.

use std::{fmt, str::FromStr};

/// The most numbers in the name of an object (RFC 3416, 4.1).
const MAX_NUMBERS: usize = 128;

/// The number of version 2c in messages.
const VERSION_2C: i64 = 1;

const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const NULL: u8 = 0x05;
const OBJECT: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const TIME_TICKS: u8 = 0x43;
const GET: u8 = 0xa0;
const GET_NEXT: u8 = 0xa1;
const RESPONSE: u8 = 0xa2;
/// A notification that wants an answer.
const INFORM: u8 = 0xa6;
/// A notification that wants none.
const TRAP: u8 = 0xa7;
/// Counter32, Gauge32 and TimeTicks, which hold numbers without a sign.
const UNSIGNED: [u8; 3] = [0x41, 0x42, TIME_TICKS];
/// noSuchObject, noSuchInstance and endOfMibView: nothing is there.
const NOTHING: [u8; 3] = [0x80, 0x81, 0x82];

/// sysUpTime.0, the first variable of a notification.
const SYS_UP_TIME: [u32; 9] = [1, 3, 6, 1, 2, 1, 1, 3, 0];
/// snmpTrapOID.0, the variable that says what a notification is about (RFC 3418).
const TRAP_OID: [u32; 11] = [1, 3, 6, 1, 6, 3, 1, 1, 4, 1, 0];
const LINK_DOWN: [u32; 10] = [1, 3, 6, 1, 6, 3, 1, 1, 5, 3];
const LINK_UP: [u32; 10] = [1, 3, 6, 1, 6, 3, 1, 1, 5, 4];
/// ifIndex, the number of the interface that a notification is about (RFC 2863).
const IF_INDEX: [u32; 10] = [1, 3, 6, 1, 2, 1, 2, 2, 1, 1];

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// The object that it names.
    This,
    /// The object behind it.
    Next,
}

/// A notification that an interface of a router is up or down (linkUp and linkDown of RFC 2863).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkNotice {
    /// A word that both sides know. Anyone on the path can read it.
    pub community: Vec<u8>,
    /// The number of the notification, which its answer repeats.
    pub number: i64,
    /// Whether the sender repeats it until it is answered (an inform, and no trap).
    pub wants_answer: bool,
    /// The number of the interface (ifIndex).
    pub interface: u32,
    pub is_up: bool,
}

/// The name of an object, such as `1.3.6.1.2.1.25.3.3.1.2.1`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
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

impl Oid {
    /// The object with these numbers, at least two: the first below 3, the second below 40.
    pub fn new(numbers: &[u32]) -> Option<Self> {
        let is_valid = (2..=MAX_NUMBERS).contains(&numbers.len()) && numbers[0] <= 2 && numbers[1] < 40;
        is_valid.then(|| Self(numbers.to_vec()))
    }

    /// Whether the object is in a column, behind `last`.
    pub fn is_below(&self, column: &Self, last: &Self) -> bool {
        self.0.starts_with(&column.0) && self.0 > last.0
    }
}

impl FromStr for Oid {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("`{text}`: expected the name of an object, like 1.3.6.1.2.1.25.3.3.1.2.1");
        let numbers: Result<Vec<u32>, _> = text.trim_start_matches('.').split('.').map(str::parse).collect();
        let numbers = numbers.map_err(|_| expected())?;
        Self::new(&numbers).ok_or_else(expected)
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&numbers.join("."))
    }
}

/// A request for one object, or for the one behind it.
pub fn request(ask: Ask, community: &str, number: i64, object: &Oid) -> Vec<u8> {
    let kind = match ask {
        Ask::This => GET,
        Ask::Next => GET_NEXT,
    };
    message(kind, community.as_bytes(), number, &[(object.clone(), tagged(NULL, &[]))])
}

/// A message with these variables: the name of each, and its value as an element.
fn message(kind: u8, community: &[u8], number: i64, variables: &[(Oid, Vec<u8>)]) -> Vec<u8> {
    let variable = |(name, value): &(Oid, Vec<u8>)| tagged(SEQUENCE, &[named(name), value.clone()]);
    let variables = tagged(SEQUENCE, &variables.iter().map(variable).collect::<Vec<_>>());
    let body = tagged(kind, &[integer(number), integer(0), integer(0), variables]);
    tagged(SEQUENCE, &[integer(VERSION_2C), tagged(OCTET_STRING, &[community.to_vec()]), body])
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
    let head = Head::parse(bytes).filter(|head| head.kind == RESPONSE)?;
    let (name, tag, value) = Variables(head.variables).next()??;
    let value = match tag {
        INTEGER => Some(number(value, true)?),
        tag if UNSIGNED.contains(&tag) => Some(number(value, false)?),
        tag if NOTHING.contains(&tag) => None,
        _ => None,
    };
    Some(Answer { request: head.number, error: head.error, object: object_name(name)?, value })
}

/// The answer of an agent to a request: one object, and its value. `None`: nothing is there.
pub fn answer(community: &str, number: i64, object: &Oid, value: Option<i64>) -> Vec<u8> {
    let value = value.map_or_else(|| tagged(NOTHING[2], &[]), integer);
    message(RESPONSE, community.as_bytes(), number, &[(object.clone(), value)])
}

/// Reads a request for one object: what is asked, the request's number, and the object.
pub fn parse_request(bytes: &[u8]) -> Option<(Ask, i64, Oid)> {
    let head = Head::parse(bytes)?;
    let ask = match head.kind {
        GET => Ask::This,
        GET_NEXT => Ask::Next,
        _ => return None,
    };
    let (name, ..) = Variables(head.variables).next()??;
    Some((ask, head.number, object_name(name)?))
}

/// Reads a notification that an interface is up or down. `None`: it is none, or says something else.
pub fn parse_link_notice(bytes: &[u8]) -> Option<LinkNotice> {
    let head = Head::parse(bytes).filter(|head| matches!(head.kind, TRAP | INFORM))?;
    let (mut is_up, mut interface) = (None, None);
    for variable in Variables(head.variables) {
        let (name, tag, value) = variable?;
        let name = object_name(name)?;
        if name.0 == TRAP_OID && tag == OBJECT {
            is_up = match object_name(value)? {
                kind if kind.0 == LINK_UP => Some(true),
                kind if kind.0 == LINK_DOWN => Some(false),
                _ => return None,
            };
        } else if name.0.starts_with(&IF_INDEX) && tag == INTEGER {
            interface = u32::try_from(number(value, true)?).ok();
        }
    }
    Some(LinkNotice {
        community: head.community.to_vec(),
        number: head.number,
        wants_answer: head.kind == INFORM,
        interface: interface?,
        is_up: is_up?,
    })
}

impl LinkNotice {
    /// The notification. `uptime` is the time since the sender's start, in hundredths of a second.
    pub fn to_bytes(&self, uptime: u32) -> Vec<u8> {
        let kind = if self.wants_answer { INFORM } else { TRAP };
        let event = if self.is_up { LINK_UP } else { LINK_DOWN };
        let interface = [&IF_INDEX[..], &[self.interface]].concat();
        let ticks = tagged(TIME_TICKS, &[uptime.to_be_bytes().to_vec()]);
        let variables = [
            (Oid(SYS_UP_TIME.to_vec()), ticks),
            (Oid(TRAP_OID.to_vec()), named(&Oid(event.to_vec()))),
            (Oid(interface), integer(self.interface.into())),
        ];
        message(kind, &self.community, self.number, &variables)
    }

    /// The answer to a notification that wants one (RFC 3416, 4.2.7): the same, as a response.
    pub fn to_answer(&self) -> Vec<u8> {
        message(RESPONSE, &self.community, self.number, &[])
    }
}

/// The number of the notification that a response without error answers.
pub fn parse_notice_answer(bytes: &[u8], community: &[u8]) -> Option<i64> {
    let head = Head::parse(bytes)?;
    let is_answer = head.kind == RESPONSE && head.error == 0 && head.community == community;
    is_answer.then_some(head.number)
}

/// The parts that all messages have.
struct Head<'a> {
    community: &'a [u8],
    kind: u8,
    number: i64,
    error: i64,
    variables: &'a [u8],
}

impl<'a> Head<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (message, _) = element(bytes, SEQUENCE)?;
        let (_, message) = element(message, INTEGER)?;
        let (community, message) = element(message, OCTET_STRING)?;
        let (kind, body, _) = any_element(message)?;
        let (request, body) = element(body, INTEGER)?;
        let (error, body) = element(body, INTEGER)?;
        let (_, body) = element(body, INTEGER)?;
        let (variables, _) = element(body, SEQUENCE)?;
        Some(Self { community, kind, number: number(request, true)?, error: number(error, true)?, variables })
    }
}

/// The variables of a message: each one's name, and the tag and bytes of its value. A variable that cannot be read is `None`, and
/// the last one.
struct Variables<'a>(&'a [u8]);

impl<'a> Iterator for Variables<'a> {
    type Item = Option<(&'a [u8], u8, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        let all = std::mem::take(&mut self.0);
        if all.is_empty() {
            return None;
        }
        let mut read = || {
            let (variable, rest) = element(all, SEQUENCE)?;
            let (name, value) = element(variable, OBJECT)?;
            let (tag, value, _) = any_element(value)?;
            self.0 = rest;
            Some((name, tag, value))
        };
        Some(read())
    }
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
    fn a_notice_comes_back_and_its_answer_names_its_number() {
        for (wants_answer, is_up) in [(false, true), (true, false)] {
            let notice = LinkNotice {
                community: b"public".to_vec(),
                number: 70_000,
                wants_answer,
                interface: 3,
                is_up,
            };
            let bytes = notice.to_bytes(4711);
            assert_eq!(parse_link_notice(&bytes), Some(notice.clone()));
            assert!((0..bytes.len()).all(|length| parse_link_notice(&bytes[..length]).is_none()));
            let answer = notice.to_answer();
            assert_eq!(parse_notice_answer(&answer, b"public"), Some(70_000));
            assert_eq!(parse_notice_answer(&answer, b"private"), None);
            assert_eq!(parse_notice_answer(&bytes, b"public"), None, "a notice is no answer");
        }
    }

    /// linkDown of ifIndex 3 as `snmptrap -v 2c` of net-snmp sends it, with ifAdminStatus and ifOperStatus behind it.
    #[test]
    fn a_trap_with_more_variables_is_read() {
        let trap = [
            &[0x30, 0x76, 2, 1, 1, 4, 6][..],
            b"public",
            &[0xa7, 0x69, 2, 4, 0x12, 0x34, 0x56, 0x78, 2, 1, 0, 2, 1, 0, 0x30, 0x5b],
            &[0x30, 0x0d, 6, 8, 0x2b, 6, 1, 2, 1, 1, 3, 0, 0x43, 1, 0x2a],
            &[0x30, 0x17, 6, 0x0a, 0x2b, 6, 1, 6, 3, 1, 1, 4, 1, 0, 6, 9, 0x2b, 6, 1, 6, 3, 1, 1, 5, 3],
            &[0x30, 0x0f, 6, 0x0a, 0x2b, 6, 1, 2, 1, 2, 2, 1, 1, 3, 2, 1, 3],
            &[0x30, 0x0f, 6, 0x0a, 0x2b, 6, 1, 2, 1, 2, 2, 1, 7, 3, 2, 1, 1],
            &[0x30, 0x0f, 6, 0x0a, 0x2b, 6, 1, 2, 1, 2, 2, 1, 8, 3, 2, 1, 2],
        ]
        .concat();
        let notice = parse_link_notice(&trap).expect("a notice");
        assert_eq!((notice.interface, notice.is_up, notice.wants_answer), (3, false, false));
    }

    #[test]
    fn a_notice_about_something_else_is_none() {
        let cold_start: Oid = "1.3.6.1.6.3.1.1.5.1".parse().unwrap();
        let variables = [(Oid(TRAP_OID.to_vec()), named(&cold_start))];
        assert_eq!(parse_link_notice(&message(TRAP, b"public", 1, &variables)), None);
        let without_interface = [(Oid(TRAP_OID.to_vec()), named(&Oid(LINK_UP.to_vec())))];
        assert_eq!(parse_link_notice(&message(TRAP, b"public", 1, &without_interface)), None);
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

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..120)) {
            _ = (parse_answer(&bytes), parse_request(&bytes), parse_link_notice(&bytes));
        }
    }
}
