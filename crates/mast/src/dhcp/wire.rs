//! DHCPv6 messages of MAST: the Broadcast Prefix Push, the list of a link's prefixes, and the server's signature.
//!
//! The push is a DHCPv6 message of its own type (paper interdomain-2013, 6.3.2). It lists the prefixes of the link as IA
//! Prefix options (RFC 8415, 21.22). A preferred lifetime of zero marks a discouraged prefix. Clients that ask for this option
//! get the same list in each Reply. A prefix shorter than 64 bits is a block: no address is made of it, but its status is
//! that of the prefixes inside it.
//!
//! The server signs both by Ed25519 in an Authentication option (RFC 8415, 21.11). A client needs only the server's public
//! key, so one client cannot forge what others believe. The reconfigure key of RFC 8415, 20.4, is no alternative: it is
//! another one for each client, and a push is one packet for all.
//!
//! A client that knows the server's key draws a number of 64 bits for each transaction and sends it in an Authentication
//! option. The signed answer repeats it. The transaction's own number has 24 bits, so somebody could collect an answer for each.

use dhcproto::{
    Decodable, Encodable,
    v6::{Authentication, DhcpOption, IAPrefix, Message, MessageType, OptionCode},
};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

use crate::Prefix;

/// The type of the Broadcast Prefix Push. IANA has assigned no type near it.
pub(crate) const PUSH: MessageType = MessageType::Unknown(240);

/// The longest message that is read, in bytes. Options may contain options, and each level takes stack.
pub const MAX_LEN: usize = 2_048;

/// The authentication protocol, among the numbers that IANA has not assigned.
const PROTOCOL: u8 = 240;
/// Ed25519 (RFC 8032).
const ALGORITHM: u8 = 1;
/// The replay detection field is a number that grows (RFC 8415, 20.3).
const MONOTONIC: u8 = 0;
/// The replay detection field is a number that the client has drawn. RFC 8415 has no such method.
const DRAWN: u8 = 1;
/// The bytes that are signed in front of the message, so that a signature serves no other purpose.
const CONTEXT: &[u8] = b"treecast 2026-11 MAST DHCPv6";
/// The bytes of a message before its options.
const HEADER_LEN: usize = 4;
const OPTION_HEADER_LEN: usize = 4;
/// The bytes of an Authentication option's data before the signature.
const AUTHENTICATION_LEN: usize = 11;

/// The bytes of a client's number in an answer, before the signature.
const NUMBER_LEN: usize = 8;

/// The facts that a signature vouches for besides the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signed {
    /// The counter of the message, higher than that of all messages that the server has signed before.
    pub counter: u64,
    /// The number of the client whose request the message answers. `None`: it answers nobody.
    pub answers: Option<u64>,
}

/// A prefix of a link, as a server lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkPrefix {
    pub prefix: Prefix,
    /// The time for which new connections should use the prefix, in seconds. 0: it is discouraged.
    pub preferred_s: u32,
    /// The time for which addresses in the prefix can be used, in seconds.
    pub valid_s: u32,
}

/// Reads a message. `None` if it is none, or too long.
pub fn decode(bytes: &[u8]) -> Option<Message> {
    let is_sound = bytes.len() <= MAX_LEN && bytes.get(HEADER_LEN..).is_some_and(are_sound);
    is_sound.then(|| Message::from_bytes(bytes).ok())?
}

/// Whether options are as long as RFC 8415 (section 21) says. The parser subtracts the length of an option's fixed part from its
/// length, whichever is longer, and skips other options by what it has read and not by their length.
fn are_sound(mut options: &[u8]) -> bool {
    while let [c0, c1, l0, l1, rest @ ..] = options {
        let (code, len) = (u16::from_be_bytes([*c0, *c1]), usize::from(u16::from_be_bytes([*l0, *l1])));
        // The parser does not look at the length of some options, and would go on behind one that is cut.
        let Some((value, behind)) = rest.split_at_checked(len) else { return false };
        let is_as_long = match OptionCode::from(code) {
            OptionCode::RapidCommit | OptionCode::ReconfAccept => len == 0,
            OptionCode::Preference | OptionCode::ReconfMsg => len == 1,
            OptionCode::ElapsedTime => len == 2,
            OptionCode::ServerUnicast => len == 16,
            OptionCode::StatusCode => len >= 2,
            OptionCode::VendorClass | OptionCode::VendorOpts => len >= 4,
            _ => true,
        };
        let nested_at = match OptionCode::from(code) {
            OptionCode::IANA | OptionCode::IAPD => Some(12),
            OptionCode::IATA | OptionCode::VendorOpts => Some(4),
            OptionCode::IAAddr => Some(24),
            OptionCode::IAPrefix => Some(25),
            OptionCode::RelayMsg => Some(34),
            _ => None,
        };
        let nested = nested_at.and_then(|at| value.get(at..));
        if !is_as_long || nested.is_some_and(|nested| !are_sound(nested)) {
            return false;
        }
        options = behind;
    }
    true
}

/// The bytes of a message. `None` if a value is too long for its field.
pub fn encode(message: &Message) -> Option<Vec<u8>> {
    message.to_vec().ok()
}

/// Makes a push.
pub fn push(server_id: &[u8], prefixes: &[LinkPrefix]) -> Message {
    let mut message = Message::new_with_id(PUSH, [0; 3]);
    message.opts_mut().insert(DhcpOption::ServerId(server_id.to_vec()));
    add_prefixes(&mut message, prefixes);
    message
}

/// Adds the list of a link's prefixes.
pub(crate) fn add_prefixes(message: &mut Message, prefixes: &[LinkPrefix]) {
    for listed in prefixes {
        message.opts_mut().insert(DhcpOption::IAPrefix(IAPrefix {
            preferred_lifetime: listed.preferred_s,
            valid_lifetime: listed.valid_s,
            prefix_len: listed.prefix.length(),
            prefix_ip: listed.prefix.address(),
            opts: Default::default(),
        }));
    }
}

/// The list of a link's prefixes. Options that are no prefixes are skipped.
pub fn prefixes(message: &Message) -> Vec<LinkPrefix> {
    let listed = |option: &DhcpOption| match option {
        DhcpOption::IAPrefix(it) if it.preferred_lifetime <= it.valid_lifetime => Some(LinkPrefix {
            prefix: Prefix::new(it.prefix_ip, it.prefix_len).ok()?,
            preferred_s: it.preferred_lifetime,
            valid_s: it.valid_lifetime,
        }),
        _ => None,
    };
    message.opts().iter().filter_map(listed).collect()
}

/// The DUID of the server that a message names.
pub(crate) fn server_id(message: &Message) -> Option<&[u8]> {
    message.opts().iter().find_map(|option| match option {
        DhcpOption::ServerId(id) => Some(&id[..]),
        _ => None,
    })
}

/// The DUID of the client that a message names.
pub(crate) fn client_id(message: &Message) -> Option<&[u8]> {
    message.opts().iter().find_map(|option| match option {
        DhcpOption::ClientId(id) => Some(&id[..]),
        _ => None,
    })
}

/// Whether a client asks for an option.
pub(crate) fn asks_for(message: &Message, code: OptionCode) -> bool {
    message.opts().iter().any(|option| matches!(option, DhcpOption::ORO(oro) if oro.opts.contains(&code)))
}

/// The option by which a client sends a number that the signed answer repeats.
pub(crate) fn challenge(number: u64) -> DhcpOption {
    DhcpOption::Authentication(Authentication {
        proto: PROTOCOL,
        algo: ALGORITHM,
        rdm: DRAWN,
        replay_detection: number,
        info: Vec::new(),
    })
}

/// The number that a client wants repeated.
pub(crate) fn challenged(message: &Message) -> Option<u64> {
    message.opts().iter().find_map(|option| match option {
        DhcpOption::Authentication(it) if (it.proto, it.algo, it.rdm) == (PROTOCOL, ALGORITHM, DRAWN) => {
            Some(it.replay_detection)
        }
        _ => None,
    })
}

/// Signs a message. The counter must be higher than those of all messages that were signed before. `None` if the message
/// cannot be written.
pub fn sign(mut message: Message, signed: Signed, key: &SigningKey) -> Option<Vec<u8>> {
    let number = signed.answers.map(u64::to_be_bytes);
    message.opts_mut().insert(DhcpOption::Authentication(Authentication {
        proto: PROTOCOL,
        algo: ALGORITHM,
        rdm: MONOTONIC,
        replay_detection: signed.counter,
        info: [number.as_ref().map_or(&[][..], |it| it), &[0; Signature::BYTE_SIZE]].concat(),
    }));
    let mut bytes = encode(&message)?;
    let at = authentication(&bytes)?.1;
    let signature = key.sign(&[CONTEXT, &bytes].concat());
    bytes.get_mut(at..at + Signature::BYTE_SIZE)?.copy_from_slice(&signature.to_bytes());
    Some(bytes)
}

/// Verifies the signature of a message.
pub fn verify(bytes: &[u8], key: &VerifyingKey) -> Option<Signed> {
    let (vouched, at) = authentication(bytes)?;
    let mut signed = [CONTEXT, bytes].concat();
    let signature = signed.get_mut(CONTEXT.len() + at..CONTEXT.len() + at + Signature::BYTE_SIZE)?;
    let given = Signature::from_slice(signature).ok()?;
    signature.fill(0);
    key.verify_strict(&signed, &given).is_ok().then_some(vouched)
}

/// Finds the only Authentication option of a message. Returns what it says, and where its signature begins.
fn authentication(bytes: &[u8]) -> Option<(Signed, usize)> {
    let mut at = HEADER_LEN;
    let mut found = None;
    while at < bytes.len() {
        let [code, len] =
            [0, 2].map(|field| Some(u16::from_be_bytes(*bytes.get(at + field..)?.first_chunk()?)));
        let (code, len) = (code?, usize::from(len?));
        let data = bytes.get(at + OPTION_HEADER_LEN..at + OPTION_HEADER_LEN + len)?;
        if code == u16::from(OptionCode::Authentication) {
            let (header, info) = data.split_first_chunk::<AUTHENTICATION_LEN>()?;
            let [PROTOCOL, ALGORITHM, MONOTONIC, counter @ ..] = *header else { return None };
            let number = info.get(..info.len().checked_sub(Signature::BYTE_SIZE)?)?;
            let answers = match number.len() {
                0 => None,
                NUMBER_LEN => Some(u64::from_be_bytes(*number.first_chunk()?)),
                _ => return None,
            };
            let signature = at + OPTION_HEADER_LEN + AUTHENTICATION_LEN + number.len();
            let is_only = found.is_none();
            found = is_only.then_some((Signed { counter: u64::from_be_bytes(counter), answers }, signature));
            found?;
        }
        at += OPTION_HEADER_LEN + len;
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn signed() -> (Vec<u8>, SigningKey) {
        let key = SigningKey::from_bytes(&[7; 32]);
        let prefix: Prefix = "2001:db8:a:1::/64".parse().expect("a prefix");
        let prefixes = [LinkPrefix { prefix, preferred_s: 0, valid_s: 900 }];
        let signed = Signed { counter: 77, answers: None };
        (sign(push(&[0, 3, 0, 1], &prefixes), signed, &key).expect("bytes"), key)
    }

    /// Options whose fixed part is longer than they are, alone, behind another one, and inside one of an identity.
    #[test]
    fn options_that_are_too_short_make_no_message() {
        let message = |options: &[u8]| decode(&[&[7, 0, 0, 1], options].concat()).is_some();
        assert!(message(&[]) && message(&[0, 13, 0, 2, 0, 0]) && message(&[0, 7, 0, 1, 9]));
        let bad: [&[u8]; 5] = [
            &[0, 13, 0, 1, 0, 0, 0],
            &[0, 16, 0, 0, 0, 0, 0, 0],
            &[0, 17, 0, 3, 0, 0, 0, 0],
            &[0, 7, 0, 2, 9, 9],
            &[0, 14, 0xff, 0xff, 0, 13, 0, 1, 0, 0, 0],
        ];
        for bad in bad {
            let inside = [&[0, 3, 0, 12 + bad.len() as u8], &[0; 12][..], bad].concat();
            for options in [bad.to_vec(), [&[0, 8, 0, 2, 0, 0], bad].concat(), inside] {
                assert!(!message(&options), "{options:?}");
            }
        }
        assert!(message(&[0, 17, 0, 4, 0, 0, 0, 1, 0]), "what is cut behind whole options is left out");
    }

    #[test]
    fn a_push_comes_back_and_every_changed_octet_is_noticed() {
        let (bytes, key) = signed();
        assert_eq!(verify(&bytes, &key.verifying_key()), Some(Signed { counter: 77, answers: None }));
        let message = decode(&bytes).expect("a message");
        assert_eq!((message.msg_type(), prefixes(&message).len()), (PUSH, 1));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(verify(&changed, &key.verifying_key()), None, "octet {at}");
            assert_eq!(verify(&bytes[..at], &key.verifying_key()), None, "{at} octets");
        }
        let other = SigningKey::from_bytes(&[8; 32]).verifying_key();
        assert_eq!(verify(&bytes, &other), None);
    }

    /// Golden bytes: docs/protocol.md describes this message.
    #[test]
    fn a_push_is_laid_out_as_the_protocol_document_says() {
        let (bytes, _) = signed();
        let mut expected = vec![240, 0, 0, 0, 0, 2, 0, 4, 0, 3, 0, 1];
        expected.extend([0, 11, 0, 75, 240, 1, 0, 0, 0, 0, 0, 0, 0, 0, 77]);
        expected.extend(&bytes[expected.len()..][..64]);
        expected.extend([0, 26, 0, 25, 0, 0, 0, 0, 0, 0, 3, 132, 64]);
        expected.extend([0x20, 1, 0x0d, 0xb8, 0, 0x0a, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes, expected);
    }

    #[test]
    fn an_answer_repeats_the_number_of_its_request_under_the_signature() {
        let key = SigningKey::from_bytes(&[7; 32]);
        let mut request = Message::new_with_id(MessageType::Renew, [1, 2, 3]);
        assert_eq!(challenged(&request), None);
        request.opts_mut().insert(challenge(0x0102));
        let read = decode(&encode(&request).expect("bytes")).expect("a message");
        assert_eq!(challenged(&read), Some(0x0102));
        let signed = Signed { counter: 5, answers: challenged(&read) };
        let bytes = sign(Message::new_with_id(MessageType::Reply, [1, 2, 3]), signed, &key).expect("bytes");
        assert_eq!(verify(&bytes, &key.verifying_key()), Some(signed));
        // The option's header, protocol, counter, and the number before the signature.
        assert_eq!(bytes[4..27], [0, 11, 0, 83, 240, 1, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 1, 2]);
        let mut changed = bytes.clone();
        changed[26] ^= 1;
        assert_eq!(verify(&changed, &key.verifying_key()), None);
    }

    /// Options inside options take stack in the parser: the longest message must not use it up.
    #[test]
    fn options_nested_as_deep_as_a_message_allows_are_read() {
        for (code, fixed_len) in [(3u16, 12usize), (9, 34), (17, 4), (25, 12), (5, 24), (26, 25)] {
            let mut inner = Vec::new();
            while inner.len() + fixed_len + 2 * OPTION_HEADER_LEN <= MAX_LEN {
                let len = (fixed_len + inner.len()) as u16;
                inner = [&code.to_be_bytes()[..], &len.to_be_bytes(), &vec![0; fixed_len], &inner].concat();
            }
            _ = decode(&[&[1, 0, 0, 0][..], &inner].concat());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(message) = decode(&bytes) {
                _ = prefixes(&message);
            }
            _ = verify(&bytes, &SigningKey::from_bytes(&[7; 32]).verifying_key());
        }
    }
}
