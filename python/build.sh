#!/bin/sh
# Builds the core, as the workspace's other debug builds are built, and puts it where `PYTHONPATH=python/src` finds it.
# Arguments go to cargo: those of an earlier build, so that it has nothing to compile twice.
set -eu
cd "$(dirname "$0")/.."
cargo build --package hindsearch-python "$@"
for suffix in so dylib; do
    library="${CARGO_TARGET_DIR:-target}/debug/libhindsearch_python.$suffix"
    if [ -f "$library" ]; then
        cp "$library" python/src/hindsearch/_core.abi3.so
    fi
done
