//! Announced sessions, and tickets by short codes.

use std::{thread, time::Duration};

use pyo3::prelude::*;
use treecast::unstable::{
    Stop,
    code::{self, Code, CodeError},
    discovery::{self, Interfaces, News},
};

use crate::{
    error::{option, raise},
    wait::{LOOK, seconds},
};

/// A session that somebody announces on the network.
#[pyclass(frozen, get_all, module = "treecast")]
pub struct Announced {
    name: String,
    ticket: String,
    sender: String,
    objects: u64,
    size: u64,
}

/// Listens for announced sessions for a time in seconds.
#[pyfunction]
#[pyo3(signature = (*, time=3.0, interfaces=None))]
pub fn discover(python: Python<'_>, time: f64, interfaces: Option<Vec<String>>) -> PyResult<Vec<Announced>> {
    let time = seconds(time)?;
    let interfaces = interfaces.unwrap_or_default();
    interruptible(python, move |stop| {
        let mut found = Vec::new();
        let mut on_news = |news: News| {
            if let News::Announced(announcement) = news {
                let sender = discovery::sender(&announcement);
                found.push(Announced {
                    name: announcement.name().to_owned(),
                    ticket: announcement.ticket().to_string(),
                    sender: sender.map(|key| key.to_string()).unwrap_or_default(),
                    objects: announcement.objects.into(),
                    size: announcement.bytes,
                });
            }
        };
        discovery::listen(&Interfaces::named(&interfaces)?, time, stop, &mut on_news)?;
        Ok(found)
    })
}

/// Gets the ticket of the sender on this network that offers it for a short code.
#[pyfunction]
#[pyo3(signature = (code, *, time=30.0, interfaces=None))]
pub fn ask_code(
    python: Python<'_>,
    code: &str,
    time: f64,
    interfaces: Option<Vec<String>>,
) -> PyResult<String> {
    let code: Code = code.parse().map_err(|error: CodeError| option(error.to_string()))?;
    let time = seconds(time)?;
    let interfaces = interfaces.unwrap_or_default();
    interruptible(python, move |stop| {
        code::ask(&code, &Interfaces::named(&interfaces)?, time, stop).map(|ticket| ticket.to_string())
    })
}

/// Runs what waits in a thread of its own, so that this one looks for Ctrl-C meanwhile.
fn interruptible<T: Send>(
    python: Python<'_>,
    body: impl FnOnce(&Stop) -> Result<T, treecast::Error> + Send,
) -> PyResult<T> {
    let stop = Stop::new()?;
    let (result, interrupted) = thread::scope(|scope| {
        let running = scope.spawn(|| body(&stop));
        let mut interrupted = Ok(());
        while !running.is_finished() && interrupted.is_ok() {
            python.detach(|| thread::sleep(LOOK.min(Duration::from_millis(10))));
            interrupted = python.check_signals();
        }
        if interrupted.is_err() {
            stop.request();
        }
        (python.detach(|| running.join()), interrupted)
    });
    interrupted?;
    match result {
        Ok(result) => result.map_err(raise),
        Err(_) => Err(option("the library has failed by an error of its own: please report it".to_owned())),
    }
}
