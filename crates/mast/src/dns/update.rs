//! Applies dynamic updates to a zone (RFC 2136, section 3). An update is applied as a whole, or not at all.

use hickory_proto::{
    op::{Message, ResponseCode},
    rr::{DNSClass, Name, RData, Record, RecordType},
};

use super::{
    keys::Scope,
    records::{APL, is_well_formed, listed_prefixes},
    zone::Zone,
};

/// The reason why an update is not carried out.
type Refused = ResponseCode;

/// Carries out the update in `message`, whose signature was verified.
///
/// # Errors
/// The response code that tells the sender why nothing has changed.
pub fn apply(zone: &mut Zone, message: &Message, scope: Scope) -> Result<(), Refused> {
    check_zone(zone, message)?;
    message.answers.iter().try_for_each(|record| check_prerequisite(zone, message, record))?;
    message.authorities.iter().try_for_each(|record| check_change(zone, record, scope))?;
    let is_new = |record: &&Record| {
        let set = zone.set(&record.name, record.record_type());
        record.dns_class == DNSClass::IN && !set.is_some_and(|set| set.data.contains(&record.data))
    };
    let added = message.authorities.iter().filter(is_new).count();
    if added > zone.room() {
        return Err(ResponseCode::Refused);
    }
    let mut has_changed = false;
    for record in &message.authorities {
        has_changed |= change(zone, record);
    }
    if has_changed {
        zone.count_up();
    }
    Ok(())
}

/// The zone section names this zone by its SOA record (RFC 2136, 3.1.1).
fn check_zone(zone: &Zone, message: &Message) -> Result<(), Refused> {
    match &message.queries[..] {
        [named] if named.query_type == RecordType::SOA && named.query_class == DNSClass::IN => {
            if named.name == *zone.origin() { Ok(()) } else { Err(ResponseCode::NotAuth) }
        }
        _ => Err(ResponseCode::FormErr),
    }
}

/// A prerequisite of the update holds (RFC 2136, 3.2).
fn check_prerequisite(zone: &Zone, message: &Message, record: &Record) -> Result<(), Refused> {
    if record.ttl != 0 {
        return Err(ResponseCode::FormErr);
    }
    if !zone.contains(&record.name) {
        return Err(ResponseCode::NotZone);
    }
    let record_type = record.record_type();
    let is_empty = matches!(record.data, RData::Update0(_));
    let has_it = match record_type {
        RecordType::ANY => zone.is_in_use(&record.name),
        record_type => zone.set(&record.name, record_type).is_some(),
    };
    match (record.dns_class, record_type, has_it) {
        (DNSClass::ANY | DNSClass::NONE, ..) if !is_empty => Err(ResponseCode::FormErr),
        (DNSClass::ANY, RecordType::ANY, false) => Err(ResponseCode::NXDomain),
        (DNSClass::ANY, _, false) => Err(ResponseCode::NXRRSet),
        (DNSClass::NONE, RecordType::ANY, true) => Err(ResponseCode::YXDomain),
        (DNSClass::NONE, _, true) => Err(ResponseCode::YXRRSet),
        (DNSClass::ANY | DNSClass::NONE, ..) => Ok(()),
        (DNSClass::IN, ..) => is_equal_set(zone, message, &record.name, record_type),
        _ => Err(ResponseCode::FormErr),
    }
}

/// The records of the prerequisites and of the zone are the same (RFC 2136, 3.2.3).
fn is_equal_set(zone: &Zone, message: &Message, name: &Name, record_type: RecordType) -> Result<(), Refused> {
    let is_meant = |record: &&Record| {
        record.dns_class == DNSClass::IN && record.name == *name && record.record_type() == record_type
    };
    let wanted: Vec<&RData> = message.answers.iter().filter(is_meant).map(|record| &record.data).collect();
    let stored = zone.set(name, record_type).map(|set| &set.data[..]).unwrap_or_default();
    let is_equal =
        stored.iter().all(|data| wanted.contains(&data)) && wanted.iter().all(|data| stored.contains(data));
    if is_equal { Ok(()) } else { Err(ResponseCode::NXRRSet) }
}

/// A change is well formed and permitted (RFC 2136, 3.4.1).
fn check_change(zone: &Zone, record: &Record, scope: Scope) -> Result<(), Refused> {
    if !zone.contains(&record.name) {
        return Err(ResponseCode::NotZone);
    }
    let record_type = record.record_type();
    let is_empty = matches!(record.data, RData::Update0(_));
    let is_meta = |number: u16| (128..=255).contains(&number) || number == u16::from(RecordType::OPT);
    let is_meta = is_meta(record_type.into());
    let is_well_formed = match record.dns_class {
        DNSClass::IN => !is_meta && !is_empty && is_well_formed(&record.data),
        DNSClass::ANY => record.ttl == 0 && is_empty && (!is_meta || record_type == RecordType::ANY),
        DNSClass::NONE => record.ttl == 0 && !is_meta,
        _ => false,
    };
    match scope {
        _ if !is_well_formed => Err(ResponseCode::FormErr),
        Scope::Prefixes if !is_status(zone, record) => Err(ResponseCode::Refused),
        _ => Ok(()),
    }
}

/// Whether a change only discourages blocks for a network that the zone knows, or no longer does.
fn is_status(zone: &Zone, record: &Record) -> bool {
    let items = listed_prefixes(&record.data).unwrap_or_default();
    let has_negated_only = !items.is_empty() && items.iter().all(|item| item.is_negated);
    has_negated_only && zone.set(&record.name, APL).is_some()
}

/// Makes one change (RFC 2136, 3.4.2). Returns whether the zone has changed.
fn change(zone: &mut Zone, record: &Record) -> bool {
    let name = &record.name;
    match (record.dns_class, record.record_type()) {
        (DNSClass::IN, record_type) => add(zone, record, record_type),
        (DNSClass::ANY, RecordType::ANY) => {
            let types = zone.types(name);
            types.into_iter().filter(|it| remove_set(zone, name, *it)).count() > 0
        }
        (DNSClass::ANY, record_type) => remove_set(zone, name, record_type),
        (_, record_type) => {
            let is_last_server = is_kept(zone, name, record_type)
                && zone.set(name, record_type).is_none_or(|set| set.data.len() < 2);
            record_type != RecordType::SOA
                && !is_last_server
                && zone.remove(name, record_type, |data| *data == record.data)
        }
    }
}

fn add(zone: &mut Zone, record: &Record, record_type: RecordType) -> bool {
    let name = &record.name;
    let types = zone.types(name);
    let is_alias = record_type == RecordType::CNAME;
    match record_type {
        // Counts its serial number by itself.
        RecordType::SOA => return false,
        // An alias and other records exclude each other.
        _ if types.iter().any(|it| (*it == RecordType::CNAME) != is_alias) => return false,
        RecordType::CNAME => {
            zone.remove(name, RecordType::CNAME, |data| *data != record.data);
        }
        _ => {}
    }
    zone.add(name, record.ttl, record.data.clone())
}

/// Removes all records of a name and type. The SOA and NS records of the zone itself stay.
fn remove_set(zone: &mut Zone, name: &Name, record_type: RecordType) -> bool {
    !is_kept(zone, name, record_type) && zone.remove(name, record_type, |_| true)
}

fn is_kept(zone: &Zone, name: &Name, record_type: RecordType) -> bool {
    name == zone.origin() && matches!(record_type, RecordType::SOA | RecordType::NS)
}
