//! How long is a text, where a function of Python's knows the policy's tokenizer?

use std::cell::RefCell;

use hindsearch_env::Measure;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;

use crate::errors;

thread_local! {
    /// What the function raised. The rules know no such failure, so it waits here, in the thread that runs them.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// A function from a text to its number of tokens.
pub(crate) struct Count(pub Py<PyAny>);

impl Count {
    /// A function.
    pub fn new(function: Bound<'_, PyAny>) -> PyResult<Self> {
        if function.is_callable() {
            return Ok(Self(function.unbind()));
        }
        let found = function.get_type().name()?;
        let message = format!("`count`: expected a function from a text to its number of tokens, found `{found}`");
        Err(errors::invalid(function.py(), message))
    }

    /// What the function raised since this was asked last, in this thread.
    pub fn raised() -> Option<PyErr> {
        RAISED.take()
    }

    fn ask(&self, text: &str) -> PyResult<usize> {
        Python::attach(|py| {
            let answer = self.0.bind(py).call1((text,))?;
            answer.extract().map_err(|error: PyErr| {
                let is_other = error.is_instance_of::<PyTypeError>(py) || error.is_instance_of::<PyOverflowError>(py);
                if !is_other {
                    return error;
                }
                let message = format!("`count`: expected a number of tokens, 0 or more, found `{answer}`");
                errors::invalid(py, message)
            })
        })
    }
}

impl Measure for Count {
    fn length(&self, text: &str) -> usize {
        if RAISED.with_borrow(Option::is_some) {
            return 0;
        }
        self.ask(text).unwrap_or_else(|error| {
            RAISED.set(Some(error));
            0
        })
    }

    fn head(&self, text: &str, most: usize) -> usize {
        if self.length(text) <= most {
            return text.len();
        }
        let borders: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let (mut low, mut high) = (0, borders.len());
        while low + 1 < high {
            let middle = low.midpoint(high);
            if self.length(&text[..borders[middle]]) <= most {
                low = middle;
            } else {
                high = middle;
            }
        }
        borders.get(low).copied().unwrap_or(0)
    }
}
