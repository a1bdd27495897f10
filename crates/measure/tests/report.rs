//! The report of made-up runs. It is left in the target folder's `tmp`, to be looked at.

mod common;

use std::{fs, path::PathBuf, time::Duration};

use treecast_measure::{
    db::{NodeInfo, Role, RunEnd, Status, Transfer},
    report::{self, Finding, Picture, ReportInput},
};

fn fresh(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn input() -> ReportInput {
    ReportInput {
        title: "One sender, twenty receivers, every way".into(),
        command: "treecast lab run labs/librecast/demo.toml".into(),
        pictures: vec![Picture {
            topology: "S1R3L5".into(),
            svg: "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 200 50'><circle cx='100' cy='25' r='20' fill='#0072B2'/></svg>".into(),
        }],
        findings: vec![Finding {
            says: "nack with 40 clients takes as long as with 5".into(),
            measured: "1.04 times".into(),
            limit: "at most 1.15 times".into(),
            holds: true,
        }],
        impairments: vec!["S1L20: 5% loss at 20 nodes".into()],
        ..ReportInput::default()
    }
}

#[test]
fn a_report_has_all_tables_and_plots_and_needs_no_network() {
    let folder = fresh("report");
    let networks = [("S1L20", 20, 0), ("S1L40", 40, 0), ("S1R3L5", 20, 3)];
    let db = common::made_up(&folder.join("results.sqlite"), &networks, &[16, 64], 2);
    let report = report::render(&db, &input()).unwrap();
    fs::write(folder.join("report.html"), &report.html).unwrap();
    for plot in &report.plots {
        fs::write(folder.join(format!("{}.svg", plot.name)), &plot.svg).unwrap();
    }
    let html = &report.html;
    assert!(
        html.contains("All 5760 copies are whole"),
        "3 networks, 2 sizes, 6 deliveries, 3 schedules, twice"
    );
    for table in [
        "tables 6 to 9",
        "tables 10 and 11",
        "tables 1 to 5",
        "UPDATE",
        "What the server sent in all",
        "; S1L20: 5% loss",
    ] {
        assert!(html.contains(table), "{table}");
    }
    let names: Vec<&str> = report.plots.iter().map(|plot| plot.name.as_str()).collect();
    for name in [
        "run-time-S1L20-67108864",
        "run-time-by-size-S1L20-immediate",
        "run-time-by-clients-R0-67108864-immediate",
        "completions-S1R3L5-67108864-immediate",
        "server-copies-S1L40-67108864",
        "server-rate-S1L20-67108864",
        "server-rate-by-clients-S1L20-67108864",
        "server-load-by-clients-S1L20-67108864",
        "routers-S1R3L5-67108864-tcp",
        "beside-the-paper",
    ] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    let without_namespaces = html.replace("http://www.w3.org/2000/svg", "");
    for elsewhere in ["http://", "https://", "<script", "<link", "@import", "url("] {
        assert!(!without_namespaces.contains(elsewhere), "{elsewhere}");
    }
}

#[test]
fn every_plot_is_well_formed_and_says_what_it_shows() {
    let folder = fresh("plots");
    let db = common::made_up(&folder.join("results.sqlite"), &[("S1<&\">R3L5", 20, 3)], &[16, 64], 1);
    let report = report::render(&db, &input()).unwrap();
    assert!(report.plots.len() >= 10, "{}", report.plots.len());
    for plot in &report.plots {
        let document = roxmltree::Document::parse(&plot.svg).unwrap_or_else(|e| panic!("{}: {e}", plot.name));
        let texts: Vec<&str> = document.descendants().filter_map(|node| node.text()).map(str::trim).collect();
        assert!(texts.contains(&plot.title.as_str()), "{texts:?}");
        assert!(
            document.descendants().filter(|node| node.has_tag_name("polyline")).count() > 2,
            "{}",
            plot.name
        );
    }
}

#[test]
fn nothing_that_a_run_is_called_gets_into_the_page_as_html() {
    let folder = fresh("escapes");
    let nasty = "<img src=x onerror=alert(1)>\"'&";
    let mut db = treecast_measure::Db::open(&folder.join("results.sqlite")).unwrap();
    let mut info = common::info(nasty, 1, 0);
    for text in [&mut info.delivery, &mut info.schedule, &mut info.command, &mut info.machine.hostname] {
        *text = nasty.into();
    }
    let run = db.begin_run(&info).unwrap();
    let client = db.add_node(run, &NodeInfo { name: nasty.into(), role: Role::Client }).unwrap();
    let failed = Transfer { failure: Some(nasty.into()), ..Transfer::default() };
    db.add_transfer(client, &failed).unwrap();
    let second = db.add_node(run, &NodeInfo { name: "client1".into(), role: Role::Client }).unwrap();
    let whole = Transfer { finished: Some(Duration::from_secs(1)), verified: true, ..Transfer::default() };
    db.add_transfer(second, &whole).unwrap();
    let end =
        RunEnd { status: Status::Complete, duration: Duration::from_secs(2), saturated: Some(nasty.into()) };
    db.finish_run(run, &end).unwrap();

    let report = report::render(&db, &ReportInput { title: nasty.into(), ..input() }).unwrap();
    assert!(!report.html.contains("<img src=x"), "unescaped");
    assert!(report.html.contains("&lt;img src=x"));
}

#[test]
fn runs_that_are_cut_short_or_saturated_are_marked_and_the_first_are_in_no_average() {
    let folder = fresh("marked");
    let mut db = common::made_up(&folder.join("results.sqlite"), &[("S1L5", 5, 0)], &[16], 1);
    let run = db.begin_run(&common::info("S1L5", 5, 0)).unwrap();
    let end = RunEnd { status: Status::CutShort, duration: Duration::from_secs(1), saturated: None };
    db.finish_run(run, &end).unwrap();
    let run = db.begin_run(&common::info("S1L5", 5, 0)).unwrap();
    let client = db.add_node(run, &NodeInfo { name: "client0".into(), role: Role::Client }).unwrap();
    let whole = Transfer { finished: Some(Duration::from_secs(9)), verified: true, ..Transfer::default() };
    db.add_transfer(client, &whole).unwrap();
    let saturated = Some("processors over 95 % busy".to_owned());
    db.finish_run(run, &RunEnd { status: Status::Complete, duration: Duration::from_secs(9), saturated })
        .unwrap();

    let html = report::render(&db, &input()).unwrap().html;
    assert!(html.contains("1 runs were cut short"));
    assert!(html.contains(">cut short<") && html.contains("saturated: processors over 95 % busy"));
    assert!(html.contains("immediate *"), "the row of the saturated run has a star");
    assert!(
        html.contains("4 of 95 copies are missing or wrong"),
        "of 18 runs with 5 clients, and one with 1 of 5"
    );
}

#[test]
fn an_empty_database_makes_an_empty_report_and_no_panic() {
    let folder = fresh("empty");
    let db = treecast_measure::Db::open(&folder.join("results.sqlite")).unwrap();
    assert!(report::render(&db, &input()).unwrap().html.contains("No run is complete."));
    assert!(report::to_text(&db, &input()).is_ok());
}
