use super::*;

const RECOVERY: Duration = Duration::from_secs(10);

fn at(seconds: u64) -> Now {
    Now { elapsed: Duration::from_secs(seconds), unix_us: (1_000_000 + seconds) * 1_000_000 }
}

fn stub() -> Stub {
    let provider = |name: &str, prefix: &str, stub_end: &str| Provider {
        name: name.into(),
        prefix: prefix.parse().unwrap(),
        tunnel: Some(TunnelWish {
            stub_end: stub_end.parse().unwrap(),
            stub_as: 64_512,
            provider_end: "2001:db8:a::1".parse().unwrap(),
            provider_as: 64_601,
            inner: "2001:db8:a:ff::/64".parse().unwrap(),
            kinds: vec![TunnelKind::Gre, TunnelKind::Vxlan],
        }),
    };
    Stub {
        name: "stub".into(),
        providers: vec![
            provider("a", "2001:db8:a:1::/64", "2001:db8:b:1::1"),
            provider("b", "2001:db8:b:1::/64", "2001:db8:a:1::1"),
        ],
        srmp_servers: 1,
        name_servers: 1,
        recovery: RECOVERY,
    }
}

/// All that is to be done now.
fn commands(srms: &mut Srms, now: Now) -> Vec<Command> {
    let next = || match srms.poll(now) {
        Poll::Do(command) => Some(command),
        Poll::Wait(at, _) => {
            assert!(at > now.elapsed, "it waits for the past");
            None
        }
    };
    std::iter::from_fn(next).collect()
}

fn preferences(commands: &[Command]) -> Vec<(usize, Preference)> {
    let preference = |command: &Command| match command {
        Command::Route { provider, preference } => Some((*provider, *preference)),
        _ => None,
    };
    commands.iter().filter_map(preference).collect()
}

fn srmp(commands: &[Command]) -> Option<(u64, Vec<PrefixState>)> {
    commands.iter().find_map(|command| match command {
        Command::SendSrmp {
            envelope: Envelope { stamp, message: Message::Prefixes(states), .. }, ..
        } => Some((*stamp, states.clone())),
        _ => None,
    })
}

fn open(commands: &[Command], of: usize) -> Option<(u64, Open)> {
    commands.iter().find_map(|command| match command {
        Command::SendItmp { provider, envelope: Envelope { stamp, message: Message::Open(open), .. } }
            if *provider == of =>
        {
            Some((*stamp, *open))
        }
        _ => None,
    })
}

/// A machine whose links are both up.
fn running() -> Srms {
    let mut srms = Srms::new(at(0), stub(), Newest::default());
    (0..2).for_each(|provider| srms.handle(at(0), Input::Link { provider, is_up: true }));
    commands(&mut srms, at(0));
    srms
}

fn opened(answers: u64, kind: TunnelKind) -> Message {
    Message::Opened(Opened {
        answers,
        prefix: "2001:db8:a:1::/64".parse().unwrap(),
        kind,
        id: 1,
        provider_end: "2001:db8:a::1".parse().unwrap(),
        inner_stub: "2001:db8:a:ff::1".parse().unwrap(),
        inner_provider: "2001:db8:a:ff::".parse().unwrap(),
        provider_as: 64_601,
        lifetime_s: 90,
    })
}

use Preference::{Discouraged, Encouraged};

#[test]
fn a_link_that_fails_discourages_its_prefix_at_once_and_everybody_is_told() {
    let mut srms = running();
    srms.handle(at(1), Input::Link { provider: 0, is_up: false });
    let done = commands(&mut srms, at(1));
    assert_eq!(preferences(&done), [(0, Discouraged)]);
    let (_, states) = srmp(&done).expect("the server is told");
    assert_eq!([states[0].preference, states[1].preference], [Discouraged, Encouraged]);
    assert!(states[0].epoch > states[1].epoch, "its epoch grows");
    assert!(done.contains(&Command::UpdateNames { server: 0, version: 2 }), "{done:?}");
}

#[test]
fn a_prefix_is_encouraged_again_only_when_its_link_stays_up() {
    let mut srms = running();
    srms.handle(at(1), Input::Link { provider: 0, is_up: false });
    commands(&mut srms, at(1));
    // It comes for 9 s and goes again: hosts notice nothing.
    for (second, is_up) in [(2, true), (11, false), (12, true)] {
        srms.handle(at(second), Input::Link { provider: 0, is_up });
        let done = preferences(&commands(&mut srms, at(second)));
        assert!(done.iter().all(|(_, preference)| *preference == Discouraged), "{done:?}");
    }
    assert_eq!(preferences(&commands(&mut srms, at(21))), []);
    let done = commands(&mut srms, at(22));
    assert_eq!(preferences(&done), [(0, Encouraged)]);
    assert_eq!(srmp(&done).unwrap().1[0].preference, Encouraged);
}

#[test]
fn a_link_that_is_down_from_the_beginning_is_noticed() {
    let mut srms = Srms::new(at(0), stub(), Newest::default());
    srms.handle(at(0), Input::Link { provider: 1, is_up: false });
    let done = commands(&mut srms, at(0));
    assert_eq!(preferences(&done), [(0, Encouraged), (1, Encouraged), (1, Discouraged)]);
}

#[test]
fn nothing_changes_while_no_link_is_left() {
    let mut srms = running();
    srms.handle(at(1), Input::Link { provider: 0, is_up: false });
    commands(&mut srms, at(1));
    srms.handle(at(2), Input::Link { provider: 1, is_up: false });
    assert_eq!(preferences(&commands(&mut srms, at(2))), []);
    // The other one comes back first.
    srms.handle(at(3), Input::Link { provider: 0, is_up: true });
    commands(&mut srms, at(3));
    assert_eq!(preferences(&commands(&mut srms, at(13))), [(0, Encouraged), (1, Discouraged)]);
}

#[test]
fn a_server_is_told_again_until_it_answers_the_last_message() {
    let mut srms = Srms::new(at(0), stub(), Newest::default());
    let (first, _) = srmp(&commands(&mut srms, at(0))).unwrap();
    let (second, _) = srmp(&commands(&mut srms, at(1))).expect("it is told again");
    let taken = |answers| Input::Srmp { server: 0, message: Message::PrefixesTaken { answers } };
    srms.handle(at(1), taken(first));
    srms.handle(at(1), taken(second + 1));
    assert!(srmp(&commands(&mut srms, at(3))).is_some(), "an answer to another message counts for nothing");
    let (last, _) = srmp(&commands(&mut srms, at(8))).unwrap();
    srms.handle(at(8), taken(last));
    assert_eq!(srmp(&commands(&mut srms, at(37))), None);
    assert!(srmp(&commands(&mut srms, at(38))).is_some(), "it is told from time to time");
}

#[test]
fn an_answer_to_the_old_states_does_not_keep_the_new_ones_back() {
    let mut srms = running();
    let (old, _) = srmp(&commands(&mut srms, at(1))).expect("it is told again");
    srms.handle(at(1), Input::Link { provider: 0, is_up: false });
    srms.handle(at(1), Input::Srmp { server: 0, message: Message::PrefixesTaken { answers: old } });
    let done = commands(&mut srms, at(1));
    let (new, states) = srmp(&done).expect("the new states are told");
    assert_eq!(states[0].preference, Discouraged);
    let told = Command::Tell(Event::Told { server: 0 });
    assert!(!done.contains(&told), "{done:?}");
    srms.handle(at(1), Input::Srmp { server: 0, message: Message::PrefixesTaken { answers: new } });
    assert!(commands(&mut srms, at(1)).contains(&told));
}

#[test]
fn a_tunnel_that_could_not_be_made_is_asked_for_and_made_again() {
    let mut srms = Srms::new(at(0), stub(), Newest::default());
    let (stamp, _) = open(&commands(&mut srms, at(0)), 0).unwrap();
    let input = |message| Input::Itmp { provider: 0, message };
    srms.handle(at(0), input(opened(stamp, TunnelKind::Gre)));
    commands(&mut srms, at(0));
    srms.handle(at(0), Input::TunnelFailed { provider: 0 });
    let (stamp, _) = open(&commands(&mut srms, at(60)), 0).expect("it asks again after a minute");
    srms.handle(at(60), input(opened(stamp, TunnelKind::Gre)));
    let done = commands(&mut srms, at(60));
    assert!(done.iter().any(|command| matches!(command, Command::MakeTunnel { .. })), "{done:?}");
}

#[test]
fn a_tunnel_that_somebody_else_has_removed_is_made_again() {
    let mut srms = Srms::new(at(0), stub(), Newest::default());
    let input = |message| Input::Itmp { provider: 0, message };
    let (stamp, _) = open(&commands(&mut srms, at(0)), 0).unwrap();
    srms.handle(at(0), input(opened(stamp, TunnelKind::Gre)));
    commands(&mut srms, at(0));
    srms.handle(at(5), Input::TunnelLost { provider: 0 });
    assert_eq!(
        open(&commands(&mut srms, at(5)), 0),
        None,
        "not at once: somebody may remove it again and again"
    );
    let (stamp, _) = open(&commands(&mut srms, at(6)), 0).expect("it asks again after a second");
    srms.handle(at(6), input(opened(stamp, TunnelKind::Gre)));
    let done = commands(&mut srms, at(6));
    assert!(
        done.iter().any(|command| matches!(command, Command::MakeTunnel { provider: 0, .. })),
        "{done:?}"
    );
}

#[test]
fn stamps_and_epochs_go_on_after_a_restart_with_a_clock_that_was_set_back() {
    let mut before = running();
    before.handle(at(30), Input::Link { provider: 0, is_up: false });
    let (stamp, states) = srmp(&commands(&mut before, at(30))).unwrap();
    let mut after = Srms::new(at(0), stub(), before.newest());
    let (new_stamp, new_states) = srmp(&commands(&mut after, at(0))).unwrap();
    assert!(new_stamp > stamp, "nobody takes it for a repetition");
    assert!(new_states.iter().all(|new| new.epoch > states[0].epoch), "nobody takes the states for old ones");
}

#[test]
fn an_old_version_at_the_name_server_is_not_enough() {
    let mut srms = running();
    srms.handle(at(1), Input::Link { provider: 0, is_up: false });
    commands(&mut srms, at(1));
    srms.handle(at(2), Input::NameServer { server: 0, version: 1 });
    let update = Command::UpdateNames { server: 0, version: 2 };
    assert!(commands(&mut srms, at(2)).contains(&update));
    srms.handle(at(2), Input::NameServer { server: 0, version: 2 });
    assert!(!commands(&mut srms, at(20)).contains(&update));
}

#[test]
fn a_tunnel_is_asked_for_kept_alive_and_made_once() {
    let mut srms = Srms::new(at(0), stub(), Newest::default());
    let (stamp, wish) = open(&commands(&mut srms, at(0)), 0).unwrap();
    assert_eq!((wish.kind, wish.stub_end), (TunnelKind::Gre, "2001:db8:b:1::1".parse().unwrap()));
    let input = |message| Input::Itmp { provider: 0, message };
    srms.handle(at(0), input(Message::Refused { answers: stamp, reason: Refusal::Kind }));
    let (stamp, wish) = open(&commands(&mut srms, at(0)), 0).expect("the next kind is asked for at once");
    assert_eq!(wish.kind, TunnelKind::Vxlan);
    let made =
        |commands: &[Command]| commands.iter().any(|command| matches!(command, Command::MakeTunnel { .. }));
    srms.handle(at(0), input(opened(stamp - 1, TunnelKind::Vxlan)));
    assert!(!made(&commands(&mut srms, at(0))), "that answers another request");
    srms.handle(at(0), input(opened(stamp, TunnelKind::Vxlan)));
    assert!(made(&commands(&mut srms, at(0))));
    assert_eq!(open(&commands(&mut srms, at(29)), 0), None);
    let (stamp, _) =
        open(&commands(&mut srms, at(30)), 0).expect("it asks again after a third of the lifetime");
    srms.handle(at(30), input(opened(stamp, TunnelKind::Vxlan)));
    assert!(!made(&commands(&mut srms, at(30))));
}

#[test]
fn an_answer_that_comes_again_and_again_keeps_nothing_back() {
    let mut srms = running();
    let done = commands(&mut srms, at(1));
    let (states, (stamp, _)) = (srmp(&done).unwrap().0, open(&done, 0).unwrap());
    let answers = [
        Input::Srmp { server: 0, message: Message::PrefixesTaken { answers: states } },
        Input::Itmp { provider: 0, message: opened(stamp, TunnelKind::Gre) },
    ];
    let mut done = Vec::new();
    for second in 1..62 {
        answers.iter().for_each(|answer| srms.handle(at(second), answer.clone()));
        done.extend(commands(&mut srms, at(second)));
    }
    assert!(srmp(&done).is_some(), "the server is told again after 30 s");
    assert!(open(&done, 0).is_some(), "the tunnel is asked for again after a third of its lifetime");
}

#[test]
fn a_provider_cannot_take_the_number_of_anothers_tunnel() {
    let mut srms = Srms::new(at(0), stub(), Newest::default());
    let done = commands(&mut srms, at(0));
    let ((first, _), (second, _)) = (open(&done, 0).unwrap(), open(&done, 1).unwrap());
    srms.handle(at(0), Input::Itmp { provider: 0, message: opened(first, TunnelKind::Gre) });
    commands(&mut srms, at(0));
    for (id, expected) in [(1, Event::WrongTunnel { provider: 1 }), (2, Event::Tunnel { provider: 1, id: 2 })]
    {
        let Message::Opened(answer) = opened(second, TunnelKind::Gre) else { unreachable!() };
        let prefix = "2001:db8:b:1::/64".parse().unwrap();
        let message = Message::Opened(Opened { prefix, id, ..answer });
        srms.handle(at(0), Input::Itmp { provider: 1, message });
        let done = commands(&mut srms, at(0));
        assert!(done.contains(&Command::Tell(expected.clone())), "{done:?}");
    }
}

#[test]
fn a_tunnel_end_that_does_not_answer_is_told_about_once() {
    let mut srms = running();
    let told = (1..60).map(|second| commands(&mut srms, at(second)));
    let told: Vec<Command> = told.flatten().collect();
    let silent = told.iter().filter(|command| **command == Command::Tell(Event::NoTunnelEnd { provider: 0 }));
    assert_eq!(silent.count(), 1);
}

#[test]
fn a_refused_tunnel_is_asked_for_later() {
    let mut srms = Srms::new(at(0), stub(), Newest::default());
    let (stamp, _) = open(&commands(&mut srms, at(0)), 0).unwrap();
    let message = Message::Refused { answers: stamp, reason: Refusal::Prefix };
    srms.handle(at(0), Input::Itmp { provider: 0, message });
    let done = commands(&mut srms, at(0));
    assert!(done.contains(&Command::Tell(Event::TunnelRefused { provider: 0, reason: Refusal::Prefix })));
    assert_eq!(open(&commands(&mut srms, at(59)), 0), None);
    assert!(open(&commands(&mut srms, at(60)), 0).is_some());
}

#[test]
fn a_provider_that_answers_with_another_tunnel_is_not_believed() {
    let wrong: [fn(&mut Opened); 8] = [
        |opened| opened.prefix = "2001:db8:b:1::/64".parse().unwrap(),
        |opened| opened.kind = TunnelKind::Vxlan,
        |opened| opened.id = 0,
        |opened| opened.provider_end = "2001:db8:b::1".parse().unwrap(),
        |opened| opened.inner_provider = "2001:db8:b:f1::1".parse().unwrap(),
        |opened| opened.inner_stub = "2001:db8:a:ff::5".parse().unwrap(),
        |opened| opened.provider_as = 64_602,
        |opened| opened.lifetime_s = 0,
    ];
    for change in wrong {
        let mut srms = Srms::new(at(0), stub(), Newest::default());
        let (stamp, _) = open(&commands(&mut srms, at(0)), 0).unwrap();
        let Message::Opened(mut answer) = opened(stamp, TunnelKind::Gre) else { unreachable!() };
        change(&mut answer);
        srms.handle(at(0), Input::Itmp { provider: 0, message: Message::Opened(answer) });
        assert_eq!(
            commands(&mut srms, at(0)),
            [Command::Tell(Event::WrongTunnel { provider: 0 })],
            "{answer:?}"
        );
    }
}

#[test]
fn the_route_of_a_link_that_was_switched_off_is_made_again() {
    let one = Stub { providers: stub().providers[..1].to_vec(), ..stub() };
    let mut srms = Srms::new(at(0), one, Newest::default());
    srms.handle(at(0), Input::Link { provider: 0, is_up: true });
    commands(&mut srms, at(0));
    srms.handle(at(1), Input::Link { provider: 0, is_up: false });
    srms.handle(at(2), Input::Link { provider: 0, is_up: true });
    assert_eq!(preferences(&commands(&mut srms, at(2))), [(0, Encouraged)]);
}
