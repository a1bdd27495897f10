//! The sender's side.

use std::{path::PathBuf, time::Duration};

use pyo3::{prelude::*, pybacked::PyBackedBytes, types::PyAny};
use treecast::{
    Fanout, GroupBuilder, Object, Rate,
    options::{self, FeedSource, FolderOptions},
};

use crate::{
    error::{option, raise},
    wait::{ended, ready, seconds, wait, wait_if_nobody_has},
};

/// A group of receivers, and the session that sends objects to them.
#[pyclass(frozen, module = "treecast")]
pub struct Group(treecast::Group);

/// The rate as Python gives it.
#[derive(FromPyObject)]
enum RateArgument {
    Bps(u64),
    Word(String),
}

impl RateArgument {
    fn rate(self) -> PyResult<Rate> {
        match self {
            Self::Bps(bps) => Ok(Rate::Bps(bps)),
            Self::Word(word) if word == "auto" => Ok(Rate::Auto),
            Self::Word(word) if word == "max" => Ok(Rate::Max),
            Self::Word(word) => {
                Err(option(format!("{word:?} is no rate: give bits a second, \"auto\" or \"max\"")))
            }
        }
    }
}

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

impl Group {
    fn send(&self, python: Python<'_>, object: Object, factor: Option<f64>) -> PyResult<Transfer> {
        let object = if let Some(factor) = factor { object.retransmission_factor(factor) } else { object };
        python.detach(|| self.0.send(object)).map(Transfer).map_err(raise)
    }
}

#[pymethods]
impl Group {
    #[new]
    #[pyo3(signature = (*, interface=None, wait_for=1, wait_timeout=None, rate=None, retransmission_factor=None,
                        address=None, port=None, unicast=false, plain=false, key=None, admit=None, compression=None,
                        most_outstanding=None, paths=None, feed_folder=None, delta=false, session_file=None,
                        carousel=None))]
    #[allow(clippy::too_many_arguments)] // They are keywords in Python.
    fn new(
        python: Python<'_>,
        interface: Option<String>,
        wait_for: u32,
        wait_timeout: Option<f64>,
        rate: Option<RateArgument>,
        retransmission_factor: Option<f64>,
        address: Option<String>,
        port: Option<u16>,
        unicast: bool,
        plain: bool,
        key: Option<String>,
        admit: Option<PathBuf>,
        compression: Option<i32>,
        most_outstanding: Option<usize>,
        paths: Option<Vec<PathBuf>>,
        feed_folder: Option<PathBuf>,
        delta: bool,
        session_file: Option<PathBuf>,
        carousel: Option<PyRef<'_, CarouselOptions>>,
    ) -> PyResult<Self> {
        let mut builder = treecast::Group::builder().wait_for(wait_for);
        let wait_timeout = wait_timeout.map(seconds).transpose()?;
        if let Some(interface) = interface {
            builder = builder.interface(interface);
        }
        if let Some(timeout) = wait_timeout {
            builder = builder.wait_timeout(timeout);
        }
        if let Some(rate) = rate {
            builder = builder.rate(rate.rate()?);
        }
        if let Some(factor) = retransmission_factor {
            builder = builder.retransmission_factor(factor);
        }
        if let Some(address) = address {
            let parsed = address.parse().map_err(|_| option(format!("{address:?} is no IP address")));
            builder = builder.group(parsed?);
        }
        if let Some(port) = port {
            builder = builder.port(port);
        }
        if unicast {
            builder = builder.fanout(Fanout::Unicast);
        }
        if plain {
            builder = builder.plain();
        }
        if let Some(key) = key {
            builder = builder.key(key);
        }
        if let Some(admit) = admit {
            builder = builder.admit(admit);
        }
        if let Some(level) = compression {
            builder = builder.compression(level);
        }
        if let Some(objects) = most_outstanding {
            builder = builder.most_outstanding(objects);
        }
        builder = paths.into_iter().flatten().fold(builder, GroupBuilder::path);
        if let Some(folder) = feed_folder {
            builder = builder.feed(FeedSource::Folder(FolderOptions::new(folder)));
        }
        if delta {
            builder = builder.delta();
        }
        if let Some(path) = session_file {
            builder = builder.session_file(path);
        }
        if let Some(carousel) = carousel {
            builder = builder.carousel(carousel.options(wait_timeout));
        }
        python.detach(|| builder.start()).map(Self).map_err(raise)
    }

    #[getter]
    fn ticket(&self) -> String {
        self.0.ticket().to_string()
    }

    #[pyo3(signature = (path, *, name=None, factor=None))]
    fn send_file(
        &self,
        python: Python<'_>,
        path: PathBuf,
        name: Option<String>,
        factor: Option<f64>,
    ) -> PyResult<Transfer> {
        let object = Object::file(path);
        let object = if let Some(name) = name { object.named(name) } else { object };
        self.send(python, object, factor)
    }

    #[pyo3(signature = (name, data, *, factor=None))]
    fn send_bytes(
        &self,
        python: Python<'_>,
        name: String,
        data: PyBackedBytes,
        factor: Option<f64>,
    ) -> PyResult<Transfer> {
        self.send(python, Object::bytes(name, data), factor)
    }

    fn wait_for_room(&self, python: Python<'_>) -> PyResult<()> {
        wait(python, None, |time| self.0.room().wait_timeout(time)).map(drop)
    }

    #[pyo3(signature = (timeout=None))]
    fn next_event(&self, python: Python<'_>, timeout: Option<f64>) -> PyResult<Option<GroupEvent>> {
        let event = wait(python, timeout, |time| ready(self.0.next_event().wait_timeout(time)))?;
        Ok(event.flatten().map(GroupEvent::new))
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, python: Python<'_>) -> PyResult<Option<GroupEvent>> {
        self.next_event(python, None)
    }

    fn progress(&self) -> GroupProgress {
        GroupProgress(self.0.progress())
    }

    fn close(&self) {
        drop(self.0.close());
    }

    fn stop(&self) {
        drop(self.0.stop());
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
            wait_if_nobody_has(python, &self.0.close())?;
        } else {
            self.stop();
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
