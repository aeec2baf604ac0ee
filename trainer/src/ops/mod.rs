//! Differentiable operations of language models, each with a backward pass of its own.
//!
//! Where tensors are f32 on the CPU, each operation has a fast kernel, and a row's numbers do not depend on the rows beside it, on
//! the batch or on threads, to the last bit. All other tensors go through `device.rs`.

mod adamw;
mod add;
mod attention;
#[cfg(feature = "cuda")]
mod cuda;
mod device;
mod embedding;
mod likeliest;
mod linear;
mod logprobs;
mod memory;
mod norm;
mod panels;
mod parameter;
mod placement;
mod plain;
mod rotary;
mod rows;
mod swiglu;
mod tape;
mod tensor;
mod wide;

pub use add::residual;
pub use attention::{Heads, attention};
pub use embedding::embedding;
pub use likeliest::{OtherSlopes, Others};
pub use linear::{add_scaled, linear};
pub use logprobs::Logprobs;
pub use norm::rms_norm;
pub use parameter::Parameter;
pub use placement::Placement;
pub use rotary::{Angles, rotary};
pub use rows::select_rows;
pub use swiglu::swiglu;
pub use tape::{Tape, Value};

pub use logprobs::LOGIT_ROWS;

pub(crate) use adamw::{AdamWNumbers, Updating};
pub(crate) use attention::Segment;
pub(crate) use device::sum_of_squares;
pub(crate) use device::{adamw, attention as attention_on_device};
pub(crate) use logprobs::{exponentials, read as read_logits, wide_logits};
pub(crate) use memory::{HeadMemory, head_memory};
pub(crate) use placement::{is_host, to_host};
pub(crate) use tensor::{tensor, view};
