//! The HTTP service: one index for every client.
//!
//! | question | module |
//! |---|---|
//! | How is it set up, and within which limits? | `options` |
//! | What do all routes share? | `service`, `serving`: the index now and the next one |
//! | In which order is work done, and how much may wait? | `engine/` |
//! | Which routes are there? | `routes`, `openapi` |
//! | What do they do? | `api`, `embeddings`, `status`, `mcp/`, `pages` |
//! | How do other servers' clients feel at home? | `dialects/`, `perform`, `fields`, `titles` |
//! | How is a request read, who may ask, how much may it take, and what is told of it? | `incoming`, `gate`, `memory`, `observe`, `fault`, `log`, `trace`, `metrics` |
//! | Who holds the sockets? | `server`, `places`, `connection`, `descriptors`, `tls`, `page_in` |

mod api;
mod connection;
mod descriptors;
mod dialects;
mod embeddings;
mod engine;
mod fault;
mod fields;
mod gate;
mod incoming;
mod log;
mod mcp;
mod memory;
mod metrics;
mod observe;
mod openapi;
mod options;
mod page_in;
mod pages;
mod perform;
mod places;
mod routes;
mod server;
mod service;
mod serving;
mod status;
mod titles;
mod tls;
mod trace;

pub use dialects::{DIALECTS, Dialect, Operation, Verb, dialect};
pub use engine::{Ask, Engine, EngineOptions, Found, Model, Queries, TextEncoder, TextVector, Timings};
pub use fault::{Code, Fault, Style};
pub use incoming::{Incoming, RequestId, understand};
pub use mcp::serve_stdio;
pub use metrics::Metrics;
pub use openapi::build as openapi;
pub use options::{Limits, Listen, ServeOptions, TlsFiles, Token};
pub use routes::{Body, MoreRoutes, Route, schema};
pub use server::{Address, Bound, serve};
pub use service::{MessageGuard, Readiness, Service};
pub use serving::Serving;
