//! The report of made-up runs. It is left in the target folder's `tmp`, to be looked at.

use std::{fs, path::PathBuf, time::Duration};

use treecast_measure::{
    Db,
    claim::{Claim, judge},
    db::{Event, Machine, NewRun, NodeInfo, Role, Row, RunEnd, RunId, Status},
    frame::{Frame, Vocabulary},
    paper::{PaperKeys, Papers},
    plot::{
        Plot,
        generic::{Kind, PlotSpec},
    },
    report::{self, Finding, Named, Picture, ReportInput, Verdict},
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
            network: "S1R3L5".into(),
            svg: "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 200 50'><circle cx='100' cy='25' r='20' fill='#0072B2'/></svg>".into(),
        }],
        findings: vec![Finding {
            says: "nack with 40 clients takes as long as with 5".into(),
            measured: "1.04 times".into(),
            limit: "at most 1.15 times".into(),
            cell: String::new(),
            verdict: Verdict::Holds,
        }],
        impairments: vec!["S1L20: 5% loss at 20 nodes".into()],
        ..ReportInput::default()
    }
}

#[test]
fn nothing_that_a_run_is_called_gets_into_the_page_as_html() {
    let folder = fresh("escapes");
    let nasty = "<img src=x onerror=alert(1)>\"'&";
    let mut db = Db::open(&folder.join("results.sqlite")).unwrap();
    let parameters = ["network", "delivery", "schedule"].map(|name| (name.to_owned(), nasty.to_owned()));
    let new = NewRun {
        experiment: nasty.into(),
        parameters: parameters.into(),
        repeat: 0,
        seed: 1,
        command: nasty.into(),
        machine: Machine { hostname: nasty.into(), ..Machine::default() },
    };
    let run = db.begin(&new).unwrap();
    let client = db.add_node(run, &NodeInfo { name: nasty.into(), role: Role::Client }).unwrap();
    let rows =
        [Row::of_node(client, "time", 1.0, "s"), Row::of_node(client, "time", 0.0, "s").lacking(nasty)];
    db.add_rows(run, &rows).unwrap();
    let end =
        RunEnd { status: Status::Complete, duration: Duration::from_secs(2), saturated: Some(nasty.into()) };
    db.finish_run(run, &end).unwrap();

    let plots = serde_json::from_str(r#"[{"title": "<img src=x>", "kind": "bars", "y": "time"}]"#).unwrap();
    let report = report::render(&db, &ReportInput { title: nasty.into(), plots, ..input() }).unwrap();
    assert!(!report.html.contains("<img src=x"), "unescaped");
    assert!(report.html.contains("&lt;img src=x"));
}

#[test]
fn runs_that_are_cut_short_or_saturated_are_marked_and_the_first_are_in_no_average() {
    let folder = fresh("marked");
    let mut db = made_up_matrix(&folder);
    let mut add = |status, saturated: Option<&str>, seconds: f64| {
        let parameters = [
            ("network", "tree"),
            ("delivery", "late"),
            ("loss", "0"),
            ("receivers", "4"),
            ("size", "8000000"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let new = NewRun {
            experiment: "matrix".into(),
            parameters: parameters.into(),
            repeat: 0,
            seed: 4711,
            command: String::new(),
            machine: Machine::default(),
        };
        let run = db.begin(&new).unwrap();
        let client = db.add_node(run, &NodeInfo { name: "client0".into(), role: Role::Client }).unwrap();
        let row = Row::of_node(client, "time", seconds, "s");
        let second = Row::of_node(client, "time", 0.0, "s").lacking("client0: it is damaged");
        db.add_rows(run, &[row, second]).unwrap();
        let saturated = saturated.map(str::to_owned);
        db.finish_run(run, &RunEnd { status, duration: Duration::from_secs(9), saturated }).unwrap();
    };
    add(Status::CutShort, None, 12345.0);
    add(Status::Complete, Some("processors over 95 % busy"), 77.0);
    let html = report::render(&db, &input()).unwrap().html;
    assert!(html.contains("1 run was cut short") && html.contains(">cut short<"));
    assert!(html.contains("complete, machine at its limit *: processors over 95 % busy"));
    assert!(
        html.contains("1 of 2") && html.contains(">9 s<") && html.contains(">4711<"),
        "how many copies came, how long the run took, and its seed"
    );
    assert!(html.contains(">77<") && !html.contains("12345"), "a run that was cut short is in no average");
    assert!(html.contains("1 of 482 copies are missing or not whole") && html.contains("it is damaged"));
    let plots = report::render(&db, &ReportInput { plots: plots(), ..input() }).unwrap().plots;
    let of_cell = plots.iter().find(|plot| plot.title == "Time by receivers");
    assert!(of_cell.is_some(), "a run that was cut short takes no plot away");
}

#[test]
fn an_empty_database_makes_an_empty_report_and_no_panic() {
    let folder = fresh("empty");
    let db = treecast_measure::Db::open(&folder.join("results.sqlite")).unwrap();
    assert!(report::render(&db, &input()).unwrap().html.contains("No run is complete."));
    assert!(report::to_text(&db, &input()).is_ok());
}

/// A made-up matrix of three fanouts and two repairs, of which one is refused, over two losses and three numbers of
/// receivers, each twice.
fn made_up_matrix(folder: &std::path::Path) -> Db {
    let mut db = Db::open(&folder.join("results.sqlite")).unwrap();
    for (fanout, copies) in [("multicast", 1.0), ("mead", 2.0), ("unicast", 12.0)] {
        for (repair, again) in [("nack", 1.1), ("carousel", 1.6)] {
            for (loss, receivers) in ["0", "0.02"].iter().flat_map(|loss| [4, 8, 12].map(|n| (loss, n))) {
                for repeat in 0..2 {
                    let copies = if fanout == "unicast" { f64::from(receivers) } else { copies };
                    let cell = Cell { fanout, repair, loss, receivers, repeat };
                    add_run_of_matrix(&mut db, &cell, copies, again);
                }
            }
        }
    }
    db
}

struct Cell<'c> {
    fanout: &'c str,
    repair: &'c str,
    loss: &'c str,
    receivers: u32,
    repeat: u32,
}

/// Adds a run in which the sender sent `copies` copies, each `again` times.
fn add_run_of_matrix(db: &mut Db, cell: &Cell<'_>, copies: f64, again: f64) {
    let Cell { fanout, repair, loss, receivers, repeat } = *cell;
    let parameters = [
        ("network", "tree"),
        ("delivery", &format!("{fanout} {repair}")),
        ("fanout", fanout),
        ("repair", repair),
        ("loss", loss),
        ("receivers", &receivers.to_string()),
        ("size", "8000000"),
    ];
    let new = NewRun {
        experiment: "matrix".into(),
        parameters: parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        seed: 7,
        repeat,
        command: "treecast lab run labs/matrix.toml".into(),
        machine: Machine::here("0.1.0"),
    };
    let run = db.begin(&new).unwrap();
    let sender = db.add_node(run, &NodeInfo { name: "server0".into(), role: Role::Server }).unwrap();
    let is_refused = fanout == "mead" && repair == "carousel";
    let why = "no carousel by MEADcast";
    let mut rows = Vec::new();
    for client in 0..receivers {
        let info = NodeInfo { name: format!("client{client}"), role: Role::Client };
        let node = db.add_node(run, &info).unwrap();
        let row = Row::of_node(node, "time", copies * again * (1.0 + f64::from(client + repeat) / 50.0), "s");
        rows.push(if is_refused { row.lacking(why) } else { row });
    }
    rows.push(match is_refused {
        true => Row { note: why.into(), ..Row::of_run("refused", 1.0, "") },
        false => Row::of_run("sender_bytes", 8e6 * copies * again, "B"),
    });
    db.add_rows(run, &rows).unwrap();
    let seconds = (0..20).map(|half| f64::from(half) / 2.0);
    let points: Vec<_> = seconds.map(|at| (at, 8e6 / again * (1.0 - at / 10.0))).collect();
    db.add_series(sender, "sent", "bit/s", &points).unwrap();
    for (second, what) in [(3, "the link is down"), (6, "the link is up")] {
        let at = Duration::from_secs(second);
        db.add_event(run, &Event { at, node: None, kind: "event".into(), detail: what.into() }).unwrap();
    }
    let end = RunEnd { status: Status::Complete, duration: Duration::from_secs(10), saturated: None };
    db.finish_run(run, &end).unwrap();
}

/// The plots of an experiment's file, here as JSON: measure reads no TOML.
fn plots() -> Vec<PlotSpec> {
    serde_json::from_str(
        r#"[
        {"title": "Time", "kind": "heat", "x": "repair", "rows": "fanout", "y": "time", "each": ["loss"], "log": "y"},
        {"title": "Time by receivers", "kind": "lines", "x": "receivers", "y": "time", "where": {"loss": 0},
         "paper": {"file": "paper.tsv", "figure": "1"}, "label": "time to the checked copy"},
        {"title": "Copies", "kind": "bars", "y": "sender_bytes / size", "where": {"receivers": 12}, "x": "loss"},
        {"title": "Spread", "kind": "boxes", "y": "time", "where": {"receivers": [12], "loss": "0.02"}},
        {"title": "Distribution", "kind": "distribution", "y": "time", "where": {"receivers": 12, "loss": 0}},
        {"title": "Rate", "kind": "time", "y": "sent", "where": {"receivers": 12, "loss": 0}},
        {"title": "Levels", "kind": "time", "y": "sent", "paper": {"file": "paper.tsv", "figure": "2"},
         "where": {"receivers": 12, "loss": 0, "delivery": "multicast nack"}},
        {"title": "Only one", "kind": "lines", "x": "receivers", "y": "time", "where": {"receivers": 12, "loss": 0},
         "paper": {"file": "paper.tsv", "figure": "1"}},
        {"title": "None", "kind": "time", "y": "sent", "where": {"node": "client0"}}
        ]"#,
    )
    .unwrap()
}

const PAPER: &str = "# source: made-up-1999\nfigure\tmeasure\tvalue\tunit\tdelivery\treceivers\tsize\n\
    1\ttime\t3\ts\tmulticast nack\t4\t16000000\n1\ttime\t3.5\ts\tmulticast nack\t12\t16000000\n\
    2\tsent\t10\t\tmulticast nack\t\t\n2\tsent\t50\t\tmulticast nack\t\t\n2\tsent\t20\t\tmulticast nack\t\t\n";

fn papers() -> Papers {
    let keys = PaperKeys { file: "paper.tsv".into(), figures: None, nearest: Some("size".into()) };
    Papers::read("".as_ref(), "x.toml", &[keys], |_| Ok(PAPER.to_owned())).unwrap()
}

/// The measures, series and parameters of the made-up matrix.
fn vocabulary(db: &Db) -> Vocabulary {
    let series = [("sent", "bit/s"), ("waiting", "B")];
    let series = series.map(|(name, unit)| (name.to_owned(), unit.to_owned())).into();
    Vocabulary { series, ..Frame::load(db, &[]).unwrap().vocabulary() }
}

/// A report of a new kind of experiment is its data, its plots and its claims, and no Rust.
#[test]
fn runs_of_any_kind_have_a_report_without_code_of_their_own() {
    let folder = fresh("generic");
    let db = made_up_matrix(&folder);
    let papers = papers();
    let claims: Vec<Claim> = serde_json::from_str(
        r#"[
        {"says": "multicast takes at most a third of unicast's time", "each": ["loss"], "where": {"receivers": 12},
         "holds": "median(time{delivery = \"multicast nack\"}) <= median(time{delivery = \"unicast nack\"}) / 3"},
        {"says": "MEADcast sends one copy", "holds": "max(sender_bytes{fanout = mead, repair = nack} / size) <= 1"},
        {"says": "by scp, too", "holds": "max(time{delivery = scp}) < 1"}
        ]"#,
    )
    .unwrap();
    let frame = Frame::load(&db, &[]).unwrap();
    let findings = judge(&claims, &frame, &papers);
    let verdicts: Vec<Verdict> = findings.iter().map(|finding| finding.verdict).collect();
    assert_eq!(
        verdicts,
        [Verdict::Holds, Verdict::Holds, Verdict::Fails, Verdict::NotJudged],
        "{findings:?}"
    );
    assert_eq!(findings[2].measured, "2.20");

    let input =
        ReportInput { title: "Matrix".into(), plots: plots(), papers, findings, ..ReportInput::default() };
    let report = report::render(&db, &input).unwrap();
    fs::write(folder.join("report.html"), &report.html).unwrap();
    let titles: Vec<&str> = report.plots.iter().map(|plot| plot.title.as_str()).collect();
    let expected = [
        "Time: no loss on links",
        "Time: 2 % loss on links",
        "Time by receivers",
        "Copies",
        "Spread",
        "Distribution",
        "Rate",
        "Levels",
        "Only one",
    ];
    assert_eq!(titles, expected);
    let html = &report.html;
    for told in ["refused", "no carousel by MEADcast", "made-up-1999", "16 MB", "not judged", "Green"] {
        assert!(html.contains(told), "{told}");
    }
    assert!(
        !html.contains("More clients") && !html.contains(">Beside the paper<"),
        "sections of other experiments"
    );
    let none = "None: not drawn: no run with node = client0 has values for it.";
    assert!(html.contains(none), "{html}");
    let narrow = html.matches("<figure class=\"narrow\" ").count();
    assert_eq!(narrow, report.plots.len() - 2, "all but the heat maps have a drawing for phones");
    check_drawings(&report.plots);
    let text = report::to_text(&db, &input).unwrap();
    assert!(text.contains("Refused by the program") && text.contains("SENDER BYTES, MB"), "{text}");
    fs::write(folder.join("report.txt"), text).unwrap();
}

/// Checks what single plots of the made-up matrix show.
fn check_drawings(plots: &[Plot]) {
    let heat = &plots[0].svg;
    assert!(text_of_refused_cells(heat) == 1, "a square that says so: {heat}");
    assert!(heat.contains("<title>nack, multicast: "), "values on hover: {heat}");
    for told in ["Columns: repair.", "Rows: fanout.", "Number: the median."] {
        assert!(words_of(heat).contains(told), "{told}: {heat}");
    }
    let csv = &plots[0].csv;
    assert!(csv.starts_with("delivery,repair,fanout,what,values,mean,median,"), "{csv}");
    assert!(plots.iter().all(|plot| plot.csv.lines().count() > 1), "every plot has its values as a table");
    let beside = plots[2].table.as_ref().expect("ours and the paper's");
    let row: Vec<&str> = beside.rows[0].iter().map(|cell| cell.text.as_str()).collect();
    // Columns: series, x, values, mean, min, max, STD, interval, the paper's value, its range and what it is for.
    assert_eq!((row[0], row[2], &row[8..]), ("multicast nack", "8", &["3", "-", "16 MB"][..]), "{row:?}");
    assert!(plots[3].table.is_none(), "a plot without a paper's values has its table elsewhere");
    let only = &plots[8].svg;
    assert!(only.contains("; paper "), "a bar without the paper's value beside ours: {only}");
    let levels = &plots[7].svg;
    for told in ["the link is down", "the link is up", "made-up-1999, 2", "scaled so that the first"] {
        assert!(levels.contains(told), "{told}: {levels}");
    }
    assert!(!plots[6].svg.contains("the link is down"), "a plot of several runs marks no events");
}

/// All words of a drawing, in one line.
fn words_of(svg: &str) -> String {
    let lines = svg.lines().map(str::trim).filter(|line| !line.starts_with('<'));
    lines.collect::<Vec<_>>().join(" ")
}

fn text_of_refused_cells(svg: &str) -> usize {
    svg.lines().filter(|line| line.trim() == "refused").count()
}

#[test]
fn a_plot_or_claim_that_cannot_be_is_refused_before_anything_runs() {
    let folder = fresh("refused");
    let db = made_up_matrix(&folder);
    let (vocabulary, papers) = (vocabulary(&db), papers());
    let named: Vec<String> = plots().iter().flat_map(|plot| plot.of_papers(&papers)).collect();
    papers.check(&vocabulary, &named, &[]).unwrap();
    plots().iter().try_for_each(|plot| plot.check(&vocabulary, &papers)).unwrap();
    let claim = |each: &str| -> Claim {
        let text = r#"{"says": "so", "holds": "median(time) <= paper(time)", "where": {"delivery": "multicast nack"}"#;
        serde_json::from_str(&format!("{text}{each}}}")).unwrap()
    };
    let why = claim("").check_papers(&vocabulary, &papers).unwrap_err();
    assert!(why.starts_with("claim `so`: paper(...) with multicast nack: there are 2 values"), "{why}");
    claim(r#", "each": ["receivers"]"#).check_papers(&vocabulary, &papers).unwrap();
    let error = |change: &dyn Fn(&mut PlotSpec)| {
        let mut plot = plots().remove(1);
        plot.paper = None;
        change(&mut plot);
        plot.check(&vocabulary, &Papers::default()).unwrap_err()
    };
    assert!(
        error(&|plot| plot.x = Some("clients".into()))
            .contains("no run has a parameter `clients`: there are delivery")
    );
    assert!(
        error(&|plot| plot.y = "tiem".into())
            .contains("no run measures `tiem`: there are time, sender_bytes")
    );
    assert!(error(&|plot| plot.x = None).contains("lines need `x`"));
    for (y, said) in [
        (
            "snet",
            "no run has a series `snet`: there are sent, waiting, and samples of nodes such as process/cpu_ns",
        ),
        (
            "sent, process/cpu_ns, waiting",
            "sent and waiting do not fit into one plot: they are in bit/s and B",
        ),
    ] {
        let over_time = |plot: &mut PlotSpec| (plot.kind, plot.y) = (Kind::Time, y.into());
        assert_eq!(error(&over_time), format!("plot `Time by receivers`: {said}"));
    }
    let paper = plots()[1].paper.clone();
    assert!(
        error(&|plot| plot.paper = paper.clone()).contains("`paper.tsv` is none of the experiment's papers")
    );
}

/// Adds a run of a delivery with one client, of which only the site and the time count.
fn add_run_at(db: &mut Db, site: &str, seed: &str, delivery: &str, seconds: f64) {
    let parameters = [("network", "tree"), ("site", site), ("seed", seed), ("delivery", delivery)];
    let new = NewRun {
        experiment: "sites".into(),
        parameters: parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        seed: 1,
        repeat: 0,
        command: String::new(),
        machine: Machine::default(),
    };
    let run = db.begin(&new).unwrap();
    let client = db.add_node(run, &NodeInfo { name: "client0".into(), role: Role::Client }).unwrap();
    let rows = [Row::of_node(client, "time", seconds, "s"), Row::of_node(client, "missing", 0.0, "")];
    db.add_rows(run, &rows).unwrap();
    let end = RunEnd { status: Status::Complete, duration: Duration::from_secs(2), saturated: None };
    db.finish_run(run, &end).unwrap();
}

/// The headline has the median, as the plots of boxes have, and says so. An asterisk is there only with its meaning.
#[test]
fn the_headline_names_its_statistic_and_explains_its_asterisk() {
    let folder = fresh("headline");
    let mut db = Db::open(&folder.join("results.sqlite")).unwrap();
    let spec = r#"[{"title": "Time", "kind": "boxes", "y": "time"}, {"title": "Share", "kind": "distribution", "y": "time"}]"#;
    let plots: Vec<PlotSpec> = serde_json::from_str(spec).unwrap();
    let meaning = Named {
        parameter: "network".into(),
        name: "tree".into(),
        meaning: "one receiver behind two routers".into(),
    };
    let other = Named { name: "lan".into(), ..meaning.clone() };
    let input = ReportInput { plots, names: vec![meaning, other], ..ReportInput::default() };
    for (seed, seconds) in [("1", 1.0), ("2", 1.5), ("3", 9.0)] {
        add_run_at(&mut db, "sim", seed, "nack", seconds);
        add_run_at(&mut db, "sim", seed, "tcp", seconds * 4.0);
    }
    let text = report::to_text(&db, &input).unwrap();
    assert!(text.contains("the median receiver took 1.50 s, with tcp 6 s."), "{text}");
    assert!(!text.contains('*'), "{text}");
    let report = report::render(&db, &input).unwrap();
    for told in ["Dot and number: the median.", "Box: the middle half", "lowest to the highest."] {
        assert!(words_of(&report.plots[0].svg).contains(told), "{told}: {}", report.plots[0].svg);
    }
    assert!(words_of(&report.plots[1].svg).contains("where it crosses 50 % is the median."));
    assert!(
        report.plots[1]
            .csv
            .starts_with("delivery,time (s),share of the values up to this one\r\nnack,1,0.33")
    );
    assert!(report.html.contains("one receiver behind two routers") && !report.html.contains(">lan<"));

    let run = saturated_run(&mut db);
    assert!(report::to_text(&db, &input).unwrap().contains("* The machine was at its limit"), "{run:?}");
    let legend = words_of(&report::render(&db, &input).unwrap().plots[1].svg);
    assert!(legend.contains("nack *") && legend.contains("* The machine was at its limit"), "{legend}");
}

/// A run of nack that the machine limited.
fn saturated_run(db: &mut Db) -> RunId {
    let parameters = [("network", "tree"), ("site", "sim"), ("seed", "4"), ("delivery", "nack")];
    let new = NewRun {
        experiment: "sites".into(),
        parameters: parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        seed: 4,
        repeat: 0,
        command: String::new(),
        machine: Machine::default(),
    };
    let run = db.begin(&new).unwrap();
    let client = db.add_node(run, &NodeInfo { name: "client0".into(), role: Role::Client }).unwrap();
    db.add_rows(run, &[Row::of_node(client, "time", 1.5, "s"), Row::of_node(client, "missing", 0.0, "")])
        .unwrap();
    let saturated = Some("processors over 95 % busy".to_owned());
    let end = RunEnd { status: Status::Complete, duration: Duration::from_secs(2), saturated };
    db.finish_run(run, &end).unwrap();
    run
}

#[test]
fn simulated_runs_are_marked_and_in_no_mean_with_those_of_a_lab() {
    let folder = fresh("sites");
    let mut db = Db::open(&folder.join("results.sqlite")).unwrap();
    let plots: Vec<PlotSpec> =
        serde_json::from_str(r#"[{"title": "Time", "kind": "bars", "y": "time"}]"#).unwrap();
    let input = ReportInput { plots, ..ReportInput::default() };
    for seed in ["1", "7"] {
        add_run_at(&mut db, "sim", seed, "nack", 1.0);
        add_run_at(&mut db, "sim", seed, "tcp", 10.0);
    }
    let report = report::render(&db, &input).unwrap();
    let text = report::to_text(&db, &input).unwrap();
    assert!(report.html.contains("4 simulated runs of nack and tcp"), "{}", report.html);
    assert!(report.html.contains("simulated in virtual time, from the seeds 1 and 7"));
    assert!(text.contains("Means over all simulated runs of a cell"), "{text}");
    assert!(text.contains("10.0 times as fast") && text.lines().count() < 8, "seeds are repetitions: {text}");

    add_run_at(&mut db, "lab", "1", "nack", 3.0);
    add_run_at(&mut db, "lab", "1", "tcp", 12.0);
    let report = report::render(&db, &input).unwrap();
    let text = report::to_text(&db, &input).unwrap();
    assert!(report.html.contains("6 runs (4 of them simulated) of nack and tcp"));
    assert!(report.html.contains("2 runs with real processes on this machine; 4 runs simulated"));
    for said in ["simulated", "in the lab", "10.0 times as fast", "4.0 times as fast", "tree · in the lab"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    assert!(!text.contains("Means over all simulated"), "{text}");
    let titles: Vec<&str> = report.plots.iter().map(|plot| plot.title.as_str()).collect();
    assert_eq!(titles, ["Time: simulated", "Time: in the lab"]);
}
