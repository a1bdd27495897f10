//! The stream that LDM's pqact hands to a decoder by `PIPE -metadata`: the metadata of a product, its data, and so on.
//!
//! All numbers are in the byte order of the host, because pqact runs there:
//!
//! | bytes | what |
//! |---|---|
//! | 4 | length of the metadata, with this field |
//! | 16 | MD5 of the product |
//! | 4 | size of the data, in bytes |
//! | 8, 4 | time of creation: seconds since 1970, and microseconds |
//! | 4, 4 | feed type, sequence number |
//! | 4, and as many | length of the product's identifier, and the identifier |
//! | 4, and as many | length of the origin's name, and the name |

use std::io::{self, Read};

/// The feed type of the product that pqact makes up. It matches every feed type.
const ANY: u32 = u32::MAX;

/// The longest identifier or origin, in bytes. Those of LDM have at most 255.
const MAX_TEXT: u32 = 4096;

/// The longest name of a file, in bytes, as a session can send it.
const MAX_NAME: usize = 256;

/// The longest name of a file in its folder, in bytes, on most file systems.
const MAX_PART: usize = 255;

/// The length of what stands before the identifier, without the first field.
const FIXED_LEN: usize = 16 + 4 + 8 + 4 + 4 + 4;

/// The metadata of a product, as far as it is of use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// MD5 of the product.
    pub signature: [u8; 16],
    /// Size of the data that follows, in bytes.
    pub size_bytes: u32,
    /// Feed type: one bit for each kind of product, such as CONDUIT.
    pub feed_type: u32,
    /// The product's identifier. It may hold anything.
    pub identifier: String,
}

/// Reads the metadata of the next product. The data follow. `None` at the end of the stream.
///
/// # Errors
/// If the stream ends in the middle, or is something else.
pub fn read(stream: &mut impl Read) -> io::Result<Option<Metadata>> {
    let mut first = [0];
    if read_some(stream, &mut first)? == 0 {
        return Ok(None);
    }
    let mut rest = [0; 3];
    stream.read_exact(&mut rest)?;
    let total = u32::from_ne_bytes([first[0], rest[0], rest[1], rest[2]]);
    let mut fixed = [0; FIXED_LEN];
    stream.read_exact(&mut fixed)?;
    let mut signature = [0; 16];
    signature.copy_from_slice(&fixed[..16]);
    let number = |at: usize| u32::from_ne_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    let (size_bytes, feed_type) = (number(16), number(32));
    let identifier = read_text(stream, "the identifier")?;
    let origin = read_text(stream, "the origin")?;
    let len = 4 + FIXED_LEN + 4 + identifier.len() + 4 + origin.len();
    if total as usize != len {
        let line = format!("the metadata's length is said to be {total}, and it is {len}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, line));
    }
    let identifier = String::from_utf8_lossy(&identifier).into_owned();
    Ok(Some(Metadata { signature, size_bytes, feed_type, identifier }))
}

fn read_some(stream: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

fn read_text(stream: &mut impl Read, what: &str) -> io::Result<Vec<u8>> {
    let mut len = [0; 4];
    stream.read_exact(&mut len)?;
    let len = u32::from_ne_bytes(len);
    if len > MAX_TEXT {
        let line = format!("{what} has {len} bytes, and at most {MAX_TEXT} were expected");
        return Err(io::Error::new(io::ErrorKind::InvalidData, line));
    }
    let mut text = vec![0; len as usize];
    stream.read_exact(&mut text)?;
    Ok(text)
}

impl Metadata {
    /// Whether nobody sent this product: pqact makes it up when it starts, and hands it to every entry whose pattern matches its name.
    pub fn is_made_up(&self) -> bool {
        self.feed_type == ANY && self.size_bytes == 0 && self.identifier == "_BEGIN_"
    }

    /// The signature in hexadecimal digits.
    pub fn signature_digits(&self) -> String {
        self.signature.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The path of the product's file below a folder: its identifier, and `suffix`. Slashes divide folders. What cannot be in the
    /// name of a file, or would be hidden, is replaced. A name that is too long is cut, and the signature is put behind it.
    pub fn file_name(&self, suffix: &str) -> String {
        let parts = self.identifier.split('/').filter(|part| !matches!(*part, "" | "." | ".."));
        let mut parts: Vec<String> = parts.map(part).collect();
        let last = parts.pop().unwrap_or_else(|| self.signature_digits());
        parts.push(format!("{}{suffix}", cut(&last, MAX_PART - suffix.len())));
        let name = parts.join("/");
        if name.len() <= MAX_NAME {
            return name;
        }
        let ending = format!(".{}{suffix}", self.signature_digits());
        // What is left may be a single part.
        format!("{}{ending}", cut(&name, MAX_PART - ending.len()).trim_end_matches('/'))
    }
}

/// A part of an identifier as the name of a file or folder.
fn part(text: &str) -> String {
    let mut name: String = text.chars().map(|c| if c.is_control() { '_' } else { c }).collect();
    if name.starts_with('.') {
        name.replace_range(..1, "_");
    }
    name.truncate(cut(&name, MAX_PART).len());
    name
}

/// The beginning of a text, at most so many bytes.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=text.len().min(most)).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use treecast_proto::random::SplitMix64;

    use super::*;

    fn metadata(identifier: &str) -> Metadata {
        Metadata { signature: [0xab; 16], size_bytes: 3, feed_type: 0, identifier: identifier.to_owned() }
    }

    /// What pqact writes.
    fn written(identifier: &[u8], total: u32) -> Vec<u8> {
        let origin = b"idd.unidata.ucar.edu";
        let mut bytes = total.to_ne_bytes().to_vec();
        bytes.extend_from_slice(&[0xab; 16]);
        bytes.extend_from_slice(&3_u32.to_ne_bytes());
        bytes.extend_from_slice(&1_286_928_000_u64.to_ne_bytes());
        bytes.extend_from_slice(&250_000_i32.to_ne_bytes());
        bytes.extend_from_slice(&[0; 8]);
        for text in [identifier, origin] {
            bytes.extend_from_slice(&(text.len() as u32).to_ne_bytes());
            bytes.extend_from_slice(text);
        }
        bytes
    }

    #[test]
    fn products_follow_each_other() {
        let total = (4 + FIXED_LEN + 4 + 4 + 4 + 20) as u32;
        let mut stream = written(b"name", total);
        stream.extend_from_slice(b"abc");
        stream.extend(written(b"nam\xff", total));
        let mut stream = &stream[..];
        assert_eq!(read(&mut stream).unwrap().unwrap(), metadata("name"));
        stream = &stream[3..];
        assert_eq!(read(&mut stream).unwrap().unwrap().identifier, "nam\u{fffd}");
        assert_eq!(read(&mut stream).unwrap(), None);
        let line = read(&mut &written(b"name", 5)[..]).unwrap_err().to_string();
        assert!(line.contains("said to be 5"), "{line}");
        let line = read(&mut &written(&[b'x'; 5000], 9)[..]).unwrap_err().to_string();
        assert!(line.contains("the identifier has 5000 bytes"), "{line}");
    }

    #[test]
    fn a_product_that_pqact_makes_up_is_known() {
        let made_up = Metadata { size_bytes: 0, feed_type: ANY, ..metadata("_BEGIN_") };
        assert!(made_up.is_made_up());
        let others = [
            Metadata { feed_type: 1 << 28, ..made_up.clone() },
            Metadata { identifier: "a".into(), ..made_up },
        ];
        assert!(others.iter().all(|product| !product.is_made_up()));
    }

    #[test]
    fn whatever_comes_it_is_read_or_refused() {
        let mut random = SplitMix64(1);
        for len in 0..400 {
            let bytes = random.bytes(len);
            assert!(read(&mut &bytes[..]).is_ok() == (len == 0));
        }
    }

    #[test]
    fn an_identifier_becomes_a_path_that_stays_below_its_folder() {
        let name = |identifier: &str| metadata(identifier).file_name("");
        let conduit = "data/nam.t00z !grib2/ncep/#000/TMPK/0_1_SFC! 000001";
        let level_3 = "SDUS54 KOUN 201643 /pN0RTLX";
        assert_eq!((&*name(conduit), &*name(level_3)), (conduit, level_3));
        assert_eq!(name("/../a//./.b/c\nd/ e "), "a/_b/c_d/ e ");
        assert_eq!((name(""), name("../..")), ("ab".repeat(16), "ab".repeat(16)));
        let long = name(&"ä/".repeat(400));
        assert!(long.len() <= MAX_NAME && long.ends_with(&format!(".{}", "ab".repeat(16))), "{long}");
        assert!(name(&"x".repeat(300)).len() <= MAX_NAME);
    }

    #[test]
    fn a_name_has_room_for_its_suffix_and_no_part_is_too_long() {
        let suffix = ".abababab";
        assert_eq!(metadata("a/b").file_name(suffix), "a/b.abababab");
        for len in [1, 220, 246, 247, 251, 255, 256, 300] {
            let text = "x".repeat(len);
            for identifier in
                [text.clone(), format!("a/{text}"), format!("{text}/a"), format!("{text}/{text}")]
            {
                for suffix in ["", suffix] {
                    let name = metadata(&identifier).file_name(suffix);
                    assert!(name.len() <= MAX_NAME && name.ends_with(suffix), "{name}");
                    assert!(name.split('/').all(|part| (1..=MAX_PART).contains(&part.len())), "{name}");
                }
            }
        }
    }
}
