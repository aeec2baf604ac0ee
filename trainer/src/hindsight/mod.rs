//! How does a teacher that knows more read what the policy wrote?
//!
//! `view` says what it is told of an episode (a critique, what siblings searched for, the answer), `lesson` where the policy's tokens
//! stand in what it reads, `teacher` whose weights it has and what it says of them. What is made of its words is a matter of
//! `objective/hindsight`.

mod average;
mod lesson;
mod settings;
mod teacher;

pub use lesson::Lesson;
pub use settings::HindsightSettings;
pub use teacher::{Refresh, TeacherSettings, TeacherWeights};

pub(crate) use average::Average;
pub(crate) use teacher::{Said, SaidTop, Teaching};
