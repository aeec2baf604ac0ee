//! One question with its accepted answers.

use std::fmt;

/// A question-answering task. Immutable; its id is a hash of its content, so equal tasks are the same task.
#[derive(Clone, PartialEq, Eq)]
pub struct Task {
    id: String,
    question: String,
    source: String,
    gold: Gold,
    source_id: Option<String>,
    split: Option<String>,
    passages: Vec<String>,
}

/// The accepted answers of a task: for scorers, and for writers of task files.
///
/// It has no `Debug`, `Display` or serialisation on purpose, so that it cannot reach a prompt, an observation or a log
/// by way of formatting something that contains it.
#[derive(Clone, PartialEq, Eq)]
pub struct Gold {
    answers: Vec<String>,
    augmented: Vec<String>,
}

impl Task {
    /// A task from the data set `source`.
    pub fn new(question: String, gold: Vec<String>, source: String) -> Self {
        let mut hash = blake3::Hasher::new();
        for part in [&source, &question].into_iter().chain(&gold) {
            // Lengths keep ("ab", "c") and ("a", "bc") apart.
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        let id = hash.finalize().to_hex()[..32].to_owned();
        let gold = Gold { answers: gold, augmented: Vec::new() };
        Self { id, question, source, gold, source_id: None, split: None, passages: Vec::new() }
    }

    /// The same task with the id that its data set gives it.
    #[must_use]
    pub fn with_source_id(self, source_id: Option<String>) -> Self {
        Self { source_id, ..self }
    }

    /// The same task as part of a split: `train`, `test`.
    #[must_use]
    pub fn with_split(self, split: Option<String>) -> Self {
        Self { split, ..self }
    }

    /// The same task with the ids of the passages that hold its answer, in the order in which they are needed.
    #[must_use]
    pub fn with_passages(self, passages: Vec<String>) -> Self {
        Self { passages, ..self }
    }

    /// The same task with further wordings of its answers, which some scorers count for less (ASearcher's `aug_answer`).
    #[must_use]
    pub fn with_augmented(mut self, augmented: Vec<String>) -> Self {
        self.gold.augmented = augmented;
        self
    }

    /// 32 hexadecimal digits: BLAKE3 over source, question and answers.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What is asked.
    pub fn question(&self) -> &str {
        &self.question
    }

    /// The data set it comes from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The accepted answers.
    pub fn gold(&self) -> &Gold {
        &self.gold
    }

    /// Its id in the data set, where it has one.
    pub fn source_id(&self) -> Option<&str> {
        self.source_id.as_deref()
    }

    /// The split of the data set, where it is known.
    pub fn split(&self) -> Option<&str> {
        self.split.as_deref()
    }

    /// Ids of the passages that hold the answer, in the order in which they are needed; empty where they are not known.
    pub fn passages(&self) -> &[String] {
        &self.passages
    }
}

impl Gold {
    /// The answers themselves.
    pub fn answers(&self) -> &[String] {
        &self.answers
    }

    /// Further wordings of the answers; mostly empty.
    pub fn augmented(&self) -> &[String] {
        &self.augmented
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, question, source, gold: _, source_id, split, passages } = self;
        f.debug_struct("Task")
            .field("id", id)
            .field("question", question)
            .field("source", source)
            .field("source_id", source_id)
            .field("split", split)
            .field("passages", passages)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::Task;

    fn task(question: &str, gold: &[&str]) -> Task {
        Task::new(question.into(), gold.iter().map(|&g| g.into()).collect(), "test".into())
    }

    #[test]
    fn the_id_is_a_hash_of_the_content() {
        assert_eq!(task("who?", &["x"]).id(), task("who?", &["x"]).id());
        for other in [task("whom?", &["x"]), task("who?", &["y"]), task("who?", &["x", ""]), task("who?x", &[])] {
            assert_ne!(task("who?", &["x"]).id(), other.id());
        }
    }

    #[test]
    fn formatting_a_task_does_not_show_its_answers() {
        let task = task("capital of France?", &["Paris"]).with_augmented(vec!["Lutetia".into()]);
        let shown = format!("{task:?} {task:#?}");
        assert!(!shown.contains("Paris") && !shown.contains("Lutetia"), "{shown}");
    }
}
