//! Which vectors stand in for a corpus that is not at hand?
//!
//! A fixed *world* is drawn once: topics, subtopics and articles, each a normal step from the one above it. A row is a
//! normal step from an article, and articles are popular by Zipf's law, so that more rows bring nearer neighbours, as
//! in a real corpus. The spectrum of each step falls by a power law over shared axes, more slowly for the finer steps;
//! each subtopic stretches the axes its own way. The axes are then rotated, dimensions get uneven scales, and a mean
//! common to all rows puts them into the narrow cone of transformer embeddings. Queries are made of rows that are not
//! in the corpus, mixed with noise, about a shifted mean, because questions are not passages.
//!
//! The shares and exponents below were fitted to embeddings of text by multilingual-e5-small (mean, spectrum) and
//! all-MiniLM-L6-v2 (spectrum, intrinsic dimension, cosines of the nearest neighbours).

mod noise;
mod shape;

use std::fmt;
use std::ops::Range;

use half::f16;
use pulp::Arch;

use crate::matrix::f16_value;
use crate::workers::cores;
use crate::{Error, Result, Vectors};

use noise::{Kind, Stream};
use shape::{Rotation, add, length, lognormals, means, spectrum};

const TOPICS: usize = 200;
const SUBTOPICS: usize = 7_500;
const ARTICLES: usize = 75_000;
/// Of the variance about the common mean, what topics, subtopics, articles and rows add.
const SHARES: [f64; 4] = [0.2, 0.3, 0.1, 0.4];
/// The variance on an axis falls by its rank to the minus this, by the same levels.
const SLOPES: [f64; 4] = [1.0, 1.1, 1.3, 1.3];
/// The popularity of the i-th article falls as i to the minus this.
const ZIPF: f64 = 0.6;
/// The squared length of the common mean.
const MEAN_SHARE: f32 = 0.8;
/// Standard deviation of the logarithm of: an axis's stretch in a subtopic, a dimension's scale, a row's share of the
/// variance.
const STRETCH: f32 = 0.7;
const DIMENSION_SPREAD: f32 = 0.25;
const ROW_SPREAD: f32 = 0.5;
/// How much of a query is a row.
const QUERY_SHARE: f32 = 0.85;
/// The fewest dimensions.
const FEWEST: usize = 8;

/// Unit vectors with the neighbour structure of text embeddings, the same for the same seed and dimensions.
///
/// A row is computed from its number alone: threads can share the work, and work can be taken up anywhere. The world
/// takes 0.2 GB of memory at 768 dimensions, however many rows are drawn.
pub struct Synthetic {
    seed: u64,
    dimensions: usize,
    rotation: Rotation,
    /// By dimension, its scale.
    scales: Vec<f32>,
    /// By article, its subtopic.
    subtopics: Vec<u32>,
    /// By article, the popularity of it and those before it together.
    popularity: Vec<f64>,
    /// By article, its place: half-precision bits, rotated and scaled.
    places: Vec<u16>,
    /// By subtopic, the standard deviation of a row on each axis.
    deviations: Vec<f32>,
    /// The same of noise that knows no subtopic.
    plain: Vec<f32>,
    /// The means of rows and of queries, unit vectors.
    means: [Vec<f32>; 2],
}

impl fmt::Debug for Synthetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Synthetic")
            .field("seed", &self.seed)
            .field("dimensions", &self.dimensions)
            .finish_non_exhaustive()
    }
}

impl Synthetic {
    /// Draws the world of `seed`.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for fewer than 8 `dimensions`.
    pub fn new(seed: u64, dimensions: usize) -> Result<Self> {
        if dimensions < FEWEST {
            return Err(Error::InvalidInput {
                what: "dimensions of synthetic vectors".into(),
                expected: format!("at least {FEWEST}"),
                found: dimensions.to_string(),
            });
        }
        let world = Stream::new(seed, Kind::World, 0);
        let list = |number| Stream::new(seed, Kind::World, number);
        let rotation = Rotation::new(list(1), dimensions);
        let scales = lognormals(list(2), DIMENSION_SPREAD, dimensions);
        let spectra = SLOPES.map(|slope| spectrum(list(3), slope, dimensions));
        let topic_of: Vec<usize> = (0..SUBTOPICS as u64).map(|at| world.below(at, TOPICS)).collect();
        let subtopics: Vec<u32> = (0..ARTICLES as u64).map(|at| list(4).below(at, SUBTOPICS) as u32).collect();
        let mut total = 0.0;
        let popularity = (1..=ARTICLES).map(|rank| {
            total += (rank as f64).powf(-ZIPF);
            total
        });
        let mut synthetic = Self {
            seed,
            dimensions,
            popularity: popularity.collect(),
            means: means(list(5), dimensions),
            plain: spectra[3].clone(),
            deviations: Vec::new(),
            places: vec![0; ARTICLES * dimensions],
            rotation,
            scales,
            subtopics,
        };
        let steps = |kind, count: usize, level: usize| {
            let share = SHARES[level].sqrt() as f32;
            let step = |number| {
                let mut step = vec![0.0; dimensions];
                Stream::new(seed, kind, number).normals(0, &mut step);
                step.iter_mut().zip(&spectra[level]).for_each(|(x, deviation)| *x *= share * deviation);
                step
            };
            (0..count as u64).flat_map(step).collect::<Vec<f32>>()
        };
        let topics = steps(Kind::Topic, TOPICS, 0);
        let mut centres = steps(Kind::Subtopic, SUBTOPICS, 1);
        for (centre, topic) in centres.chunks_exact_mut(dimensions).zip(&topic_of) {
            add(centre, &topics[topic * dimensions..][..dimensions]);
        }
        let stretches = (0..SUBTOPICS as u64).flat_map(|number| {
            let mut stretch = lognormals(Stream::new(seed, Kind::Anisotropy, number), STRETCH, dimensions);
            let mean = stretch.iter().map(|x| x * x).sum::<f32>() / dimensions as f32;
            stretch.iter_mut().for_each(|x| *x /= mean.sqrt());
            stretch
        });
        let stretches: Vec<f32> = stretches.collect();
        synthetic.place(&centres, &stretches, &spectra[2]);
        let share = SHARES[3].sqrt() as f32;
        synthetic.deviations = stretches;
        for stretch in synthetic.deviations.chunks_exact_mut(dimensions) {
            stretch.iter_mut().zip(&spectra[3]).for_each(|(x, deviation)| *x *= share * deviation);
        }
        Ok(synthetic)
    }

    /// Puts the articles about the `centres` of their subtopics.
    fn place(&mut self, centres: &[f32], stretches: &[f32], spectrum: &[f32]) {
        let Self { seed, dimensions, ref rotation, ref scales, ref subtopics, ref mut places, .. } = *self;
        let share = SHARES[2].sqrt() as f32;
        let work = |first: usize, places: &mut [u16]| {
            let mut place = vec![0.0; dimensions];
            for (number, out) in (first..).zip(places.chunks_exact_mut(dimensions)) {
                let at = subtopics[number] as usize * dimensions..;
                Stream::new(seed, Kind::Article, number as u64).normals(0, &mut place);
                let known = centres[at.clone()].iter().zip(&stretches[at]).zip(spectrum);
                for (x, ((centre, stretch), deviation)) in place.iter_mut().zip(known) {
                    *x = centre + share * *x * stretch * deviation;
                }
                rotation.apply(&mut place);
                for ((out, x), scale) in out.iter_mut().zip(&place).zip(scales) {
                    *out = f16::from_f32(x * scale).to_bits();
                }
            }
        };
        let share = ARTICLES.div_ceil(cores());
        std::thread::scope(|scope| {
            for (part, places) in places.chunks_mut(share * dimensions).enumerate() {
                scope.spawn(move || Arch::new().dispatch(|| work(part * share, places)));
            }
        });
    }

    /// Values in a row.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Computes `rows` into `out`, row-major, on the caller's thread.
    ///
    /// # Panics
    /// When `out` is not as long as the rows' values.
    pub fn rows(&self, rows: Range<u64>, out: &mut [f32]) {
        assert_eq!(
            Some(out.len() as u64),
            rows.end.checked_sub(rows.start).map(|n| n * self.dimensions as u64),
            "values"
        );
        Arch::new().dispatch(
            #[inline(always)]
            || {
                for (number, out) in rows.zip(out.chunks_exact_mut(self.dimensions)) {
                    self.residual(Stream::new(self.seed, Kind::Row, number), out);
                    self.finish(&self.means[0], out);
                }
            },
        );
    }

    /// The first `count` queries.
    ///
    /// # Errors
    /// None; the type is that of [`Vectors::new`].
    pub fn queries(&self, count: usize) -> Result<Vectors> {
        let mut queries = vec![0.0; count * self.dimensions];
        let mut noise = vec![0.0; self.dimensions];
        for (number, out) in (0..).zip(queries.chunks_exact_mut(self.dimensions)) {
            let stream = Stream::new(self.seed, Kind::Query, number);
            self.residual(stream, out);
            self.step(stream, self.dimensions as u64, 1.0, &self.plain, &mut noise);
            for (x, noise) in out.iter_mut().zip(&noise) {
                *x = QUERY_SHARE.sqrt() * *x + (1.0 - QUERY_SHARE).sqrt() * noise;
            }
            self.finish(&self.means[1], out);
        }
        Vectors::new(self.dimensions, queries)
    }

    /// A passage of a random article, about the common mean, rotated and scaled.
    #[inline(always)]
    fn residual(&self, stream: Stream, out: &mut [f32]) {
        let end = 2 * self.dimensions as u64;
        let total = self.popularity.last().copied().unwrap_or_default();
        let wanted = stream.uniform(end) * total;
        let article = self.popularity.partition_point(|popularity| *popularity <= wanted).min(ARTICLES - 1);
        let subtopic = self.subtopics[article] as usize;
        // Passages differ in how generic they are.
        let generic = (0.5 * ROW_SPREAD * stream.normal(end + 1)).exp();
        self.step(stream, 0, generic, &self.deviations[subtopic * self.dimensions..][..self.dimensions], out);
        let place = &self.places[article * self.dimensions..][..self.dimensions];
        out.iter_mut().zip(place).for_each(|(x, place)| *x += f16_value(*place));
    }

    /// A normal step, rotated and scaled; its numbers are those of `stream` from `from` on.
    #[inline(always)]
    fn step(&self, stream: Stream, from: u64, length: f32, deviations: &[f32], out: &mut [f32]) {
        stream.normals(from, out);
        out.iter_mut().zip(deviations).for_each(|(x, deviation)| *x *= length * deviation);
        self.rotation.apply(out);
        out.iter_mut().zip(&self.scales).for_each(|(x, scale)| *x *= scale);
    }

    /// Puts a residual about `mean`.
    #[inline(always)]
    fn finish(&self, mean: &[f32], residual: &mut [f32]) {
        let scale = (1.0 - MEAN_SHARE).sqrt() / length(residual);
        for (x, mean) in residual.iter_mut().zip(mean) {
            *x = MEAN_SHARE.sqrt() * mean + scale * *x;
        }
        let scale = 1.0 / length(residual);
        residual.iter_mut().for_each(|x| *x *= scale);
    }
}
