//! What `make demo` runs, but for the runs themselves: their plan, and the script that opens the report.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use crate::{
    session::{Scratch, assert_says, treecast},
    sources::workspace,
};

/// Routers that read lists of receivers take a while to start. So the first run is on a network without them.
#[test]
fn the_demo_begins_with_multicast_and_takes_no_longer_than_two_minutes() {
    let output = treecast()
        .args(["lab", "run", "--plan", "labs/demo.toml"])
        .current_dir(workspace())
        .output()
        .unwrap();
    let plan = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = plan.lines().collect();
    assert_eq!(lines[0], "lossy multicast nack immediate 2M #1", "{plan}");
    assert_says(&plan, &["local", "carousel", "none", "with FEC", "unicast", "mead", "xcast", "auto"]);
    let told = lines.last().unwrap();
    let seconds = told.strip_prefix("10 runs, about ").and_then(|rest| rest.strip_suffix(" s"));
    assert!(seconds.is_some_and(|seconds| seconds.parse::<u32>().unwrap() < 90), "{told}");
}

#[test]
fn a_report_is_opened_where_there_is_a_display_and_its_address_is_printed() {
    let scratch = Scratch::new();
    let (report, opened) = (scratch.path("report.html"), scratch.path("opened"));
    fs::write(&report, "<html>").unwrap();
    let browser = scratch.path("xdg-open");
    fs::write(&browser, format!("#!/bin/sh\necho \"$1\" >{}\n", opened.display())).unwrap();
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o755)).unwrap();
    let address = format!("file://{}", report.canonicalize().unwrap().display());
    let run = |display: &str| {
        let path = format!("{}:/usr/bin:/bin", scratch.path("").display());
        let output = Command::new(workspace().join("scripts/open-report.sh"))
            .arg(&report)
            .env_clear()
            .envs([("PATH", path.as_str()), ("DISPLAY", display)])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(run(""), format!("report: {address} (open it in a browser)\n"));
    assert!(!opened.exists());
    assert_eq!(run(":0"), format!("report: {address} (opened in the browser)\n"));
    assert_eq!(fs::read_to_string(&opened).unwrap().trim(), address);
    // A display that nobody answers at does not keep the address from being printed.
    fs::write(&browser, "#!/bin/sh\nexit 3\n").unwrap();
    assert_eq!(run(":0"), format!("report: {address} (open it in a browser)\n"));
}
