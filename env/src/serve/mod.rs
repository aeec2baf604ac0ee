//! Episodes over HTTP, in the server of the retriever: trainers in any language play here, and the queries of all episodes share
//! the model's and the index's batches.
//!
//! | question | module |
//! |---|---|
//! | What is served, and within which limits? | `server` |
//! | Which episodes are under way, and which are forgotten? | `episodes` |
//! | What does one message lead to? | `play`, `action` |
//! | How are many items asked for at once, each with its own answer or error? | `batch` |
//! | Which routes are there? | `routes` |
//! | What do they do? | `native/`, `lists` |
//! | What may a teacher be told of an episode? | `hindsight/` |
//! | How do other packages' clients feel at home? | `guest`, `guest_schemas`, `openenv/`, `nemo_gym`, `verl_tool` |

mod action;
mod batch;
mod episodes;
mod guest;
mod guest_schemas;
mod hindsight;
mod lists;
mod native;
mod nemo_gym;
mod openenv;
mod play;
mod routes;
mod server;
mod verl_tool;

pub use server::{Clock, EnvOptions, EnvServer};
