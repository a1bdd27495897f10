//! The update by which the SRMS tells mDNS that a block of addresses is discouraged, or no longer is.

use hickory_proto::{
    op::{Message, MessageType, OpCode, Query, ResponseCode},
    rr::{DNSClass, Name, Record, RecordType, TSigVerifier, TSigner},
};

use crate::Prefix;

use super::{parse, records::ListedPrefix};

/// A change of the status of blocks of addresses, for the APL records of some networks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrefixUpdate {
    pub zone: Name,
    /// The names whose APL records list the prefixes of a network.
    pub networks: Vec<Name>,
    /// Blocks, and whether each is discouraged.
    pub blocks: Vec<(Prefix, bool)>,
    /// The time for which others may keep the record, in seconds.
    pub ttl: u32,
}

/// Checks the answer to an update.
pub struct Check {
    id: u16,
    verifier: Option<TSigVerifier>,
}

impl PrefixUpdate {
    /// The bytes of a signed UPDATE (RFC 2136), to be sent at `now` (seconds since 1970), and what checks its answer.
    /// The same update may be made again and again: it says how things are, not what has changed.
    ///
    /// # Errors
    /// Says why no message can be made, such as too many networks for one.
    pub fn message(&self, id: u16, key: &TSigner, now: u64) -> Result<(Vec<u8>, Check), String> {
        let mut message = Message::new(id, MessageType::Query, OpCode::Update);
        message.add_query(Query::query(self.zone.clone(), RecordType::SOA));
        for network in &self.networks {
            for (block, is_discouraged) in &self.blocks {
                let data = ListedPrefix { prefix: *block, is_negated: true }.to_data();
                let ttl = if *is_discouraged { self.ttl } else { 0 };
                let mut record = Record::from_rdata(network.clone(), ttl, data);
                record.dns_class = if *is_discouraged { DNSClass::IN } else { DNSClass::NONE };
                message.add_authority(record);
            }
        }
        let verifier = message.finalize(key, now).map_err(|error| error.to_string())?;
        let bytes = message.to_vec().map_err(|error| error.to_string())?;
        Ok((bytes, Check { id, verifier }))
    }
}

impl Check {
    /// Checks that the server has carried out the update, and that the answer is the server's.
    ///
    /// # Errors
    /// Says what is wrong. An answer that is not the server's should be ignored, and another one awaited.
    pub fn check(&mut self, answer: &[u8]) -> Result<(), String> {
        let parsed = parse(answer).map_err(|error| format!("the answer is no DNS message: {error}"))?;
        if parsed.metadata.id != self.id || parsed.metadata.message_type != MessageType::Response {
            return Err("the answer belongs to another request".into());
        }
        let code = parsed.metadata.response_code;
        let verified = match (&mut self.verifier, &parsed.signature) {
            (Some(verifier), Some(record)) if record.data.time >= u64::from(record.data.fudge) => {
                verifier.verify(answer).is_ok()
            }
            _ => false,
        };
        match code {
            ResponseCode::NoError if verified => Ok(()),
            ResponseCode::NoError => Err("the answer is not signed with the key".into()),
            code => Err(format!("the name server refuses the update: {code}")),
        }
    }
}
