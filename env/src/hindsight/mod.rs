//! What may a teacher be told of an episode that its policy was not?
//!
//! A teacher reads what the policy wrote with a [`Hint`] beside: a critique of a failed attempt (HindSearch), what its siblings searched
//! for and with what success (SD-Search), a better attempt (Search-E1), the answer (OPSD) or the evidence (EviSD). All of it is text, and
//! none of it ever reaches the policy itself.

mod critic;
mod hint;
mod masks;
mod outcome;
mod placement;
mod sentences;
mod siblings;
mod transcript;

pub use critic::{Critic, CriticOptions, Critique, Leak};
pub use hint::Hint;
pub use masks::QuerySpan;
pub use outcome::{failures, is_correct};
pub use placement::{Placed, Placement, placed, placed_by_turn};
pub use siblings::{Content, Labels, SiblingOptions, Siblings, Which};
