//! How does a teacher that knows more read what the policy wrote?
//!
//! `hints` say what it is told of an episode (a critique, what siblings searched for, the answer), `align` where the policy's tokens
//! stand in what it then reads, `teacher` whose weights it has and what it says of them. What is made of its words is a matter of
//! `objective/hindsight`.

mod align;
mod average;
mod hints;
mod lesson;
mod settings;
mod teacher;

pub use lesson::Lesson;
pub use settings::{
    Apply, Broadcast, CriticKind, CriticSettings, Guarded, Guards, HindsightSchedule, HindsightSettings, TaughtTokens,
    View,
};
pub use teacher::{Refresh, TeacherSettings, TeacherWeights};

pub(crate) use align::Alignment;
pub(crate) use average::Average;
pub(crate) use hints::Hints;
pub(crate) use teacher::{Said, SaidTop, Teaching};
