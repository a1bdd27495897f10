//! `treecast rib` as a user runs it, with files that are wrong or unusual.

use std::{fs, process::Output};

use crate::session::{Scratch, assert_says, only_refused};

/// 2012-12-01 and 2013-01-01, in seconds since 1970.
const DECEMBER: u32 = 1_354_320_000;
const JANUARY: u32 = 1_356_998_400;

/// A folder of files, in which commands run.
struct Folder(Scratch);

impl Folder {
    fn new() -> Self {
        Self(Scratch::new())
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.0.path(name), bytes).unwrap();
    }

    fn rib(&self, args: &[&str]) -> Output {
        self.0.command("rib").args(args).output().unwrap()
    }

    /// What a command prints that succeeds.
    #[track_caller]
    fn says(&self, args: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.rib(args);
        assert!(status.success(), "{args:?}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.says(&[args, &["--json"]].concat())).unwrap()
    }

    /// A command fails, prints nothing else, and says why in a line with these words.
    #[track_caller]
    fn refuses(&self, args: &[&str], words: &[&str]) {
        only_refused(self.0.command("rib").args(args), words);
    }
}

fn record(time: u32, subtype: u16, body: &[u8]) -> Vec<u8> {
    let length = body.len() as u32;
    [&time.to_be_bytes()[..], &[0, 13], &subtype.to_be_bytes(), &length.to_be_bytes(), body].concat()
}

/// A TABLE_DUMP_V2 table of IPv4 prefixes 20.0.N.0/24 for each N and path. Each path's first AS is the peer that sends it.
fn table(time: u32, routes: &[(u8, &[u8])]) -> Vec<u8> {
    let mut peers: Vec<u8> = routes.iter().map(|(_, path)| path[0]).collect();
    peers.sort_unstable();
    peers.dedup();
    let mut index = vec![192, 0, 2, 1, 0, 0, 0, peers.len() as u8];
    for peer in &peers {
        index.extend([0, 192, 0, 2, *peer, 20, 20, 0, *peer, 0, *peer]);
    }
    let mut file = record(time, 1, &index);
    for (third, path) in routes {
        let peer = peers.binary_search(&path[0]).unwrap() as u8;
        let octets = path.len() as u8 * 4;
        let mut body = vec![0, 0, 0, 1, 24, 20, 0, *third, 0, 1, 0, peer, 0, 0, 0, 1];
        body.extend([0, octets + 5, 0x40, 2, octets + 2, 2, path.len() as u8]);
        path.iter().for_each(|asn| body.extend([0, 0, 0, *asn]));
        file.extend(record(time, 2, &body));
    }
    file
}

fn sound(time: u32) -> Vec<u8> {
    table(time, &[(1, &[1, 2, 3]), (1, &[4, 2, 3]), (2, &[1, 2]), (3, &[4, 2, 5])])
}

#[test]
fn a_file_that_is_no_table_is_refused_in_a_line() {
    let folder = Folder::new();
    folder.write("page.mrt", b"<html>not found</html>");
    folder.write("empty.mrt", b"");
    folder.write("short.mrt", &record(DECEMBER, 2, &[1]));
    folder.write("sound.mrt", &sound(DECEMBER));
    for command in [&["report"][..], &["growth"], &["read", "--out", "x.db"]] {
        folder.refuses(&[command, &["page.mrt"]].concat(), &["page.mrt: this is a web page"]);
        folder
            .refuses(&[command, &["empty.mrt"]].concat(), &["empty.mrt: the file is empty: fetch it again"]);
        folder.refuses(&[command, &["short.mrt"]].concat(), &["short.mrt: nothing in it could be read"]);
        folder.refuses(&[command, &["none.mrt"]].concat(), &["none.mrt: No such file"]);
    }
    folder.refuses(&["compare", "sound.mrt", "page.mrt"], &["page.mrt: this is a web page"]);
    folder.refuses(&["ownership", "sound.mrt"], &["no delegations are among these files"]);
    folder.refuses(&["report", "."], &["this folder holds nothing that `treecast rib read` wrote"]);
}

/// One peer sees one path to each prefix, and its own prefix has no provider.
#[test]
fn a_table_of_one_peer_and_a_stub_without_a_provider_are_told() {
    let folder = Folder::new();
    folder.write("one.mrt", &table(DECEMBER, &[(1, &[1, 2, 3])]));
    let report = folder.json(&["report", "one.mrt"]);
    assert!(report["warnings"][0].as_str().unwrap().starts_with("One peer only"), "{report:#}");
    folder.write("alone.mrt", &table(DECEMBER, &[(1, &[7]), (2, &[8, 9, 3])]));
    let report = folder.json(&["report", "alone.mrt"]);
    let family = &report["families"][0];
    assert_eq!((family["stubs"].as_u64(), family["providers"].as_u64()), (Some(3), Some(1)), "{report:#}");
    assert_eq!(family["table_6_1"]["without_provider"], 1, "{report:#}");
    let text = folder.says(&["report", "alone.mrt"]);
    assert!(text.contains("1 whose provider no path shows"), "{text}");
    // A comparison tells that no change can be seen of it, and of the other peer.
    folder.write("later.mrt", &table(JANUARY, &[(1, &[7]), (2, &[8, 9, 3])]));
    let changes = folder.json(&["compare", "alone.mrt", "later.mrt"]);
    assert_eq!(changes["without_provider"], 2, "{changes:#}");
}

#[test]
fn tables_out_of_order_and_two_of_one_date_are_told() {
    let folder = Folder::new();
    folder.write("december.mrt", &sound(DECEMBER));
    folder.write("january.mrt", &sound(JANUARY));
    folder.write("copy.mrt", &sound(DECEMBER));
    folder.refuses(&["compare", "january.mrt", "december.mrt"], &["name an earlier table first"]);
    folder.refuses(&["compare", "december.mrt", "copy.mrt"], &["one of another time second"]);
    let text = folder.says(&["report", "january.mrt", "december.mrt"]);
    assert!(text.contains("Not compared with the table before: january.mrt is of 2013-01-01"), "{text}");
    let dates = folder.json(&["growth", "january.mrt", "december.mrt"]);
    assert_eq!((&dates[0]["date"], &dates[1]["date"]), (&"2012-12-01".into(), &"2013-01-01".into()));
    for store in ["rib.db", "archive/"] {
        folder.says(&["read", "january.mrt", "december.mrt", "--out", store]);
        folder.refuses(&["read", "copy.mrt", "--out", store], &["already holds the table of 2012-12-01"]);
        folder.says(&["read", "copy.mrt", "--out", store, "--replace"]);
        folder.refuses(&["compare", store, "january.mrt"], &["holds several tables", "name one of them"]);
        let days = [format!("{store}@2012-12-01"), format!("{store}@2013-01-01")];
        let changes = folder.json(&["compare", &days[0], &days[1]]);
        assert_eq!((&changes["days"], &changes["all"]["additions"]), (&31.0.into(), &0.into()));
        folder.refuses(&["report", &format!("{store}@2011-01-01")], &["it holds nothing of 2011-01-01"]);
        let [mut ours, mut theirs] = [store, "january.mrt"].map(|name| folder.json(&["report", name]));
        if let Some(last) = ours.as_array_mut().and_then(Vec::pop) {
            ours = last;
        }
        for report in [&mut ours, &mut theirs] {
            report["warnings"].take();
        }
        assert_eq!(ours, theirs, "{store}");
    }
}

/// A file that cannot be used, or that is there already, keeps none of the others from being read.
#[test]
fn files_that_cannot_be_read_are_named_and_the_others_are_read() {
    let folder = Folder::new();
    folder.write("december.mrt", &sound(DECEMBER));
    folder.write("empty.mrt", b"");
    folder.write("january.mrt", &sound(JANUARY));
    let read = |store: &str, files: &[&str]| {
        let Output { status, stdout, stderr } = folder.rib(&[&["read", "--out", store], files].concat());
        (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    };
    for store in ["rib.db", "archive/"] {
        let (code, read_files, said) = read(store, &["december.mrt", "empty.mrt", "none.mrt", "january.mrt"]);
        assert_eq!((code, read_files.lines().count(), said.lines().count()), (Some(3), 2, 3), "{said}");
        assert_says(
            &said,
            &["empty.mrt: the file is empty", "none.mrt: No such file", "2 of 4 files were not added"],
        );
        folder.write("february.mrt", &sound(JANUARY + 31 * 86_400));
        let (code, read_files, said) = read(store, &["december.mrt", "february.mrt"]);
        assert_eq!((code, read_files.lines().count()), (Some(3), 1), "{said}");
        assert!(
            said.contains("december.mrt: not added: ")
                && said.contains("already holds the table of 2012-12-01")
        );
        let (code, read_files, said) = read(store, &["december.mrt", "empty.mrt"]);
        assert_eq!((code, read_files.as_str()), (Some(1), ""), "{said}");
        assert!(said.contains("nothing was added, for the reasons above"), "{said}");
        assert_eq!(folder.json(&["growth", store]).as_array().map(Vec::len), Some(3));
    }
    // The other commands that take several files do likewise.
    for command in ["report", "growth"] {
        let Output { status, stdout, stderr } =
            folder.rib(&[command, "december.mrt", "empty.mrt", "january.mrt"]);
        let said = String::from_utf8(stderr).unwrap();
        assert_eq!((status.code(), said.lines().count()), (Some(3), 2), "{command}: {said}");
        assert_says(&said, &["empty.mrt: the file is empty", "1 of 3 files was left out"]);
        let text = String::from_utf8(stdout).unwrap();
        assert!(text.contains("2012-12-01") && text.contains("2013-01-01"), "{command}: {text}");
    }
}

#[test]
fn unknown_relations_are_counted_and_told() {
    let folder = Folder::new();
    folder.write("20121201.as-rel.txt", b"# comment\n1|2|-1\n3|2|0\n4|5|7\n4|6|9\nno line\n");
    let Output { status, stdout, stderr } = folder.rib(&["growth", "20121201.as-rel.txt", "--json"]);
    let said = String::from_utf8(stderr).unwrap();
    let points: serde_json::Value = serde_json::from_slice(&stdout).unwrap();
    assert_eq!((status.code(), points["ases"].as_u64()), (Some(0), Some(3)), "{points:#}");
    assert_says(&said, &["20121201.as-rel.txt", "a relation between two ASes is unknown (2 times)"]);
    let line = folder.json(&["read", "20121201.as-rel.txt"]);
    assert_eq!((line["items"].as_u64(), line["faults"].as_u64()), (Some(2), Some(3)));
}
