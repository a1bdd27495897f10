//! How groups form, change and are given by hand (LGCP).

use std::{collections::BTreeSet, time::Duration};

use treecast_proto::local::{Mode, Seat};
use treecast_wire::message::GroupId;

use super::{ACCESS, link, run, seeds, seeds_and, sites};
use crate::network::{Plan, World, host_of, member};

/// Whoever is alive when the sender ends is in a group whose controller is alive and knows it.
pub fn all_are_placed(world: &World) {
    for (number, node) in world.receivers.iter().enumerate().filter(|(_, node)| !node.is_dead) {
        let place = node.place.as_ref().expect("everybody has a group");
        let controller = &world.receivers[host_of(place.controller) - 1];
        let other = controller.place.as_ref().expect("a controller has a group");
        assert!(!controller.is_dead && other.controller == place.controller, "{number}: {place:?}");
        assert_eq!(other.group, place.group, "{number}: {place:?}");
    }
}

pub fn groups(world: &World) -> BTreeSet<GroupId> {
    let alive = world.receivers.iter().filter(|node| !node.is_dead);
    alive.filter_map(|node| node.place.as_ref()).map(|place| place.group).collect()
}

#[test]
fn groups_form_by_distance_and_are_bounded() {
    for seed in seeds(2) {
        let world = run(sites(seed, 6, 30, (0.0, 0.0)));
        all_are_placed(&world);
        for (number, node) in world.receivers.iter().enumerate() {
            let place = node.place.as_ref().expect("everybody has a group");
            let controller = host_of(place.controller) - 1;
            assert_eq!(controller / 30, number / 30, "{number} is in a group of another site");
            assert!(node.machine.clients() <= 24 + 8, "{number} has {}", node.machine.clients());
        }
        let count = groups(&world).len();
        println!("{seed}: {count} groups of {}", world.receivers.len());
        assert!((6..=24).contains(&count), "{count}");
    }
}

/// More receivers come to one place than one group has room for, after the group was there.
#[test]
fn a_full_group_splits() {
    for seed in seeds(2) {
        let mut plan = sites(seed, 1, 40, (0.0, 0.01));
        plan.settling = Duration::from_secs(6);
        plan.starts = (12..40).map(|receiver| (receiver, Duration::from_secs(3))).collect();
        let world = run(plan);
        all_are_placed(&world);
        println!("{seed}: {} splits, {} groups", world.counts.splits, groups(&world).len());
        assert!(world.counts.splits > 0);
        assert!((2..=6).contains(&groups(&world).len()), "{:?}", groups(&world));
        assert!(world.receivers.iter().all(|node| node.machine.clients() <= 24 + 8));
    }
}

/// Two places that were far apart come together while data leaves slowly.
fn coming_together(seed: u64) -> Plan {
    let far = Duration::from_millis(60);
    let mut plan = sites(seed, 1, 4, (0.0, 0.01));
    for receiver in 0..2 {
        plan.links[1 + receiver].delay = far;
        plan.changes.push((Duration::from_secs(8), 2 + receiver, link(1, ACCESS, 0.01)));
    }
    plan.rate_bps = 32_000;
    plan
}

#[test]
fn small_groups_that_are_near_merge() {
    for seed in seeds(2) {
        let world = run(coming_together(seed));
        all_are_placed(&world);
        println!("{seed}: {} merges, {:?}", world.counts.merges, groups(&world));
        assert_eq!(groups(&world).len(), 1, "{:?}", groups(&world));
    }
}

#[test]
fn a_member_moves_to_a_nearer_group() {
    // With seed 18, one receiver passes this threshold by chance, and the slow session has to make good a cut.
    for seed in seeds_and(2, &[18]) {
        let mut plan = sites(seed, 2, 5, (0.0, 0.01));
        plan.rate_bps = 24_000;
        plan.tuning.congestion_loss = 0.1;
        // One receiver of the second site is taken to the first one.
        plan.changes.push((Duration::from_secs(8), 9, link(1, ACCESS, 0.01)));
        let world = run(plan);
        all_are_placed(&world);
        let place = |receiver: usize| world.receivers[receiver].place.as_ref().unwrap().group;
        println!("{seed}: {:?}", groups(&world));
        assert_eq!(place(6), place(0));
        assert_ne!(place(6), place(9));
    }
}

/// The controller that loses far more than its members makes room for one of them.
#[test]
fn a_controller_that_loses_much_resigns() {
    for seed in seeds(2) {
        let mut plan = sites(seed, 1, 5, (0.0, 0.0));
        plan.sizes = vec![2_000_000];
        plan.seats = vec![None; 5];
        // The first that is there founds the group.
        plan.starts = (1..5).map(|receiver| (receiver, Duration::from_millis(2_500))).collect();
        plan.settling = Duration::from_secs(6);
        plan.changes.push((Duration::from_secs(7), 2, link(1, ACCESS, 0.3)));
        plan.tuning.congestion_loss = 0.5;
        let world = run(plan);
        all_are_placed(&world);
        assert_eq!(groups(&world).len(), 1);
        let place = world.receivers[0].place.as_ref();
        assert!(place.is_some_and(|place| place.controller != member(1)), "{place:?}");
    }
}

/// The paper's static LGCP: groups are as they were given, and a controller that dies is replaced all the same.
#[test]
fn seats_are_kept_and_dead_controllers_replaced() {
    for mode in [Mode::Hierarchical, Mode::Local] {
        for seed in seeds(3) {
            let mut plan = sites(seed, 2, 6, (0.02, 0.03));
            plan.mode = mode;
            plan.controllers_die = true;
            plan.sizes = vec![500_000];
            // The second site's group is below the first one's.
            let seat = |receiver: usize| Seat {
                group: GroupId(1 + receiver as u32 / 6),
                controller: member(1 + receiver / 6 * 6),
                parent: if receiver < 6 { member(0) } else { member(1) },
                members: 5,
            };
            plan.seats = (0..12).map(|receiver| Some(seat(receiver))).collect();
            let world = run(plan);
            all_are_placed(&world);
            assert_eq!(world.killed, BTreeSet::from([0, 6]));
            for (number, node) in world.receivers.iter().enumerate() {
                let place = node.place.as_ref().unwrap();
                assert_eq!(place.group, GroupId(1 + number as u32 / 6));
            }
            println!("{mode:?} {seed}: {:?} {:?}", world.time(), world.takeovers);
        }
    }
}

/// The members of a group that was made by hand are known by number. Where they lose most packets, controllers take over from one another and
/// hear little. The sender does not end before everybody has everything.
#[test]
fn members_of_given_groups_are_waited_for() {
    for mode in [Mode::Hierarchical, Mode::Local] {
        for seed in seeds(6) {
            let mut plan = sites(seed, 1, 4, (0.0, 0.7));
            (plan.mode, plan.limit) = (mode, Duration::from_secs(1_000));
            plan.sizes = vec![20_000];
            plan.tuning.congestion_loss = 1.0;
            let seat = Seat { group: GroupId(1), controller: member(1), parent: member(0), members: 3 };
            plan.seats = vec![Some(seat); 4];
            let world = run(plan);
            println!("{mode:?} {seed}: {:?}", world.time());
        }
    }
}

/// Groups of a large session are below one another, and the sender hears few of them.
#[test]
fn groups_are_below_one_another() {
    for seed in seeds(1) {
        let mut plan = sites(seed, 40, 4, (0.0, 0.01));
        // Each site at a distance of its own: nobody is near another.
        plan.settling = Duration::from_secs(8);
        let world = run(plan);
        all_are_placed(&world);
        println!("{seed}: {} groups, {} at the sender", groups(&world).len(), world.sender.clients());
        assert!(world.sender.clients() <= 16, "{}", world.sender.clients());
    }
}
