#!/bin/sh
# Do the methods of training run on a GPU in bf16, how fast, and what does a teacher cost? 20 steps of each on a real model; 8 minutes at
# most. For a machine that is lent for minutes.
#
#     make cuda CUDA=--release                             # elsewhere, before: makes .cache/gpu
#     sh tools/gpu_methods.sh cuda MODEL INDEX [OPTIONS]   # there; results also go to $OUT where it is set
#     sh tools/gpu_methods.sh cpu MODEL INDEX [OPTIONS]    # the same steps on the CPU, with $HINDSEARCH: does this script work?
#
# INDEX is an index folder with its model, or the address of a server. OPTIONS go to `hindsearch train`, such as `--tasks` and `--recipe`.
# The judge is the model itself. Where EXPERIENCE names a file of `hindsearch experience build`, HiExp runs, too.
set -u
device=$1 model=$2 index=$3
shift 3
cd "$(dirname "$0")/.."
work=$(mktemp -d)
out=${OUT:-$work}
trap 'rm -rf "$work"' EXIT

if [ "$device" = cuda ]; then
    for program in hindsearch device_check; do
        gzip -dc ".cache/gpu/$program.gz" >"$work/$program" && chmod +x "$work/$program" || exit 2
    done
    for library in libcublas.so.13 libcublasLt.so.13 libcurand.so.10 libnvrtc.so.13 libcudart.so.13; do
        place=$(find / -xdev -name "$library" -not -path '/proc/*' 2>/dev/null | head -1)
        test -n "$place" && LD_LIBRARY_PATH="$(dirname "$place"):${LD_LIBRARY_PATH:-}"
    done
    export LD_LIBRARY_PATH
    hindsearch=$work/hindsearch
    # Updates in bf16 beside those in f32 on the CPU, with each form of what a teacher says.
    timeout 60 "$work/device_check" parity cuda bf16 | tee "$out/parity.txt"
else
    hindsearch=${HINDSEARCH:?names the program}
fi

for method in grpo hindsearch sd-search evisd hiexp; do
    case $method in
        hindsearch) own="--override hindsight.critic.kind='local'" ;;
        sd-search) own="--override hindsight.schedule.start=0" ;;
        hiexp) test -n "${EXPERIENCE:-}" || continue; own="--override experience.file='$EXPERIENCE'" ;;
        *) own="" ;;
    esac
    # shellcheck disable=SC2086
    timeout -k 5 85 "$hindsearch" train "$index" --model "$model" --preset "$method" --out "$work/$method" -q --override "device='$device'" \
        --override steps=20 --override evaluation.every=0 --override checkpoint.every=1000 --override rollout.tasks=4 \
        --override rollout.samples=4 $own "$@" >/dev/null
    printf '%s: exit %s\n' "$method" $?
done

python3 - "$work" <<'REPORT' | tee "$out/methods.txt"
import json, pathlib, sys

print(f"{'method':12} steps  s a step  written/s  learnt/s  teacher's share  loss is finite")
for path in sorted(pathlib.Path(sys.argv[1]).glob("*/metrics.jsonl")):
    steps = [json.loads(line)["values"] for line in path.read_text().splitlines()]
    steps = [step for step in steps if "time/step" in step]
    kept = steps[2:] or steps  # the first ones compile kernels

    def mean(*names):
        return sum(step.get(name, 0.0) for step in kept for name in names) / len(kept)

    share = mean("time/hints", "time/teacher") / mean("time/step")
    finite = all(abs(step["loss"]) < 1e9 for step in steps)
    print(
        f"{path.parent.name:12} {len(steps):5} {mean('time/step'):9.2f} {mean('speed/written'):10.0f}"
        f" {mean('speed/learnt'):9.0f} {share:16.1%}  {finite}"
    )
REPORT
