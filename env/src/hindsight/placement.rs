//! Where does a hint stand in what the teacher reads? In the prompt or before a search, so that the policy's own tokens stay as they are.

use serde::{Deserialize, Serialize};

use crate::trajectory::{Author, Role, Span, Trajectory};

/// Where a hint stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// At the beginning of the user's message, so that the chat template stays whole.
    #[default]
    UserPrefix,
    /// Before all that a chat template writes.
    RawPrefix,
    /// At the end of the last message of the user in the prompt (OpenClaw-RL).
    UserSuffix,
    /// At the end of the system message; without one it is the system message, in place of the template's own.
    SystemSuffix,
    /// Before each message in which the policy searched.
    StepPrefix,
}

/// An episode as its teacher reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// What stands before all tokens of the episode, outside of the chat template; empty but for [`Placement::RawPrefix`].
    pub before: String,
    /// The episode with the hint. Spans of the policy and of the environment are the same, token by token and in the same order. Spans of
    /// the prompt that were changed, and those that were added, have no tokens yet; then no span of the prompt has any.
    pub episode: Trajectory,
}

/// The episode with a hint in this place. An empty hint changes nothing.
pub fn placed(episode: &Trajectory, hint: &str, placement: Placement) -> Placed {
    let mut placed = Placed { before: String::new(), episode: episode.clone() };
    if hint.is_empty() {
        return placed;
    }
    let message = |role| {
        let leading = episode.spans.iter().take_while(|span| span.author == Author::Prompt);
        let own: Vec<usize> = leading.enumerate().filter(|(_, span)| span.role == role).map(|(at, _)| at).collect();
        own.first().copied().zip(own.last().copied())
    };
    let spans = &mut placed.episode.spans;
    match (placement, message(Role::User), message(Role::System)) {
        (Placement::RawPrefix, ..) => placed.before = format!("{hint}\n\n"),
        (Placement::StepPrefix, ..) => placed.episode = placed_by_turn(episode, |_| Some(hint.to_owned())),
        (Placement::UserPrefix, Some((first, _)), _) => spans[first].text.insert_str(0, &format!("{hint}\n\n")),
        (Placement::UserSuffix, Some((_, last)), _) => append(&mut spans[last], hint),
        (Placement::SystemSuffix, _, Some((first, _))) => append(&mut spans[first], hint),
        (Placement::UserPrefix | Placement::UserSuffix, None, system) => {
            insert(&mut placed.episode, system.map_or(0, |(_, last)| last + 1), Role::User, hint);
        }
        (Placement::SystemSuffix, _, None) => insert(&mut placed.episode, 0, Role::System, hint),
    }
    if !matches!(placement, Placement::RawPrefix | Placement::StepPrefix) {
        // The borders of tokens may be others now.
        let prompt = placed.episode.spans.iter_mut().take_while(|span| span.author == Author::Prompt);
        prompt.for_each(|span| (span.tokens, span.ends) = (Vec::new(), Vec::new()));
    }
    placed
}

/// The episode with a hint of its own before each message of the policy that searched, by the number of its turn.
pub fn placed_by_turn(episode: &Trajectory, hint: impl Fn(usize) -> Option<String>) -> Trajectory {
    let mut placed = Trajectory { spans: Vec::with_capacity(episode.spans.len()), ..episode.clone() };
    // Where each span has gone.
    let mut places = Vec::with_capacity(episode.spans.len());
    for (number, span) in episode.spans.iter().enumerate() {
        let turn = episode.turns.iter().position(|turn| turn.span == number && turn.is_search());
        if let Some(hint) = turn.and_then(&hint).filter(|hint| !hint.is_empty()) {
            placed.spans.push(Span::new(Author::Environment, Role::Assistant, format!("{hint}\n\n")));
        }
        places.push(placed.spans.len());
        placed.spans.push(span.clone());
    }
    for turn in &mut placed.turns {
        turn.span = places.get(turn.span).copied().unwrap_or(turn.span);
        turn.observation = turn.observation.and_then(|observation| places.get(observation).copied());
    }
    placed
}

fn append(span: &mut Span, hint: &str) {
    span.text = format!("{}\n\n{hint}", span.text.trim_end());
}

/// A message of the prompt where there was none.
fn insert(episode: &mut Trajectory, at: usize, role: Role, text: &str) {
    episode.spans.insert(at, Span::new(Author::Prompt, role, text));
    let moved = |place: &mut usize| *place += usize::from(*place >= at);
    for turn in &mut episode.turns {
        moved(&mut turn.span);
        turn.observation.iter_mut().for_each(moved);
    }
}
