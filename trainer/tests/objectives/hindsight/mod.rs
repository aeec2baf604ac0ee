//! Learning in hindsight: equal to PyTorch, blind to what is not taught and to the split, without a gradient to the teacher.

mod golden;
mod masks;
mod oracles;
mod settings;
mod support;
