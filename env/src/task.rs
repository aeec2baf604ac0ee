//! One question with its accepted answers.

use std::fmt;

/// A question-answering task. Immutable; its id is a hash of its content, so equal tasks are the same task.
#[derive(Clone, PartialEq, Eq)]
pub struct Task {
    id: String,
    question: String,
    source: String,
    gold: Gold,
}

/// The accepted answers of a task: for scorers only.
///
/// It has no `Debug`, `Display` or serialisation on purpose, so that it cannot reach a prompt, an observation or a log
/// by way of formatting something that contains it.
#[derive(Clone, PartialEq, Eq)]
pub struct Gold(Vec<String>);

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
        Self { id, question, source, gold: Gold(gold) }
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
}

impl Gold {
    /// The answers themselves.
    pub fn answers(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, question, source, gold: _ } = self;
        f.debug_struct("Task")
            .field("id", id)
            .field("question", question)
            .field("source", source)
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
        assert!(!format!("{:?}", task("capital of France?", &["Paris"])).contains("Paris"));
    }
}
