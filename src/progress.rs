//! Progress on stderr: what, how far, how fast, how long still. Silent when stderr is not a terminal.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hindsearch::indexes::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// One line that shows the current stage of a command.
pub struct ProgressLine {
    quiet: bool,
    current: Mutex<Option<(String, ProgressBar)>>,
}

impl ProgressLine {
    /// A line that stays silent when `quiet`.
    pub fn new(quiet: bool) -> Self {
        Self { quiet, current: Mutex::new(None) }
    }

    /// Shows `progress` of `stage`, whose unit is `unit`; a new stage ends the one before.
    pub fn show(&self, stage: &str, unit: &str, progress: Progress) {
        if self.quiet {
            return;
        }
        let mut current = self.current();
        if current.as_ref().is_none_or(|(name, _)| name != stage) {
            if let Some((_, done)) = current.take() {
                done.finish();
            }
            *current = Some((stage.to_owned(), bar(stage, unit, progress)));
        }
        if let Some((_, bar)) = current.as_ref() {
            if let Some(total) = progress.total {
                bar.set_length(total);
            }
            bar.set_position(progress.done);
        }
    }

    /// Writes while the line is away from the screen.
    pub fn suspend(&self, write: impl FnOnce()) {
        match self.current().as_ref() {
            Some((_, bar)) => bar.suspend(write),
            None => write(),
        }
    }

    fn current(&self) -> MutexGuard<'_, Option<(String, ProgressBar)>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the last state on the screen.
    pub fn finish(&self) {
        if let Some((_, bar)) = self.current().take() {
            bar.finish();
        }
    }
}

fn bar(stage: &str, unit: &str, first: Progress) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(first.total, ProgressDrawTarget::stderr());
    let (count, rate) = match unit {
        "bytes" => ("{bytes}/{total_bytes}".to_owned(), "{bytes_per_sec}"),
        unit => (format!("{{human_pos}}/{{human_len}} {unit}"), "{per_sec}"),
    };
    let template = format!("{{prefix:20}} {{bar:30}} {count}  {rate}  {{elapsed}} gone, {{eta}} left");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    // What an earlier run has done must not count into this run's rate.
    bar.reset_eta();
    bar.set_position(first.done);
    bar.reset_eta();
    bar.set_prefix(stage.to_owned());
    bar
}
