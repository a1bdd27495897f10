//! One message of local groups of every kind.

use treecast_wire::message::{
    GroupId, Local, LocalFlags, LocalJoin, LocalObject, LocalReport, LocalRequest, LocalSplit, LocalState,
    Member,
};

pub fn all() -> Vec<Local> {
    let member = |text: &str| Member(text.parse().expect("an address"));
    let (one, two) = (member("[fd00::1]:5000"), member("192.0.2.7:5001"));
    let group = GroupId(0x0123_4567);
    let state = LocalState {
        group,
        epoch: 3,
        controller: one,
        echo_us: 12_000_000,
        flags: LocalFlags(0b110_0111),
        members: 7,
        loss: 1_311,
        depth: 2,
        distance_us: 41_000,
        diameter_us: 1_800,
        parent: two,
        successor: Some(two),
        frontier: (4, 142_000),
        done: 4,
        children: vec![two, one],
        roster: vec![two],
    };
    let object = LocalObject {
        object: 4,
        received: 14_200,
        seen: 142_000,
        missing: vec![14_200..15_620, 71_000..72_420],
    };
    let mut report = LocalReport::new(group, true)
        .with_objects([object, LocalObject { object: 5, ..LocalObject::default() }]);
    (report.is_congested, report.loss, report.round_trip_us) = (true, 6_553, 1_900);
    (report.receivers, report.done, report.given_up) = (25, 4, 3);
    (report.is_partial, report.successor) = (true, Some(two));
    let mut request = LocalRequest::new(group, 900, vec![14_200..15_620, 71_000..72_420]).expect("two");
    (request.wants_announcement, request.is_from_below) = (true, true);
    vec![
        Local::Empty,
        Local::State(Box::new(state)),
        Local::Probe(12_000_000),
        Local::Join(LocalJoin { group, epoch: 1, stamp_us: 12_000_000, loss: 655 }),
        Local::Leave(group),
        Local::Report(report),
        Local::Request(request),
        Local::Split(LocalSplit::new(group, one, vec![two]).expect("one")),
        Local::Listen { token: 0x89ab_cdef_0123_4567, port: 5_002 },
    ]
}

/// The sender's state, as it is signed.
pub fn of_session() -> LocalState {
    let sender = Member("[fd00::1]:5000".parse().expect("an address"));
    let (echo_us, flags) = (12_000_000, LocalFlags::TAKES_GROUPS);
    LocalState { echo_us, flags, ..LocalState::new(GroupId::SESSION, sender) }
}

/// What a vector of this kind is called behind `session-Local`. The empty one stands for the packet type.
pub fn name(local: &Local) -> &'static str {
    match local {
        Local::Empty => "",
        Local::State(_) => "-state",
        Local::Probe(_) => "-probe",
        Local::Join(_) => "-join",
        Local::Leave(_) => "-leave",
        Local::Report(_) => "-report",
        Local::Request(_) => "-request",
        Local::Split(_) => "-split",
        Local::Listen { .. } => "-listen",
    }
}
