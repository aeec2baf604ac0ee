//! Episodes that were played as a test says: messages with tokens of a few bytes each, and passages by their ids.

use hindsearch_env::{Decision, Message, Rules, Task, Trajectory};
use hindsearch_retriever::{Passage, Ranked};

/// A message with tokens of `size` characters each.
pub fn tokenized(text: &str, size: usize) -> Message {
    let mut ends: Vec<usize> = text.char_indices().skip(1).map(|(at, _)| at).collect();
    ends.push(text.len());
    let last = ends.len() - 1;
    let ends: Vec<usize> = ends
        .iter()
        .enumerate()
        .filter(|(at, _)| (at + 1).is_multiple_of(size) || *at == last)
        .map(|(_, &end)| end)
        .collect();
    let tokens = (0..ends.len() as u32).map(|token| 100 + token).collect();
    Message { text: text.into(), tokens, logprobs: vec![-0.25; ends.len()], ends, cut_off: false }
}

/// A message, and the passages that its search finds, as ids and contents.
pub type Said<'a> = (&'a str, &'a [(&'a str, &'a str)]);

/// A play of the task.
pub fn played(rules: &Rules, task: &Task, sample: u32, messages: &[Said<'_>]) -> Trajectory {
    let mut episode = rules.begin(task, sample);
    for (said, passages) in messages {
        if let Decision::Search(queries) = rules.decide(&mut episode, tokenized(said, 3)).expect("a turn") {
            let found: Vec<Ranked> =
                (0..).zip(*passages).map(|(row, (id, contents))| ranked(row, id, contents)).collect();
            rules.observe(&mut episode, &vec![found; queries.len()]).expect("an observation");
        }
    }
    hindsearch_env::score(rules, task, &mut episode);
    episode
}

fn ranked(row: u64, id: &str, contents: &str) -> Ranked {
    Ranked { row, score: 1.0 / (row + 1) as f32, passage: Passage::from_contents(id.into(), contents) }
}
