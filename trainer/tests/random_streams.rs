//! Random numbers depend on the position in the run and on nothing else.

use std::collections::HashSet;

use hindsearch_trainer::Position;
use rand::Rng;

const HERE: Position<'static> = Position { seed: 1, purpose: "sampling", update: 2, task: "nq:7", sample: 3 };

fn first(position: Position<'_>) -> u64 {
    position.stream().next_u64()
}

#[test]
fn a_position_has_one_stream() {
    let draw = |count: usize| {
        let mut stream = HERE.stream();
        (0..count).map(|_| stream.next_u64()).collect::<Vec<_>>()
    };
    assert_eq!(draw(5), draw(9)[..5]);
    // What was drawn elsewhere in between changes nothing.
    let before = first(HERE);
    first(Position { sample: 4, ..HERE });
    assert_eq!(first(HERE), before);
}

#[test]
fn each_part_of_a_position_counts() {
    let others = [
        HERE,
        Position { seed: 2, ..HERE },
        Position { purpose: "tasks", ..HERE },
        Position { update: 3, ..HERE },
        Position { task: "nq:8", ..HERE },
        Position { sample: 4, ..HERE },
        // Numbers that change places, and texts that share a letter.
        Position { seed: 2, update: 1, ..HERE },
        Position { purpose: "samplingn", task: "q:7", ..HERE },
        Position { purpose: "samplin", task: "gnq:7", ..HERE },
    ];
    let distinct: HashSet<u64> = others.into_iter().map(first).collect();
    assert_eq!(distinct.len(), others.len());
}

#[test]
fn streams_are_the_same_in_every_version() {
    // From BLAKE3's key derivation and ChaCha with 8 rounds, computed apart from this program. Another value here means that
    // older runs cannot be resumed.
    assert_eq!(first(HERE), 12_370_817_224_838_871_007);
}
