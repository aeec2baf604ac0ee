#!/bin/sh
# All tests: with cargo-nextest where it is installed, with cargo test where it is not; then the documentation's examples.
set -eu
if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --workspace "$@"
else
    cargo test --workspace --all-targets "$@"
fi
cargo test --workspace --doc "$@"
