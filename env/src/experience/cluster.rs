//! Which entries belong together? Agglomerative clustering by Ward's linkage, as scikit-learn's
//! `AgglomerativeClustering(linkage="ward", distance_threshold=t)` does it.
//!
//! A threshold is a merge height and no distance of pairs: of two single vectors it is their Euclidean distance, `sqrt(2 (1 - cos))`
//! for unit vectors, and for larger groups it grows with their sizes (Ward 1963; the update of Lance and Williams).

use hindsearch_indexes::Vectors;
use kodama::{Method, linkage};

/// Rounds of moving vectors to the nearer of two centres.
const ROUNDS: usize = 12;

/// All merges of a set of vectors, up to one cluster for each part.
///
/// Ward's method keeps a distance for each pair: 8 bytes times `n (n - 1) / 2`. Beyond a bound the vectors are split in two halves by
/// nearness, again and again, until each part is within it; clusters then never cross the border of two parts.
pub struct Tree {
    count: usize,
    parts: Vec<Part>,
}

struct Part {
    /// Places of its vectors.
    rows: Vec<usize>,
    /// Two clusters and the height at which they merge, lowest first. Cluster `rows.len() + i` is the one that merge `i` makes.
    merges: Vec<(usize, usize, f64)>,
}

impl Tree {
    /// Clusters vectors, at most so many of them at a time.
    pub fn ward(vectors: &Vectors, most_at_once: usize) -> Self {
        let mut open = vec![(0..vectors.len()).collect::<Vec<_>>()];
        let mut parts = Vec::new();
        while let Some(rows) = open.pop() {
            if rows.len() > most_at_once.max(2) {
                let (near, far) = halves(vectors, rows);
                open.extend([far, near]);
            } else {
                parts.push(Part { merges: merges(vectors, &rows), rows });
            }
        }
        Self { count: vectors.len(), parts }
    }

    /// Merge heights, lowest first.
    pub fn heights(&self) -> Vec<f64> {
        let all = self.parts.iter().flat_map(|part| part.merges.iter().map(|merge| merge.2));
        let mut heights: Vec<f64> = all.collect();
        heights.sort_by(f64::total_cmp);
        heights
    }

    /// The clusters that there are when all merges below the threshold are made: places in order, the cluster with the first one first.
    pub fn cut(&self, threshold: f64) -> Vec<Vec<usize>> {
        let mut clusters: Vec<Vec<usize>> = Vec::new();
        for part in &self.parts {
            let mut groups: Vec<Vec<usize>> = part.rows.iter().map(|&row| vec![row]).collect();
            for &(one, other, height) in &part.merges {
                let mut merged = Vec::new();
                if height < threshold {
                    merged = std::mem::take(&mut groups[one]);
                    merged.append(&mut groups[other]);
                }
                groups.push(merged);
            }
            clusters.extend(groups.into_iter().filter(|group| !group.is_empty()));
        }
        clusters.iter_mut().for_each(|cluster| cluster.sort_unstable());
        clusters.sort();
        clusters
    }

    /// The threshold at which clusters have about `size` vectors on average, single ones included: between the merge heights around
    /// the quantile that leaves so many clusters.
    pub fn calibrated(&self, size: usize) -> f64 {
        let heights = self.heights();
        let wanted = self.count.div_ceil(size.max(1)).max(self.parts.len());
        let made = self.count.saturating_sub(wanted);
        match (made.checked_sub(1).and_then(|last| heights.get(last)), heights.get(made)) {
            (None, None) => 0.0,
            (None, Some(next)) => next / 2.0,
            (Some(last), Some(next)) => last.midpoint(*next),
            // All merges are made.
            (Some(last), None) => last * 1.01 + f64::MIN_POSITIVE,
        }
    }
}

fn merges(vectors: &Vectors, rows: &[usize]) -> Vec<(usize, usize, f64)> {
    if rows.len() < 2 {
        return Vec::new();
    }
    let row = |at: usize| &vectors.as_slice()[at * vectors.dimensions()..][..vectors.dimensions()];
    let mut condensed = Vec::with_capacity(rows.len() * (rows.len() - 1) / 2);
    for (at, &one) in rows.iter().enumerate() {
        condensed.extend(rows[at + 1..].iter().map(|&other| distance(row(one), row(other))));
    }
    let tree = linkage(&mut condensed, rows.len(), Method::Ward);
    tree.steps().iter().map(|step| (step.cluster1, step.cluster2, step.dissimilarity)).collect()
}

fn distance(one: &[f32], other: &[f32]) -> f64 {
    one.iter().zip(other).map(|(&x, &y)| (f64::from(x) - f64::from(y)).powi(2)).sum::<f64>().sqrt()
}

/// Two parts of vectors that are near each other (2-means, begun with two that are far apart); equal vectors are just divided.
fn halves(vectors: &Vectors, rows: Vec<usize>) -> (Vec<usize>, Vec<usize>) {
    let row = |at: usize| &vectors.as_slice()[at * vectors.dimensions()..][..vectors.dimensions()];
    let mean = |rows: &[usize]| {
        let mut sum = vec![0.0_f64; vectors.dimensions()];
        rows.iter().for_each(|&at| sum.iter_mut().zip(row(at)).for_each(|(sum, &x)| *sum += f64::from(x)));
        sum.into_iter().map(|sum| (sum / rows.len().max(1) as f64) as f32).collect::<Vec<f32>>()
    };
    let farthest = |from: &[f32]| {
        let apart = rows.iter().map(|&at| (distance(from, row(at)), at));
        apart.max_by(|one, other| one.0.total_cmp(&other.0)).map_or(0, |(_, at)| at)
    };
    let first = farthest(&mean(&rows));
    let mut centres = [row(first).to_vec(), row(farthest(row(first))).to_vec()];
    let mut parts = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let is_near = |at: &usize| distance(row(*at), &centres[0]) <= distance(row(*at), &centres[1]);
        parts = rows.iter().partition(|at| is_near(at));
        if parts.0.is_empty() || parts.1.is_empty() {
            break;
        }
        centres = [mean(&parts.0), mean(&parts.1)];
    }
    if parts.0.is_empty() || parts.1.is_empty() {
        let behind = rows[rows.len() / 2..].to_vec();
        return (rows[..rows.len() / 2].to_vec(), behind);
    }
    parts
}
