//! Takes a lab down, complete or half-built: first processes, then links, then names.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use treecast_host::{
    namespace::{self, Namespace},
    netlink::{self, Batch, Netlink, requests},
    process,
};

use crate::error::{Error, Result};
use crate::links;
use crate::parallel;
use crate::plan::{CableEnd, Plan};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Removes everything in `plan` that exists. Can be repeated after a failure.
pub(crate) fn remove(lab: &str, plan: &Plan) -> Result<()> {
    kill_processes(lab, &plan.namespaces().collect::<Vec<_>>())?;
    delete_links(plan)?;
    for name in plan.namespaces() {
        namespace::remove(name).map_err(Error::system(format!("remove namespace {name}")))?;
    }
    Ok(())
}

/// Ends all processes in `namespaces`, and waits until they are gone.
pub(crate) fn kill_processes(lab: &str, namespaces: &[&str]) -> Result<()> {
    let inode = |name: &&str| fs::metadata(namespace::path(name)).map(|metadata| metadata.ino()).ok();
    let inodes: HashSet<u64> = namespaces.iter().filter_map(inode).collect();
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let processes = processes_in(&inodes);
        if processes.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            let remaining = processes.iter().map(i32::to_string).collect::<Vec<_>>().join(", ");
            let (name, seconds) = (lab.to_owned(), TIMEOUT.as_secs());
            return Err(Error::StillThere { name, what: "processes", seconds, remaining });
        }
        for process in processes {
            // The process was in the lab's namespace a moment ago. If it has ended since, that is no failure.
            _ = process::kill(process, libc::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The processes whose main thread is in one of the namespaces, except this process.
fn processes_in(inodes: &HashSet<u64>) -> Vec<i32> {
    let own = std::process::id() as i32;
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_inside = |process: &i32| {
        let namespace = fs::metadata(format!("/proc/{process}/ns/net"));
        namespace.is_ok_and(|namespace| inodes.contains(&namespace.ino()))
    };
    numbers.filter(|process| *process != own && is_inside(process)).collect()
}

/// Deletes both ends of every cable at once. So they are gone when this returns, even if somebody holds a
/// namespace; the kernel ends namespaces later.
fn delete_links(plan: &Plan) -> Result<()> {
    let with_links = plan.cables.iter().filter_map(|cable| match cable.ends {
        [CableEnd::Node(node, _), CableEnd::Node(..)] => Some(node),
        _ => None,
    });
    let mut nodes: Vec<usize> = with_links.collect();
    nodes.sort_unstable();
    nodes.dedup();
    let mut names: Vec<&str> = nodes.into_iter().map(|node| plan.nodes[node].namespace.as_str()).collect();
    names.push(&plan.switch);
    // Each deletion waits until all processors have seen its links go, which takes as long for many at once.
    const THREADS: usize = 32;
    parallel::map_on(THREADS, names.len(), |index| delete_links_in(names[index]))?;
    Ok(())
}

fn delete_links_in(name: &str) -> Result<()> {
    // A namespace that was never made, or is only a file yet, has no links.
    let Ok(namespace) = Namespace::open(name) else { return Ok(()) };
    if namespace.enter().is_err() {
        return Ok(());
    }
    let mut batch = Batch::default();
    requests::delete_group(&mut batch, links::GROUP);
    let deleted = Netlink::open().and_then(|netlink| netlink.run(batch));
    match deleted {
        // No links are left: they went with their other ends.
        Err(error) if netlink::is_refused_with(&error, libc::ENODEV) => Ok(()),
        deleted => deleted.map_err(Error::system(format!("delete the links of {name}"))),
    }
}
