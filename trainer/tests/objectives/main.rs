//! Objectives: equal to PyTorch, blind to masked tokens and to the split, and never silent about numbers that ran away.

mod golden;
mod hindsight;
mod masks;
mod oracles;
mod settings;
mod split;
mod support;
