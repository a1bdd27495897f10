//! The mDNS server without its sockets: bytes of a request in, bytes of the answer out.

use hickory_proto::{
    op::{Edns, Message, MessageType, OpCode, ResponseCode},
    rr::{DNSClass, RecordType, TSigResponseContext, rdata::tsig::TsigError},
};

use super::{
    keys::{Keys, Repetition, Signature, Signed, WrongSignature},
    parse, update,
    zone::{Found, Zone},
};

/// The largest answer by UDP, in bytes: it fits one packet on nearly every path (RFC 9715, 3.2).
const MAX_UDP_BYTES: usize = 1_232;
/// The largest answer by UDP to somebody who does not say how much he takes, in bytes (RFC 1035, 4.2.1).
const MIN_UDP_BYTES: usize = 512;
/// The bytes of a message's header.
const HEADER_LEN: usize = 12;
/// The most steps from an alias to the next.
const MAX_ALIASES: usize = 8;

/// The transport of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Udp,
    Tcp,
}

/// Numbers of requests since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    pub queries: u64,
    /// Updates that were carried out.
    pub updates: u64,
    /// Updates without a signature, or beyond what their key may do, and repetitions.
    pub refused_updates: u64,
    /// Requests with a wrong signature, an unknown key, or from another time.
    pub wrong_signatures: u64,
    /// Requests that are no DNS messages.
    pub malformed: u64,
}

/// A server that is the only authority for one zone, and knows nothing else.
pub struct Server {
    zone: Zone,
    keys: Keys,
    pub counts: Counts,
}

/// The signature for the answer to a request.
enum Sign {
    No,
    With(TSigResponseContext),
}

impl Server {
    pub fn new(zone: Zone, keys: Keys) -> Self {
        Self { zone, keys, counts: Counts::default() }
    }

    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Answers a request that came at `now` (seconds since 1970). `None` if nobody should get an answer, such as the
    /// sender of an answer.
    pub fn answer(&mut self, now: u64, request: &[u8], transport: Transport) -> Option<Vec<u8>> {
        let header = request.first_chunk::<HEADER_LEN>()?;
        if header[2] & 0x80 != 0 {
            return None;
        }
        let Ok(message) = parse(request) else {
            self.counts.malformed += 1;
            let id = u16::from_be_bytes([header[0], header[1]]);
            let op_code = OpCode::from_u8(header[2] >> 3 & 0x0f);
            return Message::error_msg(id, op_code, ResponseCode::FormErr).to_vec().ok();
        };
        match self.keys.verify(&message, request, now) {
            Signature::None => self.answer_parsed(now, &message, None, transport),
            Signature::Valid(signed) => self.answer_parsed(now, &message, Some(signed), transport),
            Signature::Wrong(wrong) => {
                self.counts.wrong_signatures += 1;
                let sign = self.sign_refusal(now, &message, wrong);
                finish(refusal(&message, ResponseCode::NotAuth), &message, sign, transport)
            }
        }
    }

    fn answer_parsed(
        &mut self,
        now: u64,
        message: &Message,
        signed: Option<Signed>,
        transport: Transport,
    ) -> Option<Vec<u8>> {
        let sign = self.sign_for(now, message, signed.as_ref(), None);
        let answer = match message.metadata.op_code {
            _ if message.edns.as_ref().is_some_and(|edns| edns.version() != 0) => {
                refusal(message, ResponseCode::BADVERS)
            }
            OpCode::Query => self.answer_query(message),
            OpCode::Update => return self.answer_update(now, message, signed, sign, transport),
            _ => refusal(message, ResponseCode::NotImp),
        };
        finish(answer, message, sign, transport)
    }

    fn answer_update(
        &mut self,
        now: u64,
        message: &Message,
        signed: Option<Signed>,
        sign: Sign,
        transport: Transport,
    ) -> Option<Vec<u8>> {
        let Some((signed, scope)) = signed
            .and_then(|signed| self.keys.get(signed.key).map(|key| key.scope).map(|scope| (signed, scope)))
        else {
            self.counts.refused_updates += 1;
            return finish(refusal(message, ResponseCode::Refused), message, sign, transport);
        };
        match self.keys.repetition(&signed, now) {
            Repetition::No => {}
            Repetition::Answered(answer) => {
                self.counts.refused_updates += 1;
                return Some(answer);
            }
            Repetition::TooOld => {
                self.counts.refused_updates += 1;
                let sign = self.sign_for(now, message, Some(&signed), Some(TsigError::BadTime));
                return finish(refusal(message, ResponseCode::NotAuth), message, sign, transport);
            }
            Repetition::TooMany => {
                self.counts.refused_updates += 1;
                return finish(refusal(message, ResponseCode::ServFail), message, sign, transport);
            }
        }
        let code = match update::apply(&mut self.zone, message, scope) {
            Ok(()) => {
                self.counts.updates += 1;
                ResponseCode::NoError
            }
            Err(code) => {
                self.counts.refused_updates += 1;
                code
            }
        };
        let answer = finish(refusal(message, code), message, sign, transport)?;
        self.keys.remember(signed, answer.clone());
        Some(answer)
    }

    fn answer_query(&mut self, message: &Message) -> Message {
        self.counts.queries += 1;
        let [query] = &message.queries[..] else { return refusal(message, ResponseCode::FormErr) };
        let is_transfer = matches!(query.query_type, RecordType::AXFR | RecordType::IXFR);
        if is_transfer || query.query_class != DNSClass::IN || !self.zone.contains(&query.name) {
            return refusal(message, ResponseCode::Refused);
        }
        let mut answer = refusal(message, ResponseCode::NoError);
        answer.metadata.authoritative = true;
        let mut name = query.name.clone();
        for _ in 0..MAX_ALIASES {
            match self.zone.find(&name, query.query_type) {
                Found::Records(records) => {
                    let alias = records.iter().find_map(|record| match &record.data {
                        hickory_proto::rr::RData::CNAME(alias) => Some(alias.0.clone()),
                        _ => None,
                    });
                    answer.add_answers(records);
                    match alias.filter(|_| !matches!(query.query_type, RecordType::CNAME | RecordType::ANY)) {
                        Some(alias) if self.zone.contains(&alias) => name = alias,
                        _ => return answer,
                    }
                }
                Found::NoRecord => break,
                Found::NoName => {
                    answer.metadata.response_code = ResponseCode::NXDomain;
                    break;
                }
            }
        }
        answer.add_authorities(self.zone.authority());
        answer
    }

    /// Prepares the signature of an answer. A request that is not signed gets an answer that is not signed.
    fn sign_for(
        &self,
        now: u64,
        message: &Message,
        signed: Option<&Signed>,
        error: Option<TsigError>,
    ) -> Sign {
        let Some(signed) = signed else { return Sign::No };
        let Some(key) = self.keys.get(signed.key) else { return Sign::No };
        let mac = signed.mac.clone();
        Sign::With(TSigResponseContext::new(message.metadata.id, now, key.signer.clone(), mac, error))
    }

    /// The signature of a refusal. Only a wrong time is reported under a signature (RFC 8945, 5.2 and 5.3.2).
    fn sign_refusal(&self, now: u64, message: &Message, wrong: WrongSignature) -> Sign {
        let id = message.metadata.id;
        match (wrong.signed, wrong.key.and_then(|key| self.keys.get(key)), wrong.error) {
            (Some(signed), _, error) => self.sign_for(now, message, Some(&signed), Some(error)),
            (None, Some(key), TsigError::BadSig) => {
                Sign::With(TSigResponseContext::bad_signature(id, now, key.signer.clone()))
            }
            _ => Sign::With(TSigResponseContext::unknown_key(id, now, wrong.key_name)),
        }
    }
}

/// An answer without records: the header, and the question or zone that it repeats.
fn refusal(request: &Message, code: ResponseCode) -> Message {
    let mut answer = Message::response(request.metadata.id, request.metadata.op_code);
    answer.metadata.recursion_desired = request.metadata.recursion_desired;
    answer.metadata.message_type = MessageType::Response;
    answer.metadata.response_code = code;
    answer.queries.extend(request.queries.first().cloned());
    answer
}

/// Turns an answer into bytes, signs it, and cuts it if the other side takes less.
fn finish(mut answer: Message, request: &Message, sign: Sign, transport: Transport) -> Option<Vec<u8>> {
    if request.edns.is_some() {
        let mut edns = Edns::new();
        edns.set_max_payload(MAX_UDP_BYTES as u16);
        edns.set_rcode_high(answer.metadata.response_code.high());
        answer.set_edns(edns);
    }
    let limit = match (transport, &request.edns) {
        (Transport::Tcp, _) => usize::from(u16::MAX),
        (Transport::Udp, None) => MIN_UDP_BYTES,
        (Transport::Udp, Some(edns)) => usize::from(edns.max_payload()).clamp(MIN_UDP_BYTES, MAX_UDP_BYTES),
    };
    let mut bytes = answer.to_vec().ok()?;
    if bytes.len() > limit {
        answer = answer.truncate();
        bytes = answer.to_vec().ok()?;
    }
    if let Sign::With(context) = sign {
        answer.set_signature(context.sign(&bytes).ok()?);
        bytes = answer.to_vec().ok()?;
    }
    Some(bytes)
}
