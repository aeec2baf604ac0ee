//! However texts are grouped, spread over threads or streamed: same vectors, same order.

mod embed_support;

use embed_support::*;
use hindsearch_indexes::Vectors;
use hindsearch_retriever::Result;
use hindsearch_retriever::embed::{EmbedOptions, Embedder, InputKind};

fn all(embedder: &Embedder, texts: &[String]) -> Result<Vectors> {
    embedder.embed(&texts.iter().map(String::as_str).collect::<Vec<_>>(), InputKind::Passage)
}

fn expected(texts: &[String]) -> Vec<Vec<f32>> {
    let words = |text: &String| mean_of(&table(), &[vec!["[CLS]"], text.split(' ').collect(), vec!["[SEP]"]].concat());
    texts.iter().map(words).collect()
}

fn assert_rows(vectors: &Vectors, expected: &[Vec<f32>]) {
    assert_eq!(vectors.len(), expected.len());
    vectors.rows().zip(expected).for_each(|(found, expected)| assert_close(found, expected));
}

#[test]
fn order_and_count_survive_sorting_batching_and_threads() -> Result<()> {
    let folder = model_folder(&[("model.onnx", lookup_graph(&table()))]);
    let texts = texts(1500, 40);
    for threads in [1, 3] {
        let embedder = open(folder.path(), EmbedOptions { threads, ..EmbedOptions::default() })?;
        assert_rows(&all(&embedder, &texts)?, &expected(&texts));
        let stats = embedder.stats();
        assert_eq!(stats.texts, 1500);
        assert_eq!(stats.tokens, texts.iter().map(|text| text.split(' ').count() as u64 + 2).sum::<u64>());
        assert!(stats.padded_tokens as f64 <= 1.1 * stats.tokens as f64, "{stats:?}");
        assert!(stats.batches < 1500 && !stats.wall.is_zero(), "{stats:?}");
    }
    Ok(())
}

#[test]
fn nothing_in_nothing_out() -> Result<()> {
    let folder = model_folder(&[("model.onnx", lookup_graph(&table()))]);
    let embedder = open(folder.path(), EmbedOptions::default())?;
    let vectors = embedder.embed(&[], InputKind::Query)?;
    assert_eq!((vectors.len(), vectors.dimensions()), (0, 3));
    assert!(embedder.embed_stream(Vec::new(), InputKind::Query, 8).next().is_none());
    Ok(())
}

#[test]
fn a_stream_gives_windows_in_order() -> Result<()> {
    let folder = model_folder(&[("model.onnx", lookup_graph(&table()))]);
    let embedder = open(folder.path(), EmbedOptions::default())?;
    let texts = texts(205, 40);
    let windows: Vec<Vectors> = embedder.embed_stream(texts.clone(), InputKind::Passage, 50).collect::<Result<_>>()?;
    assert_eq!(windows.iter().map(Vectors::len).collect::<Vec<_>>(), [50, 50, 50, 50, 5]);
    for (window, texts) in windows.iter().zip(texts.chunks(50)) {
        assert_rows(window, &expected(texts));
    }
    Ok(())
}

#[test]
fn many_callers_share_one_embedder() -> Result<()> {
    let folder = model_folder(&[("model.onnx", lookup_graph(&table()))]);
    let embedder = open(folder.path(), EmbedOptions { threads: 2, ..EmbedOptions::default() })?;
    let texts = texts(80, 20);
    std::thread::scope(|scope| {
        for part in texts.chunks(10) {
            let embedder = &embedder;
            scope.spawn(move || assert_rows(&all(embedder, part).expect("vectors"), &expected(part)));
        }
    });
    Ok(())
}

#[test]
fn scales_over_the_whole_batch_do_not_reach_the_neighbours() -> Result<()> {
    // One word is so large that any neighbour quantised with it would be crushed.
    let mut weights = table();
    weights[11] = [1000.0, -1000.0, 500.0];
    let quantize = node("DynamicQuantizeLinear", &["tokens"], "codes");
    let nodes = [
        node("Gather", &["table", "input_ids"], "tokens"),
        with_output(with_output(quantize, "scale"), "zero_point"),
        node("DequantizeLinear", &["codes", "scale", "zero_point"], "last_hidden_state"),
    ];
    let table = tensor("table", &[WORDS.len(), 3], FLOAT, floats(&weights));
    let graph = graph(&nodes, &[table], &["input_ids"], ("last_hidden_state", FLOAT, 3));
    let folder = model_folder(&[("model.onnx", graph)]);
    let embedder = open(folder.path(), EmbedOptions::default())?;
    let together = embedder.embed(&["red dog", "red bird", "blue cat"], InputKind::Passage)?;
    for (row, text) in together.rows().zip(["red dog", "red bird", "blue cat"]) {
        assert_eq!(embedder.embed(&[text], InputKind::Passage)?.as_slice(), row);
    }
    assert_eq!(embedder.stats().batches, 6);
    Ok(())
}
