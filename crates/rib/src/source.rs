//! Opens files: compressed or not, and of which format.

use std::{
    fmt,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use super::mrt::{Header, types};

/// The formats of files that treecast reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A routing table or updates.
    Mrt,
    /// Relations between ASes, as CAIDA publishes them.
    Relations,
    /// Delegations of a regional registry.
    Delegations,
    /// A database that `rib read` wrote.
    Sqlite,
    /// Nothing of these.
    Unknown(Stranger),
}

/// The kind of a file that holds nothing that treecast reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stranger {
    /// The file has no bytes, or none when it is unpacked.
    Empty,
    WebPage,
    /// The file is packed in a way that treecast does not unpack: the name of the way, and the command that unpacks
    /// it.
    Packed(&'static str, &'static str),
    /// The file is packed in a way that treecast unpacks, and cannot be unpacked from its first byte on.
    Damaged(&'static str),
    /// The file is packed by xz, with a dictionary that takes more than [`MAX_XZ_MEGABYTES`].
    TooLargeDictionary,
    /// The file is a database that `rib read` wrote, where a file as published is wanted.
    Store,
    Other,
}

/// Says what the file is, and what to do.
impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the file is empty: fetch it again"),
            Self::WebPage => {
                write!(
                    f,
                    "this is a web page, such as a server's error or its list of files: fetch the file itself"
                )
            }
            Self::Packed(by, command) => write!(
                f,
                "this is packed as {by}, which treecast does not unpack: unpack it by `{command}`, and name what comes out"
            ),
            Self::Damaged(by) => write!(
                f,
                "the file is packed by {by}, and is cut short or damaged where it begins, so nothing of it can be unpacked: \
                 fetch it again"
            ),
            Self::TooLargeDictionary => write!(
                f,
                "the file is packed by xz in a way that takes more than {MAX_XZ_MEGABYTES} MiB of memory to unpack: unpack \
                 it by `xz -d`, and name what comes out"
            ),
            Self::Store => write!(
                f,
                "`treecast rib read` wrote this, so it need not be read again: name it in `treecast rib report`"
            ),
            Self::Other => write!(
                f,
                "this is no routing table or updates (MRT), no relations between ASes, no delegations, and nothing that \
                 `treecast rib read` wrote: name such a file"
            ),
        }
    }
}

/// Ways to pack files that treecast does not unpack: the first bytes, a name, and the command that unpacks.
const PACKED: [(&[u8], &str, &str); 6] = [
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd", "zstd -d FILE"),
    (&[0x04, 0x22, 0x4d, 0x18], "lz4", "lz4 -d FILE"),
    (&[0x1f, 0x9d], "compress (.Z)", "gzip -d FILE"),
    (b"PK\x03\x04", "zip", "unzip FILE"),
    (b"7z\xbc\xaf\x27\x1c", "7z", "7z x FILE"),
    (b"LZIP", "lzip", "lzip -d FILE"),
];

/// The place and the text by which a tar file is known.
const TAR: (usize, &[u8]) = (257, b"ustar");

/// The greatest dictionary of a file that xz has packed, in MiB. `xz -9` makes files that need 65.
const MAX_XZ_MEGABYTES: u64 = 256;

/// The number of bytes at a file's start that tell its format.
const HEAD_BYTES: usize = 64 * 1024;

/// An open file, unpacked while it is read.
pub struct Source {
    pub format: Format,
    pub reader: Box<dyn BufRead + Send>,
}

/// Opens a file that may be packed by gzip, bzip2 or xz. Its first bytes tell, and not its name.
pub fn open(path: &Path) -> io::Result<Source> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let mut packed = BufReader::with_capacity(HEAD_BYTES, file);
    let head = packed.fill_buf()?;
    let (way, unpacked): (_, Box<dyn Read + Send>) = match head {
        [0x1f, 0x8b, ..] => ("gzip", Box::new(flate2::bufread::MultiGzDecoder::new(packed))),
        [b'B', b'Z', b'h', ..] => ("bzip2", Box::new(bzip2::bufread::MultiBzDecoder::new(packed))),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            let stream = liblzma::stream::Stream::new_stream_decoder(
                MAX_XZ_MEGABYTES << 20,
                liblzma::stream::CONCATENATED,
            )?;
            ("xz", Box::new(liblzma::bufread::XzDecoder::new_stream(packed, stream)))
        }
        head => return Ok(Source { format: format(head), reader: Box::new(packed) }),
    };
    let mut reader = BufReader::with_capacity(HEAD_BYTES, unpacked);
    let format = match reader.fill_buf() {
        Ok(head) => format(head),
        Err(error) => Format::Unknown(stranger(way, &error)),
    };
    Ok(Source { format, reader: Box::new(reader) })
}

/// The kind of a packed file whose first bytes cannot be unpacked.
fn stranger(way: &'static str, error: &io::Error) -> Stranger {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    match cause {
        Some(liblzma::stream::Error::MemLimit) => Stranger::TooLargeDictionary,
        _ => Stranger::Damaged(way),
    }
}

/// The format of a file with these first bytes.
pub fn format(head: &[u8]) -> Format {
    if head.starts_with(b"SQLite format 3\0") {
        return Format::Sqlite;
    }
    if head.is_empty() {
        return Format::Unknown(Stranger::Empty);
    }
    if Header::parse(head).is_some_and(|header| types::is_known(header.kind) && header.kind >= 11) {
        return Format::Mrt;
    }
    let is_tar = head.get(TAR.0..).is_some_and(|behind| behind.starts_with(TAR.1));
    let packed = PACKED.iter().find(|(start, ..)| head.starts_with(start));
    if let Some((by, command)) =
        packed.map(|(_, by, command)| (*by, *command)).or(is_tar.then_some(("tar", "tar -xf FILE")))
    {
        return Format::Unknown(Stranger::Packed(by, command));
    }
    let text = String::from_utf8_lossy(head);
    let other = if is_page(&text) { Stranger::WebPage } else { Stranger::Other };
    text.lines().find_map(line_format).unwrap_or(Format::Unknown(other))
}

/// Whether a text is HTML or XML, as a server's answer is.
fn is_page(text: &str) -> bool {
    let text = text.trim_start_matches(|letter: char| letter.is_whitespace() || letter == '\u{feff}');
    let start = text.chars().take(16).collect::<String>().to_ascii_lowercase();
    ["<!doctype", "<html", "<?xml", "<head", "<!--"].iter().any(|mark| start.starts_with(mark))
}

/// The format that a line of a text has. `None`: the line does not tell.
fn line_format(line: &str) -> Option<Format> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let fields: Vec<&str> = line.split('|').collect();
    match fields[..] {
        // The heading and the records of a registry: version|registry|..., registry|country|type|...
        [_, _, "asn" | "ipv4" | "ipv6", _, _, _, ..] => Some(Format::Delegations),
        [version, _, _, _, _, _, _, ..] if version.parse::<f32>().is_ok() => Some(Format::Delegations),
        [left, right, _, ..] => are_asns(left, right).then_some(Format::Relations),
        _ => match line.split_whitespace().collect::<Vec<_>>()[..] {
            [left, right, _] => are_asns(left, right).then_some(Format::Relations),
            _ => None,
        },
    }
}

fn are_asns(left: &str, right: &str) -> bool {
    [left, right].iter().all(|asn| asn.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::{fault::Fault, read, synth};

    #[test]
    fn first_bytes_tell_the_format() {
        let mrt = Header { time: 1, kind: 13, subtype: 1, length: 4 }.to_wire();
        for (head, expected) in [
            (&mrt[..], Format::Mrt),
            (b"SQLite format 3\0", Format::Sqlite),
            (b"# comment\n1|11537|0\n", Format::Relations),
            (b"#x\n# y\n8563 26716\t1\n", Format::Relations),
            (b"2|lacnic|20150305|17896|19870101|20150305|-0300\n", Format::Delegations),
            (b"####\n#\n2.3|apnic|20150301|1|1|20150301|+1000\n", Format::Delegations),
            (b"lacnic|AR|ipv4|24.232.0.0|65536|19970602|allocated\n", Format::Delegations),
            (b"\n<!DOCTYPE html><html>", Format::Unknown(Stranger::WebPage)),
            (b"", Format::Unknown(Stranger::Empty)),
            (b"\x28\xb5\x2f\xfd\x04", Format::Unknown(Stranger::Packed("zstd", "zstd -d FILE"))),
            (b"\x00\x00\x00\x01\xff\xff\x00\x00\x00\x00\x00\x00", Format::Unknown(Stranger::Other)),
        ] {
            assert_eq!(format(head), expected, "{}", String::from_utf8_lossy(head));
        }
    }

    /// A file is read as the file that was packed, whatever its name, also if it is packed in several pieces.
    #[test]
    fn packed_files_are_read_as_what_they_hold() {
        let folder = tempfile::tempdir().unwrap();
        let model =
            synth::Spec { ases: 420, stubs: 360, prefixes: 3000, peers: 26, ..synth::Spec::default() };
        let mut table = Vec::new();
        synth::write(&synth::Model::new(model).unwrap(), synth::Format::TableDumpV2, &mut table).unwrap();
        let (first, second) = table.split_at(table.len() / 2);
        let dump = |bytes: &[u8]| {
            let path = folder.path().join("table");
            std::fs::write(&path, bytes).unwrap();
            let found = open(&path).unwrap();
            assert_eq!(found.format, Format::Mrt);
            read::read(found.reader, "table", 2).unwrap()
        };
        let plain = dump(&table);
        assert!(plain.entries() > 1000 && plain.faults.errors() == 0);
        for pack in [gzip, bzip2, xz] {
            assert!(dump(&pack(&table)) == plain);
            assert!(dump(&[pack(first), pack(second)].concat()) == plain);
            // One that is cut short is read up to there.
            let packed = pack(&table);
            let cut = dump(&packed[..packed.len() - packed.len() / 4]);
            assert!((1..plain.entries()).contains(&cut.entries()), "{}", cut.entries());
            assert!(cut.faults.count(Fault::FileEnds) > 0);
        }
    }

    /// Each kind of file that cannot be used is told apart, with what to do. A packed file is what it holds.
    #[test]
    fn a_file_that_cannot_be_used_is_told_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let kind = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            match open(&path).unwrap().format {
                Format::Unknown(stranger) => stranger,
                format => panic!("{format:?}"),
            }
        };
        let tar = [&[b'a'; 257][..], b"ustar\0", &[0; 200]].concat();
        for pack in [gzip, bzip2, xz] {
            let way = match kind(&pack(&tar)[..10]) {
                Stranger::Damaged(way) => way,
                other => panic!("{other:?}"),
            };
            assert_eq!(kind(&pack(b"<html>no such file")), Stranger::WebPage, "{way}");
            assert_eq!(kind(&pack(b"")), Stranger::Empty, "{way}");
            assert_eq!(kind(&pack(&tar)), Stranger::Packed("tar", "tar -xf FILE"), "{way}");
        }
        // The size of the dictionary is in the block's header, which has a checksum: 384 MiB.
        let mut packed = xz(b"1|2|0\n");
        assert_eq!(packed[12..16], [2, 0, 0x21, 1], "a block with one filter, LZMA2");
        packed[16] = 33;
        let mut checksum = flate2::Crc::new();
        checksum.update(&packed[12..20]);
        packed[20..24].copy_from_slice(&checksum.sum().to_le_bytes());
        assert_eq!(kind(&packed), Stranger::TooLargeDictionary);
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(bytes).and_then(|()| packed.finish()).unwrap()
    }

    fn bzip2(bytes: &[u8]) -> Vec<u8> {
        // Blocks of 100 kB, so that a file that is cut short has some whole ones.
        let mut packed = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        packed.write_all(bytes).and_then(|()| packed.finish()).unwrap()
    }

    fn xz(bytes: &[u8]) -> Vec<u8> {
        let mut packed = liblzma::write::XzEncoder::new(Vec::new(), 1);
        packed.write_all(bytes).and_then(|()| packed.finish()).unwrap()
    }
}
