//! The clients of OpenEnv, NeMo Gym and verl-tool are answered in their own words.
#![cfg(feature = "serve")]

mod service_support;

use std::time::Duration;

use serde_json::{Value, json};
use service_support::socket::Socket;
use service_support::{Answer, CANARY, Playground, get, id, post, post_with, until};

fn socket(play: &Playground) -> Socket {
    Socket::open(play.address(), "/openenv/ws").expect("an open socket")
}

fn step(text: &str) -> Value {
    json!({ "type": "step", "data": { "text": text } })
}

/// That a socket told of an error with this code.
#[track_caller]
fn told(answer: &Value, code: &str) {
    assert_eq!((&answer["type"], &answer["data"]["code"]), (&json!("error"), &json!(code)), "{answer}");
    assert!(answer["data"]["message"].as_str().is_some_and(|text| !text.is_empty()));
}

#[test]
fn a_socket_is_a_session_of_openenv() {
    let play = Playground::new();
    let mut socket = socket(&play);
    assert_eq!(socket.ask(&json!({ "type": "state" }))["data"], json!({ "episode_id": null, "step_count": 0 }));
    told(&socket.ask(&step("hm")), "EXECUTION_ERROR");
    let reset = json!({ "type": "reset", "data": { "task_id": id(3), "episode_id": "mine", "unknown": 1 } });
    let begun = socket.ask(&reset);
    assert_eq!(begun["type"], "observation");
    let data = &begun["data"];
    assert!(data["observation"]["text"].as_str().expect("a prompt").contains("What is number 3?"), "{begun}");
    assert_eq!((&data["reward"], &data["done"]), (&Value::Null, &json!(false)));
    let keys: Vec<&String> = data.as_object().expect("data").keys().collect();
    assert_eq!(keys, ["done", "observation", "reward"], "older clients know no more");
    let seen = socket.ask(&step("<search>three</search>"));
    assert!(seen["data"]["observation"]["text"].as_str().expect("passages").contains("<information>"));
    assert_eq!((&seen["data"]["reward"], &seen["data"]["done"]), (&json!(0.0), &json!(false)));
    let state = socket.ask(&json!({ "type": "state" }));
    assert_eq!((&state["type"], &state["data"]["episode_id"]), (&json!("state"), &json!("mine")));
    assert_eq!((&state["data"]["step_count"], &state["data"]["searches"]), (&json!(1), &json!(1)));
    let last = socket.ask(&step("<answer>3</answer>"));
    assert_eq!((&last["data"]["reward"], &last["data"]["done"]), (&json!(1.0), &json!(true)));
    told(&socket.ask(&step("hm")), "EXECUTION_ERROR");
    // The same socket, the next episode.
    let begun = socket.ask(&json!({ "type": "reset", "data": { "question": "mine", "answer": "x" } }));
    assert!(begun["data"]["observation"]["text"].as_str().expect("a prompt").contains("mine?"));
    assert_eq!(socket.ask(&step("<answer>x</answer>"))["data"]["reward"], 1.0);
    socket.send(r#"{"type": "close"}"#).expect("an open socket");
    assert_eq!(socket.read().expect("a farewell"), None);
}

#[test]
fn what_a_socket_cannot_use_is_told_with_openenvs_codes_and_the_session_goes_on() {
    let play = Playground::new();
    let mut socket = socket(&play);
    socket.send("{").expect("an open socket");
    let answer = socket.read().expect("an answer").expect("a text");
    told(&serde_json::from_str(&answer).expect("JSON"), "INVALID_JSON");
    for unknown in [json!({ "type": "dance" }), json!({}), json!([]), json!(7), json!({ "type": 7 })] {
        told(&socket.ask(&unknown), "UNKNOWN_TYPE");
    }
    for data in
        [json!({ "seed": -1 }), json!({ "episode_id": "x".repeat(256) }), json!({ "task_id": "none" }), json!([])]
    {
        let answer = socket.ask(&json!({ "type": "reset", "data": data }));
        told(&answer, "VALIDATION_ERROR");
        assert!(answer["data"]["errors"][0]["msg"].is_string(), "{answer}");
    }
    socket.ask(&json!({ "type": "reset", "data": { "seed": 7 } }));
    for data in [json!({}), json!({ "text": 7 }), json!({ "text": "x", "more": 1 }), json!("x")] {
        told(&socket.ask(&json!({ "type": "step", "data": data })), "VALIDATION_ERROR");
    }
    let rpc = json!({ "type": "mcp", "data": { "jsonrpc": "2.0", "id": 5, "method": "tools/list" } });
    let answer = socket.ask(&rpc);
    assert_eq!(
        (&answer["type"], &answer["data"]["id"], &answer["data"]["error"]["code"]),
        (&json!("mcp"), &json!(5), &json!(-32601))
    );
    // A search that fails is no observation, and the episode is as it was.
    told(&socket.ask(&step("<search><fail></search>")), "EXECUTION_ERROR");
    assert_eq!(socket.ask(&json!({ "type": "state" }))["data"]["step_count"], 0);
    assert_eq!(socket.ask(&step("<search>x</search>"))["data"]["done"], false);
    // Without an upgrade, it is no socket.
    play.ask(&get("/openenv/ws")).assert_fault(422);
}

#[test]
fn sockets_share_the_room_of_all_episodes() {
    let play = Playground::with(|env| (env.capacity, env.idle) = (2, Duration::from_secs(600)), |_| ());
    let (mut first, mut second, mut third) = (socket(&play), socket(&play), socket(&play));
    let reset = json!({ "type": "reset" });
    assert_eq!(first.ask(&reset)["type"], "observation");
    assert_eq!(first.ask(&reset)["type"], "observation", "the episode before has ended");
    assert_eq!(second.ask(&reset)["type"], "observation");
    let refusal = third.ask(&reset);
    told(&refusal, "CAPACITY_REACHED");
    assert_eq!((&refusal["data"]["active_sessions"], &refusal["data"]["max_sessions"]), (&json!(2), &json!(2)));
    assert_eq!(third.read().expect("a farewell"), None);
    // A client that goes away without a word gives its place back.
    drop(second);
    let mut fourth = socket(&play);
    let room = || play.ask(&post("/openenv/reset", &json!({}))).status == 200;
    until("room for an episode", Duration::from_secs(30), room);
    told(&fourth.ask(&reset), "CAPACITY_REACHED");
    // An episode that nobody plays in is forgotten.
    play.wait(Duration::from_secs(601));
    assert_eq!(play.ask(&post("/openenv/reset", &json!({}))).status, 200);
    told(&first.ask(&step("hm")), "SESSION_ERROR");
    assert_eq!(first.read().expect("a farewell"), None);
}

#[test]
fn a_socket_that_is_silent_for_longer_than_a_connection_may_be_stays_open() {
    let play = Playground::with(
        |_| (),
        |serve| (serve.limits.idle, serve.limits.head) = (Duration::from_millis(50), Duration::from_millis(50)),
    );
    let mut socket = socket(&play);
    socket.ask(&json!({ "type": "reset", "data": { "task_id": id(1) } }));
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(socket.ask(&step("<answer>1</answer>"))["data"]["reward"], 1.0);
}

#[test]
fn a_server_that_stops_lets_a_step_end_and_closes_its_sockets() {
    let play = Playground::new();
    let (mut busy, mut quiet) = (socket(&play), socket(&play));
    busy.ask(&json!({ "type": "reset" }));
    quiet.ask(&json!({ "type": "reset" }));
    play.encoder.hold();
    busy.send(&step("<search>x</search>").to_string()).expect("an open socket");
    until("a search under way", Duration::from_secs(30), || play.encoder.waiting() > 0);
    play.server.stop();
    assert_eq!(quiet.read().expect("a farewell"), None);
    play.encoder.go_on();
    let answer: Value = serde_json::from_str(&busy.read().expect("an answer").expect("a text")).expect("JSON");
    assert_eq!(answer["type"], "observation", "{answer}");
    assert_eq!(busy.read().expect("a farewell"), None);
}

#[test]
fn openenv_over_http_goes_on_by_the_episodes_id() {
    let play = Playground::new();
    assert_eq!(play.ask(&get("/openenv/health")).json(), json!({ "status": "healthy" }));
    assert_eq!(play.ask(&get("/openenv/metadata")).json()["name"], "hindsearch");
    let schemas = play.ask(&get("/openenv/schema")).json();
    assert_eq!(schemas["action"]["required"], json!(["text"]), "adapters put plain text into the only required field");
    assert!(schemas["observation"].is_object() && schemas["state"].is_object());
    assert_eq!(play.ask(&get("/openenv/state")).json()["step_count"], 0);
    let begun = play.ask(b"POST /openenv/reset HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(begun.status, 200, "a reset needs no body");
    let begun = play.ask(&post("/openenv/reset", &json!({ "task_id": id(2) }))).json();
    let episode = begun["observation"]["metadata"]["episode_id"].as_str().expect("an id").to_owned();
    let step = |action: Value| play.ask(&post("/openenv/step", &json!({ "action": action, "episode_id": episode })));
    assert!(step(json!({ "text": "<search>x</search>" })).json()["observation"]["text"].as_str().is_some());
    assert_eq!(play.ask(&get(&format!("/openenv/state?episode_id={episode}"))).json()["step_count"], 1);
    let refusal = step(json!({ "words": "x" }));
    refusal.assert_fault(422);
    assert!(refusal.json()["detail"].is_string(), "as FastAPI has it");
    assert_eq!(step(json!({ "text": "<answer>2</answer>" })).json()["reward"], 1.0);
    play.ask(&post("/openenv/step", &json!({ "action": { "text": "x" } }))).assert_fault(422);
    play.ask(&get("/openenv/state?episode_id=none")).assert_fault(404);
    let full = Playground::with(|env| env.capacity = 1, |_| ());
    full.ask(&post("/openenv/reset", &json!({})));
    full.ask(&post("/openenv/reset", &json!({}))).assert_fault(503);
}

/// Asks with the cookie of the answer before, as NeMo Gym's agents do.
fn follow(play: &Playground, path: &str, body: &Value, before: Option<&Answer>) -> Answer {
    let cookie = before.map_or(String::new(), |answer| {
        let cookie = answer.header("set-cookie").unwrap_or_else(|| panic!("no cookie: {answer:?}"));
        format!("Cookie: other=1; {}\r\n", cookie.split(';').next().expect("a pair"))
    });
    let answer = play.ask(&post_with(path, &cookie, body));
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    assert!(!answer.text().contains(CANARY), "{}", answer.text());
    answer
}

fn message(text: &str) -> Value {
    json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": text, "annotations": [] }] })
}

fn call(query: &str) -> Value {
    json!({ "type": "function_call", "call_id": "c7", "name": "search", "arguments": json!({ "query": query }).to_string() })
}

#[test]
fn agents_of_nemo_gym_call_the_tool_and_are_verified() {
    let play = Playground::new();
    for (prefix, tool) in [("", "search_passages"), ("/nemo-gym", "search"), ("/nemo-gym", "search_passages")] {
        let row = json!({
            "responses_create_params": { "input": [{ "role": "user", "content": "What is it?" }] }, "question": "What is it?",
            "expected_answer": CANARY, "expected_answers": [CANARY, "right"], "_ng_task_index": 4, "domain": "knowledge",
        });
        let seeded = follow(&play, &format!("{prefix}/seed_session"), &row, None);
        assert_eq!(seeded.json(), json!({}));
        let seen = follow(&play, &format!("{prefix}/{tool}"), &json!({ "query": "it" }), Some(&seeded));
        let text = seen.json()["result"].as_str().expect("passages").to_owned();
        assert!(text.starts_with("<information>[1] "), "{text}");
        // The recipe's limit of turns holds for tools, too.
        let mut last = seen;
        for _ in 0..4 {
            last = follow(&play, &format!("{prefix}/{tool}"), &json!({ "query": "more" }), Some(&last));
        }
        assert!(last.json()["result"].as_str().expect("a text").contains("No searches are left"), "{}", last.text());
        let output = json!([call("it"), { "type": "function_call_output", "call_id": "c7", "output": "<answer>wrong</answer>" },
            { "type": "reasoning", "summary": [] }, message("<answer>right</answer>")]);
        let mut asked = row.clone();
        asked["response"] = json!({ "output": output, "id": "r" });
        let verified = follow(&play, &format!("{prefix}/verify"), &asked, Some(&last)).json();
        assert_eq!((&verified["reward"], &verified["tool_calls"]), (&json!(1.0), &json!(1)), "{verified}");
        assert_eq!(verified["searches"], 4);
        for kept in ["responses_create_params", "response", "_ng_task_index", "domain"] {
            assert_eq!(verified[kept], asked[kept], "{kept}");
        }
        asked["response"]["output"] = json!([message("<answer>wrong</answer>")]);
        assert_eq!(follow(&play, &format!("{prefix}/verify"), &asked, None).json()["reward"], 0.0);
        asked["response"]["output"] = json!([message("<answer>3</answer>")]);
        asked["task_id"] = json!(id(3));
        assert_eq!(
            follow(&play, &format!("{prefix}/verify"), &asked, None).json()["reward"],
            1.0,
            "the server's own task"
        );
        play.ask(&post(&format!("{prefix}/verify"), &json!({ "response": { "output": [] } }))).assert_fault(422);
        play.ask(&post(&format!("{prefix}/{tool}"), &json!({ "q": "x" }))).assert_fault(422);
    }
}

#[test]
fn agents_of_nemo_gym_step_through_an_episode() {
    let play = Playground::new();
    let row = json!({ "responses_create_params": { "input": "What is number 3?" }, "task_id": id(3) });
    let begun = follow(&play, "/nemo-gym/reset", &row, None);
    assert_eq!((&begun.json()["observation"], &begun.json()["info"]["task_id"]), (&Value::Null, &json!(id(3))));
    let respond = |output: Value, before: &Answer| {
        let mut asked = row.clone();
        asked["response"] = json!({ "output": output });
        follow(&play, "/nemo-gym/step", &asked, Some(before))
    };
    let seen = respond(json!([message("<search>three</search>")]), &begun);
    let body = seen.json();
    assert!(body["observation"].as_str().expect("passages").contains("<information>"));
    assert_eq!((&body["reward"], &body["terminated"], &body["truncated"]), (&json!(0.0), &json!(false), &json!(false)));
    let called = respond(json!([call("three")]), &seen);
    let body = called.json();
    assert_eq!(
        (&body["observation"], &body["info"]["tool_outputs"][0]["call_id"]),
        (&Value::Null, &json!("c7")),
        "{body}"
    );
    let last = respond(json!([message("<answer>3</answer>")]), &called);
    let body = last.json();
    assert_eq!((&body["reward"], &body["terminated"]), (&json!(1.0), &json!(true)));
    let mut bare = row.clone();
    bare["responses_create_params"] = json!({ "input": [] });
    let begun = follow(&play, "/reset", &bare, None).json();
    assert!(begun["observation"].as_str().expect("the prompt").contains("What is number 3?"));
    play.ask(&post("/step", &json!({ "response": { "output": [] } }))).assert_fault(422);
}

#[test]
fn rewards_of_nemo_gym_are_summed_up() {
    let play = Playground::new();
    let row = |task: u64, reward: f64, good: bool| json!({ "_ng_task_index": task, "reward": reward, "good": good, "name": "x" });
    let body = json!({ "verify_responses": [row(0, 1.0, true), row(0, 0.0, true), row(1, 0.5, false)] });
    let told = play.ask(&post("/aggregate_metrics", &body)).json();
    assert_eq!(told["agent_metrics"]["mean/reward"], 0.5);
    assert_eq!(
        (&told["agent_metrics"]["min/reward"], &told["agent_metrics"]["max/reward"]),
        (&json!(0.0), &json!(1.0))
    );
    assert_eq!(told["key_metrics"]["mean/reward"], 0.5);
    let groups = told["group_level_metrics"].as_array().expect("groups");
    assert_eq!((&groups[0]["mean/reward"], &groups[0]["_ng_task_index"]), (&json!(0.5), &json!(0)));
    assert_eq!((&groups[1]["mean/good"], &groups[1]["_ng_task_index"]), (&json!(0.0), &json!(1)));
    assert_eq!(play.ask(&post("/aggregate_metrics", &json!({ "verify_responses": [] }))).status, 200);
    play.ask(&post("/aggregate_metrics", &json!({}))).assert_fault(422);
}

#[test]
fn trajectories_of_verl_tool_are_known_by_their_ids() {
    let play = Playground::with(|env| env.capacity = 4, |_| ());
    let ask = |body: &Value| play.ask(&post("/get_observation", body));
    let seen = ask(&json!({
        "trajectory_ids": ["a", 7, "c"], "actions": ["<search>one</search>", "hm", "<answer>x</answer>"],
        "extra_fields": [{ "question": "q" }, {}, { "question": "q", "ground_truth": CANARY }],
    }));
    assert_eq!(seen.status, 200, "{}", seen.text());
    let body = seen.json();
    assert!(body["observations"][0].as_str().expect("passages").contains("<information>"), "{body}");
    assert!(body["observations"][1].as_str().expect("a reply").contains("neither a search nor an answer"));
    assert_eq!((&body["observations"][2], &body["dones"]), (&json!(""), &json!([false, false, true])));
    assert_eq!(body["valids"], json!([true, false, true]));
    // The second turn of the same trajectories; one has come to its end, and a new one comes in.
    let body = ask(&json!({ "trajectory_ids": ["a", "7", "d"], "actions": ["<search>two</search>", "", "<search><fail></search>"], "finish": [false, true, false] })).json();
    assert!(body["observations"][0].is_string());
    assert_eq!((&body["dones"], &body["valids"]), (&json!([false, true, true]), &json!([true, true, false])));
    assert!(body["observations"][2]["error"].is_string(), "as its server tells of a tool that failed: {body}");
    // An id whose trajectory is over is one of a new trajectory.
    let body = ask(&json!({ "trajectory_ids": ["c"], "actions": ["<search>x</search>"] })).json();
    assert_eq!((&body["dones"], &body["valids"]), (&json!([false]), &json!([true])), "{body}");
    for bad in [
        json!({}),
        json!({ "trajectory_ids": ["a"], "actions": [] }),
        json!({ "trajectory_ids": ["a", "a"], "actions": ["x", "x"] }),
        json!({ "trajectory_ids": ["a"], "actions": [7] }),
        json!({ "trajectory_ids": [{}], "actions": ["x"] }),
        json!({ "trajectory_ids": ["a"], "actions": ["x"], "finish": [true, true] }),
    ] {
        ask(&bad).assert_fault(422);
    }
    let many: Vec<String> = (0..4).map(|number| format!("new{number}")).collect();
    ask(&json!({ "trajectory_ids": many, "actions": vec!["hm"; 4] })).assert_fault(503);
    assert_eq!(ask(&json!({ "trajectory_ids": ["a"], "actions": ["hm"] })).status, 200);
}
