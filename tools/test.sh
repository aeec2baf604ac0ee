#!/bin/sh
# All tests: the documentation's examples, then the rest, with cargo-nextest where it is installed and with cargo test where
# it is not.
set -eu
cargo test --quiet --workspace --doc "$@"
if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --workspace "$@"
else
    cargo test --workspace --all-targets "$@"
fi
