//! Who may ask, from where, and what hostile requests come to.
#![cfg(feature = "serve")]

#[path = "../serve_api_support/mod.rs"]
mod serve_api_support;

mod attacks;
mod browsers;
mod tls;
mod tokens;
