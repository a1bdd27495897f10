//! A sender and two receivers in one process, over the loopback interface.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    task::Poll,
    time::Duration,
};

use treecast::{
    Answer, Delivery, ErrorKind, Group, GroupBuilder, GroupEvent, Object, Offer, Rate, Received, Receiver,
    ReceiverBuilder, ReceiverEvent, Repair, Ticket,
};

use crate::files::{noise, scratch};

fn group(receivers: u32) -> GroupBuilder {
    Group::builder().interface("lo").wait(receivers)
}

fn receiver(group: &Group) -> ReceiverBuilder {
    Receiver::builder(group.ticket().clone()).interface("lo")
}

/// All objects that come until the end of the session, in the order of their names.
fn received(receiver: &Receiver) -> Vec<Received> {
    let mut objects: Vec<_> = receiver
        .events()
        .filter_map(|event| match event {
            ReceiverEvent::Received(object) => Some(object),
            _ => None,
        })
        .collect();
    objects.sort_by(|one, other| one.name().cmp(other.name()));
    objects
}

#[test]
fn files_and_memory_reach_two_receivers() {
    let folder = scratch("two");
    let path = folder.path().join("image");
    let image = noise(3_000_000, 1);
    std::fs::write(&path, &image).unwrap();
    let shared: Arc<[u8]> = noise(200_000, 2).into();

    let group = group(2).rate(Rate::Max).start().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let receivers =
        [&first, &second].map(|into| receiver(&group).folder(into).name(name_of(into)).join().unwrap());
    let sent = [
        group.send_file(&path).unwrap(),
        group.send(Object::file(&path).named("copies/image").retx_factor(100.0)).unwrap(),
        group.send(Object::bytes("shared", shared.clone()).retx_factor(100.0)).unwrap(),
        group.send_bytes("static", b"static bytes").unwrap(),
        group.send_bytes("empty", Vec::new()).unwrap(),
    ];
    let end = group.close();
    let mut joined = Vec::new();
    let mut done = Vec::new();
    for event in group.events() {
        match event {
            GroupEvent::Joined { receiver, .. } => joined.push(receiver),
            GroupEvent::Done(delivery) => {
                assert!(
                    delivery.name != "shared" || Arc::strong_count(&shared) == 1,
                    "it was let go of before"
                );
                done.push(delivery);
            }
            other => assert!(!matches!(other, GroupEvent::Missed(_)), "{other:?}"),
        }
    }
    joined.sort();
    assert_eq!(joined, ["first", "second"]);
    done.sort_by_key(|delivery| delivery.id);
    assert_eq!(done, sent.map(|transfer| transfer.wait()));
    assert!(done.iter().all(|delivery| delivery.is_complete() && delivery.complete == 2), "{done:?}");
    let report = end.wait().unwrap();
    assert!(report.is_complete() && report.objects == 5, "{report:?}");
    assert_eq!(report.receivers.iter().map(|one| one.complete).collect::<Vec<_>>(), [5, 5]);
    assert_eq!(group.finish().wait().unwrap_err().kind(), ErrorKind::Closed, "the report is taken once");
    assert_eq!(group.send_bytes("late", "x").unwrap_err().kind(), ErrorKind::Closed);

    for (receiver, folder) in receivers.iter().zip([&first, &second]) {
        let objects = received(receiver);
        let names: Vec<_> = objects.iter().map(Received::name).collect();
        assert_eq!(names, ["copies/image", "empty", "image", "shared", "static"]);
        assert_eq!(objects[1].path(), folder.join("empty"));
        assert!(objects[0].read().unwrap() == image && objects[2].read().unwrap() == image);
        assert!(objects[3].read().unwrap() == *shared && objects[1].is_empty());
        assert_eq!(std::fs::read(folder.join("static")).unwrap(), b"static bytes");
        let report = receiver.finish().wait().unwrap();
        assert!(report.is_complete() && report.objects == 5 && report.cut_short.is_none(), "{report:?}");
        assert!(matches!(receiver.next_event().wait_timeout(Duration::ZERO), Poll::Ready(None)));
    }
}

fn name_of(path: &std::path::Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

#[test]
fn callbacks_hear_of_everything_and_decide_what_is_wanted() {
    let (tell_done, done) = mpsc::channel();
    let (tell_came, came) = mpsc::channel();
    let on_event = move |event| {
        if let GroupEvent::Done(delivery) = event {
            tell_done.send(delivery).unwrap();
        }
    };
    let group = group(1).plain().repair(Repair::After).on_event(on_event).start().unwrap();
    let receiver = receiver(&group)
        .in_memory()
        .accept(|offer| match offer.name() {
            "a.json" if offer.len() == 2 => Answer::TakeAs("here/b.json".to_owned()),
            _ => Answer::Refuse,
        })
        .on_event(move |event| match event {
            ReceiverEvent::Received(object) => {
                let name = object.name().to_owned();
                tell_came.send((name, object.into_bytes().unwrap())).unwrap();
            }
            ReceiverEvent::Ignored { name, exists: false, .. } => {
                tell_came.send((name, b"ignored".to_vec())).unwrap();
            }
            _ => {}
        })
        .join()
        .unwrap();
    group.send_bytes("a.json", "{}").unwrap();
    group.send_bytes("a.txt", "text").unwrap();
    let report = group.close().wait().unwrap();
    assert!(report.is_complete());
    let mut wanted: Vec<Delivery> = done.iter().take(2).collect();
    wanted.sort_by_key(|delivery| delivery.id);
    assert_eq!([wanted[0].complete, wanted[0].not_wanted], [1, 0]);
    assert_eq!([wanted[1].complete, wanted[1].not_wanted], [0, 1]);
    let report = receiver.finish().wait().unwrap();
    assert_eq!((report.objects, report.not_wanted), (1, 1));
    let mut came: Vec<_> = came.iter().take(2).collect();
    came.sort();
    assert_eq!(came, [("a.txt".into(), b"ignored".to_vec()), ("here/b.json".into(), b"{}".to_vec())]);
    assert!(group.next_event().wait().is_none(), "the queue has nothing");
}

#[test]
fn an_object_that_cannot_be_read_to_its_end_is_told_of() {
    let folder = scratch("shrinks");
    let path = folder.path().join("shrinks");
    std::fs::write(&path, noise(1_000_000, 3)).unwrap();
    let group = group(1).rate(Rate::Bps(4_000_000)).start().unwrap();
    let shrinks = group.send_file(&path).unwrap();
    // Once it is announced, it takes two seconds to send.
    let shorten = move |_: &Offer| {
        std::fs::write(&path, b"shorter").unwrap();
        Answer::Take
    };
    let receiver = receiver(&group).in_memory().accept(shorten).join().unwrap();
    let delivery = shrinks.wait();
    assert!(!delivery.is_complete() && delivery.failed == 1, "{delivery:?}");
    assert!(delivery.problem.unwrap().contains("shrinks"));
    let report = group.close().wait().unwrap();
    assert!(!report.is_complete() && report.withdrawn.len() == 1, "{report:?}");
    let failed = receiver.events().any(|event| matches!(event, ReceiverEvent::Failed { .. }));
    assert!(failed && !receiver.finish().wait().unwrap().is_complete());
}

#[test]
fn a_file_that_changes_before_its_turn_is_not_sent() {
    let folder = scratch("changes");
    let path = folder.path().join("changes");
    std::fs::write(&path, noise(1_000, 3)).unwrap();
    let group = group(1).start().unwrap();
    let changes = group.send_file(&path).unwrap();
    std::fs::write(&path, b"shorter").unwrap();
    let receiver = receiver(&group).in_memory().join().unwrap();
    let delivery = changes.wait();
    assert_eq!((delivery.complete, delivery.failed), (0, 0));
    assert!(!delivery.is_complete() && delivery.problem.unwrap().contains("changes"));
    assert!(!group.close().wait().unwrap().is_complete());
    assert!(receiver.finish().wait().unwrap().is_complete(), "nobody has announced it");
}

#[test]
fn borrowed_bytes_are_done_when_the_scope_ends() {
    let group = group(1).start().unwrap();
    let receiver = receiver(&group).in_memory().join().unwrap();
    let mut frame = noise(100_000, 4);
    for round in 0..3 {
        let sent = group.scope(|scope| scope.send_bytes_with_factor(format!("frame/{round}"), &frame, 10.0));
        // The bytes may be changed now.
        frame[round] ^= 1;
        assert!(sent.unwrap().wait_timeout(Duration::from_secs(60)).unwrap().is_complete());
    }
    group.close().wait().unwrap();
    let objects = received(&receiver);
    assert_eq!(objects.len(), 3);
    frame[2] ^= 1;
    assert!(objects[2].read().unwrap() == frame);
}

#[test]
fn nothing_is_lost_in_silence_when_a_group_is_stopped_or_nobody_comes() {
    let stopped = group(1).start().unwrap();
    let waiting = stopped.send_bytes("waiting", "x").unwrap();
    assert_eq!(stopped.stop().wait().unwrap_err().kind(), ErrorKind::Stopped);
    assert!(waiting.wait().problem.is_some());

    let alone = group(2).wait_timeout(Duration::from_secs(2)).start().unwrap();
    let waiting = alone.send_bytes("waiting", "x").unwrap();
    let error = alone.finish().wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoReceivers);
    assert_eq!(waiting.wait().problem.unwrap(), error.to_string());
    assert!(alone.events().any(|event| matches!(event, GroupEvent::Done(one) if one.id == waiting.id())));

    let dropped = Arc::new(());
    struct Bytes(#[allow(dead_code)] Arc<()>);
    impl AsRef<[u8]> for Bytes {
        fn as_ref(&self) -> &[u8] {
            b"bytes"
        }
    }
    let group = group(1).start().unwrap();
    let transfer = group.send_bytes("bytes", Bytes(dropped.clone())).unwrap();
    drop(group);
    assert!(!transfer.wait().is_complete());
    assert_eq!(Arc::strong_count(&dropped), 1);
}

#[test]
fn a_closed_group_that_is_dropped_ends_by_itself() {
    let group = group(1).start().unwrap();
    let receiver = receiver(&group).in_memory().join().unwrap();
    let transfer = group.send_bytes("bytes", "x").unwrap();
    let end = group.close();
    drop(group);
    assert!(transfer.wait().is_complete() && end.wait().unwrap().is_complete());
    assert_eq!(received(&receiver).len(), 1);
}

#[test]
fn a_receiver_may_leave_and_the_others_go_on() {
    let group = group(2).start().unwrap();
    let stays = receiver(&group).in_memory().name("stays").join().unwrap();
    let leaves = receiver(&group).in_memory().name("leaves").join().unwrap();
    group.send_bytes("first", "1").unwrap().wait();
    assert!(leaves.leave().wait().unwrap().has_left);
    let left = group.events().find_map(|event| match event {
        GroupEvent::Left { receiver, .. } => Some(receiver),
        _ => None,
    });
    assert_eq!(left.as_deref(), Some("leaves"));
    group.send_bytes("second", "2").unwrap();
    group.close().wait().unwrap();
    assert_eq!(received(&stays).len(), 2);
}

#[test]
fn a_full_group_has_room_again_when_an_object_is_done() {
    let group = group(1).most_outstanding(2).start().unwrap();
    for number in [0, 1] {
        group.send_bytes(format!("{number}"), "x").unwrap();
    }
    assert_eq!(group.send_bytes("2", "x").unwrap_err().kind(), ErrorKind::Full);
    let receiver = receiver(&group).in_memory().join().unwrap();
    for number in 2..50 {
        group.room().wait();
        group.send_bytes(format!("{number}"), "x").unwrap();
    }
    group.close().wait().unwrap();
    assert_eq!(received(&receiver).len(), 50);
    assert_eq!(receiver.progress().objects, 50);
    assert_eq!(group.progress().receivers, 0);
}

#[test]
fn compressed_objects_arrive_as_they_were() {
    let group = group(1).compress(3).expires(Duration::from_secs(60)).start().unwrap();
    let receiver = receiver(&group).in_memory().join().unwrap();
    let (text, noise) = (b"all work and no play ".repeat(20_000), noise(300_000, 5));
    group.send_bytes("noise", noise.clone()).unwrap();
    group.send_bytes("text", text.clone()).unwrap();
    assert!(group.close().wait().unwrap().is_complete());
    let objects = received(&receiver);
    assert!(objects[0].read().unwrap() == noise && objects[1].read().unwrap() == text);
}

/// A program that drops its receiver, however far it is, leaves nothing behind.
#[test]
fn a_receiver_in_memory_leaves_no_folder() {
    let group = group(2).start().unwrap();
    let [early, late] = [0, 1].map(|_| receiver(&group).in_memory().join().unwrap());
    group.send_bytes("bytes", vec![1; 100_000]).unwrap().wait();
    let object = early.events().find_map(|event| match event {
        ReceiverEvent::Received(object) => Some(object),
        _ => None,
    });
    let folder = object.as_ref().unwrap().path().parent().unwrap().to_owned();
    drop(early);
    assert_eq!(object.as_ref().unwrap().read().unwrap(), vec![1; 100_000], "whoever has it may read it");
    drop(object);
    assert!(!folder.exists());

    // Its events are not read.
    late.leave().wait().unwrap();
    let event = std::iter::from_fn(|| late.next_event().wait()).find_map(|event| {
        if let ReceiverEvent::Received(object) = event { Some(object.path()) } else { None }
    });
    drop(late);
    assert!(!event.unwrap().parent().unwrap().exists());
}

/// Values of the library may go to other threads, and be shared by them.
#[test]
fn what_a_program_holds_is_send_and_sync() {
    fn check<T: Send + Sync>() {}
    check::<Group>();
    check::<Receiver>();
    check::<treecast::Transfer>();
    check::<treecast::Finish<treecast::GroupReport>>();
    check::<treecast::Error>();
    check::<Received>();
    check::<Ticket>();
}

#[test]
fn what_cannot_be_used_is_refused_in_one_line() {
    let group = group(1).start().unwrap();
    let refused = |object| {
        let error = group.send(object).unwrap_err();
        assert!(!error.to_string().contains('\n'));
        (error.kind(), error.to_string())
    };
    let (kind, line) = refused(Object::file("/no/such/file"));
    assert!(kind == ErrorKind::File && line.contains("/no/such/file"), "{line}");
    for name in ["", "../x", "/x", "a//b", "line\nbreak"] {
        assert_eq!(refused(Object::bytes(name, "x")).0, ErrorKind::File, "{name:?}");
    }
    for factor in [-1.0, f64::NAN, f64::INFINITY] {
        let (kind, line) = refused(Object::bytes("x", "x").retx_factor(factor));
        assert!(kind == ErrorKind::Options && line.contains("0 to 1000000"), "{line}");
    }
    let kind = |builder: GroupBuilder| builder.start().unwrap_err().kind();
    assert_eq!(kind(Group::builder().interface("nowhere0")), ErrorKind::Network);
    assert_eq!(kind(Group::builder().group("192.0.2.1".parse().unwrap())), ErrorKind::Network);
    assert_eq!(kind(Group::builder().key("/no/such/key")), ErrorKind::Key);
    assert_eq!(kind(Group::builder().allow("/no/such/list")), ErrorKind::Key);
    for builder in [
        Group::builder().retx_factor(-1.0),
        Group::builder().rate(Rate::Bps(0)),
        Group::builder().ttl(0),
        Group::builder().compress(20),
        Group::builder().wait(0),
        Group::builder().wait(2).wait_at_least(3),
        Group::builder().group("224.0.0.1".parse().unwrap()),
        Group::builder().plain().allow(PathBuf::from("/proc/self/exe")),
    ] {
        assert!(matches!(kind(builder), ErrorKind::Options | ErrorKind::Key));
    }
    assert_eq!("treecast2.nonsense".parse::<Ticket>().unwrap_err().kind(), ErrorKind::Ticket);
    let missing = Ticket::read(PathBuf::from("/no/such/ticket")).unwrap_err();
    assert!(missing.kind() == ErrorKind::Ticket && missing.to_string().contains("/no/such/ticket"));

    let ticket = group.ticket().clone();
    drop(group);
    let brief = Duration::from_millis(200);
    let receiver = Receiver::builder(ticket).interface("lo").in_memory().connect_timeout(brief);
    assert_eq!(receiver.join().unwrap().finish().wait().unwrap_err().kind(), ErrorKind::Unreachable);
}

/// A function of the program that panics ends its session, and nobody waits for ever.
#[test]
fn a_callback_that_panics_ends_the_session() {
    let has_panicked = Arc::new(AtomicBool::new(false));
    let note = has_panicked.clone();
    let on_event = move |_| {
        note.store(true, Ordering::SeqCst);
        panic!("the test's own panic, which is expected");
    };
    let group = group(1).on_event(on_event).start().unwrap();
    let bytes = vec![1; 10];
    let sent = group.send_bytes("bytes", bytes).unwrap();
    let receiver = receiver(&group).in_memory().reconnect(Duration::ZERO).join().unwrap();
    assert_eq!(group.finish().wait().unwrap_err().kind(), ErrorKind::System);
    assert!(!sent.wait().is_complete() && has_panicked.load(Ordering::SeqCst));
    _ = receiver.leave().wait();
}
