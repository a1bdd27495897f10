//! A question for the addresses of a name, as any resolver asks it.

use std::net::Ipv6Addr;

use hickory_proto::{
    op::{Message, MessageType, OpCode, Query, ResponseCode},
    rr::{Name, RData, RecordType},
};

use super::parse;

/// A question for the IPv6 addresses of a name.
#[derive(Debug, Clone)]
pub struct Lookup {
    name: Name,
    id: u16,
}

impl Lookup {
    /// Creates a question with a number.
    ///
    /// # Errors
    /// Says why the name is none.
    pub fn new(name: &str, id: u16) -> Result<Self, String> {
        let name = Name::from_ascii(name).map_err(|error| format!("{name}: {error}"))?;
        Ok(Self { name, id })
    }

    /// The bytes of the question.
    ///
    /// # Errors
    /// Says why it cannot be written.
    pub fn question(&self) -> Result<Vec<u8>, String> {
        let mut message = Message::new(self.id, MessageType::Query, OpCode::Query);
        message.add_query(Query::query(self.name.clone(), RecordType::AAAA));
        message.to_vec().map_err(|error| error.to_string())
    }

    /// The addresses in an answer, in its order. `None`: it is no answer to this question, or says that there was an error.
    pub fn addresses(&self, answer: &[u8]) -> Option<Vec<Ipv6Addr>> {
        let answer = parse(answer).ok()?;
        let is_answer =
            answer.metadata.id == self.id && answer.metadata.message_type == MessageType::Response;
        if !is_answer || answer.metadata.response_code != ResponseCode::NoError {
            return None;
        }
        let address = |data: &RData| match data {
            RData::AAAA(address) => Some(address.0),
            _ => None,
        };
        Some(answer.answers.iter().filter_map(|record| address(&record.data)).collect())
    }
}

#[cfg(test)]
mod tests {
    use hickory_proto::rr::{Record, rdata::AAAA};

    use super::*;

    #[test]
    fn the_addresses_of_the_right_answer_are_read() {
        let lookup = Lookup::new("www.stub.example.", 7).unwrap();
        let mut answer = Message::from_vec(&lookup.question().unwrap()).unwrap();
        assert_eq!(lookup.addresses(&answer.to_vec().unwrap()), None, "a question is no answer");
        answer.metadata.message_type = MessageType::Response;
        let address: Ipv6Addr = "2001:db8::1".parse().unwrap();
        answer.add_answer(Record::from_rdata(lookup.name.clone(), 5, RData::AAAA(AAAA(address))));
        let bytes = answer.to_vec().unwrap();
        assert_eq!(lookup.addresses(&bytes), Some(vec![address]));
        assert_eq!(Lookup::new("www.stub.example.", 8).unwrap().addresses(&bytes), None);
        assert_eq!(lookup.addresses(&bytes[..bytes.len() - 3]), None);
    }
}
