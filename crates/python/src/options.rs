//! Keywords of a call, and those that had other names before.

use std::ffi::CString;

use pyo3::{
    conversion::FromPyObjectOwned,
    exceptions::{PyDeprecationWarning, PyTypeError},
    prelude::*,
    types::PyDict,
};

/// A value that has one text.
#[derive(FromPyObject)]
enum Simple {
    Switch(bool),
    Whole(i64),
    Fraction(f64),
    Text(String),
}

/// The keywords of a call.
pub struct Options<'py> {
    given: Bound<'py, PyDict>,
    function: &'static str,
}

impl<'py> Options<'py> {
    /// The keywords of a call of `function`, which knows these names. Each of `renamed` has an earlier name first.
    ///
    /// # Errors
    /// `TypeError` for a keyword that the function does not know.
    pub fn new(
        python: Python<'py>,
        function: &'static str,
        given: Option<&Bound<'py, PyDict>>,
        names: &[&str],
        renamed: &[(&str, &str)],
    ) -> PyResult<Self> {
        let given = given.map_or_else(|| Ok(PyDict::new(python)), |given| given.copy())?;
        let options = Self { given, function };
        for (before, now) in renamed {
            if let Some(value) = options.given.get_item(before)? {
                options.warn(before, now)?;
                options.given.del_item(before)?;
                options.given.set_item(now, value)?;
            }
        }
        for name in options.given.keys() {
            let name: String = name.extract()?;
            if !names.contains(&name.as_str()) {
                return Err(PyTypeError::new_err(format!(
                    "{function}() got an unexpected keyword argument '{name}'"
                )));
            }
        }
        Ok(options)
    }

    /// Warns of an earlier name.
    pub fn warn(&self, before: &str, now: &str) -> PyResult<()> {
        let line = format!("{before} of {} is called {now}, as the command's option is", self.function);
        let python = self.given.py();
        let category = python.get_type::<PyDeprecationWarning>();
        PyErr::warn(python, &category, &CString::new(line).unwrap_or_default(), 1)
    }

    /// The value of a keyword. `None` if it is not given, or is Python's None.
    ///
    /// # Errors
    /// `TypeError` if it is of another type, or out of range.
    pub fn take<T: FromPyObjectOwned<'py>>(&self, name: &str) -> PyResult<Option<T>> {
        let Some(value) = self.given.get_item(name)?.filter(|value| !value.is_none()) else {
            return Ok(None);
        };
        value.extract::<T>().map(Some).map_err(|error| {
            let error: PyErr = error.into();
            PyTypeError::new_err(format!("{name} of {}: {}", self.function, error.value(value.py())))
        })
    }

    /// The names of the keywords that are given.
    ///
    /// # Errors
    /// If Python cannot tell them.
    pub fn names(&self) -> PyResult<Vec<String>> {
        self.given.keys().extract()
    }

    /// The text of a number, a text or a switch, as the command takes it. `None` if it is not given, or is Python's None.
    ///
    /// # Errors
    /// `TypeError` if it is of another type.
    pub fn text(&self, name: &str) -> PyResult<Option<String>> {
        Ok(self.take::<Simple>(name)?.map(|value| match value {
            Simple::Switch(is_on) => is_on.to_string(),
            Simple::Whole(number) => number.to_string(),
            Simple::Fraction(number) => number.to_string(),
            Simple::Text(text) => text,
        }))
    }

    /// Whether a switch is on.
    ///
    /// # Errors
    /// `TypeError` if it is no `bool`.
    pub fn is_on(&self, name: &str) -> PyResult<bool> {
        Ok(self.take(name)?.unwrap_or(false))
    }
}

/// A builder with the options that a call gives.
pub trait With: Sized {
    /// The builder with the value, if there is one.
    fn with<T>(self, value: Option<T>, set: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => set(self, value),
            None => self,
        }
    }
}
