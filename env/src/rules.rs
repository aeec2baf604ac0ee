//! The rules of an episode: two pure functions around the only thing that is not, which is to look for passages.
//!
//! There is no clock here, no chance, no file and no socket, and no task either: the accepted answers cannot reach what the
//! policy sees, since nothing here knows them.

use std::sync::Arc;

use hindsearch_retriever::Ranked;

use crate::action::{self, Fault, Reading};
use crate::experience::block as experience;
use crate::preset::{LastTurn, Preset, Then};
use crate::render::{FourCharacters, Measure, Renderer};
use crate::text::strip;
use crate::trajectory::{Action, Advice, Author, Found, Role, Span, Stop, TRAJECTORY_VERSION, Trajectory, Turn};
use crate::{Error, Result, Task};

/// Queries in a message where the recipe sets no limit, and bytes of a query: what every retrieval server takes. Models of
/// embeddings read far less.
const MOST_QUERIES: usize = 4096;
const LONGEST_QUERY: usize = 64 << 10;

/// A message of the policy, as it was sampled.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Message {
    /// The text.
    pub text: String,
    /// Its tokens; empty where only text is known.
    pub tokens: Vec<u32>,
    /// Natural log-probability of each token; empty where they are not known.
    pub logprobs: Vec<f32>,
    /// Where each token ends in the text, in bytes; empty where that is not known.
    pub ends: Vec<usize>,
    /// Whether it was cut off by a limit of tokens.
    pub cut_off: bool,
}

impl Message {
    /// A message of which only the text is known.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// What a message leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Passages are wanted for these queries; [`Rules::observe`] goes on with them.
    Search(Vec<String>),
    /// The episode went on, or is over.
    Next(Transition),
}

/// What the policy is shown, and whether it goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transition {
    /// What was added to the context; empty where nothing was.
    pub observation: String,
    /// Why the episode is over; nothing while it goes on.
    pub stop: Option<Stop>,
    /// Whether passages were left out or shortened for lack of room.
    pub truncated: bool,
}

/// A preset, and how long texts are for the policy.
#[derive(Clone)]
pub struct Rules {
    preset: Arc<Preset>,
    measure: Arc<dyn Measure>,
}

impl Rules {
    /// Rules that count four characters as a token.
    pub fn new(preset: Arc<Preset>) -> Self {
        Self::measured(preset, Arc::new(FourCharacters))
    }

    /// Rules that count the policy's tokens.
    pub fn measured(preset: Arc<Preset>, measure: Arc<dyn Measure>) -> Self {
        Self { preset, measure }
    }

    /// The recipe.
    pub fn preset(&self) -> &Arc<Preset> {
        &self.preset
    }

    /// A new episode: the prompt, and nothing else.
    pub fn begin(&self, task: &Task, sample: u32) -> Trajectory {
        self.begin_with(task, sample, &[])
    }

    /// A new episode whose system message ends with experience, best first. What would fill more than half of the context together
    /// with the prompt is left out, whole entries from the end; the record holds what is shown. Without a system message of the recipe
    /// there is one of experience alone.
    pub fn begin_with(&self, task: &Task, sample: u32, experience: &[Advice]) -> Trajectory {
        let mut shown = experience.len();
        loop {
            let experience = &experience[..shown];
            let episode = self.prompted(task, sample, experience);
            if experience.is_empty() || self.length(&episode) <= self.preset.limits.context_tokens / 2 {
                return Trajectory { experience: experience.to_vec(), ..episode };
            }
            shown -= 1;
        }
    }

    fn prompted(&self, task: &Task, sample: u32, experience: &[Advice]) -> Trajectory {
        let prompt = &self.preset.prompt;
        let mut question = strip(task.question()).to_owned();
        if prompt.question_mark && !question.ends_with('?') {
            question.push('?');
        }
        let user = prompt.user.replace("{question}", &question);
        let parts = [
            (Role::System, experience::system(prompt, experience)),
            (Role::User, Some(user)),
            (Role::Assistant, prompt.assistant.clone()),
        ];
        let spans = parts.into_iter().filter_map(|(role, text)| Some(Span::new(Author::Prompt, role, text?)));
        Trajectory {
            version: TRAJECTORY_VERSION,
            task: task.id().to_owned(),
            sample,
            source: task.source().to_owned(),
            question: task.question().to_owned(),
            preset: self.preset.name.clone(),
            experience: Vec::new(),
            spans: spans.collect(),
            turns: Vec::new(),
            stop: None,
            error: None,
            reward: None,
            critique: None,
        }
    }

    /// Takes a message of the policy.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when the episode is over, waits for passages, or is of another preset, and for tokens that do not
    /// belong together; then nothing has changed.
    pub fn decide(&self, episode: &mut Trajectory, message: Message) -> Result<Decision> {
        self.check(episode, false)?;
        check_tokens(&message)?;
        let grammar = &self.preset.grammar;
        let Reading { mut action, content, end, fault } = action::read(grammar, &message.text);
        if let Action::Search { queries } = &mut action {
            queries.truncate(self.preset.limits.queries.unwrap_or(MOST_QUERIES));
            queries.iter_mut().for_each(|query| query.truncate(query.floor_char_boundary(LONGEST_QUERY)));
        }
        let cut_off = message.cut_off;
        let is_last = self.is_last(episode);
        let refusal = if is_last { None } else { self.refusal(episode, &action) };
        if refusal.is_some() {
            action = Action::Invalid { reason: "a search that is not allowed".into() };
        }
        episode.spans.push(message.into_span(end));
        let span = episode.spans.len() - 1;
        let (found, observation, truncated, experience) = (None, None, false, Vec::new());
        episode.turns.push(Turn { span, action, content, cut_off, found, observation, truncated, experience });
        let action = &episode.turns[episode.turns.len() - 1].action;
        let stop = match action {
            Action::Answer { .. } => Some(Stop::Answer),
            Action::End => Some(Stop::End),
            Action::Search { .. } | Action::Invalid { .. } if is_last => Some(Stop::Turns),
            Action::Search { queries } => return Ok(Decision::Search(queries.clone())),
            Action::Invalid { .. } => None,
        };
        if stop.is_some() {
            episode.stop = stop;
            return Ok(Decision::Next(Transition { stop, ..Transition::default() }));
        }
        let (reply, stop) = refusal.map_or_else(|| self.reply(episode, fault.as_ref()), |reply| (reply, None));
        Ok(Decision::Next(self.go_on(episode, reply, stop, false)))
    }

    /// Takes what was found for the queries that wait.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when no queries wait, or others; then nothing has changed.
    pub fn observe(&self, episode: &mut Trajectory, found: &[Vec<Ranked>]) -> Result<Transition> {
        self.observe_with(episode, found, &[])
    }

    /// Takes what was found for the queries that wait, and experience that is shown behind it, best first. It counts in the
    /// observation's room, of which it gets half at most; what does not fit is left out, whole entries from the end. The record holds
    /// what is shown.
    ///
    /// # Errors
    /// As [`observe`](Self::observe).
    pub fn observe_with(
        &self,
        episode: &mut Trajectory,
        found: &[Vec<Ranked>],
        experience: &[Advice],
    ) -> Result<Transition> {
        self.check(episode, true)?;
        let queries = episode.pending().unwrap_or_default();
        if queries.len() != found.len() {
            return Err(Error::invalid(
                "passages",
                format!("those of {} queries", queries.len()),
                found.len().to_string(),
            ));
        }
        // What cannot be written down cannot be read again.
        let scores = found.iter().flatten().map(|ranked| ranked.score);
        if let Some(other) = scores.chain(experience.iter().map(|advice| advice.score)).find(|score| !score.is_finite())
        {
            return Err(Error::invalid("scores of passages", "finite numbers", other.to_string()));
        }
        let rendered = self.renderer(episode).render(queries, found, experience);
        let record = |(passages, &shown): (&Vec<Ranked>, &usize)| {
            let found = |(rank, ranked): (usize, &Ranked)| Found {
                id: ranked.passage.id.clone(),
                row: ranked.row,
                score: ranked.score,
                shown: rank < shown,
            };
            passages.iter().enumerate().map(found).collect()
        };
        let found = found.iter().zip(&rendered.shown).map(record).collect();
        if let Some(turn) = episode.turns.last_mut() {
            turn.found = Some(found);
            turn.experience = experience[..rendered.experience].to_vec();
        }
        Ok(self.go_on(episode, rendered.text, None, rendered.truncated))
    }

    /// What is said to a search that is not carried out though turns are left.
    fn refusal(&self, episode: &Trajectory, action: &Action) -> Option<String> {
        let Action::Search { queries } = action else { return None };
        let limits = &self.preset.limits;
        if limits.searches.is_some_and(|most| episode.searches() >= most) {
            return limits.exceeded.clone();
        }
        let searched = |query| {
            let earlier = episode.turns.iter().filter(|turn| turn.is_search());
            earlier
                .into_iter()
                .any(|turn| matches!(&turn.action, Action::Search { queries } if queries.contains(query)))
        };
        limits.repeated.clone().filter(|_| queries.iter().all(searched))
    }

    /// Nothing that is found may fill the context and so end the episode: it gets half of what is left.
    fn renderer(&self, episode: &Trajectory) -> Renderer<'_> {
        let left = self.preset.limits.context_tokens.saturating_sub(self.length(episode));
        Renderer { rules: &self.preset.observation, measure: &*self.measure, room: left / 2 }
    }

    /// What is said to a message that is no action.
    fn reply(&self, episode: &Trajectory, fault: Option<&Fault>) -> (String, Option<Stop>) {
        let invalid = &self.preset.invalid;
        let special = match fault {
            Some(Fault::Malformed) => invalid.malformed.clone(),
            Some(Fault::Arguments) => invalid.arguments.clone().or_else(|| invalid.malformed.clone()),
            Some(Fault::UnknownTool(name)) => {
                let shown: String = name.chars().take(100).collect();
                invalid.unknown_tool.as_ref().map(|reply| reply.replace("{name}", &crate::escape(&shown)))
            }
            None => None,
        };
        match (special, invalid.then) {
            (Some(reply), _) => (reply, None),
            (None, Then::Reply) => (invalid.reply.clone(), None),
            (None, Then::Empty) => {
                let empty = self.renderer(episode).render(&[String::new()], &[Vec::new()], &[]);
                (empty.text, None)
            }
            (None, Then::GoOn) => (String::new(), None),
            (None, Then::GoOnIfCutOff) => {
                let is_cut_off = episode.turns.last().is_some_and(|turn| turn.cut_off);
                (String::new(), (!is_cut_off).then_some(Stop::End))
            }
            (None, Then::End) => (String::new(), Some(Stop::End)),
        }
    }

    /// Shows an observation, and ends the episode where it must end.
    fn go_on(&self, episode: &mut Trajectory, mut text: String, stop: Option<Stop>, truncated: bool) -> Transition {
        let limits = &self.preset.limits;
        let mut stop = stop;
        if stop.is_none() && self.is_exhausted(episode) {
            match limits.last_turn {
                LastTurn::ExtraAnswer => {}
                LastTurn::Force => text.push_str(&limits.force),
                LastTurn::Observe | LastTurn::Stop => stop = Some(Stop::Turns),
            }
        }
        let span = (!text.is_empty()).then(|| {
            episode.spans.push(Span::new(Author::Environment, self.preset.observation.role, text.clone()));
            episode.spans.len() - 1
        });
        if stop.is_none() && self.length(episode) >= limits.context_tokens {
            stop = Some(Stop::Context);
        }
        if let Some(turn) = episode.turns.last_mut() {
            (turn.observation, turn.truncated) = (span, truncated);
        }
        episode.stop = stop;
        Transition { observation: text, stop, truncated }
    }

    /// Whether nothing follows the next message, so that it may answer at most.
    fn is_last(&self, episode: &Trajectory) -> bool {
        let limits = &self.preset.limits;
        self.is_exhausted(episode)
            || limits.last_turn == LastTurn::Stop && episode.turns.len().saturating_add(1) >= limits.turns
    }

    /// Whether the turns in which the policy may search are used up.
    fn is_exhausted(&self, episode: &Trajectory) -> bool {
        let limits = &self.preset.limits;
        let searched = limits.searches.is_some_and(|most| episode.searches() >= most) && limits.exceeded.is_none();
        episode.turns.len() >= limits.turns || searched
    }

    /// Messages of the policy that are left at most, and searches among them that would be carried out.
    pub fn left(&self, episode: &Trajectory) -> (usize, usize) {
        if episode.stop.is_some() {
            return (0, 0);
        }
        let limits = &self.preset.limits;
        let extra = usize::from(matches!(limits.last_turn, LastTurn::ExtraAnswer | LastTurn::Force));
        let messages = if self.is_exhausted(episode) { 0 } else { limits.turns - episode.turns.len() };
        let searches = messages.saturating_sub(usize::from(limits.last_turn == LastTurn::Stop));
        let allowed = limits.searches.map_or(usize::MAX, |most| most.saturating_sub(episode.searches()));
        (messages.saturating_add(extra), searches.min(allowed))
    }

    /// Tokens of prompt and episode.
    pub fn length(&self, episode: &Trajectory) -> usize {
        let length =
            |span: &Span| if span.tokens.is_empty() { self.measure.length(&span.text) } else { span.tokens.len() };
        episode.spans.iter().map(length).sum()
    }

    fn check(&self, episode: &Trajectory, waits: bool) -> Result<()> {
        let refuse = |expected: &str, found: String| Err(Error::invalid("episode", expected, found));
        if episode.preset != self.preset.name {
            return refuse(&format!("one of preset `{}`", self.preset.name), format!("one of `{}`", episode.preset));
        }
        if let Some(stop) = episode.stop {
            return refuse("one that goes on", format!("one that is over ({stop:?})"));
        }
        match (waits, episode.pending().is_some()) {
            (true, false) => refuse("one that waits for passages", "one that waits for a message".into()),
            (false, true) => refuse("one that waits for a message", "one that waits for passages".into()),
            _ => Ok(()),
        }
    }
}

impl Span {
    /// A span of which only the text is known.
    pub fn new(author: Author, role: Role, text: impl Into<String>) -> Self {
        Self { author, role, text: text.into(), tokens: Vec::new(), logprobs: Vec::new(), ends: Vec::new() }
    }
}

impl Message {
    /// The message up to byte `end`: whole tokens, as they were sampled. A token that holds that byte stays whole; without offsets,
    /// and where all of the text stays, all of them stay: a token behind it that says nothing ends the policy's turn.
    fn into_span(mut self, end: usize) -> Span {
        let mut end = end;
        if !self.ends.is_empty() && end < self.text.len() {
            let kept = self.ends.iter().position(|&at| at >= end).map_or(self.ends.len(), |last| last + 1);
            end = self.ends[..kept].last().copied().unwrap_or(0).max(end);
            self.tokens.truncate(kept);
            self.logprobs.truncate(kept);
            self.ends.truncate(kept);
        } else if !self.tokens.is_empty() {
            end = self.text.len();
        }
        self.text.truncate(end);
        Span {
            author: Author::Policy,
            role: Role::Assistant,
            text: self.text,
            tokens: self.tokens,
            logprobs: self.logprobs,
            ends: self.ends,
        }
    }
}

fn check_tokens(message: &Message) -> Result<()> {
    let count = message.tokens.len();
    for (what, length) in [("log-probabilities", message.logprobs.len()), ("ends of tokens", message.ends.len())] {
        if length != 0 && length != count {
            return Err(Error::invalid(what, format!("{count}, one a token, or none"), length.to_string()));
        }
    }
    if let Some(other) = message.logprobs.iter().find(|logprob| !logprob.is_finite() || **logprob > 0.0) {
        return Err(Error::invalid("log-probabilities", "finite numbers that are not above 0", other.to_string()));
    }
    let borders = message.ends.windows(2).all(|pair| pair[0] <= pair[1]);
    // A character may be spread over several tokens; where they end is the end of the character then.
    let inside = message.ends.iter().all(|&end| message.text.is_char_boundary(end));
    if !borders || !inside || message.ends.last().is_some_and(|&end| end != message.text.len()) {
        return Err(Error::invalid(
            "ends of tokens",
            "bytes between characters, in order, the last one at the end of the text",
            "others",
        ));
    }
    Ok(())
}
