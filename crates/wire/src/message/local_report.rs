//! LocalReport: the three-state acknowledgement (lgmp-mbone-1999, 2): what is received, what is missing, and what is
//! missing but obtainable below the one who reports. By unicast, from a member to its controller, and from each controller
//! to the one above.
//!
//! ```text
//!  0       4       5      7            11          15     19         23      24
//!  +-------+-------+------+------------+-----------+------+----------+-------+-------------+
//!  | group | flags | loss | round trip | receivers | done | given up | count | objects ... |
//!  +-------+-------+------+------------+-----------+------+----------+-------+-------------+
//!
//! In a controller's report, the successor (18 bytes) lies between the files given up and the count.
//!
//!  0        4          12     20      21             each object
//!  +--------+----------+------+-------+--------------------+
//!  | object | received | seen | count | missing: start, end|
//!  +--------+----------+------+-------+--------------------+
//! ```

use std::{fmt, ops::Range};

use super::local_member::{GroupId, Member, emit_member, parse_member, share_text};
use crate::{ParseError, field::Reader};

/// The most objects in one report, and the most ranges of all of them.
pub const MAX_LOCAL_OBJECTS: usize = 16;
pub const MAX_LOCAL_RANGES: usize = 48;

/// The three states of one object's bytes.
///
/// What lies before `received` is received by everyone below. What lies in `missing`, or behind `seen`, is missing: nobody in the
/// group has it. All else is missing somewhere but obtainable: somebody in the group has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LocalObject {
    pub object: u32,
    pub received: u64,
    pub seen: u64,
    pub missing: Vec<Range<u64>>,
}

/// What a member has received, or everyone below a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalReport {
    /// The group that the member is in, or whose controller reports.
    pub group: GroupId,
    /// Whether the one who reports is the group's controller.
    pub is_controller: bool,
    /// CONGESTION: somebody loses more than is set.
    pub is_congested: bool,
    /// Whether receivers that the controller knows of have not reported to it yet. The report says nothing of them.
    pub is_partial: bool,
    /// The largest share of packets that somebody loses, in 65,535ths.
    pub loss: u16,
    /// Round trip between the one who reports and the one it reports to, in microseconds; 0 where it is not known.
    pub round_trip_us: u32,
    /// How many receivers this is about.
    pub receivers: u32,
    /// They are done with all objects before this one.
    pub done: u32,
    /// How many objects they have given up because they were late, summed over these receivers.
    pub given_up: u32,
    /// The member that takes over when the controller is silent. `None` in a member's report.
    pub successor: Option<Member>,
    objects: Vec<LocalObject>,
}

impl LocalReport {
    /// A report on no object.
    pub fn new(group: GroupId, is_controller: bool) -> Self {
        Self {
            group,
            is_controller,
            is_congested: false,
            is_partial: false,
            loss: 0,
            round_trip_us: 0,
            receivers: 1,
            done: 0,
            given_up: 0,
            successor: None,
            objects: Vec::new(),
        }
    }

    /// Adds objects, in ascending order, as far as they fit. An object whose ranges do not all fit counts as seen only up to
    /// the first that does not.
    #[must_use]
    pub fn with_objects(mut self, objects: impl IntoIterator<Item = LocalObject>) -> Self {
        let mut room = MAX_LOCAL_RANGES;
        for mut object in objects.into_iter().take(MAX_LOCAL_OBJECTS) {
            if let Some(first) = object.missing.get(room) {
                object.seen = first.start;
                object.missing.truncate(room);
            }
            room -= object.missing.len();
            self.objects.push(object);
        }
        self
    }

    pub fn objects(&self) -> &[LocalObject] {
        &self.objects
    }

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let group = GroupId(reader.u32("group")?);
        let flags = reader.u8("flags")?;
        if flags > 7 {
            return Err(ParseError::invalid("flags", flags, "0 to 7"));
        }
        let mut report = Self::new(group, flags & 2 != 0);
        report.is_congested = flags & 1 != 0;
        report.is_partial = flags & 4 != 0;
        report.loss = reader.u16("loss")?;
        report.round_trip_us = reader.u32("round trip")?;
        report.receivers = reader.u32("receivers")?;
        report.done = reader.u32("done")?;
        report.given_up = reader.u32("given up")?;
        if report.is_controller {
            report.successor = parse_member(reader)?;
        }
        let count = usize::from(reader.u8("number of objects")?);
        if count > MAX_LOCAL_OBJECTS {
            return Err(ParseError::invalid("number of objects", count, "at most 16"));
        }
        let mut room = MAX_LOCAL_RANGES;
        for _ in 0..count {
            let object = parse_object(reader, room)?;
            room -= object.missing.len();
            report.objects.push(object);
        }
        if report.objects.windows(2).any(|pair| pair[0].object >= pair[1].object) {
            return Err(ParseError::invalid("object", "no larger one", "ascending numbers"));
        }
        Ok(report)
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.group.0.to_be_bytes());
        let flags = [self.is_congested, self.is_controller, self.is_partial];
        out.push((0..).zip(flags).map(|(bit, flag)| u8::from(flag) << bit).sum());
        out.extend_from_slice(&self.loss.to_be_bytes());
        out.extend_from_slice(&self.round_trip_us.to_be_bytes());
        out.extend_from_slice(&self.receivers.to_be_bytes());
        out.extend_from_slice(&self.done.to_be_bytes());
        out.extend_from_slice(&self.given_up.to_be_bytes());
        if self.is_controller {
            emit_member(self.successor, out);
        }
        out.push(self.objects.len() as u8);
        for object in &self.objects {
            out.extend_from_slice(&object.object.to_be_bytes());
            out.extend_from_slice(&object.received.to_be_bytes());
            out.extend_from_slice(&object.seen.to_be_bytes());
            emit_ranges(&object.missing, out);
        }
    }
}

fn parse_object(reader: &mut Reader<'_>, room: usize) -> Result<LocalObject, ParseError> {
    let object = reader.u32("object")?;
    let received = reader.u64("received")?;
    let seen = reader.u64("seen")?;
    Ok(LocalObject { object, received, seen, missing: parse_ranges(reader, room)? })
}

/// Reads ranges that do not touch each other, in ascending order, behind their number in one octet.
pub(super) fn parse_ranges(reader: &mut Reader<'_>, most: usize) -> Result<Vec<Range<u64>>, ParseError> {
    let count = usize::from(reader.u8("number of ranges")?);
    if count > most {
        return Err(ParseError::invalid(
            "number of ranges",
            count,
            "at most 48 in a report, 32 in a request",
        ));
    }
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for _ in 0..count {
        let range = reader.u64("start")?..reader.u64("end")?;
        let least = ranges.last().map_or(0, |last| last.end);
        if range.is_empty() || range.start < least {
            return Err(ParseError::invalid(
                "range",
                format!("{range:?}"),
                "ascending ranges that are not empty",
            ));
        }
        ranges.push(range);
    }
    Ok(ranges)
}

pub(super) fn emit_ranges(ranges: &[Range<u64>], out: &mut Vec<u8>) {
    out.push(ranges.len() as u8);
    for range in ranges {
        out.extend_from_slice(&range.start.to_be_bytes());
        out.extend_from_slice(&range.end.to_be_bytes());
    }
}

impl fmt::Display for LocalReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = if self.is_controller { "controller" } else { "member" };
        let congestion = if self.is_congested { " CONGESTION" } else { "" };
        let partial = if self.is_partial { " partial" } else { "" };
        write!(f, "group={} {role}{congestion}{partial} loss={}", self.group, share_text(self.loss))?;
        write!(f, " trip={}us receivers={} done={}", self.round_trip_us, self.receivers, self.done)?;
        write!(f, " given-up={}", self.given_up)?;
        self.successor.iter().try_for_each(|successor| write!(f, " successor={successor}"))?;
        for LocalObject { object, received, seen, missing } in &self.objects {
            write!(f, " {object}:received={received},seen={seen},missing={missing:?}")?;
        }
        Ok(())
    }
}
