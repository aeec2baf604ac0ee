#!/usr/bin/env python3
"""Brings NVIDIA's CUDA 13.0 toolkit into `.cache/cuda` (or `HINDSEARCH_CUDA`): what is needed to build with the feature `cuda`
on a machine that has neither a GPU nor a driver.

All comes as pinned wheels from the Python package index, checked by hash and unzipped, never installed. They form one folder with
`bin`, `include`, `lib` and `nvvm`. The driver's library is in no wheel: a stand-in without any function is made for the linker.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from setup import fetch

ROOT = Path(__file__).resolve().parent.parent
COMPILER = ("nvidia-cuda-nvrtc==13.0.88", "ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575")
TOOLKIT = (
    COMPILER,
    ("nvidia-cuda-nvcc==13.0.88", "56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03"),
    ("nvidia-nvvm==13.0.88", "c5f41ffeb6466944a026dfa5317d7d85355c119bbec279205d22f1869d1054e0"),
    ("nvidia-cuda-crt==13.0.88", "2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4"),
    ("nvidia-cuda-runtime==13.0.96", "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548"),
    ("nvidia-cuda-cccl==13.0.85", "e0da7ad981f3a8aff08241b5bfc1af868742a63e2762f53a5171c492ef242649"),
    ("nvidia-cublas==13.1.0.3", "ee8722c1f0145ab246bccb9e452153b5e0515fd094c3678df50b2a0888b8b171"),
    ("nvidia-curand==10.4.0.35", "1aee33a5da6e1db083fe2b90082def8915f30f3248d5896bcec36a579d941bfc"),
)
# Tags of these wheels; pip takes the first that a package has.
SELECTORS = [part for tag in ("manylinux_2_27", "manylinux2014", "manylinux_2_12") for part in ("--platform", f"{tag}_x86_64")]
SELECTORS += ["--python-version", "3.11", "--implementation", "py", "--abi", "none"]
INSIDE = "nvidia/cu13/"
UNUSED = re.compile(r"\.alt\.|libnvblas|\.metadata/|/cmake/|nvdisasm")


def folder():
    """Where the toolkit is."""
    return Path(os.environ.get("HINDSEARCH_CUDA") or ROOT / ".cache" / "cuda")


def unpack(wheel, target):
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if member.is_dir() or not member.filename.startswith(INSIDE) or UNUSED.search(member.filename):
                continue
            path = target / member.filename.removeprefix(INSIDE)
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(path.name + ".tmp")
            with archive.open(member) as source, open(partial, "wb") as sink:
                shutil.copyfileobj(source, sink)
            if path.parent.name == "bin":
                partial.chmod(0o755)
            partial.replace(path)


def bring(wheels, target):
    """Unpacks those wheels that are not there yet."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        sys.exit(f"cuda: no pinned toolkit for {sys.platform} {platform.machine()}; it is for linux x86_64")
    (target / "done").mkdir(parents=True, exist_ok=True)
    for pin, sha in wheels:
        done = target / "done" / pin
        if done.exists() and done.read_text() == sha:
            continue
        print(f"cuda: fetching {pin}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(dir=target, prefix="wheel-") as place:
            unpack(fetch(pin, sha, SELECTORS, Path(place)), target)
        done.write_text(sha)
    return target


def compiler():
    """The folder of NVRTC, the run-time compiler: all that checking the kernels needs."""
    return bring([COMPILER], folder())


def stand_in(prefix):
    """A `libcuda.so` whose functions all say that there is no driver, so that programs link, and start for work on the CPU."""
    library = prefix / "lib" / "libcuda.so.1"
    if library.exists():
        return
    header = subprocess.run(["gcc", "-E", "-P", "-I", prefix / "include", prefix / "include" / "cuda.h"],
                            capture_output=True, text=True, check=True).stdout
    # Those of the profiler are in a header of their own that no wheel has.
    names = sorted({"cuProfilerStart", "cuProfilerStop", *re.findall(r"\bCUresult\s+(cu[A-Z]\w*)\s*\(", header)})
    # 100 is CUDA_ERROR_NO_DEVICE.
    source = "".join(f"int {name}(void) {{ return 100; }}\n" for name in names)
    partial = library.with_name("libcuda.tmp")
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-Wl,-soname,libcuda.so.1", "-o", partial], input=source, text=True, check=True)
    partial.replace(library)


def link(path, target):
    if not path.is_symlink():
        path.symlink_to(target)


def main():
    prefix = bring(TOOLKIT, folder())
    stand_in(prefix)
    link(prefix / "lib64", "lib")
    for library in ("libcuda.so.1", "libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13", "libcurand.so.10", "libnvrtc.so.13"):
        link(prefix / "lib" / (library.split(".so")[0] + ".so"), library)
    print(prefix)


if __name__ == "__main__":
    main()
