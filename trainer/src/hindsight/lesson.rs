//! Where do the policy's tokens stand in what the teacher reads?

/// A sequence that a teacher reads in place of a sample: the same tokens of the policy, never tokenised again and never cut, behind
/// or between words that the policy did not see (`methods` of distillation differ in these words alone).
#[derive(Debug, Clone, PartialEq)]
pub struct Lesson {
    /// All tokens, in order.
    pub tokens: Vec<u32>,
    /// For each of the sample's places, in their order, its place in `tokens`; from 1 on.
    pub places: Vec<usize>,
    /// For each of these, whether the teacher is to speak of it.
    pub mask: Vec<bool>,
}

impl Lesson {
    /// Numbers of the sample's places of which it speaks.
    pub(crate) fn taught(&self) -> impl Iterator<Item = usize> {
        self.mask.iter().enumerate().filter_map(|(number, taught)| taught.then_some(number))
    }
}
