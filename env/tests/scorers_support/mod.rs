//! Golden files, and what our scorers say of their cases.

mod differences;
mod goldens;

use std::path::Path;

use hindsearch_env::{Response, Scorer, Verdict, reference_score};
use serde_json::{Value, json};

pub use differences::{Cases, DIFFERENCES};
pub use goldens::{Answer, Field, GOLDENS, Golden, Number, Reason};

pub fn golden(file: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/scorers/{file}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// What the policy wrote, as our scorers are given it.
fn messages(file: &str, case: &Value) -> Vec<String> {
    let input = &case["input"];
    let contents = |messages: &[Value]| messages.iter().map(|message| text(&message["content"])).collect::<String>();
    if let Some(answer) = input["answer"].as_str() {
        return vec![format!("<answer>{answer}</answer>")];
    }
    if let Some(turns) = input["turns"].as_array().or(input["texts"].as_array()) {
        return turns.iter().map(text).collect();
    }
    if file == "skyrl-gym-search" {
        let said = |(action, step): (&Value, &Value)| text(action) + &contents(list(&step["observations"]));
        let episode = list(&input["actions"]).iter().zip(list(&case["expected"]["steps"])).map(said);
        return vec![contents(list(&input["messages"])) + &episode.collect::<String>()];
    }
    if let Some(messages) = input["messages"].as_array() {
        let said = messages.iter().filter(|message| message["role"] == "assistant").map(|message| {
            let parts = list(&message["content"]).iter().map(|part| text(&part["text"]));
            text(&message["content"]) + &parts.collect::<String>()
        });
        return said.collect();
    }
    input["response"].as_str().map(str::to_owned).into_iter().collect()
}

pub fn scorer(options: &Value) -> Scorer {
    serde_json::from_value(options.clone()).unwrap_or_else(|error| panic!("{options}: {error}"))
}

/// What our scorer says of a case.
pub fn verdict(file: &str, golden: &Value, case: &Value, options: &str) -> Verdict {
    let (input, settings) = (&case["input"], &golden["options"]);
    let mut options: Value = serde_json::from_str(options).expect("options are JSON");
    let augmented = match &input["aug_answer"] {
        Value::Array(answers) => {
            answers.iter().map(|answer| answer.as_str().map_or(answer.to_string(), str::to_owned)).collect()
        }
        Value::String(answer) => vec![answer.clone()],
        _ => Vec::new(),
    };
    if !augmented.is_empty() && options["augmented"].is_null() {
        options["augmented"] = json!(augmented);
    }
    if !input["turns"].is_null() {
        options["format"] = json!(true);
        options["refusal"] = input["valid_instruction"].clone();
    }
    let prompt = input["prompt"].as_str().map_or(&settings["prompt"], |name| &settings["prompts"][name]);
    let golds: Vec<String> = list(&case["golds"]).iter().map(text).collect();
    let response = Response {
        prompt: prompt.as_str().unwrap_or_default(),
        messages: &messages(file, case),
        minimum_spans: settings["minimum_spans"].as_u64().map_or(1, |count| count as usize),
    };
    reference_score(&scorer(&options), &response, &golds).expect("a scorer of texts")
}
