//! The two record types that mDNS joins into AAAA records: prefixes, and interface identifiers (IFIDs).
//!
//! Prefixes are APL records (RFC 3123), as the paper proposes (interdomain-2013, 6.3.2). The status of a prefix is
//! APL's own negation: `2:2001:db8:a::/64` is a prefix of a network, and `!2:2001:db8:a::/48` discourages all
//! prefixes inside that block. IFID records are new; their type number is one for private use (RFC 6895, 3.1).

use hickory_proto::{
    rr::{Name, RData, RecordType, rdata::NULL},
    serialize::binary::{BinDecodable, BinEncodable},
};

use crate::Prefix;

/// The type of APL records (RFC 3123).
pub(crate) const APL: RecordType = RecordType::Unknown(42);
/// The type of IFID records.
pub(crate) const IFID: RecordType = RecordType::Unknown(65_290);

/// The number of IPv6 in the registry of address families.
const FAMILY_IPV6: u16 = 2;
const NEGATION: u8 = 0x80;
/// The bytes of an item of an APL record before its address.
const ITEM_HEADER_LEN: usize = 4;
/// The bytes of an IFID.
const IFID_LEN: usize = 8;

/// An IPv6 item of an APL record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedPrefix {
    pub prefix: Prefix,
    /// Whether the item takes addresses out of the list: here, whether the prefix is discouraged.
    pub is_negated: bool,
}

impl ListedPrefix {
    /// The data of an APL record with this item alone. Zero octets at the address's end are left out, as RFC 3123,
    /// section 4, demands.
    pub fn to_data(self) -> RData {
        let octets = self.prefix.address().octets();
        let len = octets.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
        let mut data = FAMILY_IPV6.to_be_bytes().to_vec();
        data.push(self.prefix.length());
        data.push(len as u8 | if self.is_negated { NEGATION } else { 0 });
        data.extend(&octets[..len]);
        unknown(APL, data)
    }
}

/// The IPv6 items of an APL record; items of other families are skipped. `None` if the data is no APL record.
pub(crate) fn listed_prefixes(data: &RData) -> Option<Vec<ListedPrefix>> {
    let mut rest = bytes_of(APL, data)?;
    let mut items = Vec::new();
    while !rest.is_empty() {
        let (header, behind) = rest.split_first_chunk::<ITEM_HEADER_LEN>()?;
        let [first, second, length, negation_and_len] = *header;
        let octets = behind.get(..usize::from(negation_and_len & !NEGATION))?;
        rest = &behind[octets.len()..];
        if u16::from_be_bytes([first, second]) != FAMILY_IPV6 {
            continue;
        }
        let mut address = [0; 16];
        address.get_mut(..octets.len())?.copy_from_slice(octets);
        let prefix = Prefix::new(address.into(), length).ok()?;
        items.push(ListedPrefix { prefix, is_negated: negation_and_len & NEGATION != 0 });
    }
    Some(items)
}

/// The content of an IFID record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceId {
    /// The lower 64 bits of the interface's addresses.
    pub ifid: u64,
    /// The name whose APL records list the prefixes of the interface's network.
    pub network: Name,
}

impl InterfaceId {
    pub fn to_data(&self) -> RData {
        let mut data = self.ifid.to_be_bytes().to_vec();
        // A name of at most 255 octets always fits.
        data.extend(self.network.to_bytes().unwrap_or_default());
        unknown(IFID, data)
    }

    /// Reads an IFID record. `None` if the data is none.
    pub fn from_data(data: &RData) -> Option<Self> {
        let (ifid, rest) = bytes_of(IFID, data)?.split_first_chunk::<IFID_LEN>()?;
        let network = Name::from_bytes(rest).ok()?;
        // A compressed name, or bytes behind the name, make another length.
        let is_whole = network.to_bytes().is_ok_and(|bytes| bytes.len() == rest.len());
        is_whole.then_some(Self { ifid: u64::from_be_bytes(*ifid), network })
    }
}

/// Whether the data of a record is well formed, as far as this server interprets it.
pub(crate) fn is_well_formed(data: &RData) -> bool {
    match data.record_type() {
        APL => listed_prefixes(data).is_some(),
        IFID => InterfaceId::from_data(data).is_some(),
        _ => true,
    }
}

fn unknown(code: RecordType, data: Vec<u8>) -> RData {
    RData::Unknown { code, rdata: NULL::with(data) }
}

fn bytes_of(wanted: RecordType, data: &RData) -> Option<&[u8]> {
    match data {
        RData::Unknown { code, rdata } if *code == wanted => Some(&rdata.anything),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn listed(text: &str, is_negated: bool) -> ListedPrefix {
        ListedPrefix { prefix: text.parse().expect("a prefix"), is_negated }
    }

    #[test]
    fn an_apl_record_is_laid_out_as_in_rfc_3123() {
        let data = listed("2001:db8:a::/48", true).to_data();
        assert_eq!(bytes_of(APL, &data), Some(&[0, 2, 48, 0x86, 0x20, 1, 0x0d, 0xb8, 0, 0x0a][..]));
        assert_eq!(listed_prefixes(&data), Some(vec![listed("2001:db8:a::/48", true)]));
    }

    #[test]
    fn several_items_are_read_and_other_families_skipped() {
        let mut bytes = vec![0, 1, 24, 3, 192, 0, 2];
        for item in [listed("2001:db8::/64", false), listed("8000::/1", true)] {
            bytes.extend(bytes_of(APL, &item.to_data()).expect("its bytes"));
        }
        let read = listed_prefixes(&unknown(APL, bytes));
        assert_eq!(read, Some(vec![listed("2001:db8::/64", false), listed("8000::/1", true)]));
    }

    #[test]
    fn an_ifid_record_with_a_compressed_name_or_an_end_too_much_is_none() {
        let id =
            InterfaceId { ifid: 0x1234, network: Name::from_ascii("lan.stub.example.").expect("a name") };
        assert_eq!(InterfaceId::from_data(&id.to_data()).as_ref(), Some(&id));
        let bytes = bytes_of(IFID, &id.to_data()).expect("its bytes").to_vec();
        assert_eq!(InterfaceId::from_data(&unknown(IFID, [&bytes[..], &[0]].concat())), None);
        assert_eq!(InterfaceId::from_data(&unknown(IFID, bytes[..bytes.len() - 1].to_vec())), None);
        assert_eq!(InterfaceId::from_data(&unknown(IFID, [&bytes[..8], &[1, b'a', 0xc0, 0]].concat())), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 1..80)) {
            _ = is_well_formed(&unknown(APL, bytes.clone()));
            _ = is_well_formed(&unknown(IFID, bytes));
        }
    }
}
