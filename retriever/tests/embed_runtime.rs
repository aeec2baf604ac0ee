//! ONNX Runtime is found where the documentation says, and a missing one is explained. Alone in this file, because the
//! first success holds for the life of a process.

mod embed_support;

use embed_support::*;
use hindsearch_indexes::ErrorKind;
use hindsearch_retriever::embed::{EmbedOptions, InputKind, RuntimeSearch};

#[test]
fn a_missing_runtime_lists_every_place_tried() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "cache/onnxruntime/libonnxruntime.so.9.9.9", "not a library");
    let search = RuntimeSearch {
        explicit: None,
        caches: vec![folder.path().join("cache"), folder.path().join("other")],
        site_packages: vec![folder.path().join("python")],
        system: false,
    };
    let model = model_folder(&[("model.onnx", lookup_graph(&table()))]);
    let options = |search| EmbedOptions { runtime: Some(search), ..EmbedOptions::default() };
    let error = open(model.path(), options(search)).err().expect("an error");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_says(&error, &["libonnxruntime.so.9.9.9", "other/onnxruntime", "python/onnxruntime/capi", "make setup"]);

    let search =
        RuntimeSearch { explicit: Some("/no/such/library.so".into()), system: true, ..RuntimeSearch::default() };
    assert_says(
        &open(model.path(), options(search)).err().expect("an error"),
        &["/no/such/library.so", "`ORT_DYLIB_PATH`"],
    );

    // A failure is not remembered: with the usual places the same process succeeds.
    let embedder = open(model.path(), EmbedOptions::default()).expect("ONNX Runtime, which `make setup` installs");
    let vectors = embedder.embed(&["red"], InputKind::Query).expect("vectors");
    assert_close(vectors.as_slice(), &mean_of(&table(), &["[CLS]", "red", "[SEP]"]));
    let runtime = RuntimeSearch::from_env().load().expect("the loaded runtime");
    assert!(runtime.library().to_string_lossy().contains("onnxruntime"));
}

#[test]
fn the_environment_says_where_the_runtime_may_be() {
    let folder = tempfile::tempdir().expect("a folder");
    let python = folder.path().join("venv/lib/python3.12/site-packages");
    std::fs::create_dir_all(&python).expect("folders");
    let value = |name: &str| match name {
        "HINDSEARCH_CACHE" => Some(folder.path().join("cache").into()),
        "VIRTUAL_ENV" => Some(folder.path().join("venv").into()),
        "ORT_DYLIB_PATH" => Some("lib.so".into()),
        _ => None,
    };
    let search = RuntimeSearch::from_lookup(&value);
    assert_eq!(search.caches, [folder.path().join("cache")]);
    assert_eq!(search.site_packages.first(), Some(&python));
    assert_eq!(search.explicit, Some("lib.so".into()));
}
