//! The receiver's side.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use pyo3::{
    prelude::*,
    types::{PyAny, PyBytes, PyDict},
};
use treecast::{Answer, ObjectKind, ReceiverBuilder};

use crate::{
    error::raise,
    gate,
    options::{Options, With},
    wait::{LOOK, ended, ready, seconds, wait, wait_if_nobody_has},
};

/// The longest time for which a receiver waits for its session's end when Python frees it.
const LEAVING_TIME: Duration = Duration::from_secs(5);

/// A receiver that has joined a group.
#[pyclass(frozen, module = "treecast")]
pub struct Receiver {
    receiver: treecast::Receiver,
    is_in_memory: bool,
    /// The events of a batch that Ctrl-C has interrupted. They are read first.
    kept: Mutex<VecDeque<treecast::ReceiverEvent>>,
}

/// The keywords of [`Receiver`].
const NAMES: [&str; 13] = [
    "into",
    "interface",
    "accept",
    "name",
    "key",
    "connect_timeout",
    "reconnect",
    "old",
    "on_event",
    "max_files",
    "max_bytes",
    "keep_existing",
    "secure",
];

impl With for ReceiverBuilder {}

/// The options that say whom the receiver reaches, and what it takes.
fn with_connection(builder: ReceiverBuilder, options: &Options<'_>) -> PyResult<ReceiverBuilder> {
    let builder = builder
        .with(options.take::<String>("interface")?, ReceiverBuilder::interface)
        .with(options.take::<String>("name")?, ReceiverBuilder::name)
        .with(options.take::<String>("key")?, ReceiverBuilder::key)
        .with(options.take("connect_timeout")?.map(seconds).transpose()?, ReceiverBuilder::connect_timeout)
        .with(options.take("reconnect")?.map(seconds).transpose()?, ReceiverBuilder::reconnect)
        .with(options.take::<PathBuf>("old")?, ReceiverBuilder::old)
        .with(options.take("max_files")?, ReceiverBuilder::max_files)
        .with(options.take("max_bytes")?, ReceiverBuilder::max_bytes);
    let builder = if options.is_on("keep_existing")? { builder.keep_existing() } else { builder };
    Ok(if options.is_on("secure")? { builder.secure() } else { builder })
}

impl Receiver {
    /// The receiver, where something can come to pass while a call waits.
    fn waiting(&self) -> PyResult<&treecast::Receiver> {
        self.receiver.check_wait().map_err(raise)?;
        Ok(&self.receiver)
    }

    fn with_kept<T>(&self, what: impl FnOnce(&mut VecDeque<treecast::ReceiverEvent>) -> T) -> T {
        what(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl Receiver {
    #[new]
    #[pyo3(signature = (ticket, **options))]
    fn new(python: Python<'_>, ticket: &str, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let options = Options::new(python, "Receiver", options, &NAMES, &[("folder", "into")])?;
        let ticket = match ticket.strip_prefix('@') {
            Some(path) => treecast::Ticket::read(path),
            None => ticket.parse(),
        };
        let into: Option<PathBuf> = options.take("into")?;
        let is_in_memory = into.is_none();
        let builder = treecast::Receiver::builder(ticket.map_err(raise)?);
        let builder = match into {
            Some(folder) => builder.folder(folder),
            None => builder.in_memory(),
        };
        let builder = with_connection(builder, &options)?
            .with(options.take::<Py<PyAny>>("accept")?, |builder, accept| {
                builder.accept(move |offer| answer(&accept, offer))
            })
            .with(options.take::<Py<PyAny>>("on_event")?, |builder, on_event| {
                builder.on_event(move |event| tell(&on_event, event, is_in_memory))
            });
        let receiver = python.detach(|| builder.join()).map_err(raise)?;
        Ok(Self { receiver, is_in_memory, kept: Mutex::default() })
    }

    #[pyo3(signature = (timeout=None))]
    fn next_event(&self, python: Python<'_>, timeout: Option<f64>) -> PyResult<Option<ReceiverEvent>> {
        let receiver = self.waiting()?;
        let event = match self.with_kept(VecDeque::pop_front) {
            Some(event) => Some(event),
            None => wait(python, timeout, |time| ready(receiver.next_event().wait_timeout(time)))?.flatten(),
        };
        Ok(event.map(|event| ReceiverEvent::new(python, event, self.is_in_memory)))
    }

    fn next_batch(&self, python: Python<'_>, period: f64) -> PyResult<Option<Vec<ReceiverEvent>>> {
        let (time, start) = (seconds(period)?, Instant::now());
        let receiver = self.waiting()?;
        let mut batch = self.with_kept(std::mem::take);
        loop {
            let left = time.saturating_sub(start.elapsed());
            match python.detach(|| receiver.next_batch(left.min(LOOK))) {
                None if batch.is_empty() => return Ok(None),
                None => break,
                Some(events) => batch.extend(events),
            }
            if let Err(interrupted) = python.check_signals() {
                self.with_kept(|kept| {
                    batch.append(kept);
                    *kept = batch;
                });
                return Err(interrupted);
            }
            if left <= LOOK {
                break;
            }
        }
        let told = batch.into_iter().map(|event| ReceiverEvent::new(python, event, self.is_in_memory));
        Ok(Some(told.collect()))
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, python: Python<'_>) -> PyResult<Option<ReceiverEvent>> {
        self.next_event(python, None)
    }

    fn progress(&self) -> PyResult<ReceiverProgress> {
        self.receiver.check_process().map_err(raise)?;
        Ok(ReceiverProgress(self.receiver.progress()))
    }

    fn leave(&self) -> PyResult<()> {
        self.receiver.check_process().map_err(raise)?;
        drop(self.receiver.leave());
        Ok(())
    }

    #[pyo3(signature = (timeout=None))]
    fn wait(&self, python: Python<'_>, timeout: Option<f64>) -> PyResult<Option<ReceiverReport>> {
        Ok(ended(python, timeout, &self.receiver.finish())?.map(ReceiverReport))
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
            wait_if_nobody_has(python, &self.receiver.finish())?;
        } else {
            self.leave()?;
        }
        Ok(false)
    }
}

impl Drop for Receiver {
    /// Waits for the end of a session that may still call `accept` and `on_event`, which need what this thread has of Python. In one of
    /// these two, and in a child that was forked, it does not wait.
    fn drop(&mut self) {
        let end = self.receiver.leave();
        Python::attach(|python| python.detach(|| drop(end.wait_timeout(LEAVING_TIME))));
    }
}

/// Whether the program wants an object, and under which name. An exception is printed, and the object is refused. When Python ends, so
/// are all objects.
pub fn answer(accept: &Py<PyAny>, offer: &treecast::Offer<'_>) -> Answer {
    let asked = gate::enter(|python| {
        let offer = Offer { name: offer.name().to_owned(), size: offer.len() };
        let answer = accept.call1(python, (offer,)).and_then(|answer| match answer.extract(python) {
            Ok(name) => Ok(Answer::TakeAs(name)),
            Err(_) => answer.is_truthy(python).map(Answer::from),
        });
        answer.unwrap_or_else(|error| {
            error.write_unraisable(python, Some(accept.bind(python)));
            Answer::Refuse
        })
    });
    asked.unwrap_or(Answer::Refuse)
}

/// Gives an event to the program's function. An exception is printed. When Python ends, the event is lost.
fn tell(on_event: &Py<PyAny>, event: treecast::ReceiverEvent, is_in_memory: bool) {
    gate::enter(|python| {
        let event = ReceiverEvent::new(python, event, is_in_memory);
        if let Err(error) = on_event.call1(python, (event,)) {
            error.write_unraisable(python, Some(on_event.bind(python)));
        }
    });
}

/// An object that the sender announces.
#[pyclass(frozen, get_all, module = "treecast")]
pub struct Offer {
    name: String,
    size: u64,
}

/// An event of a receiver.
#[pyclass(frozen, get_all, module = "treecast")]
pub struct ReceiverEvent {
    kind: &'static str,
    name: Option<String>,
    size: Option<u64>,
    path: Option<String>,
    data: Option<Py<PyBytes>>,
    text: Option<String>,
}

impl ReceiverEvent {
    fn new(python: Python<'_>, event: treecast::ReceiverEvent, is_in_memory: bool) -> Self {
        use treecast::ReceiverEvent as Event;
        let mut told = Self { kind: "warning", name: None, size: None, path: None, data: None, text: None };
        match event {
            Event::Joined { sender, .. } => (told.kind, told.text) = ("joined", Some(sender.to_string())),
            Event::Unreachable { reason, .. } => (told.kind, told.text) = ("unreachable", Some(reason)),
            Event::Announced { name, bytes, .. } => {
                (told.kind, told.name, told.size) = ("announced", Some(name), Some(bytes));
            }
            Event::Received(object) => {
                told.kind = "received";
                (told.name, told.size) = (Some(object.name().to_owned()), Some(object.len()));
                if is_in_memory && object.kind() == ObjectKind::File {
                    match python.detach(|| object.into_bytes()) {
                        Ok(data) => told.data = Some(PyBytes::new(python, &data).unbind()),
                        Err(error) => (told.kind, told.text) = ("failed", Some(error.to_string())),
                    }
                } else {
                    told.path = Some(object.path().to_string_lossy().into_owned());
                }
            }
            Event::Ignored { name, .. } => (told.kind, told.name) = ("ignored", Some(name)),
            Event::Failed { name, reason, .. } => {
                (told.kind, told.name, told.text) = ("failed", Some(name), Some(reason));
            }
            Event::Missed(events) => (told.kind, told.text) = ("missed", Some(events.to_string())),
            Event::Warning(line) => told.text = Some(line),
            other => told.text = Some(format!("{other:?}")),
        }
        told
    }
}

/// How far a receiver is.
#[pyclass(frozen, module = "treecast")]
pub struct ReceiverProgress(treecast::ReceiverProgress);

#[pymethods]
impl ReceiverProgress {
    #[getter]
    fn size(&self) -> u64 {
        self.0.bytes
    }

    #[getter]
    fn announced_size(&self) -> u64 {
        self.0.announced_bytes
    }

    #[getter]
    fn retransmitted_size(&self) -> u64 {
        self.0.retransmitted_bytes
    }

    #[getter]
    fn objects(&self) -> u64 {
        self.0.objects
    }
}

/// What has come to a receiver.
#[pyclass(frozen, module = "treecast")]
pub struct ReceiverReport(treecast::ReceiverReport);

#[pymethods]
impl ReceiverReport {
    #[getter]
    fn objects(&self) -> u64 {
        self.0.objects
    }

    #[getter]
    fn size(&self) -> u64 {
        self.0.bytes
    }

    #[getter]
    fn failed(&self) -> u64 {
        self.0.failed
    }

    #[getter]
    fn not_wanted(&self) -> u64 {
        self.0.not_wanted
    }

    #[getter]
    fn cut_short(&self) -> Option<&str> {
        self.0.cut_short.as_deref()
    }

    #[getter]
    fn has_left(&self) -> bool {
        self.0.has_left
    }

    fn is_complete(&self) -> bool {
        self.0.is_complete()
    }
}
