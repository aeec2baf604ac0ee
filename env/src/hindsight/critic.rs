//! What should the policy have searched for instead?

use serde::{Deserialize, Serialize};

use super::Hint;
use crate::{Result, Task, Trajectory};

/// What a judge would do otherwise in a failed episode (HindSearch).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Critique {
    /// One or two sentences that say what to do instead: one paragraph, and inert.
    pub text: String,
    /// The first turn that went wrong, from 0, where the critic names one: always one that searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<usize>,
    /// Whether the text names an accepted answer.
    pub contains_gold: bool,
}

/// Writes critiques.
pub trait Critic: Send + Sync {
    /// A critique of each failed episode, in their order; nothing where none came out that can be used. One that fails does not disturb
    /// the others.
    fn critique(&self, failures: &[(&Task, &Trajectory)]) -> Vec<Result<Option<Critique>>>;
}

/// What a critic may see and say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CriticOptions {
    /// Whether the critic is told the accepted answers.
    pub sees_gold: bool,
    /// What happens where a critique names an accepted answer.
    pub leak: Leak,
    /// Whether the critic names the first turn that went wrong.
    pub names_turn: bool,
    /// Words of a critique at most.
    pub words: usize,
}

impl Default for CriticOptions {
    fn default() -> Self {
        Self { sees_gold: true, leak: Leak::Allow, names_turn: false, words: 60 }
    }
}

/// What happens where a critique names an accepted answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Leak {
    /// It stays as it is; [`Critique::contains_gold`] tells.
    #[default]
    Allow,
    /// The answer is replaced.
    Redact,
    /// There is no critique.
    Reject,
}

impl Critique {
    /// What the teacher reads: the critique between `<HINT>` and `</HINT>`. A budget cuts whole sentences.
    pub fn hint(&self) -> Hint {
        Hint::critique(&self.text)
    }
}
