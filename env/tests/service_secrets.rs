//! The accepted answers are in nothing that a client is sent, whatever it asks.
#![cfg(feature = "serve")]

mod service_support;

use serde_json::{Value, json};
use service_support::{CANARY, Playground, get, id, post};

/// What is sent, and never anything with the answer in it.
struct Watched(Playground);

impl Watched {
    fn ask(&self, what: &str, request: &[u8]) -> Value {
        let answer = self.0.ask(request);
        let shown = format!("{:?} {}", answer.headers, answer.text());
        assert!(!shown.contains(CANARY), "{what}: {shown}");
        serde_json::from_slice(&answer.body).unwrap_or_default()
    }

    fn item(&self, route: &str, item: &Value) -> Value {
        let request = post(&format!("/env/v1/{route}"), &json!({ "items": [item] }));
        self.ask(&format!("{route} {item}"), &request)["items"][0].clone()
    }
}

#[test]
fn no_answer_holds_an_accepted_one() {
    let play = Watched(Playground::new());
    let own = json!({ "question": "q", "ground_truth": { "target": [CANARY] }, "data_source": "mine" });
    for chosen in [json!({ "task_id": id(1), "record": true }), json!({ "task": own, "record": true })] {
        let begun = play.item("reset", &chosen);
        let (episode, record) = (&begun["episode_id"], &begun["trajectory"]);
        assert!(episode.is_string(), "{begun}");
        for action in ["<search>one</search>", "hm", "<search><fail></search>", "<answer>wrong</answer>", "over"] {
            play.item(
                "step",
                &json!({ "episode_id": episode, "action": action, "record": true, "idempotency_key": action }),
            );
            play.item("transition", &json!({ "trajectory": record, "action": action, "ground_truth": [CANARY] }));
        }
        let known =
            play.item("transition", &json!({ "trajectory": record, "action": "<answer>x</answer>", "task_id": id(1) }));
        assert!(known.is_object());
    }
    for truth in
        [json!(CANARY), json!([CANARY]), json!({ "target": CANARY }), json!({ "other": CANARY }), json!([[CANARY]])]
    {
        play.item("score", &json!({ "text": "<answer>x</answer>", "ground_truth": truth }));
        play.item("reset", &json!({ "task": { "question": "q", "ground_truth": truth } }));
        play.item("reset", &json!({ "task": { "question": 7.5, "golden_answers": truth } }));
        play.item("reset", &json!({ "task": { "reward_model": truth, "prompt": "p" } }));
        play.item("reset", &json!({ "task": [truth] }));
    }
    for path in [
        "/env/v1/tasks",
        "/env/v1/presets",
        "/openapi.json",
        "/metrics",
        "/docs",
        "/env/v1/tasks?limit=x",
        "/env/v1/none",
    ] {
        play.ask(path, &get(path));
    }
}
