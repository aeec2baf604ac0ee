//! A run goes on from what was saved, to the last bit, or from the checkpoint before it; never from half of one.

#[path = "../../indexes/tests/support/faulty.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod faulty;
#[path = "../../indexes/tests/support/volatile.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod volatile;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use faulty::{Fault, Faulty};
use hindsearch_indexes::sealed;
use hindsearch_indexes::storage::Storage;
use hindsearch_trainer::{Checkpoint, Checkpoints, Error, TensorData};
use proptest::prelude::*;
use serde_json::json;
use volatile::{Loss, Volatile};

const NEVER: usize = usize::MAX;
const NO_SPACE: i32 = 28;
const IO_ERROR: i32 = 5;

fn keep(count: usize) -> NonZero<usize> {
    NonZero::new(count).expect("some")
}

/// A checkpoint whose values tell its step.
fn checkpoint(step: u64) -> Checkpoint<'static> {
    let tensor = |shape: &[usize], from: f32| {
        let count = shape.iter().product::<usize>();
        let values: Vec<f32> = (0..count).map(|at| from + at as f32).collect();
        TensorData { shape: shape.to_vec(), values: values.into() }
    };
    let tensors = [
        ("model.norm.weight", tensor(&[3], step as f32)),
        ("optimizer.first.model.norm.weight", tensor(&[3], -1.0)),
        ("q", tensor(&[2, 4], 0.5)),
    ];
    Checkpoint {
        step,
        tensors: tensors.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect(),
        state: json!({"step": step, "tasks": {"position": 7 * step}}),
    }
}

fn latest(checkpoints: &Checkpoints) -> (Option<u64>, Vec<String>) {
    let skipped = RefCell::new(Vec::new());
    let found = checkpoints.latest(&|one| skipped.borrow_mut().push(format!("{}: {}", one.path.display(), one.why)));
    let found = found.expect("readable");
    if let Some(found) = &found {
        assert_eq!(*found, checkpoint(found.step), "what was saved under that step");
    }
    (found.map(|found| found.step), skipped.into_inner())
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort();
    names
}

#[test]
fn every_bit_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let checkpoints = Checkpoints::new(folder.path().join("checkpoints"), keep(2));
    assert_eq!(latest(&checkpoints), (None, vec![]), "a run that has saved nothing");
    // Quiet and signalling NaN with payloads, zeros of both signs, subnormals, infinities.
    let bits =
        [0x7fc0_0001, 0x7f80_0001, 0xffc1_2345, 0x8000_0000, 0, 1, 0x8000_0001, 0x7f80_0000, 0xff80_0000, 0x3f80_0000];
    let values: Vec<f32> = bits.into_iter().map(f32::from_bits).collect();
    let tensors = BTreeMap::from([
        ("ünusual \"name\"".to_owned(), TensorData { shape: vec![2, 5], values: (&values[..]).into() }),
        ("empty".to_owned(), TensorData { shape: vec![0, 3], values: vec![].into() }),
        ("scalar".to_owned(), TensorData { shape: vec![], values: vec![2.5].into() }),
    ]);
    let state = json!({"float": 0.1, "large": u64::MAX, "text": "\u{0}é", "none": null});
    checkpoints.save(&Checkpoint { step: 12, tensors: tensors.clone(), state: state.clone() }).expect("saved");
    let found = checkpoints.latest(&|_| unreachable!("nothing to pass over")).expect("readable").expect("one");
    assert_eq!((found.step, &found.state), (12, &state));
    assert!(found.tensors.keys().eq(tensors.keys()));
    for (name, tensor) in &tensors {
        let bits = |data: &TensorData<'_>| data.values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!((&found.tensors[name].shape, bits(&found.tensors[name])), (&tensor.shape, bits(tensor)), "{name}");
    }
}

#[test]
fn tensors_are_written_in_parts_of_bounded_size() {
    let folder = tempfile::tempdir().expect("a folder");
    for (bytes, parts) in [(1, 3), (24, 2), (32, 2), (56, 1)] {
        let path = folder.path().join(bytes.to_string());
        let checkpoints = Checkpoints::new(&path, keep(1)).with_parts_of(bytes);
        let saved = names(&checkpoints.save(&checkpoint(1)).expect("saved"));
        assert_eq!(saved.iter().filter(|name| name.ends_with(".safetensors")).count(), parts, "{saved:?}");
        // Whoever reads need not know.
        assert_eq!(latest(&Checkpoints::new(&path, keep(1))), (Some(1), vec![]));
    }
}

#[test]
fn a_manifest_that_leads_elsewhere_is_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (checkpoints, files) = two(folder.path());
    let manifest = files.iter().find(|file| file.ends_with("manifest.json")).expect("a manifest");
    for name in ["/dev/zero", "../step-000001/state.json", "tensors-/../../step-000001/state.json", "other"] {
        let file = json!({"name": name, "length": u64::MAX, "blake3": "0".repeat(64)});
        let bytes = sealed::seal(&json!({"format": 1, "step": 2, "files": [file]})).expect("JSON");
        fs::write(manifest, bytes).expect("a file");
        let (found, skipped) = latest(&checkpoints);
        assert!(found == Some(1) && skipped[0].contains("files of a checkpoint"), "{name}: {skipped:?}");
    }
}

#[test]
fn the_newest_stay_and_what_kills_left_behind_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let checkpoints = Checkpoints::new(folder.path(), keep(2));
    for step in [3, 6, 9] {
        checkpoints.save(&checkpoint(step)).expect("saved");
    }
    assert_eq!(names(folder.path()), ["step-000006", "step-000009"]);
    fs::create_dir(folder.path().join("step-000012.tmp")).expect("a folder");
    fs::write(folder.path().join("step-000012.tmp/tensors-00001.safetensors"), "half").expect("a file");
    fs::write(folder.path().join("notes.txt"), "mine").expect("a file");
    let (found, skipped) = latest(&checkpoints);
    assert_eq!(found, Some(9));
    assert!(skipped.len() == 1 && skipped[0].contains("step-000012.tmp: it was not finished"), "{skipped:?}");
    checkpoints.save(&checkpoint(1_234_567)).expect("saved");
    assert_eq!(names(folder.path()), ["notes.txt", "step-000009", "step-1234567"]);
}

#[test]
fn the_same_again_changes_nothing_and_another_of_the_same_step_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let checkpoints = Checkpoints::new(folder.path(), keep(2));
    let path = checkpoints.save(&checkpoint(3)).expect("saved");
    assert_eq!(checkpoints.save(&checkpoint(3)).expect("the same"), path);
    let other = Checkpoint { state: json!("other"), ..checkpoint(3) };
    let refused = checkpoints.save(&other).expect_err("refused");
    assert!(matches!(refused, Error::InvalidInput { .. }), "{refused}");
    assert_eq!(latest(&checkpoints), (Some(3), vec![]));
    let mut wrong = checkpoint(4);
    wrong.tensors.insert("short".into(), TensorData { shape: vec![3], values: vec![1.0].into() });
    let refused = checkpoints.save(&wrong).expect_err("refused").to_string();
    assert!(refused.contains("`short`") && refused.contains("[3]"), "{refused}");
    assert_eq!(latest(&checkpoints).0, Some(3));
}

/// Two checkpoints, and each file of the newer one.
fn two(folder: &Path) -> (Checkpoints, Vec<PathBuf>) {
    let checkpoints = Checkpoints::new(folder, keep(5));
    checkpoints.save(&checkpoint(1)).expect("saved");
    let newer = checkpoints.save(&checkpoint(2)).expect("saved");
    let files: Vec<_> = names(&newer).into_iter().map(|name| newer.join(name)).collect();
    assert_eq!(files.len(), 3);
    (checkpoints, files)
}

#[test]
fn a_file_that_is_missing_cut_or_longer_is_noticed_and_the_checkpoint_before_is_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let (checkpoints, files) = two(folder.path());
    for file in &files {
        let bytes = fs::read(file).expect("a file");
        let check = |what: &str| {
            let (found, skipped) = latest(&checkpoints);
            assert_eq!(found, Some(1), "{} {what}", file.display());
            let name = file.file_name().expect("a name").to_str().expect("text");
            assert!(skipped.len() == 1 && skipped[0].contains(name), "{what}: {skipped:?}");
        };
        fs::remove_file(file).expect("removed");
        check("missing");
        for length in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            fs::write(file, &bytes[..length]).expect("a file");
            check("cut");
        }
        fs::write(file, [&bytes[..], b"\n"].concat()).expect("a file");
        check("longer");
        fs::write(file, &bytes).expect("a file");
        assert_eq!(latest(&checkpoints), (Some(2), vec![]), "whole again");
    }
}

#[test]
fn a_flipped_bit_anywhere_is_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (checkpoints, files) = two(folder.path());
    for file in &files {
        let mut bytes = fs::read(file).expect("a file");
        for at in 0..bytes.len() {
            bytes[at] ^= 1 << (at % 8);
            fs::write(file, &bytes).expect("a file");
            assert_eq!(latest(&checkpoints).0, Some(1), "byte {at} of {}", file.display());
            bytes[at] ^= 1 << (at % 8);
        }
        fs::write(file, &bytes).expect("a file");
    }
    assert_eq!(latest(&checkpoints).0, Some(2));
}

#[test]
fn a_damaged_checkpoint_is_written_anew_when_the_run_comes_by_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let (checkpoints, files) = two(folder.path());
    fs::write(&files[0], "damage").expect("a file");
    assert_eq!(latest(&checkpoints).0, Some(1));
    checkpoints.save(&checkpoint(2)).expect("saved");
    assert_eq!(latest(&checkpoints), (Some(2), vec![]));
    // Or it goes when an earlier step is saved: it is of a future that did not happen.
    fs::write(&files[0], "damage").expect("a file");
    let once = Checkpoints::new(folder.path(), keep(1));
    fs::remove_dir_all(folder.path().join("step-000001")).expect("removed");
    once.save(&checkpoint(1)).expect("saved");
    assert_eq!(names(folder.path()), ["step-000001"]);
    assert_eq!(latest(&once), (Some(1), vec![]));
}

#[test]
fn a_checkpoint_under_another_steps_name_is_not_taken_for_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (checkpoints, _) = two(folder.path());
    fs::rename(folder.path().join("step-000002"), folder.path().join("step-000005")).expect("renamed");
    let (found, skipped) = latest(&checkpoints);
    assert_eq!(found, Some(1));
    assert!(skipped[0].contains("step 5") && skipped[0].contains("step 2"), "{skipped:?}");
}

#[test]
fn a_run_whose_checkpoints_are_all_damaged_does_not_silently_begin_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let (checkpoints, files) = two(folder.path());
    fs::remove_file(&files[0]).expect("removed");
    fs::remove_file(folder.path().join("step-000001/state.json")).expect("removed");
    let refused = checkpoints.latest(&|_| ()).expect_err("refused");
    assert!(
        matches!(refused, Error::NotFound { .. }) && refused.to_string().contains("all 2 are damaged"),
        "{refused}"
    );
}

fn on(storage: Arc<dyn Storage>, count: usize) -> Checkpoints {
    // In three parts, of one tensor each.
    Checkpoints::new_on(storage, "/disk/checkpoints", keep(count)).with_parts_of(12)
}

/// Calls that saving makes on this disk.
fn calls(disk: &Volatile, step: u64) -> usize {
    let storage = Arc::new(Faulty::new(Arc::new(disk.kill()), NEVER, Fault::Stop));
    on(storage.clone(), 1).save(&checkpoint(step)).expect("saved");
    let calls = storage.calls().len();
    assert!(calls > 20, "{calls}");
    calls
}

/// A disk with a checkpoint of step 1.
fn begun() -> Volatile {
    let disk = Arc::new(Volatile::new());
    on(disk.clone(), 1).save(&checkpoint(1)).expect("saved");
    disk.kill()
}

/// The step that is found, which must be the old or the new one; and a run goes on from there.
fn goes_on(disk: Volatile, at: usize) -> u64 {
    let disk = Arc::new(disk);
    let checkpoints = on(disk.clone(), 1);
    let (found, _) = latest(&checkpoints);
    let found = found.unwrap_or_else(|| panic!("call {at}: no checkpoint is left"));
    assert!(found == 1 || found == 2, "call {at}");
    checkpoints.save(&checkpoint(2)).expect("saved");
    checkpoints.save(&checkpoint(3)).expect("saved");
    assert_eq!(latest(&checkpoints), (Some(3), vec![]));
    let left = disk.list(Path::new("/disk/checkpoints")).expect("a folder");
    assert_eq!(left.len(), 1, "call {at}: nothing else is left");
    found
}

#[test]
fn whatever_call_a_kill_or_a_power_cut_comes_at_the_old_or_the_new_one_is_whole() {
    let before = begun();
    let mut found = Vec::new();
    for at in 1..=calls(&before, 2) + 1 {
        let disk = Arc::new(before.kill());
        let storage = Arc::new(Faulty::new(disk.clone(), at, Fault::Stop));
        let saved = on(storage, 1).save(&checkpoint(2)).is_ok();
        let (_, skipped) = latest(&on(Arc::new(disk.kill()), 1));
        assert!(skipped.iter().all(|one| one.contains(".tmp: ")), "a half one has a name of its own: {skipped:?}");
        for after in
            [disk.kill(), disk.power_cut(Loss::All)].into_iter().chain((0..8).map(|n| disk.power_cut(Loss::Some(n))))
        {
            let step = goes_on(after, at);
            assert!(!saved || step == 2, "call {at}: what was reported as saved is there");
            found.push(step);
        }
    }
    assert!(found.contains(&1) && found.contains(&2));
}

#[test]
fn no_sync_can_be_left_out() {
    let before = begun();
    let disk = Arc::new(before.kill());
    on(disk.clone(), 1).save(&checkpoint(2)).expect("saved");
    // Five files, the folder that holds them, and the folder of all; the removal of the old one needs none.
    let syncs = disk.syncs() - before.syncs();
    assert_eq!(syncs, 7);
    for ignored in 1..=syncs {
        let lost = (0..200).any(|seed| {
            let disk = Arc::new(before.kill());
            disk.ignore_sync(Some(before.syncs() + ignored));
            on(disk.clone(), 1).save(&checkpoint(2)).expect("saved");
            let after = Arc::new(disk.power_cut(Loss::Some(seed)));
            !matches!(on(after, 1).latest(&|_| ()), Ok(Some(found)) if found.step == 2)
        });
        assert!(lost, "sync {ignored} is not needed");
    }
}

#[test]
fn a_full_or_failing_disk_is_told_and_leaves_the_old_one() {
    let before = begun();
    for at in 1..=calls(&before, 2) {
        for fault in [Fault::Full(NO_SPACE), Fault::Once(IO_ERROR)] {
            let disk = Arc::new(before.kill());
            let storage = Arc::new(Faulty::new(disk.clone(), at, fault));
            if let Err(error) = on(storage, 1).save(&checkpoint(2)) {
                assert!(matches!(error, Error::Io { .. }), "call {at}: {error}");
            }
            goes_on(disk.kill(), at);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Runs that are stopped at any call, by kills and power cuts, and go on from what they find.
    #[test]
    fn however_often_a_run_is_stopped_what_it_finds_is_whole_and_not_older_than_what_was_saved(
        stops in prop::collection::vec((1_usize..150, prop::option::of(any::<u64>())), 1..8),
    ) {
        let mut disk = Arc::new(Volatile::new());
        let mut saved = None;
        for (at, cut) in stops {
            let storage = Arc::new(Faulty::new(disk.clone(), at, Fault::Stop));
            let checkpoints = on(storage, 2);
            if let Ok(found) = checkpoints.latest(&|_| ()) {
                let found = found.map(|found| found.step);
                prop_assert!(found >= saved, "{found:?} after {saved:?}");
                saved = found;
                for step in found.unwrap_or(0) + 1..found.unwrap_or(0) + 5 {
                    if checkpoints.save(&checkpoint(step)).is_err() {
                        break;
                    }
                    saved = Some(step);
                }
            }
            disk = Arc::new(cut.map_or_else(|| disk.kill(), |seed| disk.power_cut(Loss::Some(seed))));
        }
        let (found, _) = latest(&on(disk, 2));
        prop_assert!(found >= saved, "{found:?} after {saved:?}");
    }
}
