//! A small world to train in: it takes a second, and teaches nothing.

use super::{Bench, root};

/// Short enough for the golden model of 512 positions.
pub const RECIPE: &str = r#"
name = "short"
about = "For tests"
source = "written for this test"
[prompt]
user = "{question}"
[grammar]
search = { open = "<s>", close = "</s>" }
answer = { open = "<a>", close = "</a>" }
stop = ["</s>", "</a>"]
cut = "first-close"
choose = "first"
end = "answer"
[observation]
role = "assistant"
before = "<i>"
after = "</i>"
passage = "{text} "
top_k = 1
budget = { tokens = 32 }
[invalid]
then = "reply"
reply = " no "
[limits]
turns = 2
last_turn = "extra-answer"
response_tokens = 16
context_tokens = 300
[reward]
terms = [{ scorer = "em" }]
"#;
/// A few steps.
pub const SETTINGS: &str = r#"
steps = 3
[imitation]
steps = 2
tasks = 4
rate = 1e-3
[rollout]
tasks = 2
samples = 3
[evaluation]
every = 2
tasks = 2
[checkpoint]
every = 1
"#;

/// A folder with an index, tasks, a recipe and settings, and the path of a model.
pub fn world() -> (Bench, String) {
    let bench = Bench::new();
    bench.corpus("corpus.jsonl", 40);
    bench.ok(&["build", "corpus.jsonl", "--out", "index"]);
    bench.write("recipe.toml", RECIPE);
    bench.write("settings.toml", SETTINGS);
    let task = |at: usize| {
        format!(r#"{{"id":"t{at}","question":"Which topic is number {at}?","golden_answers":["Topic {at}"]}}"#)
    };
    bench.write("tasks.jsonl", (0..12).map(task).collect::<Vec<_>>().join("\n"));
    let model = root().join("trainer/tests/golden/models/llama");
    (bench, model.to_string_lossy().into_owned())
}
