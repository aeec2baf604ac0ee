#!/bin/sh
# Checks, or with --release builds, the program with the feature `cuda`, on any Linux machine: the toolkit comes by itself.
set -eu
cd "$(dirname "$0")/.."
CUDA_HOME=$(python3 tools/cuda_toolkit.py)
NVCC=$PWD/tools/nvcc.sh
# A virtual architecture of 8.0 would do for all; 9.0 is that of H100 and H200.
CUDA_COMPUTE_CAP=${CUDA_COMPUTE_CAP:-90}
LIBRARY_PATH=$CUDA_HOME/lib
LD_LIBRARY_PATH=$CUDA_HOME/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
PATH=$CUDA_HOME/bin:$PATH
export CUDA_HOME NVCC CUDA_COMPUTE_CAP LIBRARY_PATH LD_LIBRARY_PATH PATH

case "${1:-}" in
--release)
    cargo build --release --features hindsearch/cuda,hindsearch-trainer/cuda -p hindsearch --bin hindsearch -p hindsearch-trainer \
        --example device_check
    # What tools/gpu_check.sh needs on a machine that has only a GPU.
    release=${CARGO_TARGET_DIR:-target}/release
    mkdir -p .cache/gpu
    for program in hindsearch examples/device_check; do
        strip -o ".cache/gpu/$(basename "$program")" "$release/$program"
        gzip -9f ".cache/gpu/$(basename "$program")"
    done
    du -sh .cache/gpu
    ;;
*) cargo check --features cuda ;;
esac
