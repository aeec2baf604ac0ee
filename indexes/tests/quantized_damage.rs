//! Damage to codes is refused, or found by its hash; it never ends a process, and never makes up a score.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;
mod support;

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use hindsearch_indexes::{
    Depth, Effort, ElementType, Error, Hit, Index, Interrupt, Quantized, Result, SearchParams, Vectors, open_index,
};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use support::quantized::{Built, publish};

const PAGE: usize = 4096;
const ROWS: usize = 2000;
const DIMENSIONS: usize = 40;
/// Header, mean, signs and directory, a page each: lists are few and coordinates 48.
const HEAD: usize = 4 * PAGE;
/// Two blocks of the centroids' codes and 80 rows of 44 bytes.
const BLOCKS: usize = HEAD + PAGE + PAGE;

const EFFORTS: [Effort; 3] =
    [Effort::Exhaustive, Effort::Lists { probes: 1, candidates: 10 }, Effort::Lists { probes: 9, candidates: 100 }];

/// Codes that are damaged in a copy of their own.
struct Patient {
    built: Built,
    sound: Vec<u8>,
    queries: Vectors,
}

impl Patient {
    fn new() -> Self {
        let built = Built::new(&common::vectors(ROWS, DIMENSIONS, 60), 25);
        let sound = fs::read(built.codes()).unwrap();
        assert_eq!(built.open().lists(), 80);
        Self { built, sound, queries: common::vectors(5, DIMENSIONS, 61) }
    }

    fn rows_at(&self) -> usize {
        self.sound.len() - 4 * ROWS
    }

    fn open(&self, bytes: &[u8]) -> Result<Quantized> {
        let path = self.built.folder.path().join("damaged");
        // A new file each time: an old one may still be mapped.
        let _ = fs::remove_file(&path);
        fs::write(&path, bytes).unwrap();
        Quantized::open(&path, Arc::clone(&self.built.matrix), Vec::new())
    }

    /// Searches what opens. Hits are as many as ever, with the scores of their rows, or the damage is named.
    fn search(&self, bytes: &[u8]) {
        let Ok(index) = self.open(bytes) else { return };
        for effort in EFFORTS {
            match index.search(&self.queries, &SearchParams { effort, ..SearchParams::top(5) }) {
                Ok(found) => found.iter().zip(self.queries.rows()).for_each(|(hits, query)| self.check(hits, query)),
                Err(error) => assert!(is_damage(&error), "{error}"),
            }
        }
        let estimates = index.estimates(&self.queries);
        assert!(estimates.is_ok_and(|all| all.len() == 5) || bytes[self.rows_at()..] != self.sound[self.rows_at()..]);
    }

    fn check(&self, hits: &[Hit], query: &[f32]) {
        assert_eq!(hits.len(), 5);
        assert!(hits.is_sorted_by(|a, b| (b.score, a.row) < (a.score, b.row)), "{hits:?}");
        for hit in hits {
            let row = self.built.matrix.row(hit.row);
            let score: f64 = row.iter().zip(query).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
            assert!((f64::from(hit.score) - score).abs() < 1e-6, "{hit:?}, {score}");
        }
    }
}

fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Corrupt { .. } | Error::Incompatible { .. })
}

#[test]
fn every_truncation_and_every_longer_file_is_refused() {
    let patient = Patient::new();
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let length = patient.sound.len();
    let random: Vec<usize> = (0..100).map(|_| rng.random_range(0..length)).collect();
    for cut in (0..length).step_by(PAGE).chain(random).chain([length - 1, length - 4]) {
        let opened = patient.open(&patient.sound[..cut]).map(|_| ());
        assert!(opened.as_ref().is_err_and(is_damage), "cut to {cut}: {opened:?}");
    }
    for more in [1, 4, PAGE] {
        let opened = patient.open(&[&patient.sound[..], &vec![0; more]].concat()).map(|_| ());
        assert!(opened.as_ref().is_err_and(is_damage), "{more} more: {opened:?}");
    }
    assert!(patient.open(&patient.sound).is_ok());
}

#[test]
fn every_flipped_bit_before_the_codes_is_refused() {
    let patient = Patient::new();
    // What is in use of each page, and some of the zeros after it.
    let used = [0..64, PAGE - 32..PAGE + 160, 2 * PAGE..2 * PAGE + 24, 3 * PAGE..3 * PAGE + 8 * 81];
    let mut bytes = patient.sound.clone();
    for at in used.into_iter().flatten().chain((0..HEAD).step_by(61)) {
        let bit = 1 << (at % 8);
        bytes[at] ^= bit;
        let opened = patient.open(&bytes).map(|_| ());
        assert!(opened.as_ref().is_err_and(is_damage), "bit flipped in byte {at}: {opened:?}");
        bytes[at] ^= bit;
    }
}

#[test]
fn damage_to_codes_centroids_and_row_numbers_changes_candidates_and_nothing_else() {
    let patient = Patient::new();
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let sections =
        [HEAD..HEAD + PAGE, HEAD + PAGE..BLOCKS, BLOCKS..patient.rows_at(), patient.rows_at()..patient.sound.len()];
    for section in sections {
        for _ in 0..60 {
            let mut bytes = patient.sound.clone();
            bytes[rng.random_range(section.clone())] ^= 1 << rng.random_range(0..8);
            assert!(patient.open(&bytes).is_ok());
            patient.search(&bytes);
        }
        // All of it: numbers that are none, zeros, anything.
        for fill in [Some(0xff), Some(0x7f), Some(0x00), None, None] {
            let mut bytes = patient.sound.clone();
            match fill {
                Some(fill) => bytes[section.clone()].fill(fill),
                None => rng.fill_bytes(&mut bytes[section.clone()]),
            }
            patient.search(&bytes);
        }
    }
}

#[test]
fn random_damage_never_ends_a_search_by_a_panic() {
    let patient = Patient::new();
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    for _ in 0..300 {
        let mut bytes = patient.sound.clone();
        for _ in 0..rng.random_range(1..20) {
            let at = rng.random_range(0..bytes.len());
            bytes[at] ^= 1 << rng.random_range(0..8);
        }
        patient.search(&bytes);
    }
}

#[test]
fn a_full_verification_finds_a_flipped_bit_anywhere_and_opening_finds_one_in_the_head() {
    let root = support::scratch();
    let vectors = common::vectors(500, DIMENSIONS, 62);
    let generation = publish(root.path(), &vectors, ElementType::F16, &common::vectors(10, DIMENSIONS, 63));
    let path = generation.path().join("codes");
    let length = fs::metadata(&path).unwrap().len();
    let mut rng = ChaCha8Rng::seed_from_u64(10);
    for _ in 0..100 {
        let at = rng.random_range(0..length);
        flip(&path, at);
        let verified = generation.verify(Depth::Full, &|_| (), &Interrupt::new());
        assert!(matches!(&verified, Err(Error::Corrupt { path: named, .. }) if *named == path), "{verified:?}");
        assert_eq!(open_index(&generation, Effort::Calibrated).is_err(), at < HEAD as u64, "bit flipped in byte {at}");
        flip(&path, at);
    }
    generation.verify(Depth::Full, &|_| (), &Interrupt::new()).unwrap();
}

fn flip(path: &Path, at: u64) {
    fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    let file: File = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1 << (at % 8)], at).unwrap();
}
