//! Policies that bound what any policy can earn: one that knows all answers, and one that guesses.

use std::collections::HashMap;

use super::{Policy, Turn};
use crate::preset::{Grammar, QueryForm, Tags};
use crate::rules::Message;
use crate::trajectory::{Author, Role, Trajectory};
use crate::{Result, Task};

/// Searches for the question, then gives the accepted answer. It is given the answers, as no trained policy ever is: it shows
/// that tasks can be solved within a recipe's rules.
pub struct Oracle {
    answers: HashMap<String, String>,
}

impl Oracle {
    /// One that knows the answers of these tasks.
    pub fn new(tasks: &[Task]) -> Self {
        let answer = |task: &Task| Some((task.id().to_owned(), task.gold().answers().first()?.clone()));
        Self { answers: tasks.iter().filter_map(answer).collect() }
    }
}

impl Policy for Oracle {
    fn generate(&self, turns: &[Turn<'_>]) -> Vec<Result<Message>> {
        let say = |turn: &Turn<'_>| {
            let grammar = &turn.rules.preset().grammar;
            if turn.episode.turns.is_empty() {
                return Ok(Message::text(grammar.searching(
                    turn.episode,
                    "I have to look this up.",
                    &turn.episode.question,
                )));
            }
            let answer = self.answers.get(&turn.episode.task).map_or("", String::as_str);
            Ok(Message::text(grammar.answering(turn.episode, "The passages are enough.", answer)))
        };
        turns.iter().map(say).collect()
    }

    fn batch(&self) -> usize {
        usize::MAX
    }
}

/// Searches for the question, then answers with some words of what it was shown.
pub struct Guesser;

impl Policy for Guesser {
    fn generate(&self, turns: &[Turn<'_>]) -> Vec<Result<Message>> {
        let say = |turn: &Turn<'_>| {
            let grammar = &turn.rules.preset().grammar;
            if turn.episode.turns.is_empty() {
                return Ok(Message::text(grammar.searching(
                    turn.episode,
                    "I have to look this up.",
                    &turn.episode.question,
                )));
            }
            let shown = turn.episode.spans.iter().rev().find(|span| span.author == Author::Environment);
            let words: Vec<&str> = shown.map_or("", |span| &span.text).split_whitespace().collect();
            let at = if words.is_empty() { 0 } else { turn.seed as usize % words.len() };
            let guess = words.iter().skip(at).take(2).copied().collect::<Vec<_>>().join(" ");
            Ok(Message::text(grammar.answering(turn.episode, "I guess.", &crate::unescape(&guess))))
        };
        turns.iter().map(say).collect()
    }

    fn batch(&self) -> usize {
        usize::MAX
    }
}

impl Grammar {
    /// A message that thinks and searches, as the recipe wants it after what was said in the episode.
    pub fn searching(&self, episode: &Trajectory, thought: &str, query: &str) -> String {
        self.thinking(episode, thought, !self.search_in_thought) + &self.asking(query)
    }

    /// A query between its tags.
    pub(crate) fn asking(&self, query: &str) -> String {
        let content = match &self.query {
            QueryForm::Text => format!(" {query} "),
            QueryForm::Call { name, argument } => {
                format!("\n{}\n", serde_json::json!({ "name": name, "arguments": { argument: [query] } }))
            }
        };
        format!("{}{content}{}", self.search.open, self.search.close)
    }

    /// A message that thinks and answers, as the recipe wants it after what was said in the episode.
    pub fn answering(&self, episode: &Trajectory, thought: &str, answer: &str) -> String {
        let answer = self.answer_form.replace("{answer}", answer);
        let answer = match &self.answer {
            Some(tags) => format!("{} {answer} {}", tags.open, tags.close),
            None => answer,
        };
        self.thinking(episode, thought, true) + &answer
    }

    /// A thought. It is not opened where the recipe, or an earlier message, has left one open.
    fn thinking(&self, episode: &Trajectory, thought: &str, closes: bool) -> String {
        let Some(tags) = &self.think else { return String::new() };
        let open = if self.is_thinking(episode, tags) { "" } else { &tags.open };
        let close = if closes { format!(" {}", tags.close) } else { String::new() };
        format!("{open} {thought}{close}\n")
    }

    /// Whether a thought is open: in the policy's own words, or in what the recipe says on its behalf. Words of passages count for
    /// nothing: of an observation only the frame does, which is what stands at its end.
    fn is_thinking(&self, episode: &Trajectory, tags: &Tags) -> bool {
        let mut is_open = false;
        for span in episode.spans.iter().filter(|span| span.role == Role::Assistant) {
            match (span.author, span.text.rfind(&tags.open), span.text.rfind(&tags.close)) {
                (Author::Environment, ..) => is_open |= span.text.trim_end().ends_with(&tags.open),
                (_, open, close) if open != close => is_open = open > close,
                _ => {}
            }
        }
        is_open
    }
}
