#!/bin/sh
# Is the trainer right on a GPU, and how fast? For a machine that is lent for minutes and has neither Rust nor the toolkit.
#
#     make cuda CUDA=--release      # elsewhere, before: makes .cache/gpu, which is all that is needed beside the sources
#     sh tools/gpu_check.sh         # there: about 5 minutes, 8 at most; results also go to $OUT where it is set
#     sh tools/gpu_check.sh cpu     # the same steps on the CPU: does this script work?
#
# CUDA's libraries must be there (those of PyTorch's packages are found), and Python for the training run.
set -u
cd "$(dirname "$0")/.."
device=${1:-cuda}
work=$(mktemp -d)
out=${OUT:-$work}
failed=0
started=""
trap 'test -z "$started" || kill $started 2>/dev/null; rm -rf "$work"' EXIT

# Each step has a name, a limit in seconds and a command; a later one goes on where it fails.
step() {
    name=$1 limit=$2 begun=$(date +%s)
    shift 2
    printf '\n== %s (at most %s s)\n' "$name" "$limit"
    timeout -k 5 "$limit" "$@"
    code=$?
    test $code -eq 0 && result=ok || { result="FAILED with $code"; failed=$((failed + 1)); }
    printf '== %s: %s after %s s\n' "$name" "$result" $(($(date +%s) - begun)) | tee -a "$out/results.txt"
}

for program in hindsearch device_check; do
    gzip -dc ".cache/gpu/$program.gz" >"$work/$program" && chmod +x "$work/$program" || exit 2
done

if [ "$device" = cuda ]; then
    # The newest place of each library that the loader does not know of.
    for library in libcublas.so.13 libcublasLt.so.13 libcurand.so.10 libnvrtc.so.13 libcudart.so.13; do
        place=$(find / -xdev -name "$library" -not -path '/proc/*' 2>/dev/null | head -1)
        test -n "$place" && LD_LIBRARY_PATH="$(dirname "$place"):${LD_LIBRARY_PATH:-}"
    done
    export LD_LIBRARY_PATH
    types="f32 bf16"
else
    types="f64 bf16"
fi

if [ "$device" = cuda ]; then
    step "GPU" 20 nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv,noheader
    step "libraries" 20 sh -c "! ldd '$work/hindsearch' '$work/device_check' | grep 'not found'"
fi
step "start-up" 20 "$work/hindsearch" --version

for type in $types; do
    step "parity in $type" 100 "$work/device_check" parity "$device" "$type"
done

if [ "$device" = cuda ]; then
    nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -lms 200 >"$work/memory" &
    started=$!
    step "speed in bf16, 6 layers of Qwen2.5-3B" 120 "$work/device_check" speed cuda bf16 6
    kill $started && started=""
    printf 'peak memory: %s MiB\n' "$(sort -n "$work/memory" | tail -1)" | tee -a "$out/results.txt"
fi

# A retrieval server that finds the same passage always.
cat >"$work/server.py" <<'SERVER'
import http.server, json, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        passage = {"document": {"id": "0", "contents": "\"Title\"\nText"}, "score": 1.0}
        body = json.dumps({"result": [[passage] for _ in asked["queries"]]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
with open(sys.argv[1], "w") as file:
    file.write(str(server.server_port))
server.serve_forever()
SERVER
python3 "$work/server.py" "$work/port" &
started=$!
sleep 2
# A model of 30,000 weights, with room for whole episodes.
cp -r trainer/tests/golden/models/llama "$work/model"
sed -i 's/"max_position_embeddings": 512/"max_position_embeddings": 8192/' "$work/model/config.json"
step "two steps of training" 60 "$work/hindsearch" train "http://127.0.0.1:$(cat "$work/port")" --model "$work/model" \
    --out "$work/run" --held-out 2 --override "device=$device" --override steps=2 --override rollout.tasks=2 --override rollout.samples=2
test -f "$work/run/metrics.jsonl" && tail -c 1500 "$work/run/metrics.jsonl" && cp "$work/run/metrics.jsonl" "$out/"

printf '\n%s steps failed\n' $failed | tee -a "$out/results.txt"
exit $((failed > 0))
