//! How do gradients change weights?
//!
//! AdamW (Loshchilov and Hutter 2019, algorithm 2) with the arithmetic of `torch.optim.AdamW`, on f32 weights in host memory;
//! `device.rs` has it for weights that are elsewhere.
//! Sums go over fixed chunks in a fixed order, so the numbers do not depend on the number of threads.

mod device;

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::checkpoint::TensorData;
use crate::ops::AdamWNumbers;
use crate::{Error, Result};

pub(crate) use device::DeviceMoments;

/// Values that one task works on. Part of the definition of the norm: its partial sums are over these.
const CHUNK: usize = 1 << 14;
/// As `torch.nn.utils.clip_grad_norm_` adds to the norm that it divides by.
const CLIP_EPSILON: f64 = 1e-6;
/// Updates skipped in a row at which a run has diverged.
const PATIENCE: u64 = 3;
const FIRST: &str = "optimizer.first.";
const SECOND: &str = "optimizer.second.";

/// The settings of AdamW. The defaults are those of `torch.optim.AdamW`, with gradients clipped to norm 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdamWSettings {
    /// Decay of the mean of gradients, 0 to 1.
    pub beta1: f64,
    /// Decay of the mean of squared gradients, 0 to 1.
    pub beta2: f64,
    /// Added to the root of the latter.
    pub epsilon: f64,
    /// Share of a weight, times the learning rate, that goes with each update. Tensors of one dimension (norms, biases) keep
    /// theirs.
    pub weight_decay: f64,
    /// The norm of all gradients together is scaled down to this; 0 leaves it.
    pub max_norm: f64,
}

impl Default for AdamWSettings {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.01, max_norm: 1.0 }
    }
}

/// A tensor that is trained.
#[derive(Debug)]
pub struct Trainable<'a> {
    /// Its name, unlike all others.
    pub name: &'a str,
    /// Its dimensions.
    pub shape: &'a [usize],
    /// Its values, changed in place.
    pub value: &'a mut [f32],
    /// The gradient of the loss by each of them.
    pub gradient: &'a [f32],
}

/// What an update did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Updated {
    /// The norm of all gradients before clipping; NaN or infinite when the update was skipped because of it.
    pub norm: f64,
    /// What the gradients were multiplied with, 1 when they were not clipped.
    pub scale: f64,
    /// Whether the weights were left as they were because the loss or the norm is not finite.
    pub skipped: bool,
}

/// The optimizer and its memory.
#[derive(Debug, Clone, PartialEq)]
pub struct AdamW {
    settings: AdamWSettings,
    counts: Counts,
    moments: BTreeMap<String, Moments>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    /// Updates applied.
    updates: u64,
    /// Updates skipped.
    skipped: u64,
    /// Of these, how many since the last one that was applied.
    skipped_in_a_row: u64,
}

#[derive(Debug, Clone, PartialEq)]
struct Moments {
    shape: Vec<usize>,
    first: Vec<f32>,
    second: Vec<f32>,
}

impl AdamW {
    /// An optimizer that has seen no gradient.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] for settings out of range.
    pub fn new(settings: AdamWSettings) -> Result<Self> {
        let decay = |value: f64| (0.0..1.0).contains(&value);
        let size = |value: f64| value >= 0.0 && value.is_finite();
        for (name, value, fits, expected) in [
            ("beta1", settings.beta1, decay(settings.beta1), "0 or more, below 1"),
            ("beta2", settings.beta2, decay(settings.beta2), "0 or more, below 1"),
            ("epsilon", settings.epsilon, size(settings.epsilon), "0 or more"),
            ("weight_decay", settings.weight_decay, size(settings.weight_decay), "0 or more"),
            ("max_norm", settings.max_norm, size(settings.max_norm), "0 or more"),
        ] {
            if !fits {
                return Err(Error::invalid(format!("`{name}` of the optimizer"), expected, value.to_string()));
            }
        }
        Ok(Self { settings, counts: Counts::default(), moments: BTreeMap::new() })
    }

    /// Makes one update with this learning rate. When `loss` or the norm of the gradients is not finite, nothing changes but
    /// the count of skipped updates.
    ///
    /// # Errors
    /// [`Error::Diverged`] at the third update in a row that is skipped; [`Error::InvalidInput`] when a name appears twice,
    /// lengths disagree, or a tensor is not one of those of the updates before.
    pub fn update(&mut self, parameters: &mut [Trainable<'_>], rate: f64, loss: f64) -> Result<Updated> {
        // The order of names, whatever the caller's is: the norm is a sum of floating-point numbers.
        parameters.sort_by_key(|parameter| parameter.name);
        self.check(parameters)?;
        let norm = gradient_norm(parameters.iter().map(|parameter| parameter.gradient));
        let updated = self.begin(loss, norm)?;
        if updated.skipped {
            return Ok(updated);
        }
        for parameter in parameters {
            let length = parameter.value.len();
            let moments = self.moments.entry(parameter.name.to_owned()).or_insert_with(|| Moments {
                shape: parameter.shape.to_vec(),
                first: vec![0.0; length],
                second: vec![0.0; length],
            });
            apply(
                parameter,
                moments,
                numbers(&self.settings, &self.counts, rate, (updated.scale, parameter.shape.len())),
            );
        }
        Ok(updated)
    }

    /// Counts an update that is made with gradients of this norm, or that is skipped.
    fn begin(&mut self, loss: f64, norm: f64) -> Result<Updated> {
        if !(loss.is_finite() && norm.is_finite()) {
            return self.skip(loss, norm);
        }
        let max = self.settings.max_norm;
        let scale = if max > 0.0 { (max / (norm + CLIP_EPSILON)).min(1.0) } else { 1.0 };
        self.counts.updates += 1;
        self.counts.skipped_in_a_row = 0;
        Ok(Updated { norm, scale, skipped: false })
    }

    fn check(&self, parameters: &[Trainable<'_>]) -> Result<()> {
        if let Some(pair) = parameters.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(Error::invalid("tensors to train", "names that differ", format!("`{}` twice", pair[0].name)));
        }
        for Trainable { name, shape, value, gradient } in parameters {
            let count = shape.iter().product::<usize>();
            if value.len() != count || gradient.len() != count {
                let found = format!("{} values and {} of its gradient", value.len(), gradient.len());
                return Err(Error::invalid(format!("tensor `{name}`"), format!("{count} for shape {shape:?}"), found));
            }
            match self.moments.get(*name) {
                None if self.counts.updates == 0 => {}
                Some(moments) if moments.shape == *shape => {}
                found => {
                    let found = found.map_or("none".into(), |moments| format!("of {:?}", moments.shape));
                    let expected = format!("moments of {shape:?}, as in the updates before");
                    return Err(Error::invalid(format!("tensor `{name}`"), expected, found));
                }
            }
        }
        Ok(())
    }

    fn skip(&mut self, loss: f64, norm: f64) -> Result<Updated> {
        self.counts.skipped += 1;
        self.counts.skipped_in_a_row += 1;
        if self.counts.skipped_in_a_row >= PATIENCE {
            return Err(Error::Diverged {
                what: "the update".into(),
                found: format!("loss {loss}, gradient norm {norm}: not finite {PATIENCE} times in a row"),
                remedy: "go on from the last checkpoint with a lower learning rate or stronger clipping".into(),
            });
        }
        Ok(Updated { norm, scale: 1.0, skipped: true })
    }

    /// The settings.
    pub fn settings(&self) -> &AdamWSettings {
        &self.settings
    }

    /// Updates applied.
    pub fn updates(&self) -> u64 {
        self.counts.updates
    }

    /// Updates skipped because something was not finite.
    pub fn skipped(&self) -> u64 {
        self.counts.skipped
    }

    /// The moments, for a checkpoint: `optimizer.first.NAME` and `optimizer.second.NAME`.
    pub fn tensors(&self) -> impl Iterator<Item = (String, TensorData<'_>)> {
        self.moments.iter().flat_map(|(name, moments)| {
            [(FIRST, &moments.first), (SECOND, &moments.second)].map(|(prefix, values)| {
                (format!("{prefix}{name}"), TensorData { shape: moments.shape.clone(), values: values.into() })
            })
        })
    }

    /// The counts, for a checkpoint.
    pub fn state(&self) -> Value {
        serde_json::json!(self.counts)
    }

    /// The optimizer of a checkpoint. Its moments are taken out of `tensors`.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] when settings are out of range, the counts cannot be read, or one of the two moments is missing.
    pub fn restore(
        settings: AdamWSettings,
        tensors: &mut BTreeMap<String, TensorData<'_>>,
        state: &Value,
    ) -> Result<Self> {
        let mut restored = Self::new(settings)?;
        restored.counts = Counts::deserialize(state)
            .map_err(|error| Error::invalid("the optimizer's state", "its counts", error.to_string()))?;
        let mut take = |prefix: &'static str| {
            let taken = tensors.extract_if(.., |name, _| name.starts_with(prefix));
            let named = taken.filter_map(|(name, data)| Some((name.strip_prefix(prefix)?.to_owned(), data)));
            named.collect::<BTreeMap<_, _>>()
        };
        let (first, mut second) = (take(FIRST), take(SECOND));
        for (name, values) in first {
            let other = second.remove(&name);
            let Some(other) = other.filter(|other| other.shape == values.shape) else {
                return Err(Error::invalid(format!("moments of `{name}`"), "two of one shape", "one"));
            };
            let (first, second) = (values.values.into_owned(), other.values.into_owned());
            restored.moments.insert(name, Moments { shape: values.shape, first, second });
        }
        match second.keys().next() {
            Some(name) => Err(Error::invalid(format!("moments of `{name}`"), "two of one shape", "one")),
            None => Ok(restored),
        }
    }
}

/// The Euclidean norm of all gradients together, summed in f64 in the order given.
pub fn gradient_norm<'a>(gradients: impl IntoIterator<Item = &'a [f32]>) -> f64 {
    let square = |chunk: &[f32]| chunk.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>();
    let sum = |gradient: &[f32]| gradient.par_chunks(CHUNK).map(square).collect::<Vec<_>>().into_iter().sum::<f64>();
    gradients.into_iter().map(sum).sum::<f64>().sqrt()
}

/// The numbers of an update whose gradients are multiplied with `scale`, of a tensor with so many dimensions.
fn numbers(settings: &AdamWSettings, counts: &Counts, rate: f64, (scale, dimensions): (f64, usize)) -> AdamWNumbers {
    let powered = |beta: f64| 1.0 - beta.powf(counts.updates as f64);
    let decay = if dimensions > 1 { settings.weight_decay } else { 0.0 };
    AdamWNumbers {
        scale: scale as f32,
        keep: (1.0 - rate * decay) as f32,
        beta1_rest: (1.0 - settings.beta1) as f32,
        beta2: settings.beta2 as f32,
        beta2_rest: (1.0 - settings.beta2) as f32,
        root_correction: powered(settings.beta2).sqrt() as f32,
        epsilon: settings.epsilon as f32,
        step: (rate / powered(settings.beta1)) as f32,
    }
}

/// One pass over a tensor, its gradient and its moments.
fn apply(parameter: &mut Trainable<'_>, moments: &mut Moments, n: AdamWNumbers) {
    parameter
        .value
        .par_chunks_mut(CHUNK)
        .zip(parameter.gradient.par_chunks(CHUNK))
        .zip(moments.first.par_chunks_mut(CHUNK).zip(moments.second.par_chunks_mut(CHUNK)))
        .for_each(|((values, gradients), (firsts, seconds))| {
            for ((value, gradient), (first, second)) in
                values.iter_mut().zip(gradients).zip(firsts.iter_mut().zip(seconds.iter_mut()))
            {
                let gradient = gradient * n.scale;
                *first += n.beta1_rest * (gradient - *first);
                *second = *second * n.beta2 + n.beta2_rest * gradient * gradient;
                let root = second.sqrt() / n.root_correction + n.epsilon;
                *value = *value * n.keep - n.step * (*first / root);
            }
        });
}
