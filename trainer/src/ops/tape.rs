//! How does a change of each value change the loss? A tape of what was computed, walked backwards.
//!
//! The tape stands in for candle's own graph inside the model: each step is freed as it is walked, constants and frozen weights
//! cost nothing, weights add to accumulators of their own, and nothing recurses.

use std::cell::RefCell;

use candle_core::{Result, Tensor};

use super::add::add;

/// Turns the gradient of an output into those of the inputs, in their order.
pub(crate) type Backward = Box<dyn FnOnce(&Tensor) -> Result<Vec<Option<Tensor>>>>;

struct Step {
    inputs: Vec<Option<usize>>,
    /// Nothing for a leaf, which keeps its gradient.
    backward: Option<Backward>,
}

/// A value that was computed, or given.
#[derive(Debug, Clone)]
pub struct Value {
    /// The numbers.
    pub tensor: Tensor,
    /// Its place on the tape; nothing where no gradient is wanted.
    place: Option<usize>,
}

impl Value {
    /// Whether a gradient will be asked for.
    pub(crate) fn wants(&self) -> bool {
        self.place.is_some()
    }
}

/// What was computed, in order.
#[derive(Default)]
pub struct Tape {
    steps: RefCell<Vec<Step>>,
    records: bool,
}

impl Tape {
    /// A tape that remembers.
    pub fn new() -> Self {
        Self { steps: RefCell::default(), records: true }
    }

    /// A tape that remembers nothing: for inference.
    pub fn off() -> Self {
        Self::default()
    }

    /// A value that needs no gradient.
    pub fn constant(&self, tensor: Tensor) -> Value {
        Value { tensor, place: None }
    }

    /// A value whose gradient is wanted.
    pub fn leaf(&self, tensor: Tensor) -> Value {
        let place = self.records.then(|| self.put(Step { inputs: Vec::new(), backward: None }));
        Value { tensor, place }
    }

    /// What was computed from `inputs`, and perhaps from parameters that learn. `backward` is made only where one of them wants a
    /// gradient.
    pub(crate) fn push(
        &self,
        inputs: &[&Value],
        learns: bool,
        tensor: Tensor,
        backward: impl FnOnce() -> Backward,
    ) -> Value {
        let wanted = self.records && (learns || inputs.iter().any(|input| input.place.is_some()));
        let place = wanted.then(|| {
            let inputs = inputs.iter().map(|input| input.place).collect();
            self.put(Step { inputs, backward: Some(backward()) })
        });
        Value { tensor, place }
    }

    fn put(&self, step: Step) -> usize {
        let mut steps = self.steps.borrow_mut();
        steps.push(step);
        steps.len() - 1
    }

    /// Walks back from `output`, whose gradient is `gradient`. Gives the gradient of `leaf` where one is named and the output depends
    /// on it; those of parameters are added to their accumulators.
    ///
    /// # Errors
    /// Those of the operations.
    pub fn backward(self, output: &Value, gradient: Tensor, leaf: Option<&Value>) -> Result<Option<Tensor>> {
        let mut steps = self.steps.into_inner();
        let Some(last) = output.place else { return Ok(None) };
        steps.truncate(last + 1);
        let mut gradients: Vec<Option<Tensor>> = vec![None; steps.len()];
        gradients[last] = Some(gradient);
        while let Some(step) = steps.pop() {
            let Some(backward) = step.backward else { continue };
            let Some(gradient) = gradients[steps.len()].take() else { continue };
            for (place, gradient) in step.inputs.into_iter().zip(backward(&gradient)?) {
                if let (Some(place), Some(gradient)) = (place, gradient) {
                    gradients[place] = Some(match gradients[place].take() {
                        Some(other) => add(&other, &gradient)?,
                        None => gradient,
                    });
                }
            }
        }
        Ok(leaf.and_then(|leaf| leaf.place).and_then(|place| gradients[place].take()))
    }
}
