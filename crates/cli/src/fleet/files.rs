//! `treecast fleet files` and `treecast fleet deliveries`.

use std::{path::PathBuf, process::ExitCode, thread, time::Duration};

use indicatif::ProgressBar;
use serde_json::{Value, json};
use treecast_fleet::client::{Client, escaped};

use super::{asked::NOT_ALL_WELL, delete, get, items, post, print_table, text, wait};
use crate::{Outcome, arguments::counted, output};

/// The time between two looks how far the hosts are.
const LOOK: Duration = Duration::from_millis(200);

/// The arguments of `treecast fleet files`.
#[derive(clap::Args)]
pub struct Args {
    /// The hosts that get the files
    #[arg(value_name = "SELECTION")]
    select: String,
    /// The files. With --api, they are uploaded to the manager before
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Upload them to a manager on this host, too: its unit sees neither /home nor /tmp
    #[arg(long)]
    upload: bool,
    /// A folder below the one that each host names. Its agent.toml names one for files
    #[arg(long, value_name = "FOLDER")]
    into: Option<String>,
}

/// The arguments of `treecast fleet deliveries`.
#[derive(clap::Args)]
pub struct DeliveriesArgs {
    /// The number of a delivery to show [default: list all]
    delivery: Option<i64>,
    /// End it. Hosts that have the files keep them
    #[arg(long, requires = "delivery")]
    abort: bool,
}

/// Lists deliveries, or shows or ends one.
pub fn deliveries(
    client: &Client,
    args: &DeliveriesArgs,
    json: bool,
) -> Result<(), Box<dyn std::error::Error>> {
    let Some(id) = args.delivery else {
        let all = get(client, "/api/deliveries")?;
        if json {
            say!("{all}")
        } else {
            print_all(&all)
        }
        return Ok(());
    };
    let delivery = match args.abort {
        true => post(client, &format!("/api/deliveries/{id}/abort"), &json!({}))?,
        false => get(client, &format!("/api/deliveries/{id}"))?,
    };
    if json {
        say!("{delivery}")
    } else {
        print(&delivery)
    }
    Ok(())
}

/// Delivers files to hosts, and prints how each fared.
pub fn run(client: &Client, args: &Args, json: bool) -> Outcome {
    let mut body = json!({ "select": args.select, "into": args.into.as_deref().unwrap_or_default() });
    if client.is_local() && !args.upload {
        let paths = args.files.iter().map(std::path::absolute).collect::<Result<Vec<_>, _>>()?;
        body["paths"] = json!(paths);
    } else {
        body["upload"] = json!(upload(client, &args.files)?);
    }
    let begun = post(client, "/api/deliveries", &body);
    if let (Err(_), Some(upload)) = (&begun, body["upload"].as_str()) {
        // The manager would delete it after an hour. The reason why it was refused counts more.
        _ = delete(client, &format!("/api/uploads/{upload}"));
    }
    let begun = begun?;
    let delivery = follow(client, &begun["id"], json)?;
    match json {
        true => say!("{delivery}"),
        false => print(&delivery),
    }
    let is_well =
        delivery["state"] == "done" && items(&delivery["hosts"]).iter().all(|of| of["state"] == "done");
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(NOT_ALL_WELL) })
}

/// Uploads files. Returns the name of the upload.
fn upload(client: &Client, files: &[PathBuf]) -> Result<String, Box<dyn std::error::Error>> {
    let begun = post(client, "/api/uploads", &json!({}))?;
    let upload = text(&begun, "upload").to_owned();
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| format!("{} has no name that can be sent", file.display()))?;
        wait(client.upload::<Value>(&format!("/api/uploads/{upload}/{}", escaped(name)), file))?;
    }
    Ok(upload)
}

/// Waits until a delivery has ended.
fn follow(client: &Client, id: &Value, json: bool) -> Result<Value, Box<dyn std::error::Error>> {
    let bar: ProgressBar = output::waiting_bar(json, "making ready");
    loop {
        let delivery = get(client, &format!("/api/deliveries/{id}"))?;
        if delivery["state"] != "running" {
            bar.finish_and_clear();
            return Ok(delivery);
        }
        let hosts = items(&delivery["hosts"]);
        let done = hosts.iter().filter(|host| host["state"] == "done").count();
        let came: u64 = hosts.iter().filter_map(|host| host["bytes"].as_u64()).sum();
        bar.set_message(format!(
            "{done} of {} done, {came} bytes have come there",
            counted(hosts.len(), "host")
        ));
        thread::sleep(LOOK);
    }
}

fn print_all(deliveries: &Value) {
    let mut rows = Vec::new();
    for delivery in items(deliveries) {
        let word = |key: &str| delivery[key].as_str().unwrap_or("-").to_owned();
        let files = items(&delivery["files"]).len().to_string();
        rows.push(vec![
            delivery["id"].to_string(),
            word("select"),
            files,
            word("who"),
            word("state"),
            word("reason"),
        ]);
    }
    print_table(["DELIVERY", "HOSTS", "FILES", "WHO", "STATE", "WHY"], rows);
}

fn print(delivery: &Value) {
    let reason = delivery["reason"].as_str().map(|reason| format!(": {reason}")).unwrap_or_default();
    say!(
        "delivery {} of {} is {}{reason}",
        delivery["id"],
        counted(items(&delivery["files"]).len(), "file"),
        text(delivery, "state")
    );
    if delivery["unicast_bytes"] != 0 {
        say!(
            "{} bytes sent once; one by one they would be {}",
            delivery["sent_bytes"],
            delivery["unicast_bytes"]
        );
    }
    let mut rows = Vec::new();
    for host in items(&delivery["hosts"]) {
        let word = |key: &str| host[key].as_str().unwrap_or("-").to_owned();
        rows.push(vec![word("host"), word("state"), word("reason")]);
    }
    print_table(["HOST", "STATE", "WHY"], rows);
}
