//! The border between C and Rust: signals, arguments, processes and threads as a program of C has them, which has no start of Rust's.

use std::path::{Path, PathBuf};

use crate::linked::{compile, libraries, linked, scratch, start, succeed};

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/border").join(name).with_extension("c")
}

/// The folder is empty, and goes at the end.
fn run(name: &str, arguments: &[&str]) -> String {
    let folder = scratch();
    let program = linked(&source(name), folder.path());
    String::from_utf8(succeed(start(&program, arguments))).unwrap()
}

/// A stranger's octets do not end the program by SIGPIPE, and its signals come in its own threads.
#[test]
fn strangers_raise_no_signals_and_threads_of_the_library_take_none() {
    assert_eq!(run("signals", &[]), "done\n");
}

#[test]
fn each_function_refuses_each_bad_argument() {
    let state = scratch();
    assert_eq!(run("arguments", &[state.path().to_str().unwrap()]), "done\n");
}

/// The static library is the same.
#[test]
fn the_static_library_refuses_bad_arguments_too() {
    let (state, folder) = (scratch(), scratch());
    let (program, library) = (folder.path().join("arguments"), libraries().join("libtreecast_c.a"));
    compile(&source("arguments"), &program, &[library.to_str().unwrap()]);
    assert_eq!(succeed(start(&program, &[state.path()])), b"done\n");
}

/// The ways are an announcement, a short code, and the rule of a standing receiver.
#[test]
fn c_finds_sessions() {
    let folder = scratch();
    assert_eq!(run("find", &[folder.path().to_str().unwrap()]), "done\n");
}

#[test]
fn a_child_that_was_forked_leaves_the_sessions_of_its_parent_alone() {
    assert_eq!(run("processes", &["fork"]), "done\n");
}

#[test]
fn a_function_that_the_session_calls_does_not_wait_for_itself() {
    assert_eq!(run("processes", &["wait"]), "done\n");
}

#[test]
fn several_threads_use_a_session_and_one_frees_it() {
    assert_eq!(run("processes", &["threads"]), "done\n");
}

#[test]
fn a_process_may_end_while_its_sessions_run() {
    assert_eq!(run("processes", &["exit"]), "");
}
