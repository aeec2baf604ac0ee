//! Which exception of the package an error of the core becomes.

use hindsearch_env::Error;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The package's own exception, so that a caller has one family of errors to catch.
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let name = match error {
        Error::InvalidInput { .. } | Error::Line { .. } => "InvalidInput",
        Error::NotFound { .. } => "NotFound",
        Error::Unavailable { .. } | Error::Locked { .. } => "Unavailable",
        Error::Io { source, .. } => return PyErr::new::<pyo3::exceptions::PyOSError, _>(explained(source, error)),
        Error::Retriever(_) | Error::Interrupted => "HindsearchError",
    };
    named(py, name, error.to_string())
}

/// A value of the caller's that cannot be used.
pub(crate) fn invalid(py: Python<'_>, message: impl Into<String>) -> PyErr {
    named(py, "InvalidInput", message.into())
}

fn named(py: Python<'_>, name: &str, message: String) -> PyErr {
    let kind = py.import("hindsearch.errors").and_then(|errors| errors.getattr(name));
    match kind.and_then(|kind| kind.call1((message.as_str(),))) {
        Ok(exception) => PyErr::from_value(exception),
        // Only without the package around this module.
        Err(_) => PyRuntimeError::new_err(message),
    }
}

/// `errno` and words, from which Python makes `FileNotFoundError` and its kin.
fn explained(source: &std::io::Error, error: &Error) -> (i32, String) {
    (source.raw_os_error().unwrap_or(0), error.to_string())
}
