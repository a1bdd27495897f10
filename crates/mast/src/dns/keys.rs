//! The keys of those who may change the zone (TSIG, RFC 8945), and the memory that refuses a repeated update.

use hickory_proto::{
    op::Message,
    rr::{
        DNSClass, Name, TSigner,
        rdata::tsig::{TsigAlgorithm, TsigError},
    },
};

/// The difference between two clocks that is tolerated, in seconds (RFC 8945, section 10, recommends it).
pub(crate) const FUDGE_SECONDS: u16 = 300;

/// The most updates of one key that are carried out in a second.
const MAX_UPDATES_PER_SECOND: usize = 64;

/// The records that the owner of a key may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The choice of discouraged prefixes of a network: negated items of APL records, where there are APL records.
    Prefixes,
    /// All records of the zone.
    All,
}

/// Makes a TSIG key of HMAC-SHA256.
///
/// # Errors
/// Says why the name is none.
pub fn signer(name: &str, secret: &[u8]) -> Result<TSigner, String> {
    let parsed = Name::from_ascii(name).map_err(|error| format!("key name {name:?}: {error}"))?;
    TSigner::new(secret.to_vec(), TsigAlgorithm::HmacSha256, parsed, FUDGE_SECONDS)
        .map_err(|error| format!("key {name:?}: {error}"))
}

/// A key, and what was done with it.
pub struct Key {
    pub signer: TSigner,
    pub scope: Scope,
    /// The time of the newest update that was carried out, in seconds since 1970. Older ones are repetitions.
    newest: u64,
    /// The updates of the second `newest`: the code that authenticates each, and the answer that it got.
    done: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The sender of a message, as its signature proves it.
pub enum Signature {
    /// The message has no signature.
    None,
    Valid(Signed),
    /// The key is unknown, or the signature is wrong or from another time.
    Wrong(WrongSignature),
}

/// A valid signature.
pub struct Signed {
    /// The index of the key in [`Keys`].
    pub key: usize,
    /// The code that authenticates the message.
    pub mac: Vec<u8>,
    /// The time of the signature, in seconds since 1970.
    pub time: u64,
}

/// The fault of a signature.
pub struct WrongSignature {
    pub error: TsigError,
    /// The key and the code of a message that only the time of which is wrong: its answer is signed.
    pub signed: Option<Signed>,
    /// The name of the key that the message names.
    pub key_name: Name,
    /// The key of that name.
    pub key: Option<usize>,
}

/// Whether an update was carried out before.
pub enum Repetition {
    No,
    /// The update was carried out, with this answer. The sender did not hear it, or somebody plays the update again.
    Answered(Vec<u8>),
    /// The update is older than another one of the same key.
    TooOld,
    TooMany,
}

/// All keys of a server.
#[derive(Default)]
pub struct Keys(Vec<Key>);

impl Keys {
    /// Adds a key. Updates that were signed until `since` (seconds since 1970) are refused, because this server may
    /// have carried them out before it was started again.
    pub fn add(&mut self, signer: TSigner, scope: Scope, since: u64) {
        self.0.push(Key { signer, scope, newest: since.saturating_add(1), done: Vec::new() });
    }

    /// The name of each key, and the time of the newest update that was carried out, in seconds since 1970.
    pub fn newest(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        self.0.iter().map(|key| (key.signer.signer_name().to_string(), key.newest))
    }

    pub fn get(&self, index: usize) -> Option<&Key> {
        self.0.get(index)
    }

    /// Verifies the signature of a message, which was parsed from `bytes`, at `now` (RFC 8945, 5.2).
    pub fn verify(&self, message: &Message, bytes: &[u8], now: u64) -> Signature {
        let Some(record) = &message.signature else { return Signature::None };
        let is_named = |key: &Key| *key.signer.signer_name() == record.name;
        let key = self.0.iter().position(is_named);
        let wrong = |error, signed| {
            Signature::Wrong(WrongSignature { error, signed, key_name: record.name.clone(), key })
        };
        let (Some(index), TsigAlgorithm::HmacSha256) = (key, &record.data.algorithm) else {
            return wrong(TsigError::BadKey, None);
        };
        let fudge = u64::from(record.data.fudge.min(FUDGE_SECONDS));
        // Class and TTL are not among the signed bytes as they came, but as they must be. The verification subtracts the
        // fudge from the time.
        let is_as_signed = record.dns_class == DNSClass::ANY && record.ttl == 0;
        if !is_as_signed || record.data.time < u64::from(record.data.fudge) {
            return wrong(TsigError::BadSig, None);
        }
        let Ok((mac, time, _)) = self.0[index].signer.verify_message_byte(bytes, None, true) else {
            return wrong(TsigError::BadSig, None);
        };
        let signed = Signed { key: index, mac, time };
        match now.abs_diff(time) <= fudge {
            true => Signature::Valid(signed),
            false => wrong(TsigError::BadTime, Some(signed)),
        }
    }

    /// Tells whether an update is a repetition at `now` (seconds since 1970). An update that is none must be answered with [`Keys::remember`].
    pub fn repetition(&self, signed: &Signed, now: u64) -> Repetition {
        let Some(key) = self.0.get(signed.key) else { return Repetition::TooOld };
        // A time that could not be taken by now was taken before this clock was set back. It must not silence its owner.
        let newest = if key.newest > now + u64::from(FUDGE_SECONDS) + 1 { 0 } else { key.newest };
        match signed.time.cmp(&newest) {
            std::cmp::Ordering::Less => Repetition::TooOld,
            std::cmp::Ordering::Greater => Repetition::No,
            std::cmp::Ordering::Equal => match key.done.iter().find(|(mac, _)| *mac == signed.mac) {
                Some((_, answer)) => Repetition::Answered(answer.clone()),
                None if key.done.len() >= MAX_UPDATES_PER_SECOND => Repetition::TooMany,
                None => Repetition::No,
            },
        }
    }

    /// Remembers the answer to an update.
    pub fn remember(&mut self, signed: Signed, answer: Vec<u8>) {
        let Some(key) = self.0.get_mut(signed.key) else { return };
        if signed.time != key.newest {
            key.newest = signed.time;
            key.done.clear();
        }
        key.done.push((signed.mac, answer));
    }
}
