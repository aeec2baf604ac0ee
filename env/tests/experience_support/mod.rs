//! Keys without a model, and a small experience of three levels.

#![allow(dead_code, reason = "each test file uses its own part")]

use hindsearch_env::experience::{Entry, Experience, KeyEmbedder};
use hindsearch_indexes::Vectors;

const DIMENSIONS: usize = 256;

/// Texts as the counts of their words: texts of the same words are equal, texts without a common one have the cosine 0.
pub fn keys() -> KeyEmbedder {
    KeyEmbedder::new("toy", |texts| {
        let mut values = vec![0.0; texts.len() * DIMENSIONS];
        for (row, text) in values.chunks_mut(DIMENSIONS).zip(texts) {
            for word in text.to_lowercase().split_whitespace() {
                let hash =
                    word.bytes().fold(7_usize, |hash, byte| hash.wrapping_mul(131).wrapping_add(usize::from(byte)));
                row[hash % (DIMENSIONS - 1) + 1] += 1.0;
            }
            if text.trim().is_empty() {
                row[0] = 1.0;
            }
        }
        Ok(Vectors::new(DIMENSIONS, values).expect("whole rows"))
    })
}

pub fn case(id: &str, task: &str, title: &str) -> Entry {
    Entry {
        level: 1,
        id: id.into(),
        kind: "search".into(),
        title: title.into(),
        tags: vec!["tag".into()],
        description: format!("Advice of {id}."),
        thinking: "Because.".into(),
        tasks: vec![task.into()],
        members: vec![],
        contrast: true,
    }
}

pub fn above(level: u8, id: &str, title: &str, tasks: &[&str], members: &[&str]) -> Entry {
    Entry {
        level,
        tasks: tasks.iter().map(|&task| task.into()).collect(),
        members: members.iter().map(|&member| member.into()).collect(),
        ..case(id, "", title)
    }
}

/// Four cases, two patterns, one strategy.
pub fn layered() -> Experience {
    let entries = vec![
        case("c1", "t1", "river city bridge"),
        case("c2", "t2", "river city castle"),
        case("c3", "t3", "metal element"),
        case("c4", "t4", "metal or element"),
        above(2, "p1", "a river and a city", &["t1", "t2"], &["c1", "c2"]),
        above(2, "p2", "a metal or an element", &["t3", "t4"], &["c3", "c4"]),
        above(3, "s1", "two things", &["t1", "t2", "t3", "t4"], &["p1", "p2"]),
    ];
    Experience::new("toy", "test", entries).expect("entries that belong together")
}
