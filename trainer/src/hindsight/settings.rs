//! Who teaches in hindsight, what is the teacher told, and when does it count?

use hindsearch_env::hindsight::{BetterOptions, CriticOptions, Leak, Placement, QuerySpan, SiblingOptions};
use serde::{Deserialize, Serialize};

use super::teacher::TeacherSettings;
use crate::{Error, Result};

/// The frame of learning in hindsight, but for what enters the loss (`objective.hindsight`): what the teacher is told, of which episodes
/// and tokens it speaks, whose weights it has, and when it counts. Published methods are settings of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HindsightSettings {
    /// What the teacher is told that the policy was not.
    pub view: View,
    /// Of which episodes it speaks.
    pub apply: Apply,
    /// Of which tokens of them; each term of the loss can narrow it to queries.
    pub tokens: TaughtTokens,
    /// What belongs to a query.
    pub span: QuerySpan,
    /// Where the hint stands. The papers of HindSearch and SD-Search do not say.
    pub placement: Placement,
    /// Tokens of a hint at most: it is cut by whole sentences or attempts, and the episode never is.
    pub budget: usize,
    /// Which steps of a failed episode a critique teaches.
    pub broadcast: Broadcast,
    /// Whether groups in which all episodes succeeded, or all failed, are left out.
    pub skip_homogeneous: bool,
    /// Who writes critiques.
    pub critic: CriticSettings,
    /// What a block of siblings says.
    pub siblings: SiblingOptions,
    /// Which attempt is the better one.
    pub better: BetterOptions,
    /// Whose weights teach.
    pub teacher: TeacherSettings,
    /// When it counts.
    pub schedule: HindsightSchedule,
    /// When it counts less, or the run ends.
    pub guards: Guards,
}

impl Default for HindsightSettings {
    fn default() -> Self {
        Self {
            view: View::None,
            apply: Apply::Failed,
            tokens: TaughtTokens::All,
            span: QuerySpan::Content,
            placement: Placement::UserPrefix,
            budget: 1024,
            broadcast: Broadcast::AllSteps,
            skip_homogeneous: false,
            critic: CriticSettings::default(),
            siblings: SiblingOptions::default(),
            better: BetterOptions::default(),
            teacher: TeacherSettings::default(),
            schedule: HindsightSchedule::default(),
            guards: Guards::default(),
        }
    }
}

/// What a teacher is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum View {
    /// Nothing: there is no teacher.
    #[default]
    None,
    /// No more than the policy: the gap of a teacher with other weights alone.
    Nothing,
    /// A judge's critique of a failed episode (HindSearch).
    Critique,
    /// What all attempts at the task searched for, and with what success (SD-Search).
    Siblings,
    /// The best other attempt that succeeded (Search-E1, SDPO).
    BetterSibling,
    /// The accepted answer (OPSD).
    Gold,
    /// At queries sentences of gold passages, at answers the accepted answer (EviSD).
    Evidence,
}

/// Of which episodes a teacher speaks. Some views know nothing of some episodes: no critique is written of one that succeeded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Apply {
    /// Those that failed.
    #[default]
    Failed,
    /// All.
    All,
    /// All of groups in which some failed and some did not.
    MixedGroups,
    /// All of groups in which all failed, where rewards say nothing (EviBack).
    AllFailedGroups,
}

/// Of which tokens a teacher speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaughtTokens {
    /// All that the policy wrote.
    #[default]
    All,
    /// Contents of queries and answers.
    Actions,
}

/// Which steps a critique teaches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Broadcast {
    /// All of them.
    #[default]
    AllSteps,
    /// The first that went wrong, as the critic says; all where it does not.
    EarliestErrorStep,
}

/// Who writes critiques, and what it may know and say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CriticSettings {
    /// Who.
    pub kind: CriticKind,
    /// `local`: the model's folder or file; where it is left out, the model that learns as it was at the beginning. `server`: its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// `server`: its address, up to `/v1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// `server`: requests at a time.
    pub parallel: usize,
    /// `server`: requests at most until the program ends, with whose end the run stops; it goes on with another number. 0 is no limit.
    pub requests: u64,
    /// Whether it is told the accepted answers.
    pub sees_gold: bool,
    /// What happens to a critique that names an accepted answer.
    pub leak: Leak,
    /// Words of a critique at most.
    pub words: usize,
    /// Tokens that a model may write for it.
    pub tokens: usize,
}

impl Default for CriticSettings {
    fn default() -> Self {
        let CriticOptions { sees_gold, leak, words, tokens, .. } = CriticOptions::default();
        let (kind, model, address) = (CriticKind::Rules, None, None);
        Self { kind, model, address, parallel: 16, requests: 0, sees_gold, leak, words, tokens }
    }
}

/// Who writes critiques.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CriticKind {
    /// Rules, from the gold passages that tasks name.
    #[default]
    Rules,
    /// A model on this machine.
    Local,
    /// A model on an OpenAI-compatible server.
    Server,
}

/// A factor of the weights of all terms that need a teacher, by steps of reinforcement learning from 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HindsightSchedule {
    /// The first step that counts. SD-Search has 50.
    pub start: u64,
    /// Steps over which the factor rises to 1.
    pub ramp: u64,
    /// The first step that does not count any more; 0 is never.
    pub until: u64,
}

impl HindsightSchedule {
    /// The factor of a step, counted from 0.
    pub fn factor(&self, step: u64) -> f64 {
        if step < self.start || self.until > 0 && step >= self.until {
            return 0.0;
        }
        ((step - self.start + 1) as f64 / self.ramp.max(1) as f64).min(1.0)
    }
}

/// Limits of what is told of a step; a teacher whose weights differ from the policy's can make it collapse.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Guards {
    /// Of `kl/mean`, the divergence from the reference in nats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kl: Option<f64>,
    /// Of `hindsight/clamp_saturation`, a share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saturation: Option<f64>,
    /// Of `hindsight/gap_mean`, in nats: how much likelier the teacher finds taught queries than the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<f64>,
    /// What happens beyond a limit.
    pub then: Guarded,
}

/// What happens beyond a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guarded {
    /// The weights of all that needs a teacher are halved from the next step on, and again where it is not enough.
    #[default]
    Halve,
    /// The run ends, with the last step saved.
    Stop,
}

impl Guards {
    /// The limits with the names of what they limit.
    pub(crate) fn limits(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let named =
            [("kl/mean", self.kl), ("hindsight/clamp_saturation", self.saturation), ("hindsight/gap_mean", self.gap)];
        named.into_iter().filter_map(|(name, limit)| Some((name, limit?)))
    }
}

impl CriticSettings {
    /// What the critic may see and say.
    pub fn options(&self, broadcast: Broadcast) -> CriticOptions {
        CriticOptions {
            sees_gold: self.sees_gold,
            leak: self.leak,
            names_turn: broadcast == Broadcast::EarliestErrorStep,
            words: self.words,
            tokens: self.tokens,
        }
    }
}

impl HindsightSettings {
    pub(crate) fn check(&self) -> Result<()> {
        self.teacher.check()?;
        for (name, value) in [
            ("budget", self.budget),
            ("critic.words", self.critic.words),
            ("critic.tokens", self.critic.tokens),
            ("critic.parallel", self.critic.parallel),
        ] {
            if value == 0 {
                return Err(Error::invalid(format!("hindsight.{name}"), "1 or more", "0"));
            }
        }
        let is_gap = |name: &str| name == "hindsight/gap_mean";
        let wrong = |(name, limit): &(&str, f64)| !limit.is_finite() || *limit < 0.0 && !is_gap(name);
        if let Some((name, limit)) = self.guards.limits().find(wrong) {
            let expected = if is_gap(name) { "a finite number" } else { "0 or more" };
            return Err(Error::invalid(format!("hindsight.guards for `{name}`"), expected, limit.to_string()));
        }
        let CriticSettings { kind, model, address, .. } = &self.critic;
        let is_server = *kind == CriticKind::Server;
        if is_server != address.is_some()
            || is_server && model.is_none()
            || *kind == CriticKind::Rules && model.is_some()
        {
            let expected = "`address` and `model` with kind = \"server\", perhaps a `model` with \"local\", and neither with \"rules\"";
            let found = format!("kind = {kind:?}, address = {address:?}, model = {model:?}");
            return Err(Error::invalid("hindsight.critic", expected, found));
        }
        Ok(self.siblings.check()?)
    }
}
