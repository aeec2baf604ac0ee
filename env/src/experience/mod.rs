//! What did earlier episodes teach, and where does it help? Layered experience that guides rollouts (HiExp, arXiv 2604.08124).
//!
//! Level 1 holds what one task taught, level 2 the patterns behind several of its entries, level 3 the strategies behind several
//! patterns. Patterns and strategies stand in the prompt of an episode ([`Guide::planning`]), an entry of level 1 behind the passages
//! of a search that it fits ([`Guide::step`]). The environment shows them, so no mask takes them for the policy's: there is no switch
//! that would learn from them.

pub(crate) mod block;
mod build;
mod cluster;
mod contrast;
mod entry;
mod file;
mod guide;
mod habits;
mod keys;
mod reflect;
mod settings;
mod written;

pub use build::{BuildOptions, Builder};
pub use cluster::Tree;
pub use contrast::RuleReflector;
pub use entry::{Entry, HIGHEST_LEVEL};
pub use file::{Experience, FORMAT_VERSION, Level, Nearness};
pub use guide::Guide;
pub use keys::KeyEmbedder;
pub use reflect::{Group, Lesson, Reflector};
pub use settings::{Distiller, ExperienceSettings, Planning, Step};
pub use written::WrittenReflector;
