//! Devices that are updated by RAUC and by SWUpdate, as Debian has them: a release has a bundle or an image, and the agent's command
//! is that of the system. Needs root, rauc, squashfs-tools, swupdate, cpio, openssl and dbus-daemon.

use std::{fs, path::Path, process::Command};

use crate::{
    child::{Guarded, SpawnGuarded},
    fleet::Ring,
    session::{Scratch, assert_says, wait_until},
};

/// Makes a bundle and an image of `rootfs`, signed by the key of `$1`, in the folder `source`.
const MAKE: &str = r#"
set -e
rm -rf source in; mkdir source in
[ -e "$1.pem" ] || openssl req -x509 -newkey rsa:2048 -nodes -keyout "$1.key" -out "$1.pem" -subj /CN="$1" -days 30 \
    -addext extendedKeyUsage=emailProtection
cp rootfs in/rootfs.img
printf '[update]\ncompatible=treecast-test\n[bundle]\nformat=plain\n[image.rootfs]\nfilename=rootfs.img\n' > in/manifest.raucm
rauc bundle --cert="$1.pem" --key="$1.key" in source/bundle.raucb
printf 'software = { version = "1"; hardware-compatibility: [ "1.0" ];
    files: ( { filename = "rootfs"; path = "%s"; sha256 = "%s"; } ); };' "$PWD/installed" \
    "$(sha256sum rootfs | cut -d' ' -f1)" > sw-description
openssl cms -sign -in sw-description -out sw-description.sig -signer "$1.pem" -inkey "$1.key" -outform DER -nosmimecap -binary
printf 'sw-description\nsw-description.sig\nrootfs\n' | cpio -o -H crc > source/image.swu
"#;

fn run(scratch: &Scratch, script: &str, argument: &str) {
    let output = Command::new("sh")
        .args(["-c", script, "sh", argument])
        .current_dir(scratch.path(""))
        .output()
        .expect("sh starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A device with two slots, on a bus of its own.
struct Device {
    _programs: [Guarded; 2],
}

impl Device {
    fn new(scratch: &Scratch) -> Self {
        let folder = scratch.arg("");
        let folder = folder.trim_end_matches('/');
        for slot in ["slot-a", "slot-b"] {
            fs::write(scratch.path(slot), vec![0; 1_000_000]).unwrap();
        }
        let system = format!(
            "[system]\ncompatible=treecast-test\nbootloader=custom\nstatusfile={folder}/status\nmountprefix={folder}/mnt\n\
             [handlers]\nbootloader-custom-backend={folder}/boot\n[keyring]\npath={folder}/ours.pem\n\
             [slot.rootfs.0]\ndevice={folder}/slot-a\ntype=raw\nbootname=A\n\
             [slot.rootfs.1]\ndevice={folder}/slot-b\ntype=raw\nbootname=B\n"
        );
        fs::write(scratch.path("system.conf"), system).unwrap();
        // A child that is started meanwhile must not have it open for writing.
        run(
            scratch,
            "printf '#!/bin/sh\\ncase $1 in get-primary|get-current) echo A;; get-state) echo good;; esac\\n\
             echo \"$@\" >> \"$(dirname \"$0\")/boots\"\\n' > boot && chmod 755 boot",
            "",
        );
        let bus = format!(
            "<busconfig><type>custom</type><listen>unix:path={folder}/bus</listen><auth>EXTERNAL</auth>\
             <policy context=\"default\"><allow send_destination=\"*\" eavesdrop=\"true\"/>\
             <allow eavesdrop=\"true\"/><allow own=\"*\"/></policy></busconfig>"
        );
        fs::write(scratch.path("bus.conf"), bus).unwrap();
        let config = format!("--config-file={folder}/bus.conf");
        let bus = Command::new("dbus-daemon").args([&config, "--nofork", "--nopidfile"]).spawn_guarded();
        wait_until("the bus is there", || scratch.path("bus").exists());
        let conf = format!("--conf={folder}/system.conf");
        let at_bus = |words: &[&str]| {
            let mut command = Command::new("rauc");
            command.arg(&conf).args(words).env("DBUS_SYSTEM_BUS_ADDRESS", format!("unix:path={folder}/bus"));
            command.env("DBUS_STARTER_BUS_TYPE", "system");
            command
        };
        let service = at_bus(&["--override-boot-slot=A", "service"]).spawn_guarded();
        wait_until("RAUC is there", || at_bus(&["status"]).output().unwrap().status.success());
        Self { _programs: [service, bus] }
    }
}

/// Gives an agent a command to activate releases.
fn activates(ring: &mut Ring, node: &str, words: &[&str]) {
    let path = ring.site.scratch.path(&format!("{node}.toml"));
    let text = fs::read_to_string(&path).unwrap();
    let rest: String =
        text.lines().filter(|line| !line.starts_with("activate")).map(|line| format!("{line}\n")).collect();
    fs::write(path, format!("{rest}activate = {words:?}\n")).unwrap();
    ring.start(node, "");
}

fn begins_with(file: &Path, bytes: &[u8]) -> bool {
    fs::read(file).is_ok_and(|found| found.starts_with(bytes))
}

#[test]
#[ignore = "it needs rauc and swupdate: `make test-all` runs it"]
fn devices_are_updated_by_rauc_and_by_swupdate() {
    let (mut ring, _) = Ring::on("lan:clients=3");
    let scratch = Scratch::new();
    let rootfs = vec![7; 300_000];
    fs::write(scratch.path("rootfs"), &rootfs).unwrap();
    run(&scratch, MAKE, "ours");
    let _device = Device::new(&scratch);
    for node in ["client1", "client0"] {
        ring.end_last(node);
    }
    let bus = format!("DBUS_SYSTEM_BUS_ADDRESS=unix:path={}", scratch.arg("bus"));
    activates(&mut ring, "client0", &["env", &bus, "rauc", "install", "{folder}/bundle.raucb"]);
    let key = scratch.arg("ours.pem");
    let image = "{folder}/image.swu";
    let swupdate = ["swupdate", "-k", &key, "-H", "device:1.0", "-m", "-M", "-i", image];
    activates(&mut ring, "client1", &swupdate);
    let add = |ring: &Ring, version: &str| {
        let source = scratch.arg("source");
        ring.fleet(&format!("release add image {version} {source} --key release"));
    };
    add(&ring, "1.0");
    ring.fleet("rollout start 1 --ring client0,client1");
    ring.wait_for(1, "done");
    let shown = ring.fleet("rollout show 1");
    assert_says(&shown, &["client0  1     done", "client1  1     done"]);
    assert!(begins_with(&scratch.path("slot-b"), &rootfs), "RAUC has written the other slot");
    assert_says(&scratch.told("boots"), &["set-primary B"]);
    assert!(begins_with(&scratch.path("installed"), &rootfs), "SWUpdate has written the file");
    // A release of a key that treecast trusts, with a bundle and an image that the device does not.
    fs::write(scratch.path("rootfs"), vec![8; 300_000]).unwrap();
    run(&scratch, MAKE, "others");
    add(&ring, "2.0");
    ring.fleet("rollout start 2 --ring client0,client1 --errors 5");
    ring.wait_for(2, "done");
    let shown = ring.fleet("rollout show 2");
    assert_says(&shown, &["client0  1     failed  env failed", "client1  1     failed  swupdate failed"]);
    assert!(
        begins_with(&scratch.path("slot-b"), &rootfs) && begins_with(&scratch.path("installed"), &rootfs)
    );
}
