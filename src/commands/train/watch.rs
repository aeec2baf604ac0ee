//! How far is a run? A line on stderr, and one for each step.

use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hindsearch::indexes::Progress;
use hindsearch::trainer::{Notice, OnNotice, Skipped, Watch};

use crate::commands::Context;
use crate::output::{duration, harmless};
use crate::progress::ProgressLine;

/// Shows how far a run is.
pub struct Watched<'a> {
    line: Arc<ProgressLine>,
    context: &'a Context,
    /// The runs that this one is among.
    among: Option<Among<'a>>,
    /// Which step it is, and how long all may still take.
    step: Mutex<String>,
}

/// A run among others.
pub struct Among<'a> {
    /// Which one it is.
    pub name: String,
    /// Steps of the runs behind it.
    pub later: u64,
    /// How fast they are.
    pub pace: &'a Pace,
}

/// How long a step takes, all that stands between steps included.
pub struct Pace {
    begun: Instant,
    made: Mutex<u64>,
}

impl Pace {
    /// Begins to count.
    pub fn new() -> Self {
        Self { begun: Instant::now(), made: Mutex::new(0) }
    }

    fn step(&self) -> Option<f64> {
        let mut made = locked(&self.made);
        *made += 1;
        // The first of them begins only now.
        let over = *made - 1;
        (over > 0).then(|| self.begun.elapsed().as_secs_f64() / over as f64)
    }
}

impl<'a> Watched<'a> {
    /// For a run alone, or one among others.
    pub fn new(context: &'a Context, among: Option<Among<'a>>) -> Self {
        Self { line: Arc::new(context.progress()), context, among, step: Mutex::default() }
    }

    /// Shows numbers and troubles of steps.
    pub fn on_notice(&self) -> OnNotice {
        let (line, quiet) = (self.line.clone(), self.context.quiet || self.context.json);
        let name = self.among.as_ref().map_or(String::new(), |among| format!("{}: ", among.name));
        Arc::new(move |notice| {
            let words = match notice {
                Notice::Step(_) if quiet => return,
                Notice::Step(words) | Notice::Trouble(words) => words,
            };
            // Nobody may be reading; the work goes on.
            line.suspend(|| drop(writeln!(std::io::stderr(), "{name}{}", harmless(words))));
        })
    }

    /// Leaves the last state on the screen.
    pub fn finish(&self) {
        self.line.finish();
    }
}

impl Watch for Watched<'_> {
    fn progress(&self, what: &'static str, done: Progress) {
        let step = locked(&self.step).clone();
        let stage = if step.is_empty() { what.to_owned() } else { format!("{step}: {what}") };
        self.line.show(&stage, "episodes", done);
    }

    fn begins(&self, next: u64, last: u64, seconds: Option<f64>) {
        let (name, later, seconds) = match &self.among {
            Some(among) => (format!("{}, ", among.name), among.later, among.pace.step()),
            None => (String::new(), 0, seconds),
        };
        let left = seconds.map(|seconds| duration(seconds * (last - next + 1 + later) as f64));
        let whole = if self.among.is_some() { " of all" } else { "" };
        let left = left.map_or(String::new(), |left| format!(", about {left}{whole} left"));
        *locked(&self.step) = format!("{name}step {next}/{last}{left}");
    }

    fn skipped(&self, skipped: &Skipped) {
        self.context.tell(format_args!("passed over `{}`: {}", skipped.path.display(), harmless(&skipped.why)));
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
