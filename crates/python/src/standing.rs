//! Standing receivers: those that stay, and take announced sessions by rules.

use std::path::PathBuf;

use pyo3::{
    prelude::*,
    types::{PyAny, PyDict},
};
use treecast::unstable::{
    keys::PublicKey,
    standing::{self, Entry, Owner},
};

use crate::{
    error::{option, raise},
    options::{Options, With},
    receiver::answer,
    wait::{LOOK, ended, ready, seconds, wait, wait_if_nobody_has},
};

/// A rule of a standing receiver: whose sessions it takes, and what becomes of them.
#[pyclass(frozen, skip_from_py_object, module = "treecast")]
pub struct StandingRule(standing::Rule);

/// The keywords of [`StandingRule`].
const RULE_NAMES: [&str; 14] = [
    "senders",
    "into",
    "session",
    "owner",
    "keep_existing",
    "hidden",
    "max_files",
    "max_bytes",
    "max_time",
    "command",
    "command_time",
    "accept",
    "audience",
    "in_order",
];

impl With for standing::Rule {}
impl With for standing::Standing {}

#[pymethods]
impl StandingRule {
    #[new]
    #[pyo3(signature = (**options))]
    fn new(python: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let options = Options::new(python, "StandingRule", options, &RULE_NAMES, &[])?;
        let senders: Vec<String> = options.take("senders")?.unwrap_or_default();
        if senders.is_empty() {
            return Err(option("senders is empty: name the public key of at least one sender".to_owned()));
        }
        let key =
            |text: &String| text.parse::<PublicKey>().map_err(|error| option(format!("senders: {error}")));
        let senders: Vec<PublicKey> = senders.iter().map(key).collect::<PyResult<_>>()?;
        let into: Option<PathBuf> = options.take("into")?;
        let into = into.ok_or_else(|| option("into is missing: name a folder for what comes".to_owned()))?;
        let owner = options.take::<String>("owner")?.map(|owner| owner.parse::<Owner>().map_err(option));
        let rule = standing::Rule::new(senders, into)
            .keep_existing(options.is_on("keep_existing")?)
            .hidden(options.is_on("hidden")?)
            .with(owner.transpose()?, standing::Rule::owner)
            .with(options.take("max_files")?, standing::Rule::max_files)
            .with(options.take("max_bytes")?, standing::Rule::max_bytes)
            .with(options.take("max_time")?.map(seconds).transpose()?, standing::Rule::max_time)
            .with(options.take("command")?, standing::Rule::command)
            .with(options.take("command_time")?.map(seconds).transpose()?, standing::Rule::command_time)
            .with(options.take::<Py<PyAny>>("accept")?, |rule, accept| {
                rule.accept(move |offer| answer(&accept, offer))
            });
        let rule = rule.in_order(options.is_on("in_order")?);
        let rule = match options.take::<String>("session")? {
            Some(pattern) => rule.session_like(&pattern).map_err(raise)?,
            None => rule,
        };
        match options.take::<String>("audience")? {
            Some(audience) => rule.audience_called(&audience).map(Self).map_err(raise),
            None => Ok(Self(rule)),
        }
    }
}

/// A receiver that stays: it takes announced sessions of senders that it trusts, again and again.
#[pyclass(frozen, module = "treecast")]
pub struct Standing(standing::Running);

/// The keywords of [`Standing`].
const NAMES: [&str; 4] = ["key", "name", "interfaces", "at_once"];

impl Standing {
    /// The receiver, in the process that has started it.
    fn here(&self) -> PyResult<&standing::Running> {
        self.0.check_process().map_err(raise)?;
        Ok(&self.0)
    }
}

#[pymethods]
impl Standing {
    #[new]
    #[pyo3(signature = (state, rules, **options))]
    fn new(
        python: Python<'_>,
        state: PathBuf,
        rules: Vec<Py<StandingRule>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let options = Options::new(python, "Standing", options, &NAMES, &[])?;
        let key: Option<String> = options.take("key")?;
        let interfaces: Vec<String> = options.take("interfaces")?.unwrap_or_default();
        let standing = standing::Standing::new(state, key.as_deref()).map_err(raise)?;
        let standing = standing
            .interfaces(interfaces)
            .with(options.take::<String>("name")?, standing::Standing::name)
            .with(options.take("at_once")?, standing::Standing::at_once);
        let standing = rules.iter().fold(standing, |standing, rule| standing.rule(rule.get().0.clone()));
        python.detach(|| standing.start()).map(Self).map_err(raise)
    }

    /// The public key of the receiver, which senders name to send to it.
    #[getter]
    fn key(&self) -> String {
        self.0.public_key().to_string()
    }

    #[pyo3(signature = (timeout=None))]
    fn next_event(&self, python: Python<'_>, timeout: Option<f64>) -> PyResult<Option<StandingEvent>> {
        let standing = self.here()?;
        let event = wait(python, timeout, |time| ready(standing.next_event().wait_timeout(time)))?;
        Ok(event.flatten().map(StandingEvent::new))
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, python: Python<'_>) -> PyResult<Option<StandingEvent>> {
        self.next_event(python, None)
    }

    fn stop(&self) -> PyResult<()> {
        drop(self.here()?.stop());
        Ok(())
    }

    /// Waits for the end. Whether it is over.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, python: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        Ok(ended(python, timeout, &self.0.finish())?.is_some())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __exit__(
        &self,
        python: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        wait_if_nobody_has(python, &self.here()?.stop())?;
        Ok(false)
    }
}

impl Drop for Standing {
    /// Waits a moment for the end, so that the folder `state` is free for the next one.
    fn drop(&mut self) {
        let end = self.0.stop();
        Python::attach(|python| python.detach(|| drop(end.wait_timeout(LOOK * 50))));
    }
}

/// An event of a standing receiver, as its history has it.
#[pyclass(frozen, get_all, module = "treecast")]
pub struct StandingEvent {
    kind: String,
    at: u64,
    name: Option<String>,
    session: Option<String>,
    sender: Option<String>,
    into: Option<String>,
    files: Option<u64>,
    size: Option<u64>,
    text: Option<String>,
}

impl StandingEvent {
    fn new(entry: Entry) -> Self {
        Self {
            kind: entry.event.words().replace(' ', "_"),
            at: entry.at,
            name: entry.name,
            session: entry.session,
            sender: entry.sender,
            into: entry.into.map(|into| into.to_string_lossy().into_owned()),
            files: entry.files,
            size: entry.bytes,
            text: entry.text,
        }
    }
}
