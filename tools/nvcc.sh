#!/bin/sh
# nvcc, but for those of candle's kernels that the trainer never calls: products with quantised matrices and mixtures of experts, which
# take longer to compile than all the rest. They become empty objects, so that a use of them would fail to link.
out=""
for word in "$@"; do
    case "$word" in
    -c) compiles=yes ;;
    */mmq_*.cu | */mmvq_*.cu | */moe_*.cu) unused=yes ;;
    esac
    if [ "$last" = -o ]; then out=$word; fi
    last=$word
done
if [ "${compiles:-}" ] && [ "${unused:-}" ]; then
    exec gcc -c -x c /dev/null -o "$out"
fi
exec "$CUDA_HOME/bin/nvcc" "$@"
