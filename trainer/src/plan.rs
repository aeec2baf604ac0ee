//! Does a training run fit this machine, and how long does a step take? Computed before anything is loaded.
//!
//! Memory is counted tensor by tensor; time is operations over the speed that the machine keeps up, so an estimate.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

const F32: u64 = 4;

/// The numbers that decide a decoder's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Width of a token's row.
    pub hidden: u64,
    /// Blocks.
    pub layers: u64,
    /// Query heads of a block.
    pub heads: u64,
    /// Key and value heads of a block.
    pub kv_heads: u64,
    /// Width of a head.
    pub head_dim: u64,
    /// Width inside the feed-forward part.
    pub intermediate: u64,
    /// Tokens known.
    pub vocabulary: u64,
    /// Whether the head's weights are those of the embedding.
    pub tied: bool,
    /// Whether queries, keys and values have biases.
    pub qkv_bias: bool,
}

/// What is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// All weights.
    Full,
    /// Two narrow matrices beside each of a block's seven (LoRA, Hu et al. 2022).
    Lora {
        /// Their width.
        rank: u64,
    },
}

/// Where it runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Bytes of a weight and of an activation: 4 for f32, 2 for bf16 with f32 masters.
    pub element: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Floating-point operations a second that large products keep up.
    pub flops: f64,
    /// Bytes a second that are read from memory.
    pub bandwidth: f64,
}

impl Machine {
    /// One H200 in bf16: 141 GB, and 40 percent of 989 Tflop/s and 70 percent of 4.8 TB/s from its data sheet.
    pub fn h200() -> Self {
        Self { element: 2, memory: 141_000_000_000, flops: 0.4 * 989e12, bandwidth: 0.7 * 4.8e12 }
    }

    /// One H200 in f32: 40 percent of 67 Tflop/s from its data sheet.
    pub fn h200_in_f32() -> Self {
        Self { element: F32, flops: 0.4 * 67e12, ..Self::h200() }
    }

    /// Cores of a server with AVX-512 in f32: about 75 Gflop/s each; memory of about 10 GB/s for each.
    pub fn cpu(cores: u64, memory: u64) -> Self {
        Self { element: F32, memory, flops: 75e9 * cores as f64, bandwidth: 10e9 * cores as f64 }
    }
}

/// How much is done in a step and at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanSettings {
    /// What is trained.
    pub method: Method,
    /// Episodes of a step.
    pub episodes: u64,
    /// Episodes played at the same time.
    pub parallel: u64,
    /// The most tokens of an episode, prompt and observations included.
    pub context: u64,
    /// Those of them that the policy writes.
    pub generated: u64,
    /// Tokens of a micro-batch, all its rows together.
    pub batch_tokens: u64,
    /// Rows that go through the head at a time.
    pub head_rows: u64,
    /// Passes over a step's episodes.
    pub epochs: u64,
    /// Whether a frozen reference is asked (for KL or a teacher).
    pub reference: bool,
}

/// What a run needs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// Weights of the model.
    pub parameters: u64,
    /// Weights that are trained.
    pub trained: u64,
    /// Bytes, part by part.
    pub memory: Memory,
    /// Sum of the parts, in bytes.
    pub total: u64,
    /// Bytes of the machine.
    pub available: u64,
    /// Whether the sum is at most that.
    pub fits: bool,
    /// What a step costs.
    pub step: Cost,
}

/// Bytes, part by part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Weights that products read.
    pub weights: u64,
    /// f32 copies of trained weights where those are narrower, or adapters.
    pub masters: u64,
    /// Two f32 moments a trained weight.
    pub moments: u64,
    /// An f32 gradient a trained weight.
    pub gradients: u64,
    /// The frozen reference; with LoRA it is the model without the adapters.
    pub reference: u64,
    /// Keys and values of the episodes that are played at the same time.
    pub kv_cache: u64,
    /// What each block was given, kept to compute the block again.
    pub block_inputs: u64,
    /// All values and gradients inside one block.
    pub one_block: u64,
    /// Logits and their gradients of some rows, the gradient of the head's weights, and these in f32 where they are narrower.
    pub head: u64,
}

/// What a step costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Cost {
    /// Floating-point operations of playing.
    pub play_flops: f64,
    /// Floating-point operations of log-probabilities before the update: the policy's and the reference's.
    pub score_flops: f64,
    /// Floating-point operations of the update, each block's second forward pass included.
    pub update_flops: f64,
    /// Seconds of playing; reading weights and caches for each token counts where it takes longer than the operations.
    pub play_seconds: f64,
    /// Seconds of scoring.
    pub score_seconds: f64,
    /// Seconds of the update.
    pub update_seconds: f64,
}

/// Computes what a run needs.
///
/// # Errors
/// [`Error::InvalidInput`] when a number that cannot be 0 is, or when they are so large that nothing fits them.
pub fn plan(shape: &Shape, settings: &PlanSettings, machine: &Machine) -> Result<Plan> {
    check(shape, settings, machine)?;
    let (s, m, e) = (shape, settings, machine.element);
    let parameters = s.parameters();
    let trained = match m.method {
        Method::Full => parameters,
        Method::Lora { rank } => s.layers * rank * s.products().iter().map(|(from, to)| from + to).sum::<u64>(),
    };
    let (is_full, head) = (m.method == Method::Full, s.vocabulary * s.hidden);
    let memory = Memory {
        weights: parameters * e,
        masters: if is_full && e == F32 { 0 } else { trained * F32 },
        moments: 2 * trained * F32,
        gradients: trained * F32,
        reference: if is_full && m.reference { parameters * e } else { 0 },
        kv_cache: (m.parallel * m.context).saturating_mul(s.kv_bytes(e)),
        block_inputs: m.batch_tokens * s.hidden * s.layers * e,
        one_block: m.batch_tokens * s.block_values() * e,
        head: 2 * m.head_rows * s.vocabulary * F32 + F32 * head * (u64::from(is_full) + u64::from(e != F32)),
    };
    let total = memory.parts().iter().fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes));
    Ok(Plan {
        parameters,
        trained,
        memory,
        total,
        available: machine.memory,
        fits: total <= machine.memory,
        step: cost(s, m, machine),
    })
}

fn check(shape: &Shape, settings: &PlanSettings, machine: &Machine) -> Result<()> {
    let Shape { hidden, layers, heads, kv_heads, head_dim, intermediate, vocabulary, .. } = *shape;
    let PlanSettings { episodes, parallel, context, batch_tokens, head_rows, epochs, generated, .. } = *settings;
    // So that products stay below 2^64.
    const MOST: u64 = 1 << 24;
    for (name, value, most) in [
        ("hidden", hidden, 1 << 18),
        ("layers", layers, 1 << 10),
        ("heads", heads, 1 << 10),
        ("kv_heads", kv_heads, 1 << 10),
        ("head_dim", head_dim, 1 << 10),
        ("intermediate", intermediate, 1 << 20),
        ("vocabulary", vocabulary, MOST),
        ("element", machine.element, 8),
        ("episodes", episodes, MOST),
        ("parallel", parallel, 1 << 14),
        ("context", context, MOST),
        ("generated", generated, context),
        ("batch_tokens", batch_tokens, MOST),
        ("head_rows", head_rows, 1 << 20),
        ("epochs", epochs, MOST),
    ] {
        if !(1..=most).contains(&value) {
            return Err(Error::invalid(format!("`{name}` of the plan"), format!("1 to {most}"), value.to_string()));
        }
    }
    match settings.method {
        Method::Lora { rank } if !(1..=1 << 14).contains(&rank) => {
            Err(Error::invalid("`rank` of the plan", "1 to 16384", rank.to_string()))
        }
        _ => Ok(()),
    }
}

impl Shape {
    /// From and to widths of a block's seven matrices.
    fn products(&self) -> [(u64, u64); 7] {
        let (h, i, q, kv) = (self.hidden, self.intermediate, self.heads * self.head_dim, self.kv_heads * self.head_dim);
        [(h, q), (h, kv), (h, kv), (q, h), (h, i), (h, i), (i, h)]
    }

    /// Weights of a block's matrices.
    fn block_weights(&self) -> u64 {
        self.products().iter().map(|(from, to)| from * to).sum()
    }

    fn parameters(&self) -> u64 {
        let bias = if self.qkv_bias { (self.heads + 2 * self.kv_heads) * self.head_dim } else { 0 };
        let tables = if self.tied { 1 } else { 2 };
        let block = self.block_weights() + bias + 2 * self.hidden;
        self.layers * block + self.hidden + tables * self.vocabulary * self.hidden
    }

    /// Bytes of a token in the cache.
    fn kv_bytes(&self, element: u64) -> u64 {
        2 * self.layers * self.kv_heads * self.head_dim * element
    }

    /// Values of a token inside a block. Forward: two norms and two sums, queries and what attention gives, keys, values, and
    /// three of the feed-forward part (gate, up, their product). As many gradients; and two more of the widest for copies.
    fn block_values(&self) -> u64 {
        let (q, kv) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        2 * (4 * self.hidden + 2 * q + 2 * kv + 3 * self.intermediate) + 2 * self.intermediate
    }
}

/// Two operations a weight and token forward, twice as many backward, and attention over half the context on average.
fn cost(shape: &Shape, settings: &PlanSettings, machine: &Machine) -> Cost {
    let head = shape.vocabulary as f64 * shape.hidden as f64;
    let blocks = shape.layers as f64 * shape.block_weights() as f64;
    let (context, generated, episodes) = (settings.context as f64, settings.generated as f64, settings.episodes as f64);
    let attention = 4.0 * shape.layers as f64 * (shape.heads * shape.head_dim) as f64 * context / 2.0;
    // Every token goes through the blocks, only those of the policy through the head.
    let forward = episodes * ((2.0 * blocks + attention) * context + 2.0 * head * generated);
    let backward = match settings.method {
        Method::Full => 2.0,
        // Nothing is computed for the gradients of frozen weights.
        Method::Lora { .. } => 1.0,
    };
    let scorings = if settings.reference { 2.0 } else { 1.0 };
    // The blocks are computed once more; the head is not.
    let again = episodes * (2.0 * blocks + attention) * context;
    let update_flops = settings.epochs as f64 * (forward * (1.0 + backward) + again);
    let element = machine.element as f64;
    let rounds = (episodes / settings.parallel as f64).ceil() * generated;
    let cache = episodes * generated * context / 2.0 * shape.kv_bytes(machine.element) as f64;
    let read = rounds * (blocks + head) * element + cache;
    Cost {
        play_flops: forward,
        score_flops: scorings * forward,
        update_flops,
        play_seconds: (forward / machine.flops).max(read / machine.bandwidth),
        score_seconds: scorings * forward / machine.flops,
        update_seconds: update_flops / machine.flops,
    }
}

impl Memory {
    /// The parts in the order of the table.
    fn parts(&self) -> [(&'static str, u64); 9] {
        [
            ("weights", self.weights),
            ("master weights, f32", self.masters),
            ("moments, f32", self.moments),
            ("gradients, f32", self.gradients),
            ("frozen reference", self.reference),
            ("keys and values", self.kv_cache),
            ("inputs of blocks", self.block_inputs),
            ("inside one block", self.one_block),
            ("rows in the head", self.head),
        ]
    }
}

/// The table for people.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gb = |bytes: u64| bytes as f64 / 1e9;
        let millions = |count: u64| count as f64 / 1e6;
        writeln!(f, "{:.0} M weights, {:.0} M of them trained", millions(self.parameters), millions(self.trained))?;
        writeln!(f)?;
        writeln!(f, "memory                    GB")?;
        for (name, bytes) in self.memory.parts() {
            writeln!(f, "  {name:<19} {:>6.1}", gb(bytes))?;
        }
        let verdict = if self.fits { "fits" } else { "does not fit" };
        writeln!(f, "  {:<19} {:>6.1}  {verdict}: there are {:.1}", "sum", gb(self.total), gb(self.available))?;
        writeln!(f)?;
        writeln!(f, "a step               Tflop       s  (an estimate)")?;
        let cost = &self.step;
        let parts = [
            ("playing", cost.play_flops, cost.play_seconds),
            ("scoring", cost.score_flops, cost.score_seconds),
            ("update", cost.update_flops, cost.update_seconds),
        ];
        for (name, flops, seconds) in parts {
            writeln!(f, "  {name:<12} {:>11.1} {seconds:>7.1}", flops / 1e12)?;
        }
        let flops = parts.iter().map(|part| part.1).sum::<f64>() / 1e12;
        let seconds = parts.iter().map(|part| part.2).sum::<f64>();
        writeln!(f, "  {:<12} {flops:>11.1} {seconds:>7.1}", "sum")
    }
}
