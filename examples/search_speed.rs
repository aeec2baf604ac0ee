//! Times search over vectors from a NumPy file, for comparisons with other libraries (`benches/search_peers.py`).
//!
//! `search_speed X.npy Q.npy FOLDER flat|hnsw f32|f16|i8 THREADS HITS.npy`
//!
//! Builds the index in FOLDER unless it is there, searches single queries and batches of 256 for 10 rows each, writes
//! the rows found to HITS.npy, and prints one JSON object: build seconds, and wall and CPU milliseconds a query.

#![allow(clippy::print_stdout, reason = "an example talks to people")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hindsearch::indexes::{
    ElementType, Flat, Hnsw, HnswBuilder, HnswOptions, Index, IndexKind, Interrupt, Matrix, MatrixSpec, MatrixWriter,
    SearchParams, Vectors, read_npy, write_npy,
};

const TOP_K: usize = 10;
const SINGLES: usize = 200;
const BATCH: usize = 256;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [x, q, folder, kind, element, threads, hits] = &arguments[..] else {
        return Err("search_speed X.npy Q.npy FOLDER flat|hnsw f32|f16|i8 THREADS HITS.npy".into());
    };
    let (kind, element, threads): (IndexKind, ElementType, usize) = (kind.parse()?, element.parse()?, threads.parse()?);
    let queries = read_npy(q.as_ref())?;
    let started = Instant::now();
    let matrix = Arc::new(matrix(x.as_ref(), folder.as_ref(), element)?);
    let index: Box<dyn Index> = match kind {
        IndexKind::Flat => Box::new(Flat::new(matrix)),
        IndexKind::Hnsw => Box::new(graph(matrix, folder.as_ref(), threads)?),
    };
    let build_seconds = started.elapsed().as_secs_f64();
    let params = SearchParams { threads, ..SearchParams::top(TOP_K) };
    let dimensions = queries.dimensions();
    let batches = |size: usize, count: usize| -> Result<Vec<Vectors>, Box<dyn Error>> {
        let values = queries.as_slice().chunks(size * dimensions).take(count);
        Ok(values.map(|batch| Vectors::new(dimensions, batch.to_vec())).collect::<Result<_, _>>()?)
    };
    let (singles, full) = (batches(1, SINGLES)?, batches(BATCH, usize::MAX)?);
    // Pages and caches are warm for every library.
    index.search(&full[0], &params)?;
    let (_, single) = time(&*index, &singles, &params)?;
    let (found, batch) = time(&*index, &full, &params)?;
    let rows = found.iter().flat_map(|hits| (0..TOP_K).map(|at| hits.get(at).map_or(-1.0, |hit| hit.row as f32)));
    write_npy(hits.as_ref(), &Vectors::new(TOP_K, rows.collect())?)?;
    println!(
        "{{\"build_seconds\": {build_seconds:.3}, \"single_ms\": {:.4}, \"single_cpu_ms\": {:.4}, \"batch_ms\": {:.4}, \"batch_cpu_ms\": {:.4}}}",
        single.0, single.1, batch.0, batch.1
    );
    Ok(())
}

fn matrix(x: &Path, folder: &Path, element: ElementType) -> Result<Matrix, Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join(format!("vectors.{element}"));
    if !path.is_file() {
        let vectors = read_npy(x)?;
        let mut mean = vec![0.0; vectors.dimensions()];
        for row in vectors.rows() {
            mean.iter_mut().zip(row).for_each(|(sum, x)| *sum += x / vectors.len() as f32);
        }
        let mut writer = MatrixWriter::create(&path, MatrixSpec::new(vectors.dimensions(), element).with_mean(mean))?;
        writer.append(&vectors)?;
        writer.finish()?;
    }
    Ok(Matrix::open(&path)?)
}

fn graph(matrix: Arc<Matrix>, folder: &Path, threads: usize) -> Result<Hnsw, Box<dyn Error>> {
    let path = folder.join(format!("graph.{}", matrix.element_type()));
    if !path.is_file() {
        HnswBuilder::default().build(&matrix, &path, &|_| (), &Interrupt::new())?;
    }
    let expansion_search = std::env::var("EXPANSION_SEARCH").ok().and_then(|text| text.parse().ok()).unwrap_or(64);
    Ok(Hnsw::open(&path, matrix, HnswOptions { expansion_search, max_concurrency: threads.max(1) })?)
}

/// The hits of all batches, and wall and CPU milliseconds a query.
type Timed = (Vec<Vec<hindsearch::indexes::Hit>>, (f64, f64));

fn time(index: &dyn Index, batches: &[Vectors], params: &SearchParams) -> Result<Timed, Box<dyn Error>> {
    let (start, cpu) = (Instant::now(), cpu_time());
    let mut hits = Vec::new();
    for batch in batches {
        hits.extend(index.search(batch, params)?);
    }
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3 / hits.len() as f64;
    let times = (milliseconds(start.elapsed()), milliseconds(cpu_time() - cpu));
    Ok((hits, times))
}

/// CPU time of the whole process.
fn cpu_time() -> Duration {
    let ticks: u64 = std::fs::read_to_string("/proc/self/stat")
        .ok()
        .and_then(|text| {
            let fields: Vec<u64> =
                text.rsplit_once(')')?.1.split_whitespace().skip(11).take(2).filter_map(|f| f.parse().ok()).collect();
            Some(fields.iter().sum())
        })
        .unwrap_or(0);
    // The kernel counts in hundredths of a second whatever its own tick is.
    Duration::from_millis(ticks * 10)
}
