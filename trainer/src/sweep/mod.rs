//! Which of several methods learns more here, and how sure is that? Runs of the same budget, each with several seeds, compared.
//!
//! ```text
//! OUT/
//!   warm-start/seed-0/      runs that only imitate, whose models the arms begin with
//!   arms/grpo/seed-0/       a run each, as `hindsearch train` leaves it
//!   report.md report.json   what was found
//!   curves.svg              scores over steps, with their spread
//! ```

mod expectation;
mod file;
mod markdown;
mod report;
mod runs;
mod scores;
mod spread;

pub use expectation::{Expect, Finding, Verdict};
pub use file::{Arm, HeldOut, Once, Sweep, WarmStart};
pub use report::{ArmReport, Report, RunReport};
pub use runs::{Planned, State};
pub use scores::Scores;
pub use spread::Spread;
