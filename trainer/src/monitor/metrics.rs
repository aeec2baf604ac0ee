//! What is a line of `metrics.jsonl`?
//!
//! `{"step": 3, "seconds": 12.5, "values": {"kl": null, "loss": 0.25}, "not_finite": {"kl": "NaN"}}`: JSON has no word for
//! NaN and infinities, so they are null among the values and are named beside them.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use hindsearch_indexes::WholeFile;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

const LONGEST_LINE: u64 = 16 << 20;

/// The numbers of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The step.
    pub step: u64,
    /// Seconds that the run had been training.
    pub seconds: f64,
    /// The numbers by name; also such as are not finite.
    pub values: BTreeMap<String, f64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    step: u64,
    seconds: f64,
    values: BTreeMap<String, Option<f64>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    not_finite: BTreeMap<String, NotFinite>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
enum NotFinite {
    NaN,
    #[serde(rename = "inf")]
    Up,
    #[serde(rename = "-inf")]
    Down,
}

impl Record {
    /// The line with its end.
    pub(super) fn to_line(&self) -> Vec<u8> {
        let not_finite = |value: f64| match value {
            f64::INFINITY => NotFinite::Up,
            f64::NEG_INFINITY => NotFinite::Down,
            _ => NotFinite::NaN,
        };
        let strange = self.values.iter().filter(|(_, value)| !value.is_finite());
        let line = Line {
            step: self.step,
            // Milliseconds are enough, and easier to read.
            seconds: (self.seconds * 1e3).round() / 1e3,
            values: self
                .values
                .iter()
                .map(|(name, &value)| (name.clone(), value.is_finite().then_some(value)))
                .collect(),
            not_finite: strange.map(|(name, &value)| (name.clone(), not_finite(value))).collect(),
        };
        // Numbers and texts can always be written.
        let mut bytes = serde_json::to_vec(&line).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    fn from_line(line: &[u8]) -> Result<Self, String> {
        let line: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        let value = |(name, value): (String, Option<f64>)| {
            let value = match (value, line.not_finite.get(&name)) {
                (Some(value), None) => value,
                (None, Some(NotFinite::NaN)) => f64::NAN,
                (None, Some(NotFinite::Up)) => f64::INFINITY,
                (None, Some(NotFinite::Down)) => f64::NEG_INFINITY,
                _ => return Err(format!("`{name}` is not one of a number and a name in `not_finite`")),
            };
            Ok((name, value))
        };
        let values = line.values.into_iter().map(value).collect::<Result<_, _>>()?;
        Ok(Self { step: line.step, seconds: line.seconds, values })
    }
}

/// The line for the console.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step {}", self.step)?;
        for (name, value) in &self.values {
            let size = value.abs();
            match size {
                _ if size == 0.0 || !size.is_finite() => write!(f, "  {name} {value}")?,
                _ if (1e-3..1e5).contains(&size) => {
                    let digits = (3 - size.log10().floor() as i32).clamp(0, 4) as usize;
                    write!(f, "  {name} {value:.digits$}")?;
                }
                _ => write!(f, "  {name} {value:.2e}")?,
            }
        }
        Ok(())
    }
}

/// All records of a file, in its order. A last line that a kill cut off is passed over and told.
///
/// # Errors
/// [`Error::File`] names the line that is no record; [`Error::Io`].
pub fn read_metrics(path: &Path, on_trouble: &dyn Fn(&str)) -> Result<Vec<Record>> {
    Ok(lines(path, on_trouble)?.into_iter().map(|(record, _)| record).collect())
}

/// Takes away the records of steps after `after`, and what a kill left of a line. Gives the seconds of the last that stays.
pub(super) fn cut(path: &Path, after: Option<u64>, on_trouble: &dyn Fn(&str)) -> Result<f64> {
    if !path.exists() {
        return Ok(0.0);
    }
    let lines = lines(path, on_trouble)?;
    let stay: Vec<_> = lines.iter().filter(|(record, _)| after.is_some_and(|after| record.step <= after)).collect();
    let length = stay.iter().map(|(_, line)| line.len() as u64).sum::<u64>();
    if length != path.metadata().map_err(Error::io("look at", path))?.len() {
        let mut file = WholeFile::create(path)?;
        for (_, line) in &stay {
            file.write_all(line).map_err(Error::io("write", path))?;
        }
        file.publish()?;
    }
    Ok(stay.last().map_or(0.0, |(record, _)| record.seconds))
}

/// Records and the bytes that they were read from.
fn lines(path: &Path, on_trouble: &dyn Fn(&str)) -> Result<Vec<(Record, Vec<u8>)>> {
    let mut reader = BufReader::new(File::open(path).map_err(Error::io("open", path))?);
    let mut all = Vec::new();
    loop {
        let mut line = Vec::new();
        let read = io::Read::take(&mut reader, LONGEST_LINE).read_until(b'\n', &mut line);
        if read.map_err(Error::io("read", path))? == 0 {
            return Ok(all);
        }
        if line.last() != Some(&b'\n') && (line.len() as u64) < LONGEST_LINE {
            on_trouble(&format!("`{}`: the last line was cut off and is passed over", path.display()));
            return Ok(all);
        }
        let number = all.len() + 1;
        match Record::from_line(&line) {
            Ok(record) => all.push((record, line)),
            Err(found) => {
                let expected = format!("on line {number} an object with step, seconds and values");
                return Err(Error::file(path, expected, format!("{found}; mend or remove that line")));
            }
        }
    }
}
