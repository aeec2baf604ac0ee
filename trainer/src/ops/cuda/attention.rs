//! Attention by tiles: which block of threads takes which queries and keys?

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{LazyLock, Mutex, PoisonError};

use candle_core::cuda_backend::DeviceId;
use candle_core::{DType, Device, Result, Tensor};

use super::launch::Call;
use super::library::compiles;
use super::sources::{ATTENTION, ATTENTION_MMA, DECODE, Form, MEANS, Source};
use super::{form, written};
use crate::ops::attention::{Heads, Segment};
use crate::ops::plain::Attended;

/// Segments of fewer queries get a block for each query and head.
const FEW: usize = 8;
/// Numbers of a tile, as the kernels have them.
const NUMBERS: usize = 5;
/// Lists of tiles that are kept, at most.
const KEPT: usize = 1024;

/// What tiles are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Side {
    /// Queries of segments that have many.
    Many,
    /// Queries of segments that have few, one each.
    Few,
    Queries,
    Keys,
}

type Known = HashMap<(DeviceId, Side, usize, Vec<Segment>), Option<Tensor>>;

/// Those of late: the layers of a model ask for the same.
static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// Tiles of up to `rows` queries or keys, `[tiles, 5]` on the device; nothing where there are none.
fn tiles(side: Side, rows: usize, segments: &[Segment], device: &Device) -> Result<Option<Tensor>> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (device.as_cuda_device()?.id(), side, rows, segments.to_vec());
    if let Some(tiles) = known.get(&key) {
        return Ok(tiles.clone());
    }
    let mut numbers = Vec::new();
    for segment in segments {
        let few = segment.queries.len() < FEW;
        let (own, other) = match side {
            Side::Many if few => continue,
            Side::Few if !few => continue,
            Side::Keys => (&segment.keys, &segment.queries),
            _ => (&segment.queries, &segment.keys),
        };
        let shift = number(segment.keys.end)?.wrapping_sub(number(segment.queries.end)?);
        for Range { start, end } in own.clone().step_by(rows).map(|first| first..own.end.min(first + rows)) {
            numbers.extend([number(start)?, number(end - start)?, number(other.start)?, number(other.end)?, shift]);
        }
    }
    let shape = (numbers.len() / NUMBERS, NUMBERS);
    let made = (!numbers.is_empty()).then(|| Tensor::from_vec(numbers, shape, device)).transpose()?;
    if known.len() >= KEPT {
        known.clear();
    }
    known.insert(key, made.clone());
    Ok(made)
}

/// Positions are signed in kernels.
fn number(value: usize) -> Result<u32> {
    match i32::try_from(value) {
        Ok(value) => Ok(value as u32),
        Err(_) => candle_core::bail!("expected less than 2^31 rows, found {value}"),
    }
}

/// The source of attention's tiles, what it is compiled for, and how many rows tiles have: tensor cores where they take such heads.
fn tiled(element: DType, dim: usize) -> Option<(&'static Source, Form, usize)> {
    let plain = Form::of(element)?.with_heads(dim)?;
    let mma = Form::of(element)?.with_mma_heads(dim).filter(|form| compiles(&ATTENTION_MMA, *form));
    let (source, form): (&'static Source, Form) = mma.map_or((&ATTENTION, plain), |form| (&ATTENTION_MMA, form));
    Some((source, form, form.head?.tile))
}

/// Whether there are kernels for elements like those of `q`, where it is, and heads of `dim` values.
pub(crate) fn serves_heads(q: &Tensor, dim: usize) -> bool {
    let few = Form::of(q.dtype()).and_then(|form| form.with_heads(dim));
    let many = tiled(q.dtype(), dim).is_some_and(|(source, form, _)| compiles(source, form));
    let means = Form::of(q.dtype()).is_some_and(|form| compiles(&MEANS, form));
    q.device().is_cuda() && few.is_some_and(|form| compiles(&DECODE, form)) && many && means
}

/// What a call is compiled for, and its rows, once they were checked.
struct Sizes {
    source: &'static Source,
    form: Form,
    tile: usize,
    /// Of a query at a time.
    few: Form,
    queries: usize,
    keys: usize,
}

impl Sizes {
    fn of(q: &Tensor, k: &Tensor, heads: Heads, segments: &[Segment]) -> Result<Self> {
        let ((queries, width), (keys, kv_width)) = (q.dims2()?, k.dims2()?);
        let found = tiled(q.dtype(), heads.dim).zip(form(q)?.with_heads(heads.dim));
        let Some(((source, form, tile), few)) = found else {
            candle_core::bail!("no kernel is for heads of {} values", heads.dim)
        };
        let grouped = heads.kv_heads > 0 && heads.heads.is_multiple_of(heads.kv_heads);
        if !grouped || width != heads.heads * heads.dim || kv_width != heads.kv_heads * heads.dim {
            candle_core::bail!("expected rows of {heads:?}, found {width} values of queries and {kv_width} of keys")
        }
        let mut next = 0;
        for segment in segments {
            let fits = segment.queries.start == next
                && segment.queries.end >= next
                && segment.keys.len() >= segment.queries.len()
                && segment.keys.end <= keys;
            if !fits {
                candle_core::bail!("expected a segment from query {next} on, with a key for each, found {segment:?}")
            }
            next = segment.queries.end;
        }
        if next != queries {
            candle_core::bail!("expected segments of {queries} queries, found {next}")
        }
        Ok(Self { source, form, tile, few, queries, keys })
    }
}

/// The arguments behind all tensors but the tiles, and the launch: a block for each tile and each of `columns`.
fn launch(call: Call<'_>, tiles: &Tensor, columns: usize, size: &Sizes, heads: Heads) -> Result<Vec<Tensor>> {
    let call = call.reads(tiles, tiles.elem_count())?.u32(size.queries)?;
    let call = call.u32(heads.heads)?.u32(heads.kv_heads)?.u32(heads.dim)?;
    call.f32(1.0 / (heads.dim as f64).sqrt()).launch([tiles.dim(0)?, columns])
}

/// As [`crate::ops::plain::attention`].
pub(crate) fn attention([q, k, v]: [&Tensor; 3], heads: Heads, segments: &[Segment]) -> Result<(Tensor, Tensor)> {
    let size = Sizes::of(q, k, heads, segments)?;
    let many = tiles(Side::Many, size.tile, segments, q.device())?;
    let few = tiles(Side::Few, 1, segments, q.device())?;
    let (count, kv) = (q.elem_count(), size.keys * heads.kv_heads * heads.dim);
    let out = q.zeros_like()?;
    let normalisers = Tensor::zeros((heads.heads, size.queries), DType::F32, q.device())?;
    for (source, form, name, tiles) in
        [(size.source, size.form, "attention", &many), (&DECODE, size.few, "decode", &few)]
    {
        let Some(tiles) = tiles else { continue };
        let call = Call::new(source, name, form, q).reads(q, count)?.reads(k, kv)?.reads(v, kv)?;
        let call = call.changes(&out, count)?.changes(&normalisers, heads.heads * size.queries)?;
        launch(call, tiles, heads.heads, &size, heads)?;
    }
    Ok((out, normalisers))
}

/// As [`crate::ops::plain::attention_back`].
pub(crate) fn attention_back(
    from: &Attended<'_>,
    gradient: &Tensor,
    heads: Heads,
    segments: &[Segment],
) -> Result<[Tensor; 3]> {
    let Attended { q, k, v, out, normalisers } = *from;
    let size = Sizes::of(q, k, heads, segments)?;
    let next = segments.iter().try_fold(0, |next, segment| (segment.keys.start == next).then_some(segment.keys.end));
    if next != Some(size.keys) {
        candle_core::bail!("expected segments of all {} keys, one behind the other", size.keys)
    }
    let [of_queries, of_keys] = [Side::Queries, Side::Keys].map(|side| tiles(side, size.tile, segments, q.device()));
    let (Some(of_queries), Some(of_keys)) = (of_queries?, of_keys?) else {
        return Ok([q, k, v].map(Tensor::clone));
    };
    let (count, kv, rows) = (q.elem_count(), k.elem_count(), heads.heads * size.queries);
    let call = Call::new(&MEANS, "attention_means", form(q)?, q).reads(out, count)?.reads(gradient, count)?;
    let call = call.writes(rows, DType::F32)?.u32(size.queries)?.u32(heads.heads)?.u32(heads.dim)?;
    let [means] = written(call.launch([size.queries, 1])?)?;
    let call = |name| {
        let call = Call::new(size.source, name, size.form, q).reads(q, count)?.reads(k, kv)?.reads(v, kv)?;
        call.reads(gradient, count)?.reads(normalisers, rows)?.reads(&means, rows)
    };
    let to_q = call("attention_back_queries")?.writes(q.shape(), q.dtype())?;
    let [to_q] = written(launch(to_q, &of_queries, heads.heads, &size, heads)?)?;
    let to_kv = call("attention_back_keys")?.writes(k.shape(), k.dtype())?.writes(v.shape(), v.dtype())?;
    let [to_k, to_v] = written(launch(to_kv, &of_keys, heads.kv_heads, &size, heads)?)?;
    Ok([to_q, to_k, to_v])
}
