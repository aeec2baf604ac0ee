//! What does one message lead to? The same for all protocols.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use hindsearch_retriever::serve::{Ask, Fault, Service};
use schemars::JsonSchema;
use serde::Serialize;

use super::server::fault;
use crate::rules::{Decision, Message, Rules};
use crate::text::head;
use crate::trajectory::{Action, Author, Role, Span, Stop, Trajectory};
use crate::{Reward, Task};

/// An episode as far as it has come: the record is all its state. Only the reward needs to know the task.
#[derive(Clone)]
pub(super) struct Play {
    pub rules: Rules,
    pub task: Option<Arc<Task>>,
    pub trajectory: Trajectory,
}

/// What came of a message.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct Outcome {
    /// What was added to the context behind the message.
    pub observation: String,
    /// The same as messages of a chat. One of the role `assistant` goes on in the policy's own message.
    pub messages: Vec<ChatMessage>,
    /// What was added in all: the message, cut where the preset cuts it, and the observation.
    pub segments: Vec<Segment>,
    /// What the step earned: 0 while the episode goes on; null where the accepted answers are not known.
    pub reward: Option<f64>,
    /// Whether the policy ended the episode.
    pub terminated: bool,
    /// Whether a limit ended it.
    pub truncated: bool,
    /// About the step.
    pub info: Info,
}

/// A message of a chat.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct ChatMessage {
    /// `system`, `user`, `assistant` or `tool`.
    pub role: &'static str,
    /// Its text.
    pub content: String,
}

/// A run of text by one author.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct Segment {
    /// The text.
    pub text: String,
    /// `policy` or `environment`: which tokens count for the loss.
    pub source: &'static str,
}

/// About a step.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct Info {
    /// `search`, `answer`, `end` or `invalid`.
    pub action: &'static str,
    /// Whether the message was an action.
    pub valid: bool,
    /// What was asked for.
    pub queries: Vec<String>,
    /// The passages for each query, best first.
    pub passages: Vec<Vec<Passage>>,
    /// Messages of the policy so far.
    pub turns: usize,
    /// Searches so far.
    pub searches: usize,
    /// Whether passages were left out or shortened for lack of room.
    pub truncated_observation: bool,
    /// Why the episode is over: `answer`, `end`, `turns` or `context`; null while it goes on.
    #[schemars(with = "Option<String>")]
    pub stop: Option<Stop>,
    /// The parts of the reward, once the episode is over.
    #[schemars(with = "Option<serde_json::Value>")]
    pub reward: Option<Reward>,
    /// What was searched, where something was.
    pub index: Option<Searched>,
}

/// A passage that was found.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct Passage {
    /// The corpus's id.
    pub id: String,
    /// Cosine of query and passage.
    pub score: f32,
    /// Whether the policy was shown it, whole or in part.
    pub shown: bool,
}

/// What was searched.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct Searched {
    /// Number of the generation.
    pub generation: u64,
    /// BLAKE3 of the graph that embeds queries.
    pub fingerprint: String,
}

impl Play {
    /// A new episode.
    pub fn begin(rules: Rules, task: Arc<Task>, sample: u32) -> Self {
        Self { trajectory: rules.begin(&task, sample), rules, task: Some(task) }
    }

    /// Takes a message and does what it asks for. Where that fails, or is given up, this is to be thrown away: a copy is what
    /// plays.
    pub async fn step(&mut self, service: &Service, message: Message, until: Instant) -> Result<Outcome, Fault> {
        let before = self.trajectory.spans.len();
        let decision = self.rules.decide(&mut self.trajectory, message).map_err(|error| fault(&error))?;
        let searched = match decision {
            Decision::Search(queries) => Some(self.search(service, &queries, until).await?),
            Decision::Next(_) => None,
        };
        if let Some(task) = &self.task {
            crate::score(&self.rules, task, &mut self.trajectory);
        }
        Ok(self.outcome(before, searched))
    }

    /// Looks for passages, together with all others who look for some.
    async fn search(&mut self, service: &Service, queries: &[String], until: Instant) -> Result<Searched, Fault> {
        let longest = service.options().limits.query;
        let texts = queries.iter().map(|query| head(query, longest).to_owned()).collect();
        let serving = service.serving();
        let ask = Ask::texts(texts, self.rules.preset().observation.top_k, until);
        let found = within(until, service.engine().search(&serving, ask)).await?;
        self.rules.observe(&mut self.trajectory, &found.rankings).map_err(|error| fault(&error))?;
        let retriever = serving.retriever();
        Ok(Searched {
            generation: retriever.generation().number(),
            fingerprint: retriever.provenance().model.fingerprint.queries.blake3.clone(),
        })
    }

    /// What the last message led to; spans from `before` on are new.
    fn outcome(&self, before: usize, index: Option<Searched>) -> Outcome {
        let new = self.trajectory.spans.get(before..).unwrap_or_default();
        let seen: Vec<&Span> = new.iter().filter(|span| span.author == Author::Environment).collect();
        let turn = self.trajectory.turns.last();
        let stop = self.trajectory.stop;
        let (action, queries) = match turn.map(|turn| &turn.action) {
            Some(Action::Search { queries }) => ("search", queries.clone()),
            Some(Action::Answer { .. }) => ("answer", Vec::new()),
            Some(Action::End) => ("end", Vec::new()),
            Some(Action::Invalid { .. }) | None => ("invalid", Vec::new()),
        };
        let found = turn.and_then(|turn| turn.found.as_deref()).unwrap_or_default();
        let passages = found.iter().map(|passages| {
            let passage =
                |found: &crate::Found| Passage { id: found.id.clone(), score: found.score, shown: found.shown };
            passages.iter().map(passage).collect()
        });
        let reward = self.trajectory.reward.clone();
        Outcome {
            observation: seen.iter().map(|span| span.text.as_str()).collect(),
            messages: seen
                .iter()
                .map(|span| ChatMessage { role: role(span.role), content: span.text.clone() })
                .collect(),
            segments: new.iter().map(segment).collect(),
            reward: self.task.as_ref().map(|_| reward.as_ref().map_or(0.0, |reward| reward.total)),
            terminated: matches!(stop, Some(Stop::Answer | Stop::End)),
            truncated: matches!(stop, Some(Stop::Turns | Stop::Context)),
            info: Info {
                action,
                valid: action != "invalid",
                queries,
                passages: passages.collect(),
                turns: self.trajectory.turns.len(),
                searches: self.trajectory.searches(),
                truncated_observation: turn.is_some_and(|turn| turn.truncated),
                stop,
                reward,
                index,
            },
        }
    }

    /// The episode as messages of a chat.
    pub fn messages(&self) -> Vec<ChatMessage> {
        let messages = self.trajectory.messages().into_iter();
        messages.map(|(kind, content)| ChatMessage { role: role(kind), content }).collect()
    }

    /// Bytes of the record, about.
    pub fn bytes(&self) -> usize {
        let trajectory = &self.trajectory;
        let span = |span: &Span| {
            let numbers = 4 * (span.tokens.len() + span.logprobs.len()) + size_of::<usize>() * span.ends.len();
            size_of::<Span>() + span.text.len() + numbers
        };
        let found = trajectory.turns.iter().flat_map(|turn| turn.found.iter().flatten().flatten());
        let found: usize = found.map(|found| size_of::<crate::Found>() + found.id.len()).sum();
        let turns = trajectory.turns.len() * size_of::<crate::Turn>();
        trajectory.question.len() + trajectory.spans.iter().map(span).sum::<usize>() + turns + found
    }
}

fn segment(span: &Span) -> Segment {
    let source = if span.author == Author::Policy { "policy" } else { "environment" };
    Segment { text: span.text.clone(), source }
}

/// As chats call it.
pub(super) fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

/// Waits for `work` until there is no more time; then it is taken back.
async fn within<T>(until: Instant, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    tokio::time::timeout_at(until.into(), work).await.unwrap_or_else(|_| {
        Err(Fault::timeout("no passages before the request's deadline; ask again, or for less at a time"))
    })
}
