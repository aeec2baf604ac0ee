//! A server goes over to a new generation of its index while it answers.
#![cfg(feature = "serve")]

mod serve_support;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serve_support::faulty::Faulty;
use serve_support::http::{Client, ask, get, search, until};
use serve_support::{Library, Server, options};

const MS: Duration = Duration::from_millis(1);
const PUBLISHED: u64 = 8;

/// Descriptors and mappings of this process.
fn held() -> (usize, usize) {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("Linux").count();
    let mappings = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    (descriptors, mappings.lines().filter(|line| line.contains("/gen-")).count())
}

#[test]
fn new_generations_are_served_without_a_lost_or_mixed_answer() {
    let library = Library::new(20, 100);
    let server = Server::start(&library, Faulty::quick(), options());
    let (done, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (done, asked, address) = (&done, &asked, server.address);
            scope.spawn(move || {
                let mut client = Client::new(address).expect("a connection");
                let mut last = 1;
                while !done.load(Ordering::Relaxed) {
                    let answer = client.ask(&search(&format!("{number} {}", asked.load(Ordering::Relaxed))));
                    let answer = answer.expect("an answer to every request");
                    let generation = answer.json()["index"]["generation"].as_u64().expect("a number");
                    let mark = if generation == 1 { String::new() } else { format!("g{generation}-") };
                    for id in answer.ids().concat() {
                        let row = id.strip_prefix(&mark).unwrap_or_else(|| panic!("{id} out of {generation}"));
                        assert!(row.parse::<usize>().is_ok_and(|row| row < 20 + generation as usize), "{id}");
                    }
                    assert!(generation >= last, "generation {generation} after {last}");
                    last = generation;
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let mut before = None;
        for generation in 2..=PUBLISHED {
            library.publish(&format!("g{generation}-"), 20 + generation as usize, 100);
            until("it is served", 20_000 * MS, || server.metric("hindsearch_index_generation") == generation as f64);
            // Once all that was opened on the way has been.
            before = before.or_else(|| (generation == 3).then(held));
        }
        let (descriptors, mappings) = before.expect("a measurement");
        until("nothing more is held than after the second", 10_000 * MS, || {
            let now = held();
            now.0 <= descriptors + 2 && now.1 <= mappings
        });
        done.store(true, Ordering::Relaxed);
    });
    assert!(asked.into_inner() > 100);
    assert_eq!(server.metric("hindsearch_swaps_total{outcome=\"served\"}"), (PUBLISHED - 1) as f64);
    assert_eq!(server.metric("hindsearch_swaps_total{outcome=\"refused\"}"), 0.0);
}

/// The folder of a generation.
fn folder(library: &Library, generation: u64) -> PathBuf {
    library.path().join(format!("gen-{generation:06}"))
}

#[test]
fn a_damaged_generation_leaves_the_old_one_served() {
    let library = Library::new(20, 100);
    let server = Server::start(&library, Faulty::quick(), options());
    // Made damaged before the server can see it: built elsewhere, spoiled, and moved in.
    let other = Library::new(20, 100);
    other.publish("new ", 25, 100);
    let manifest = folder(&other, 2).join("manifest.json");
    let whole = std::fs::read(&manifest).expect("a manifest");
    let (from, to) = (folder(&other, 2), folder(&library, 2));
    std::fs::create_dir(&to).expect("a folder");
    for file in std::fs::read_dir(from).expect("files").flatten() {
        std::fs::copy(file.path(), to.join(file.file_name())).expect("a copied file");
    }
    let spoiled = to.join("manifest.json");
    std::fs::remove_file(&spoiled).expect("published files are read-only, their folder is not");
    std::fs::write(&spoiled, &whole[..whole.len() / 2]).expect("half a manifest");
    std::fs::copy(other.path().join("CURRENT"), library.path().join("CURRENT.new")).expect("a pointer");
    std::fs::rename(library.path().join("CURRENT.new"), library.path().join("CURRENT")).expect("a new pointer");

    until("it is refused", 20_000 * MS, || server.metric("hindsearch_swaps_total{outcome=\"refused\"}") == 1.0);
    for at in 0..20 {
        let answer = ask(server.address, &search(&format!("query {at}")));
        assert_eq!(answer.json()["index"]["generation"], 1);
        assert_eq!(answer.ids()[0].len(), 3);
    }
    assert_eq!(ask(server.address, &get("/readyz")).status, 200);

    std::fs::remove_file(&spoiled).expect("the spoiled manifest");
    std::fs::write(&spoiled, &whole).expect("a whole manifest");
    until("it is served when it is whole", 20_000 * MS, || server.metric("hindsearch_index_generation") == 2.0);
    assert!(ask(server.address, &search("query")).ids()[0].iter().all(|id| id.starts_with("new ")));
}

#[test]
fn files_that_are_changed_under_a_server_turn_it_not_ready() {
    let library = Library::new(20, 100);
    let server = Server::start(&library, Faulty::quick(), options());
    let file = folder(&library, 1).join("passages");
    let bytes = std::fs::read(&file).expect("passages");
    std::fs::remove_file(&file).expect("a folder to write in");
    until("it is not ready", 20_000 * MS, || ask(server.address, &get("/readyz")).status == 503);
    let reason = ask(server.address, &get("/readyz")).text();
    assert!(reason.contains("passages"), "{reason}");
    // What is mapped is still there.
    assert_eq!(ask(server.address, &search("query")).status, 200);
    std::fs::write(&file, bytes).expect("passages");
    library.publish("new ", 20, 100);
    until("a new generation is ready", 20_000 * MS, || ask(server.address, &get("/readyz")).status == 200);
}
