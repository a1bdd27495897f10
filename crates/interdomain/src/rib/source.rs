//! Opens files: compressed or not, and of which format.

use std::{
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
    Unknown,
}

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
    let unpacked: Box<dyn Read + Send> = match head {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(packed)),
        [b'B', b'Z', b'h', ..] => Box::new(bzip2::bufread::MultiBzDecoder::new(packed)),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(packed))
        }
        head => return Ok(Source { format: format(head), reader: Box::new(packed) }),
    };
    let mut reader = BufReader::with_capacity(HEAD_BYTES, unpacked);
    // What is damaged at its very start is of no format.
    let format = reader.fill_buf().map_or(Format::Unknown, format);
    Ok(Source { format, reader: Box::new(reader) })
}

/// The format of a file with these first bytes.
pub fn format(head: &[u8]) -> Format {
    if head.starts_with(b"SQLite format 3\0") {
        return Format::Sqlite;
    }
    if Header::parse(head).is_some_and(|header| types::is_known(header.kind) && header.kind >= 11) {
        return Format::Mrt;
    }
    let text = String::from_utf8_lossy(head);
    text.lines().find_map(line_format).unwrap_or(Format::Unknown)
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
    use crate::rib::{fault::Fault, read, synth};

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
            (b"<html>", Format::Unknown),
            (b"", Format::Unknown),
            (b"\x00\x00\x00\x01\xff\xff\x00\x00\x00\x00\x00\x00", Format::Unknown),
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
