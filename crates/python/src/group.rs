//! The sender's side.

use std::{path::PathBuf, time::Duration};

use pyo3::{
    prelude::*,
    pybacked::PyBackedBytes,
    types::{PyAny, PyDict},
};
use treecast::{
    Fanout, GroupBuilder, GroupOption, Object,
    unstable::options::{self, FeedSource, FolderOptions},
};

use crate::{
    error::raise,
    options::{Options, With},
    wait::{ended, ready, seconds, wait, wait_if_nobody_has},
};

/// A group of receivers, and the session that sends objects to them.
#[pyclass(frozen, module = "treecast")]
pub struct Group(treecast::Group);

/// The options of a carousel.
#[pyclass(frozen, skip_from_py_object, module = "treecast")]
pub struct CarouselOptions {
    loops: Option<u64>,
    idle: Option<Duration>,
}

#[pymethods]
impl CarouselOptions {
    #[new]
    #[pyo3(signature = (*, loops=None, idle=None))]
    fn new(loops: Option<u64>, idle: Option<f64>) -> PyResult<Self> {
        Ok(Self { loops, idle: idle.map(seconds).transpose()? })
    }

    #[getter]
    fn loops(&self) -> Option<u64> {
        self.loops
    }

    #[getter]
    fn idle(&self) -> Option<f64> {
        self.idle.map(|idle| idle.as_secs_f64())
    }
}

impl CarouselOptions {
    fn options(&self, wait_timeout: Option<Duration>) -> options::CarouselOptions {
        let mut options = options::CarouselOptions::default();
        (options.loops, options.wait_timeout) = (self.loops, wait_timeout);
        options.idle = self.idle.unwrap_or(options.idle);
        options
    }
}

/// The keywords of [`Group`] whose values are texts.
const TEXTS: [&str; 6] = ["interface", "group", "fanout", "key", "announce", "to_standing"];

/// The keywords whose values Python has types for. All others are options of `treecast send`, by their names there.
const TYPED: [&str; 10] = [
    "allow",
    "carousel",
    "compress",
    "feed_folder",
    "most_outstanding",
    "paths",
    "retx_minimum",
    "session",
    "unicast",
    "wait_timeout",
];

/// Earlier names of keywords.
const RENAMED: [(&str, &str); 6] = [
    ("wait_for", "wait"),
    ("retransmission_factor", "retx_factor"),
    ("address", "group"),
    ("admit", "allow"),
    ("compression", "compress"),
    ("session_file", "session"),
];

impl With for GroupBuilder {}

/// Sets the options that have the names and values of the command's.
fn with_named(mut builder: GroupBuilder, options: &Options<'_>) -> PyResult<GroupBuilder> {
    for name in options.names()?.iter().filter(|name| !TYPED.contains(&&***name)) {
        let value = match TEXTS.contains(&&**name) {
            true => options.take::<String>(name)?,
            false => options.text(name)?,
        };
        if let Some(value) = value {
            builder = builder.option(&name.replace('_', "-"), &value).map_err(raise)?;
        }
    }
    if options.is_on("unicast")? {
        options.warn("unicast", "fanout=\"unicast\"")?;
        builder = builder.fanout(Fanout::Unicast);
    }
    Ok(builder)
}

/// Sets the options that Python has types for.
fn with_typed(builder: GroupBuilder, options: &Options<'_>) -> PyResult<GroupBuilder> {
    let paths: Vec<PathBuf> = options.take("paths")?.unwrap_or_default();
    let feed =
        options.take::<PathBuf>("feed_folder")?.map(|folder| FeedSource::Folder(FolderOptions::new(folder)));
    let wait_timeout = options.take("wait_timeout")?.map(seconds).transpose()?;
    let carousel = options.take::<Py<CarouselOptions>>("carousel")?;
    let carousel = carousel.map(|carousel| carousel.get().options(wait_timeout));
    Ok(paths
        .into_iter()
        .fold(builder, GroupBuilder::path)
        .with(feed, GroupBuilder::feed)
        .with(wait_timeout, GroupBuilder::wait_timeout)
        .with(options.take("retx_minimum")?.map(seconds).transpose()?, GroupBuilder::retx_minimum)
        .with(options.take::<PathBuf>("allow")?, GroupBuilder::allow)
        .with(options.take("compress")?, GroupBuilder::compress)
        .with(options.take("most_outstanding")?, GroupBuilder::most_outstanding)
        .with(options.take::<PathBuf>("session")?, GroupBuilder::session)
        .with(carousel, GroupBuilder::carousel))
}

impl Group {
    /// The group, in the process that has started it.
    fn here(&self) -> PyResult<&treecast::Group> {
        self.0.check_process().map_err(raise)?;
        Ok(&self.0)
    }

    fn send(&self, python: Python<'_>, object: Object, factor: Option<f64>) -> PyResult<Transfer> {
        let object = if let Some(factor) = factor { object.retx_factor(factor) } else { object };
        python.detach(|| self.0.send(object)).map(Transfer).map_err(raise)
    }
}

/// The factor of an object, by its name or by the earlier one.
fn factor(
    python: Python<'_>,
    function: &'static str,
    given: Option<&Bound<'_, PyDict>>,
) -> PyResult<Option<f64>> {
    Options::new(python, function, given, &["retx_factor"], &[("factor", "retx_factor")])?.take("retx_factor")
}

#[pymethods]
impl Group {
    #[new]
    #[pyo3(signature = (**options))]
    fn new(python: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let named: Vec<String> = GroupOption::names().map(|name| name.replace('-', "_")).collect();
        let names: Vec<&str> = named.iter().map(String::as_str).chain(TYPED).collect();
        let options = Options::new(python, "Group", options, &names, &RENAMED)?;
        let builder = with_typed(with_named(treecast::Group::builder(), &options)?, &options)?;
        python.detach(|| builder.start()).map(Self).map_err(raise)
    }

    #[getter]
    fn ticket(&self) -> String {
        self.0.ticket().to_string()
    }

    /// The short code by which receivers on the same network get the ticket.
    #[getter]
    fn code(&self) -> Option<String> {
        self.0.code().map(|code| code.to_string())
    }

    #[pyo3(signature = (path, *, name=None, retx_factor=None, **earlier),
           text_signature = "($self, path, *, name=None, retx_factor=None)")]
    fn send_file(
        &self,
        python: Python<'_>,
        path: PathBuf,
        name: Option<String>,
        retx_factor: Option<f64>,
        earlier: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Transfer> {
        let factor = factor(python, "send_file", earlier)?.or(retx_factor);
        let object = Object::file(path);
        let object = if let Some(name) = name { object.named(name) } else { object };
        self.send(python, object, factor)
    }

    #[pyo3(signature = (name, data, *, retx_factor=None, **earlier),
           text_signature = "($self, name, data, *, retx_factor=None)")]
    fn send_bytes(
        &self,
        python: Python<'_>,
        name: String,
        data: PyBackedBytes,
        retx_factor: Option<f64>,
        earlier: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Transfer> {
        let factor = factor(python, "send_bytes", earlier)?.or(retx_factor);
        self.send(python, Object::bytes(name, data), factor)
    }

    fn wait_for_room(&self, python: Python<'_>) -> PyResult<()> {
        let group = self.here()?;
        wait(python, None, |time| group.room().wait_timeout(time)).map(drop)
    }

    #[pyo3(signature = (timeout=None))]
    fn next_event(&self, python: Python<'_>, timeout: Option<f64>) -> PyResult<Option<GroupEvent>> {
        let group = self.here()?;
        let event = wait(python, timeout, |time| ready(group.next_event().wait_timeout(time)))?;
        Ok(event.flatten().map(GroupEvent::new))
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, python: Python<'_>) -> PyResult<Option<GroupEvent>> {
        self.next_event(python, None)
    }

    fn progress(&self) -> PyResult<GroupProgress> {
        Ok(GroupProgress(self.here()?.progress()))
    }

    fn close(&self) -> PyResult<()> {
        drop(self.here()?.close());
        Ok(())
    }

    fn stop(&self) -> PyResult<()> {
        drop(self.here()?.stop());
        Ok(())
    }

    #[pyo3(signature = (timeout=None))]
    fn wait(&self, python: Python<'_>, timeout: Option<f64>) -> PyResult<Option<GroupReport>> {
        Ok(ended(python, timeout, &self.0.finish())?.map(GroupReport))
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        python: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        if kind.is_none() {
            wait_if_nobody_has(python, &self.here()?.close())?;
        } else {
            self.stop()?;
        }
        Ok(false)
    }
}

/// An object on its way.
#[pyclass(frozen, module = "treecast")]
pub struct Transfer(treecast::Transfer);

#[pymethods]
impl Transfer {
    #[getter]
    fn id(&self) -> u64 {
        self.0.id().number()
    }

    #[pyo3(signature = (timeout=None))]
    fn wait(&self, python: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Delivery>> {
        self.0.check_process().map_err(raise)?;
        Ok(wait(python, timeout, |time| self.0.wait_timeout(time))?.map(Delivery::from))
    }
}

/// What has become of an object.
#[pyclass(frozen, get_all, skip_from_py_object, module = "treecast")]
#[derive(Clone)]
pub struct Delivery {
    /// `None` for an object that the session sends by itself.
    id: Option<u64>,
    name: String,
    size: u64,
    complete: u32,
    not_wanted: u32,
    failed: u32,
    problem: Option<String>,
}

#[pymethods]
impl Delivery {
    fn is_complete(&self) -> bool {
        self.failed == 0 && self.problem.is_none()
    }
}

impl From<treecast::Delivery> for Delivery {
    fn from(delivery: treecast::Delivery) -> Self {
        Self {
            id: Some(delivery.id.number()),
            name: delivery.name,
            size: delivery.bytes,
            complete: delivery.complete,
            not_wanted: delivery.not_wanted,
            failed: delivery.failed,
            problem: delivery.problem,
        }
    }
}

/// An event of a group.
#[pyclass(frozen, get_all, module = "treecast")]
pub struct GroupEvent {
    kind: &'static str,
    receiver: Option<String>,
    delivery: Option<Delivery>,
    text: Option<String>,
}

impl GroupEvent {
    fn new(event: treecast::GroupEvent) -> Self {
        let mut told = Self { kind: "warning", receiver: None, delivery: None, text: None };
        match event {
            treecast::GroupEvent::Joined { receiver, address, .. } => {
                (told.kind, told.receiver) = ("joined", Some(receiver));
                told.text = Some(address.to_string());
            }
            treecast::GroupEvent::Left { receiver, reason, .. } => {
                (told.kind, told.receiver, told.text) = ("left", Some(receiver), Some(reason));
            }
            treecast::GroupEvent::Started => told.kind = "started",
            treecast::GroupEvent::Done(delivery) => {
                (told.kind, told.delivery) = ("done", Some(delivery.into()));
            }
            treecast::GroupEvent::PathDone { name, bytes: size, complete, not_wanted, failed, .. } => {
                let (id, problem) = (None, None);
                let delivery = Delivery { id, name, size, complete, not_wanted, failed, problem };
                (told.kind, told.delivery) = ("done", Some(delivery));
            }
            treecast::GroupEvent::Missed(events) => {
                (told.kind, told.text) = ("missed", Some(events.to_string()));
            }
            treecast::GroupEvent::CodeGiven { address, .. } => {
                (told.kind, told.text) = ("code_given", Some(address.to_string()));
            }
            treecast::GroupEvent::CodeWrong { address, attempts_left, .. } => {
                told.kind = "code_wrong";
                told.text = Some(format!("{address} has tried a wrong code; attempts left: {attempts_left}"));
            }
            treecast::GroupEvent::Warning(line) => told.text = Some(line),
            other => told.text = Some(format!("{other:?}")),
        }
        told
    }
}

/// How far a group is.
#[pyclass(frozen, module = "treecast")]
pub struct GroupProgress(treecast::GroupProgress);

#[pymethods]
impl GroupProgress {
    #[getter]
    fn seconds(&self) -> f64 {
        self.0.seconds
    }

    #[getter]
    fn sent_size(&self) -> u64 {
        self.0.sent_bytes
    }

    #[getter]
    fn size(&self) -> u64 {
        self.0.bytes
    }

    #[getter]
    fn rate(&self) -> Option<u64> {
        self.0.rate_bps
    }

    #[getter]
    fn receivers(&self) -> u32 {
        self.0.receivers
    }
}

/// What has come of a group.
#[pyclass(frozen, module = "treecast")]
pub struct GroupReport(treecast::GroupReport);

#[pymethods]
impl GroupReport {
    #[getter]
    fn objects(&self) -> u64 {
        self.0.objects
    }

    #[getter]
    fn size(&self) -> u64 {
        self.0.bytes
    }

    #[getter]
    fn seconds(&self) -> f64 {
        self.0.duration.as_secs_f64()
    }

    #[getter]
    fn receivers(&self) -> Vec<String> {
        self.0.receivers.iter().map(|receiver| receiver.name.clone()).collect()
    }

    #[getter]
    fn is_stopped(&self) -> bool {
        self.0.is_stopped
    }

    fn is_complete(&self) -> bool {
        self.0.is_complete()
    }
}
