//! From what a retrieval client answers to ranked passages.

use hindsearch_retriever::{Passage, Ranked};
use pyo3::prelude::*;

use crate::errors;

/// A passage as `hindsearch.Hit` has it.
#[derive(FromPyObject)]
pub(crate) struct Hit {
    id: Option<String>,
    title: Option<String>,
    text: Option<String>,
    contents: Option<String>,
    /// `hindsearch.Passage` has none.
    #[pyo3(default)]
    score: Option<f32>,
    row: Option<u64>,
}

impl Hit {
    /// The passage as it stands in the corpus: `title` says where in `contents` the text begins, `contents` whether the title has
    /// quotes there. Without `contents` it is put together from title and text.
    fn passage(self) -> Result<Passage, String> {
        let id = self.id.unwrap_or_default();
        let title = self.title.unwrap_or_default();
        let Some(contents) = self.contents else {
            let text = self.text.ok_or("a passage has neither `contents` nor `text`")?;
            return Ok(Passage::from_fields(id, &title, text));
        };
        if title.is_empty() {
            return Ok(Passage::from_contents(id, &contents));
        }
        let quoted = format!("\"{title}\"");
        for title in [quoted, title] {
            if let Some(text) = contents.strip_prefix(&*title).and_then(|rest| rest.strip_prefix('\n')) {
                let text = text.to_owned();
                return Ok(Passage { id, title: Some(title), text });
            }
        }
        Err(format!("passage `{id}`: its `contents` do not begin with its `title`"))
    }
}

/// The passages of each query, and how many bytes they have.
pub(crate) fn ranked(py: Python<'_>, found: Vec<Vec<Hit>>) -> PyResult<(Vec<Vec<Ranked>>, usize)> {
    let mut bytes = 0;
    let mut one = |hit: Hit| {
        let (score, row) = (hit.score.unwrap_or(0.0), hit.row.unwrap_or(0));
        let passage = hit.passage().map_err(|message| errors::invalid(py, message))?;
        bytes += passage.text.len();
        Ok(Ranked { row, score, passage })
    };
    let found = found.into_iter().map(|hits| hits.into_iter().map(&mut one).collect::<PyResult<_>>());
    let found = found.collect::<PyResult<_>>()?;
    Ok((found, bytes))
}
