//! Compiles the C programs of `examples`, and has them exchange objects with the Rust library.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use crate::linked::{compile, libraries, linked, scratch, start, succeed};
use treecast::{Group, GroupEvent, Object, Received, Receiver, ReceiverEvent};

/// A program of `examples`, linked with the shared library.
fn example(name: &str, folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name).with_extension("c");
    linked(&source, folder)
}

/// A file's name that is no text.
const NO_TEXT: &[u8] = b"no\xfftext";

/// What comes of a sender program that two receivers of the Rust library join.
fn sent_by(name: &str, argument: &OsStr) -> Vec<(String, Vec<u8>)> {
    let folder = scratch();
    let mut sender = start(&example(name, folder.path()), &["lo".as_ref(), "2".as_ref(), argument]);
    let mut output = BufReader::new(sender.stdout.take().unwrap());
    let mut ticket = String::new();
    output.read_line(&mut ticket).unwrap();
    let join = || Receiver::builder(ticket.parse().unwrap()).interface("lo").in_memory().join().unwrap();
    let mut came = [join(), join()].map(|receiver| {
        let mut objects: Vec<(String, Vec<u8>)> =
            receiver.events().filter_map(received).map(content).collect();
        objects.sort();
        objects
    });
    assert!(came[0] == came[1]);
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(sender.wait().unwrap().success(), "{rest}");
    std::mem::take(&mut came[0])
}

fn received(event: ReceiverEvent) -> Option<Received> {
    if let ReceiverEvent::Received(object) = event { Some(object) } else { None }
}

fn content(object: Received) -> (String, Vec<u8>) {
    (object.name().to_owned(), object.into_bytes().unwrap())
}

#[test]
fn c_sends_files_and_memory() {
    let folder = scratch();
    let source = folder.path().join(OsStr::from_bytes(NO_TEXT));
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("file"), "content").unwrap();
    let sent = sent_by("send_files", source.join("file").as_os_str());
    assert_eq!(sent, [("file".to_owned(), b"content".to_vec())]);

    let products = sent_by("send_memory", "100".as_ref());
    let mut expected: Vec<_> =
        (0..100).map(|number| (format!("product/{number}"), format!("{number}\n").into_bytes())).collect();
    expected.sort();
    assert_eq!(products, expected);
}

#[test]
fn c_receives_into_a_folder_and_into_memory_and_chooses() {
    let folder = scratch();
    let [each, batch] = [NO_TEXT, b"batch"].map(|name| folder.path().join(OsStr::from_bytes(name)));
    std::fs::create_dir(&batch).unwrap();
    let group = Group::builder().interface("lo").wait(2).start().unwrap();
    let ticket = group.ticket().to_string();
    let receive = |name: &str, into: &Path| {
        start(&example(name, folder.path()), &["lo".as_ref(), into.as_os_str(), ticket.as_ref()])
    };
    let receivers = [receive("receive_each", &each), receive("receive_batch", &batch)];
    let large = vec![7; 300_000];
    group.send(Object::bytes("folder/large", large.clone()).retx_factor(20.0)).unwrap();
    group.send_bytes("draft.tmp", "draft").unwrap();
    let end = group.close();
    let done: Vec<_> = group
        .events()
        .filter_map(|event| if let GroupEvent::Done(delivery) = event { Some(delivery) } else { None })
        .collect();
    assert!(end.wait().unwrap().is_complete());
    let counts =
        |name: &str| done.iter().find(|one| one.name == name).map(|one| (one.complete, one.not_wanted));
    assert_eq!([counts("folder/large"), counts("draft.tmp")], [Some((2, 0)), Some((1, 1))]);
    let [told, _] = receivers.map(succeed);
    let path = [each.as_os_str().as_bytes(), b"/folder/large is there\n"].concat();
    assert!(told == path, "{}", String::from_utf8_lossy(&told));
    assert!(std::fs::read(each.join("folder/large")).unwrap() == large && !each.join("draft.tmp").exists());
    assert!(std::fs::read(batch.join("folder_large")).unwrap() == large);
    assert_eq!(std::fs::read(batch.join("draft.tmp")).unwrap(), b"draft");
}

/// `accept` gets the size of each object, and may give it another name.
#[test]
fn c_chooses_by_size_and_renames() {
    let folder = scratch();
    let (source, into) = (folder.path().join("offers.c"), folder.path().join("into"));
    std::fs::write(&source, OFFERS).unwrap();
    let program = linked(&source, folder.path());
    let group = Group::builder().interface("lo").start().unwrap();
    let ticket = group.ticket().to_string();
    let receiver = start(&program, &[into.to_str().unwrap(), &ticket]);
    group.send_bytes("radar/7", vec![1; 1_000]).unwrap();
    group.send_bytes("large", vec![2; 5_000]).unwrap();
    group.close().wait().unwrap();
    assert_eq!(succeed(receiver), b"old/radar 1000\n");
    assert_eq!(std::fs::read(into.join("old/radar")).unwrap(), [1; 1_000]);
    assert!(!into.join("large").exists());
}

const OFFERS: &str = r#"
#include <stdio.h>
#include <treecast.h>

static bool is_small(struct treecast_offer *offer, void *context)
{
    (void)context;
    offer->new_name = "old/radar";
    return offer->bytes < 2000;
}

int main(int argc, char **argv)
{
    struct treecast_receiver_options options = {
        .interface = "lo", .into = argv[1], .ticket = argv[argc - 1], .accept = is_small};
    struct treecast_receiver *receiver = treecast_receiver_join(&options);
    const struct treecast_receiver_event *events;
    for (int64_t count; (count = treecast_receiver_next_batch(receiver, 50, &events)) >= 0;)
        for (int64_t at = 0; at < count; at++)
            if (events[at].kind == TREECAST_RECEIVER_EVENT_KIND_RECEIVED)
                printf("%s %d\n", events[at].name, (int)events[at].bytes);
    treecast_receiver_free(receiver);
    return 0;
}
"#;

/// The examples of docs/library.md compile, each as a program of its own.
#[test]
fn the_pages_examples_compile() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/library.md");
    let page = std::fs::read_to_string(page).unwrap();
    let examples: Vec<&str> =
        page.split("\n```c\n").skip(1).filter_map(|rest| rest.split("\n```\n").next()).collect();
    assert!(examples.len() >= 4, "the page has {} examples", examples.len());
    let folder = scratch();
    for example in examples {
        let source = folder.path().join("example.c");
        let main =
            format!("#include <stdio.h>\n#include <treecast.h>\n\nint main(void)\n{{\n{example}\n}}\n");
        std::fs::write(&source, main).unwrap();
        let library = libraries().join("libtreecast_c.a");
        compile(&source, &folder.path().join("example"), &[library.to_str().unwrap()]);
    }
}

/// What C may get wrong comes back as an error with a reason, also from the static library.
#[test]
fn mistakes_have_reasons() {
    let folder = scratch();
    let (source, program) = (folder.path().join("mistakes.c"), folder.path().join("mistakes"));
    std::fs::write(&source, MISTAKES).unwrap();
    let library = libraries().join("libtreecast_c.a");
    compile(&source, &program, &[library.to_str().unwrap()]);
    assert_eq!(succeed(start(&program, &[""; 0])), b"done\n");
}

const MISTAKES: &str = r#"
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <treecast.h>

int main(void)
{
    struct treecast_group_options nowhere = {.interface = "nowhere0"};
    assert(!treecast_group_start(&nowhere) && strstr(treecast_error(), "nowhere0"));
    struct treecast_group_options odd = {.group = "odd"};
    assert(!treecast_group_start(&odd) && strstr(treecast_error(), "odd"));
    struct treecast_receiver_options no_ticket = {0};
    assert(!treecast_receiver_join(&no_ticket) && *treecast_error());

    struct treecast_group_options options = {.interface = "lo", .rate_max = true, .plain = true};
    struct treecast_group *group = treecast_group_start(&options);
    assert(group);
    assert(treecast_send_file(group, "/no/such/file", NULL, -1) == -1);
    assert(strstr(treecast_error(), "/no/such/file"));
    assert(treecast_send_memory(group, "../outside", "x", 1, -1) == -1);
    assert(treecast_send_memory(group, "empty", NULL, 0, -1) == 2);
    struct treecast_group_event event;
    assert(treecast_group_next_event(group, &event, 0) == -1);

    struct treecast_receiver_options join = {.ticket = treecast_group_ticket(group), .interface = "lo"};
    struct treecast_receiver *receiver = treecast_receiver_join(&join);
    assert(receiver);
    do {
        assert(treecast_group_next_event(group, &event, -1) == 1);
    } while (event.kind != TREECAST_GROUP_EVENT_KIND_DONE);
    assert(event.id == 2 && event.complete == 1 && !event.text && strcmp(event.name, "empty") == 0);
    treecast_group_close(group);
    struct treecast_group_report report;
    assert(treecast_group_wait(group, &report) == 0 && report.objects == 1 && report.receivers == 1);
    assert(treecast_group_wait(group, NULL) == -1);
    struct treecast_receiver_report came;
    assert(treecast_receiver_wait(receiver, &came) == 0 && came.objects == 1);
    treecast_receiver_free(receiver);
    treecast_group_free(group);
    treecast_group_free(NULL);
    puts("done");
    return 0;
}
"#;
