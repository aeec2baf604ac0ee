//! Products of matrices with all running sums in registers.
//!
//! Each value of a product is one chain of fused multiply-adds, in the order of the depth and from zero. No bit of it depends on
//! how many rows there are, where the row stands, how the work is cut into blocks, or on how many threads: what was sampled in a
//! batch of sixteen is computed again, to the last bit, in a sequence of its own.

use std::ops::Range;

use pulp::{Arch, NullaryFnOnce, Simd, WithSimd};
use rayon::prelude::*;

use super::wide::wide;

/// Columns of a panel.
const WIDTH: usize = 32;
/// Rows of a block: 12 rows x 32 columns fill 24 of the 32 registers of AVX-512 with running sums.
const ROWS: usize = 12;
/// Depth of a block at most: 12 rows of it fit into the first cache, 32 columns into the second.
const DEPTH: usize = 640;
/// Rows that a thread lays out at a time; they share the second cache with a panel.
const CHUNK: usize = 22 * ROWS;
/// Steps of the depth that are laid out at a time, so that what is written stays in the first cache.
const STEPS: usize = 64;
/// Rows that are laid out at a time.
const TILE: usize = 4;
/// Fewer rows than this are divided among the threads by columns.
const FEW: usize = 48;
/// Products that are worth a second thread.
const WORTH: usize = 1 << 16;

/// A right factor, `[depth, width]`, laid out for the kernel once, for many products: panels of 32 columns.
#[derive(Clone)]
pub(crate) struct Panels {
    depth: usize,
    width: usize,
    data: Vec<f32>,
}

impl Panels {
    /// From the rows of the transposed factor, `[width, depth]` with `stride` values from row to row: how weights are stored.
    pub fn of_rows(rows: &[f32], depth: usize, stride: usize) -> Self {
        let width = rows.len().saturating_add(stride - depth).checked_div(stride).unwrap_or(0);
        let mut data = vec![0.0; width.next_multiple_of(WIDTH) * depth];
        if depth > 0 {
            let panels = data.par_chunks_mut(WIDTH * depth).zip(rows.par_chunks(WIDTH * stride));
            panels.for_each(|(panel, rows)| wide(Turn::<WIDTH> { rows, stride, first: 0, out: panel }));
        }
        Self { depth, width, data }
    }

    /// An empty factor that grows by [`Self::push`].
    pub fn empty(depth: usize) -> Self {
        Self { depth, width: 0, data: Vec::new() }
    }

    /// One more column, of `depth` values.
    pub fn push(&mut self, column: &[f32]) {
        let at = self.width % WIDTH;
        if at == 0 {
            self.data.resize(self.data.len() + WIDTH * self.depth, 0.0);
        }
        let panel = self.width / WIDTH * WIDTH * self.depth;
        let slots = self.data[panel..].as_chunks_mut::<WIDTH>().0;
        slots.iter_mut().zip(column).for_each(|(slot, value)| slot[at] = *value);
        self.width += 1;
    }

    /// A copy of the first `width` columns alone. What stands behind them in the last panel is overwritten by [`Self::push`].
    pub fn prefix(&self, width: usize) -> Self {
        let width = self.width.min(width);
        Self { depth: self.depth, width, data: self.data[..width.next_multiple_of(WIDTH) * self.depth].to_vec() }
    }

    /// Columns.
    pub fn width(&self) -> usize {
        self.width
    }
}

/// The right factor of a product, `[depth, width]`.
#[derive(Clone, Copy)]
pub(crate) enum Right<'a> {
    /// Laid out before; the first columns of it, as many as are named.
    Panels(&'a Panels, usize),
    /// As it is, row-major with `stride` values from row to row; laid out piece by piece, in cache.
    Rows { data: &'a [f32], depth: usize, width: usize, stride: usize },
    /// As [`Self::Rows`], but stored as `[width, depth]`, without gaps: how weights are.
    Columns { data: &'a [f32], depth: usize },
}

impl<'a> Right<'a> {
    /// Row-major, without gaps.
    pub fn rows(data: &'a [f32], width: usize) -> Self {
        Self::Rows { data, depth: data.len().checked_div(width).unwrap_or(0), width, stride: width }
    }

    fn shape(self) -> (usize, usize) {
        match self {
            Self::Panels(panels, width) => (panels.depth, width.min(panels.width)),
            Self::Columns { data, depth } => (depth, data.len().checked_div(depth).unwrap_or(0)),
            Self::Rows { depth, width, .. } => (depth, width),
        }
    }

    /// A panel between two depths.
    fn panel<'b>(self, number: usize, depths: Range<usize>, buffer: &'b mut Vec<f32>) -> &'b [f32]
    where
        'a: 'b,
    {
        match self {
            Self::Panels(Panels { depth, data, .. }, _) => {
                &data[number * depth * WIDTH..][depths.start * WIDTH..depths.end * WIDTH]
            }
            Self::Rows { data, width, stride, .. } => {
                let columns = number * WIDTH..width.min(number * WIDTH + WIDTH);
                // What an earlier panel left behind this one's last column is multiplied, but not kept.
                buffer.resize(depths.len() * WIDTH, 0.0);
                for (slot, step) in buffer.as_chunks_mut::<WIDTH>().0.iter_mut().zip(depths) {
                    let values = &data[step * stride..][columns.clone()];
                    match values.as_array() {
                        // Of a length that is known, which takes no call.
                        Some(values) => *slot = *values,
                        None => slot[..values.len()].copy_from_slice(values),
                    }
                }
                buffer
            }
            Self::Columns { data, depth } => {
                let rows = &data[number * WIDTH * depth..];
                let rows = &rows[..rows.len().min(WIDTH * depth)];
                buffer.resize(depths.len() * WIDTH, 0.0);
                wide(Turn::<WIDTH> { rows, stride: depth, first: depths.start, out: buffer });
                buffer
            }
        }
    }
}

/// Turns up to `W` rows, from a place in each on, into steps of `W` values.
struct Turn<'a, const W: usize> {
    rows: &'a [f32],
    stride: usize,
    first: usize,
    out: &'a mut [f32],
}

impl<const W: usize> NullaryFnOnce for Turn<'_, W> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (number, slots) in self.out.as_chunks_mut::<W>().0.chunks_mut(STEPS).enumerate() {
            let first = self.first + number * STEPS;
            let mut column = 0;
            for rows in self.rows.chunks(TILE * self.stride) {
                if rows.len() > (TILE - 1) * self.stride && column + TILE <= W {
                    let rows: [&[f32]; TILE] =
                        std::array::from_fn(|row| &rows[row * self.stride + first..][..slots.len()]);
                    turn_tiles(rows, slots, column);
                } else {
                    for (row, values) in rows.chunks(self.stride).enumerate().take(W - column) {
                        let values = &values[first..][..slots.len()];
                        slots.iter_mut().zip(values).for_each(|(slot, value)| slot[column + row] = *value);
                    }
                }
                column += TILE;
                if column >= W {
                    break;
                }
            }
        }
    }
}

/// Tiles of as many rows as steps, which the compiler shuffles in registers.
#[inline(always)]
fn turn_tiles<const W: usize>(rows: [&[f32]; TILE], slots: &mut [[f32; W]], column: usize) {
    let tiles = rows.map(|row| row.as_chunks::<TILE>());
    let (blocks, rest) = slots.as_chunks_mut::<TILE>();
    for (at, block) in blocks.iter_mut().enumerate() {
        let tile: [[f32; TILE]; TILE] = std::array::from_fn(|row| tiles[row].0[at]);
        for (step, slot) in block.iter_mut().enumerate() {
            for row in 0..TILE {
                slot[column + row] = tile[row][step];
            }
        }
    }
    for (step, slot) in rest.iter_mut().enumerate() {
        for row in 0..TILE {
            slot[column + row] = tiles[row].1[step];
        }
    }
}

/// The left factor of a product, `[rows, depth]`.
#[derive(Clone, Copy)]
pub(crate) struct Left<'a> {
    pub data: &'a [f32],
    pub rows: usize,
    pub depth: usize,
    /// Values from row to row, or from step to step of the depth where it is transposed.
    pub stride: usize,
    /// Whether it is stored as `[depth, rows]`.
    pub transposed: bool,
}

impl<'a> Left<'a> {
    /// Row-major, without gaps.
    pub fn rows(data: &'a [f32], depth: usize) -> Self {
        let rows = data.len().checked_div(depth).unwrap_or(0);
        Self { data, rows, depth, stride: depth, transposed: false }
    }

    /// Stored as `[depth, rows]`, without gaps.
    pub fn columns(data: &'a [f32], rows: usize) -> Self {
        let depth = data.len().checked_div(rows).unwrap_or(0);
        Self { data, rows, depth, stride: rows, transposed: true }
    }

    /// Lays out `count` rows from `first` on, between two depths: blocks of [`ROWS`] rows, then of fewer, each step by step.
    fn pack(&self, first: usize, count: usize, depths: Range<usize>, out: &mut Vec<f32>) {
        out.resize(count * depths.len(), 0.0);
        let mut rest = out.as_mut_slice();
        let mut at = first;
        for size in blocks(count) {
            let (block, others) = rest.split_at_mut(size * depths.len());
            if self.transposed {
                for (slot, step) in block.chunks_exact_mut(size).zip(depths.clone()) {
                    let values = &self.data[step * self.stride + at..][..size];
                    match (slot.as_mut_array::<ROWS>(), values.as_array()) {
                        (Some(slot), Some(values)) => *slot = *values,
                        _ => slot.copy_from_slice(values),
                    }
                }
            } else {
                let (rows, stride, first) = (&self.data[at * self.stride..], self.stride, depths.start);
                let out = block;
                match size {
                    ROWS => wide(Turn::<ROWS> { rows, stride, first, out }),
                    8 => wide(Turn::<8> { rows, stride, first, out }),
                    4 => wide(Turn::<4> { rows, stride, first, out }),
                    2 => wide(Turn::<2> { rows, stride, first, out }),
                    _ => wide(Turn::<1> { rows, stride, first, out }),
                }
            }
            rest = others;
            at += size;
        }
    }
}

/// Sizes of the blocks in which `count` rows are computed.
fn blocks(count: usize) -> impl Iterator<Item = usize> {
    let mut left = count;
    std::iter::from_fn(move || {
        let size = [ROWS, 8, 4, 2, 1].into_iter().find(|size| *size <= left)?;
        left -= size;
        Some(size)
    })
}

/// `out = left x right`, or `out += left x right`; `out` is row-major, one value a column of `right`, without gaps.
pub(crate) fn multiply(left: Left<'_>, right: Right<'_>, out: &mut [f32], add: bool) {
    let (rows, (depth, width)) = (left.rows, right.shape());
    assert_eq!(left.depth, depth, "factors of different depth");
    assert_eq!(out.len(), rows * width, "a product of another shape");
    if depth == 0 && !add {
        out.fill(0.0);
    }
    if depth == 0 || out.is_empty() {
        return;
    }
    let threads = if rows * depth * width < WORTH { 1 } else { rayon::current_num_threads() };
    if rows < FEW && threads > 1 {
        return few(left, right, out, add);
    }
    // As many chunks for each thread, none larger than the cache holds.
    let chunks = threads * rows.div_ceil(threads * CHUNK);
    let share = rows.div_ceil(chunks).next_multiple_of(ROWS);
    if threads == 1 {
        out.chunks_mut(share * width).enumerate().for_each(|(at, out)| chunk(left, right, at * share, out, add));
    } else {
        out.par_chunks_mut(share * width).enumerate().for_each(|(at, out)| chunk(left, right, at * share, out, add));
    }
}

/// As [`multiply`], on this thread alone.
pub(crate) fn multiply_here(left: Left<'_>, right: Right<'_>, out: &mut [f32], add: bool) {
    let (depth, width) = right.shape();
    assert_eq!(left.depth, depth, "factors of different depth");
    assert_eq!(out.len(), left.rows * width, "a product of another shape");
    if depth == 0 && !add {
        out.fill(0.0);
    }
    if depth > 0 && !out.is_empty() {
        out.chunks_mut(CHUNK * width).enumerate().for_each(|(at, out)| chunk(left, right, at * CHUNK, out, add));
    }
}

/// Some rows of a product, from `first` on.
fn chunk(left: Left<'_>, right: Right<'_>, first: usize, out: &mut [f32], add: bool) {
    let (depth, width) = right.shape();
    let (mut packed, mut buffer) = (Vec::new(), Vec::new());
    let rows = out.len() / width;
    for depths in steps(depth) {
        left.pack(first, rows, depths.clone(), &mut packed);
        for (number, column) in (0..width).step_by(WIDTH).enumerate() {
            let panel = right.panel(number, depths.clone(), &mut buffer);
            let add = add || depths.start > 0;
            let work = Work { left: &packed, panel, rows, out: &mut *out, stride: width, column, add };
            Arch::new().dispatch(work);
        }
    }
}

/// Blocks of the depth, of about the same size.
fn steps(depth: usize) -> impl Iterator<Item = Range<usize>> {
    let size = depth.div_ceil(depth.div_ceil(DEPTH).max(1)).max(1);
    (0..depth).step_by(size).map(move |from| from..depth.min(from + size))
}

/// Few rows, as in decoding: reading the right factor is the work, so the threads divide its panels.
fn few(left: Left<'_>, right: Right<'_>, out: &mut [f32], add: bool) {
    let (rows, (_, width)) = (left.rows, right.shape());
    let pack = |depths: Range<usize>| {
        let mut packed = Vec::new();
        left.pack(0, rows, depths.clone(), &mut packed);
        (depths, packed)
    };
    let packed: Vec<(Range<usize>, Vec<f32>)> = steps(left.depth).map(pack).collect();
    let panels = width.div_ceil(WIDTH);
    let share = panels.div_ceil(rayon::current_num_threads());
    // Each panel's part of the product, without gaps.
    let mut tiles = vec![0.0; panels * rows * WIDTH];
    let parts = |tiles: &mut [f32], out: &mut [f32], copy: fn(&mut [f32], &mut [f32])| {
        for (tile, column) in tiles.chunks_exact_mut(rows * WIDTH).zip((0..width).step_by(WIDTH)) {
            let columns = column..width.min(column + WIDTH);
            for (tile, out) in tile.chunks_exact_mut(WIDTH).zip(out.chunks_exact_mut(width)) {
                copy(&mut tile[..columns.len()], &mut out[columns.clone()]);
            }
        }
    };
    if add {
        parts(&mut tiles, out, |tile, out| tile.copy_from_slice(out));
    }
    let compute = |(number, tiles): (usize, &mut [f32])| {
        let mut buffer = Vec::new();
        for (tile, panel) in tiles.chunks_exact_mut(rows * WIDTH).zip(number * share..) {
            for (depths, left) in &packed {
                let panel = right.panel(panel, depths.clone(), &mut buffer);
                let add = add || depths.start > 0;
                let work = Work { left, panel, rows, out: &mut *tile, stride: WIDTH, column: 0, add };
                Arch::new().dispatch(work);
            }
        }
    };
    tiles.par_chunks_mut(share * rows * WIDTH).enumerate().for_each(compute);
    parts(&mut tiles, out, |tile, out| out.copy_from_slice(tile));
}

/// Some rows times a panel.
struct Work<'a> {
    left: &'a [f32],
    panel: &'a [f32],
    rows: usize,
    out: &'a mut [f32],
    stride: usize,
    column: usize,
    add: bool,
}

impl WithSimd for Work<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let depth = self.panel.len() / WIDTH;
        let mut left = self.left;
        let mut first = 0;
        for size in blocks(self.rows) {
            let (block, others) = left.split_at(size * depth);
            match size {
                ROWS => self.block::<S, ROWS>(simd, block, first),
                8 => self.block::<S, 8>(simd, block, first),
                4 => self.block::<S, 4>(simd, block, first),
                2 => self.block::<S, 2>(simd, block, first),
                _ => self.block::<S, 1>(simd, block, first),
            }
            left = others;
            first += size;
        }
    }
}

impl Work<'_> {
    /// As many rows and columns at a time as the registers hold.
    #[inline(always)]
    fn block<S: Simd, const R: usize>(&mut self, simd: S, left: &[f32], first: usize) {
        match S::F32_LANES {
            16 => self.part::<S, R, 2>(simd, left, first, 0),
            lanes => {
                // Narrower registers: fewer columns at a time, so that the sums of all rows still fit.
                for column in (0..WIDTH).step_by(lanes) {
                    self.part::<S, R, 1>(simd, left, first, column);
                }
            }
        }
    }

    #[inline(always)]
    fn part<S: Simd, const R: usize, const V: usize>(&mut self, simd: S, left: &[f32], first: usize, at: usize) {
        let width = V * S::F32_LANES;
        let column = self.column + at;
        let kept = self.stride.saturating_sub(column).min(width);
        let mut sums = [[simd.splat_f32s(0.0); V]; R];
        if self.add {
            for (r, sums) in sums.iter_mut().enumerate() {
                let values = &self.out[(first + r) * self.stride + column..][..kept];
                let mut padded = [0.0; WIDTH];
                let values = if kept == width { values } else { pad(values, &mut padded) };
                sums.iter_mut().zip(S::as_simd_f32s(values).0).for_each(|(sum, values)| *sum = *values);
            }
        }
        for (left, right) in left.as_chunks::<R>().0.iter().zip(self.panel.as_chunks::<WIDTH>().0) {
            let right = S::as_simd_f32s(&right[at..]).0;
            let right: [S::f32s; V] = std::array::from_fn(|v| right[v]);
            for r in 0..R {
                let value = simd.splat_f32s(left[r]);
                for v in 0..V {
                    sums[r][v] = simd.mul_add_f32s(value, right[v], sums[r][v]);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            let out = &mut self.out[(first + r) * self.stride + column..][..kept];
            let mut padded = [0.0; WIDTH];
            let values = if kept == width { &mut *out } else { &mut padded };
            sums.iter().zip(S::as_mut_simd_f32s(values).0).for_each(|(sum, values)| *values = *sum);
            if kept < width {
                out.copy_from_slice(&padded[..kept]);
            }
        }
    }
}

/// Values, and zeros up to a panel's width.
#[inline(always)]
fn pad<'a>(values: &[f32], padded: &'a mut [f32; WIDTH]) -> &'a [f32] {
    padded[..values.len()].copy_from_slice(values);
    padded
}
