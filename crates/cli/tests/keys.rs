//! `treecast keys` as a user runs it.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use crate::session::{Scratch, finish_well, only_refused, start};

struct Home(Scratch);

impl Home {
    fn keys(&self, args: &str) -> Command {
        let mut command = self.0.command(format!("keys {args}"));
        command.env("HOME", self.0.path("")).env_remove("XDG_CONFIG_HOME");
        command
    }

    #[track_caller]
    fn says(&self, args: &str) -> String {
        finish_well(start(&mut self.keys(args)))
    }

    #[track_caller]
    fn refuses(&self, args: &str, words: &[&str]) {
        only_refused(&mut self.keys(args), words);
    }
}

#[test]
fn keys_are_made_shown_and_listed() {
    let home = Home(Scratch::new());
    let first = home.says("new");
    let anna = home.says("new anna");
    assert!(first.starts_with("tck1.") && first.ends_with(" default\n") && anna.ends_with(" anna\n"));
    assert_eq!((home.says("show"), home.says("show anna")), (first.clone(), anna.clone()));
    assert_eq!(home.says("list"), anna.clone() + &first);
    let file = home.0.path(".config/treecast/keys/anna.pem");
    assert_eq!(home.says(&format!("show {}", file.display())), anna);
    let json: serde_json::Value = serde_json::from_str(&home.says("show anna --json")).unwrap();
    assert_eq!((&json["event"], &json["name"]), (&"key".into(), &"anna".into()));
    assert_eq!((&json["path"], &json["key"]), (&file.to_str().unwrap().into(), &anna[..53].into()));
}

#[test]
fn what_is_wrong_with_a_key_is_told_in_one_line() {
    let home = Home(Scratch::new());
    home.refuses("show", &["no key default", "treecast keys new default"]);
    home.says("new anna");
    home.refuses("new anna", &["anna.pem exists already", "another name"]);
    home.refuses("new a.b", &["\"a.b\"", "letters, digits"]);
    home.refuses("new ./none/b", &["./none/b", "No such file"]);
    home.refuses("show ./none", &["./none", "No such file"]);
    let file = home.0.path(".config/treecast/keys/anna.pem");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    home.refuses("show anna", &["anna.pem", "0644", "chmod 600"]);
    home.refuses("list", &["anna.pem", "0644", "chmod 600"]);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, &text[..text.len() - 40]).unwrap();
    home.refuses("show anna", &["anna.pem", "cut short", "treecast keys new"]);
}
