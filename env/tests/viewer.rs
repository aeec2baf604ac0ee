//! What the viewer promises over HTTP: the right trajectories, in the right order, to this machine's own pages and to nobody else.
#![cfg(feature = "viewer")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use hindsearch_env::viewer::{Catalogue, Viewer};
use hindsearch_env::{Action, Author, Found, Reward, Role, Scored, Span, Stop, Trajectory, TrajectoryLog, Turn};
use hindsearch_indexes::ErrorKind;
use serde_json::{Value, json};

/// One answer of the server.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Expects a refusal whose message holds these words.
    #[track_caller]
    fn refuses(&self, status: u16, code: &str, words: &[&str]) {
        let body = self.json();
        assert_eq!((self.status, &body["code"]), (status, &json!(code)), "{}", self.body);
        let message = body["message"].as_str().expect("a message");
        assert!(words.iter().all(|word| message.contains(word)), "{words:?}: {message}");
    }
}

/// Serves a file from now on, for as long as the process lives.
fn serve(path: &Path) -> SocketAddr {
    let catalogue = Catalogue::open(path, &|_| ()).expect("a file of trajectories");
    let viewer = Viewer::bind(catalogue, ([127, 0, 0, 1], 0).into()).expect("a free port");
    let address = viewer.address();
    std::thread::spawn(move || viewer.run(std::future::pending()));
    address
}

fn send(address: SocketAddr, head: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("a server");
    write!(stream, "{head}\r\nConnection: close\r\n\r\n").expect("a reader");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, head: head.to_lowercase(), body: body.to_owned() }
}

fn get(address: SocketAddr, path: &str) -> Answer {
    send(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}"))
}

/// The lines of those that a list holds.
#[track_caller]
fn lines(address: SocketAddr, query: &str) -> Vec<u64> {
    let answer = get(address, &format!("/api/trajectories?{query}"));
    assert_eq!(answer.status, 200, "{query}: {}", answer.body);
    let answer = answer.json();
    let all = answer["trajectories"].as_array().expect("a list").iter();
    all.map(|one| one["line"].as_u64().expect("a line")).collect()
}

fn span(author: Author, text: &str) -> Span {
    Span::new(author, Role::Assistant, text)
}

/// A trajectory that searched once and answered.
fn trajectory(task: &str, sample: u32, reward: f64) -> Trajectory {
    let (query, answer) = (format!("query of {task}"), "Kraków".to_owned());
    let found = Found { id: "p1".into(), row: 1, score: 0.5, shown: true };
    let turn = |span, action, found, observation| Turn {
        span,
        action,
        content: None,
        cut_off: false,
        found,
        observation,
        truncated: false,
        experience: vec![],
    };
    Trajectory {
        version: 1,
        task: task.into(),
        sample,
        source: "test".into(),
        question: format!("Which town is {task}?"),
        preset: "hindsearch".into(),
        experience: vec![],
        spans: vec![
            span(Author::Prompt, "prompt"),
            span(Author::Policy, "search"),
            span(Author::Environment, "passages"),
            span(Author::Policy, "answer"),
        ],
        turns: vec![
            turn(1, Action::Search { queries: vec![query] }, Some(vec![vec![found]]), Some(2)),
            turn(3, Action::Answer { text: answer }, None, None),
        ],
        stop: Some(Stop::Answer),
        error: None,
        reward: Some(Reward { total: reward, terms: vec![Scored { name: "em".into(), weight: 1.0, value: reward }] }),
        critique: None,
    }
}

fn write(path: &Path, all: &[Trajectory]) {
    let mut log = TrajectoryLog::open(path).expect("a log");
    for one in all {
        log.append(one).expect("a disk");
    }
}

/// Six, of which the last two are a failed one and one that is not over.
fn six() -> Vec<Trajectory> {
    let mut all: Vec<Trajectory> =
        [("b", 0.5), ("a", 1.0), ("ä Ö", -1.0), ("c", 0.5)].map(|(task, reward)| trajectory(task, 0, reward)).into();
    all[1].critique = Some("Well done.".into());
    all[2].stop = Some(Stop::Turns);
    all[3].turns.truncate(1);
    all[3].stop = Some(Stop::Context);
    let failed = Trajectory { error: Some("no server".into()), reward: None, stop: None, ..trajectory("d", 0, 0.0) };
    let going_on = Trajectory { stop: None, reward: None, turns: Vec::new(), ..trajectory("d", 1, 0.0) };
    all.extend([failed, going_on]);
    all
}

#[test]
fn of_a_training_run_the_last_step_is_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("trajectories")).expect("a folder");
    write(&folder.path().join("trajectories/step-000009.jsonl"), &six()[..1]);
    write(&folder.path().join("trajectories/step-000010.jsonl"), &six());
    let at = serve(folder.path());
    assert_eq!(lines(at, ""), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_list_is_filtered_sorted_and_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder.path().join("trajectories.jsonl"), &six());
    let at = serve(folder.path());
    for (query, expected) in [
        ("", &[1, 2, 3, 4, 5, 6][..]),
        ("text=which+TOWN", &[1, 2, 3, 4, 5, 6]),
        ("text=query%20of%20%C3%84", &[3]),
        ("text=krak%C3%B3w&stop=answer", &[1, 2]),
        ("text=no+server", &[5]),
        ("text=%25&sort=line", &[]),
        ("task=d", &[5, 6]),
        ("stop=turns", &[3]),
        ("stop=none", &[5, 6]),
        ("least=0.5", &[1, 2, 4]),
        ("least=-1&most=0.5", &[1, 3, 4]),
        ("error=true", &[5]),
        ("error=false&stop=none", &[6]),
        ("critique=true", &[2]),
        ("sort=reward", &[3, 1, 4, 2, 5, 6]),
        ("sort=reward&descending=true", &[2, 1, 4, 3, 5, 6]),
        ("sort=task", &[2, 1, 4, 5, 6, 3]),
        ("sort=turns&descending=true", &[1, 2, 3, 5, 4, 6]),
        ("sort=searches", &[6, 1, 2, 3, 4, 5]),
        ("sort=line&descending=true&offset=4", &[2, 1]),
        ("limit=2&offset=3", &[4, 5]),
        ("offset=99", &[]),
    ] {
        assert_eq!(lines(at, query), expected, "{query}");
    }
    let list = get(at, "/api/trajectories?stop=answer").json();
    assert_eq!(
        list["stops"],
        json!([["answer", 2], ["end", 0], ["turns", 1], ["context", 1], [null, 2]]),
        "counts of the others do not depend on the one that is asked for"
    );
    assert_eq!((&list["plays"], &list["matched"], &list["failed"]), (&json!(6), &json!(2), &json!(0)));
    assert_eq!(list["rewards"]["mean"], 0.75);
    assert_eq!(list["rewards"]["bars"], json!([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]));
    let first = &list["trajectories"][0];
    assert_eq!((&first["answer"], &first["turns"], &first["searches"]), (&json!("Kraków"), &json!(2), &json!(1)));
    assert_eq!(get(at, "/api/trajectories?error=true").json()["rewards"], Value::Null);
}

#[test]
fn a_filter_that_is_not_known_is_refused_and_not_passed_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("some.jsonl");
    write(&path, &six());
    let at = serve(&path);
    for (query, words) in [
        ("txt=a", &["txt", "text"][..]),
        ("stop=never", &["stop", "never", "context"]),
        ("least=much", &["least", "a number", "much"]),
        ("most=NaN", &["most", "a number"]),
        ("error=1", &["error", "true or false"]),
        ("sort=size", &["sort", "size", "reward"]),
        ("offset=-1", &["offset", "a count"]),
        ("limit=x", &["limit", "a count"]),
    ] {
        get(at, &format!("/api/trajectories?{query}")).refuses(400, "invalid_request", words);
        get(at, &format!("/api/trajectories/1?{query}")).refuses(400, "invalid_request", words);
    }
    for line in ["x", "-1", "1.5", "99999999999999999999999"] {
        get(at, &format!("/api/trajectories/{line}")).refuses(400, "invalid_request", &[line]);
    }
    for line in [0, 7, u64::MAX] {
        get(at, &format!("/api/trajectories/{line}")).refuses(404, "not_found", &[&line.to_string(), "6 lines"]);
    }
}

#[test]
fn a_single_one_comes_whole_with_its_neighbours_masks_and_places() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut one = trajectory("a", 0, 1.0);
    // One character that is two units for scripts and four bytes here, spread over two tokens.
    one.spans[1] = Span {
        tokens: vec![7, 8, 9, 10],
        ends: vec![1, 5, 5, 7],
        logprobs: vec![-0.5; 4],
        ..span(Author::Policy, "a🎉é")
    };
    one.turns[0].content = Some(1..5);
    one.spans[2].tokens = vec![1, 2, 3];
    // Ends that are not those of these tokens say nothing.
    one.spans[3].tokens = vec![4];
    one.spans[3].ends = vec![1, 2, 3];
    one.turns[1].content = Some(std::ops::Range { start: 900, end: 3 });
    let others = [trajectory("b", 0, 0.0), trajectory("c", 0, 1.0)];
    for name in ["run.jsonl", "run.jsonl.zst"] {
        let path = folder.path().join(name);
        write(&path, &[&[one.clone()][..], &others].concat());
        let at = serve(&path);
        let answer = get(at, "/api/trajectories/1?sort=reward&descending=true").json();
        let mut shown: Trajectory = serde_json::from_value(answer["trajectory"].clone()).expect("the record");
        shown.spans[3].ends.clone_from(&one.spans[3].ends);
        assert_eq!(shown, one);
        assert_eq!(answer["place"], json!({ "at": 0, "of": 3, "previous": null, "next": 3 }));
        assert_eq!(answer["ends"], json!([[], [1, 3, 3, 4], [], []]));
        assert_eq!(answer["contents"], json!([[1, 3], [6, 3]]));
        assert_eq!((&answer["policy_mask"], &answer["query_mask"]), (&json!("11110001"), &json!("01100000")));
        assert_eq!(answer["escaped"], true);
        let left_out = get(at, "/api/trajectories/1?text=nothing").json();
        assert_eq!(left_out["place"], json!({ "at": null, "of": 0, "previous": null, "next": null }));
        assert_eq!(get(at, "/api/trajectories/3").json()["trajectory"]["task"], "c");
    }
}

#[test]
fn what_a_run_adds_is_there_at_the_next_look() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["trajectories.jsonl", "trajectories.jsonl.zst"] {
        let path = folder.path().join(name);
        let mut log = TrajectoryLog::open(&path).expect("a log");
        let at = serve(&path);
        assert_eq!(lines(at, ""), [0; 0]);
        log.append(&trajectory("a", 0, 0.0)).expect("a disk");
        assert_eq!(lines(at, ""), [1]);
        log.append(&trajectory("b", 0, 0.0)).expect("a disk");
        // Half a line is none.
        let whole = std::fs::read(&path).expect("the file");
        std::fs::write(&path, [&whole[..], &whole[..whole.len() / 4]].concat()).expect("a disk");
        assert_eq!(lines(at, ""), [1, 2]);
        std::fs::write(&path, &whole).expect("a disk");
        log.append(&trajectory("a", 0, 1.0)).expect("a disk");
        // Of a play that was played again the last one counts; the first can still be looked at.
        assert_eq!(lines(at, ""), [2, 3]);
        let list = get(at, "/api/trajectories").json();
        assert_eq!((&list["plays"], &list["superseded"]), (&json!(2), &json!(1)));
        let old = get(at, "/api/trajectories/1").json();
        assert_eq!((&old["superseded"], &old["place"]["at"]), (&json!(true), &Value::Null));
        // Another run under the old name, a longer one in the same place, then in another.
        let longer: Vec<Trajectory> = (0..9).map(|sample| trajectory("longer", sample, 0.0)).collect();
        let other = folder.path().join(format!("other-{name}"));
        write(&other, &longer);
        std::fs::write(&path, std::fs::read(&other).expect("a file")).expect("a disk");
        assert_eq!(lines(at, ""), (1..=9).collect::<Vec<u64>>());
        drop(log);
        std::fs::remove_file(&path).expect("a file");
        write(&path, &[trajectory("z", 0, 0.0)]);
        assert_eq!(get(at, "/api/trajectories").json()["trajectories"][0]["task"], "z");
        std::fs::remove_file(&path).expect("a file");
        get(at, "/api/trajectories").refuses(500, "unreadable", &[name]);
    }
}

#[test]
fn what_cannot_be_shown_is_told_by_file_and_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = |name: &str| Catalogue::open(&folder.path().join(name), &|_| ()).expect_err("a refusal");
    let refused = |name: &str, kind: ErrorKind, words: &[&str]| {
        let error = open(name);
        let message = error.to_string();
        assert_eq!(error.kind(), kind, "{message}");
        assert!(words.iter().all(|word| message.contains(word)), "{words:?}: {message}");
    };
    refused("nowhere", ErrorKind::NotFound, &["nowhere"]);
    refused("", ErrorKind::NotFound, &["trajectories.jsonl", "name the file"]);
    let good = serde_json::to_string(&trajectory("a", 0, 1.0)).expect("JSON");
    for (bad, words) in [
        ("text".to_owned(), &["line 2"][..]),
        ("{}".into(), &["line 2", "version"]),
        ("[]".into(), &["line 2"]),
        (good.replace("\"version\":1", "\"version\":2"), &["line 2", "version 2"]),
        (good.replace("\"sample\":0", "\"sample\":-1"), &["line 2"]),
        (good.replace("\"sample\":0", "\"sample\":0,\"more\":1"), &["line 2", "more"]),
    ] {
        std::fs::write(folder.path().join("bad.jsonl"), format!("{good}\n{bad}\n")).expect("a disk");
        refused("bad.jsonl", ErrorKind::InvalidInput, &[&["bad.jsonl"], words].concat());
    }
    std::fs::write(folder.path().join("bytes.jsonl"), [0xff, 0xfe, b'\n']).expect("a disk");
    refused("bytes.jsonl", ErrorKind::InvalidInput, &["bytes.jsonl", "line 1"]);
    std::fs::write(folder.path().join("not.jsonl.zst"), "plain text").expect("a disk");
    assert!(open("not.jsonl.zst").to_string().contains("not.jsonl.zst"));
    for name in ["trajectories.jsonl", "trajectories.jsonl.zst"] {
        write(&folder.path().join(name), &[]);
    }
    refused("", ErrorKind::InvalidInput, &["trajectories.jsonl.zst", "name one"]);

    // A line that turns bad while it is looked at stops nothing but the look behind it.
    let path = folder.path().join("grows.jsonl");
    std::fs::write(&path, format!("{good}\n")).expect("a disk");
    let at = serve(&path);
    std::fs::write(&path, format!("{good}\ntext\n")).expect("a disk");
    get(at, "/api/trajectories").refuses(500, "unreadable", &["grows.jsonl", "line 2"]);
    std::fs::write(&path, format!("{good}\n")).expect("a disk");
    assert_eq!(lines(at, ""), [1]);
}

#[test]
fn only_this_machines_own_pages_may_ask() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("some.jsonl");
    write(&path, &six());
    let at = serve(&path);
    let port = at.port();
    let ask = |rest: &str| send(at, &format!("GET /api/trajectories HTTP/1.1\r\n{rest}"));
    for host in ["127.0.0.1", "localhost", "LocalHost:1", "127.9.9.9:80", "[::1]", "[::1]:8700", &at.to_string()] {
        assert_eq!(ask(&format!("Host: {host}")).status, 200, "{host}");
        assert_eq!(ask(&format!("Host: {host}\r\nOrigin: http://{host}")).status, 200, "{host}");
    }
    for host in [
        "attacker.invalid",
        "localhost.attacker.invalid",
        "127.0.0.1.attacker.invalid",
        "localhost:80:80",
        "localhost:evil",
        "8.8.8.8",
        "[::2]",
        "[::1",
        "::1",
        "",
        "0.0.0.0",
        "localhost\r\nHost: localhost",
    ] {
        ask(&format!("Host: {host}")).refuses(403, "forbidden", &["Host"]);
    }
    let absolute = "GET http://attacker.invalid/api/trajectories HTTP/1.1\r\nHost: localhost";
    send(at, absolute).refuses(403, "forbidden", &["Host"]);
    for origin in ["null", "http://attacker.invalid", "https://localhost", "http://localhost:1"] {
        ask(&format!("Host: localhost:{port}\r\nOrigin: {origin}")).refuses(403, "forbidden", &[origin]);
    }
    let answer = ask("Host: localhost");
    assert!(!answer.head.contains("access-control"), "{}", answer.head);

    let catalogue = || Catalogue::open(&path, &|_| ()).expect("a file");
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let refused = Viewer::bind(catalogue(), address.parse().expect("an address"));
        let error = refused.err().expect("a refusal");
        assert!(error.kind() == ErrorKind::InvalidInput && error.to_string().contains("127.0.0.1"), "{error}");
    }
    let taken = Viewer::bind(catalogue(), at).err().expect("a refusal").to_string();
    assert!(taken.contains(&port.to_string()) && taken.contains("--port"), "{taken}");
}

#[test]
fn every_answer_forbids_what_a_hostile_passage_would_need() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("some.jsonl");
    let hostile = "</script><script>alert(1)</script>";
    let mut one = trajectory(hostile, 0, 1.0);
    one.question = hostile.into();
    one.critique = Some(hostile.into());
    write(&path, &[one]);
    let at = serve(&path);
    let files =
        ["viewer.js", "list.js", "detail.js", "transcript.js", "address.js", "parts.js", "common.js", "viewer.css"];
    let files = files.map(|name| format!("/pages/{name}"));
    let own =
        ["/", "/pages/icon.svg", "/pages/pages.css", "/api/trajectories", "/api/trajectories/1"].map(str::to_owned);
    let wrong = ["/nowhere", "/pages/nowhere", "/api/trajectories/9", "/api/trajectories?x"].map(str::to_owned);
    for (paths, status) in [(&files[..], 200), (&own, 200), (&wrong, 0)] {
        for path in paths {
            let answer = get(at, path);
            assert!(answer.status == status || (status == 0 && answer.status >= 400), "{path}: {}", answer.status);
            for rule in [
                "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'",
                "frame-ancestors 'none'",
                "require-trusted-types-for 'script'; trusted-types 'none'",
                "x-content-type-options: nosniff",
                "referrer-policy: no-referrer",
                "cross-origin-resource-policy: same-origin",
            ] {
                assert!(answer.head.contains(rule), "{path}: no {rule} in {}", answer.head);
            }
            assert!(!answer.head.contains("unsafe"), "{path}: {}", answer.head);
            let kind = answer.head.lines().find_map(|line| line.strip_prefix("content-type: ")).expect("a type");
            let expected = match path.rsplit_once('.').map(|(_, ending)| ending) {
                Some("js") => "text/javascript; charset=utf-8",
                Some("css") => "text/css; charset=utf-8",
                Some("svg") => "image/svg+xml",
                _ if path == "/" => "text/html; charset=utf-8",
                _ => "application/json",
            };
            assert_eq!(kind, expected, "{path}");
        }
    }
    send(at, &format!("POST /api/trajectories HTTP/1.1\r\nHost: {at}\r\nContent-Length: 0")).refuses(
        405,
        "method_not_allowed",
        &["GET"],
    );
    let page = get(at, "/").body;
    for inline in ["<script>", "style=", "onload", "onclick", "onerror", "<style", "javascript:", "http:", "https:"] {
        let found = page.find(inline);
        assert!(found.is_none(), "{inline}: {:?}", found.map(|at| &page[at.saturating_sub(30)..]));
    }
    assert_eq!(get(at, "/api/trajectories").json()["trajectories"][0]["question"], hostile);
    // A critique comes as it was written, as data; the page makes a text node of it.
    assert_eq!(get(at, "/api/trajectories/1").json()["trajectory"]["critique"], hostile);
    assert!(get(at, "/pages/detail.js").body.contains("shown(trajectory.critique)"));
}

#[test]
fn it_ends_when_it_is_told_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("some.jsonl");
    write(&path, &six());
    let catalogue = Catalogue::open(&path, &|_| ()).expect("a file");
    assert_eq!((catalogue.len(), catalogue.is_empty(), catalogue.path()), (6, false, &*path));
    let viewer = Viewer::bind(catalogue, ([127, 0, 0, 1], 0).into()).expect("a free port");
    let address = viewer.address();
    // Somebody who has asked for half a thing keeps nobody.
    let mut slow = TcpStream::connect(address).expect("a server");
    slow.write_all(b"GET / HT").expect("a reader");
    viewer.run(std::future::ready(())).expect("an end");
    assert!(TcpStream::connect(address).is_err(), "the port is free again");
}
