#!/usr/bin/env python3
"""Do the CUDA kernels compile, and are their numbers right? Answered without a GPU.

Each source of `trainer/src/ops/cuda` is compiled for each type of element and size of head by NVRTC, the compiler that the program
calls at run time, for compute capability 8.0 and 9.0. Registers and memory of each kernel are printed: one that keeps arrays
on the stack, which is slow, or wants more than 48 KiB of shared memory is an error. Then the same sources are compiled by g++ and run, block by block, each thread a
fiber (`trainer/tests/kernels`), against plain loops in f64.

    tools/check_kernels.py [--only-compile | --only-run]
"""

import argparse
import ctypes
import itertools
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cuda_toolkit

ROOT = cuda_toolkit.ROOT
SOURCES = ROOT / "trainer" / "src" / "ops" / "cuda"
TESTS = ROOT / "trainer" / "tests" / "kernels"
ARCHITECTURES = ("sm_80", "sm_90")
SHARED_LIMIT = 48 << 10
# The assembler may put a value or two there to have more threads at once.
STACK_LIMIT = 32


def definitions():
    """What the program defines for each source: read from the Rust file that does so, which has a line for each."""
    text = (SOURCES / "sources.rs").read_text()

    def sizes(name):
        items = re.search(rf"\b{name}: .*?&\[(.*?)\];", text, re.S)[1]
        return [{"DIM": dim, "TILE": tile} for dim, tile in re.findall(r"dim: (\d+), tile: (\d+)", items)]

    elements = re.findall(r'"(\w+)"', re.search(r"ELEMENTS: .*?= \[(.*?)\]", text)[1])
    for path in sorted(SOURCES.glob("*.cu")):
        mma = path.stem == "attention_mma"
        heads = sizes("MMA_HEADS" if mma else "HEADS") if re.search(r"\bDIM\b", path.read_text()) else [{}]
        for element in ["bf16"] if mma else elements:
            for head in heads:
                yield path, [f"-D{name}={value}" for name, value in ({"ELEMENT": element} | head).items()]


class Compiler:
    """NVRTC, by its C interface."""

    def __init__(self, folder):
        # The compiler looks for this one by name; one that is loaded is found.
        ctypes.CDLL(str(folder / "lib" / "libnvrtc-builtins.so.13.0"), mode=ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(str(folder / "lib" / "libnvrtc.so.13"))

    def call(self, name, *arguments):
        return getattr(self.library, name)(*arguments)

    def text(self, program, what):
        size = ctypes.c_size_t()
        self.call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self.call(f"nvrtcGet{what}", program, buffer)
        return buffer.raw

    def compile(self, source, name, options):
        """The machine code, and the compiler's messages; no code where it failed."""
        program = ctypes.c_void_p()
        self.call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), name.encode(), 0, None, None)
        words = [option.encode() for option in options]
        failed = self.call("nvrtcCompileProgram", program, len(words), (ctypes.c_char_p * len(words))(*words))
        log = self.text(program, "ProgramLog").rstrip(b"\0").decode()
        code = b"" if failed else self.text(program, "CUBIN")
        self.call("nvrtcDestroyProgram", ctypes.byref(program))
        return code, log


def whole(path):
    """A source as the program compiles it: behind the one that all share, with lines that count from its own."""
    return f'{(SOURCES / "common.cuh").read_text()}\n#line 1 "{path.name}"\n{path.read_text()}'


def resources(log):
    """Name, registers, bytes of shared memory and bytes of the stack of each kernel, of what the assembler says about them."""
    for part in log.split("Compiling entry function '")[1:]:
        shared = re.search(r"(\d+) bytes smem", part)
        stack, = re.findall(r"(\d+) bytes stack frame", part)
        registers, = re.findall(r"Used (\d+) registers", part)
        yield part.split("'")[0], int(registers), int(shared[1]) if shared else 0, int(stack)


def compile_all():
    compiler = Compiler(cuda_toolkit.compiler())

    def compile_one(job):
        (path, names), architecture = job
        options = [*names, f"--gpu-architecture={architecture}", "--std=c++17", "--ptxas-options=-v"]
        return f"{path.name} {' '.join(names)} {architecture}", *compiler.compile(whole(path), path.name, options)

    failures = kernels = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for label, code, log in pool.map(compile_one, itertools.product(definitions(), ARCHITECTURES)):
            if not code:
                failures += 1
                print(f"{label}: does not compile\n{log}", file=sys.stderr)
            for kernel, registers, shared, stack in resources(log):
                kernels += 1
                print(f"{label} {kernel}: {registers} registers, {shared} bytes shared, {stack} bytes of stack")
                if shared > SHARED_LIMIT or stack > STACK_LIMIT:
                    failures += 1
                    print(f"{label} {kernel}: expected at most {SHARED_LIMIT} bytes shared and {STACK_LIMIT} of stack", file=sys.stderr)
    if failures:
        sys.exit(f"check_kernels: {failures} failures")
    print(f"check_kernels: {kernels} kernels compile")


def instances():
    """C++ with a struct of kernels for each source, type of element and size of head."""
    attention = []
    for path, names in definitions():
        source = path.read_text()
        values = dict(name.removeprefix("-D").split("=") for name in names)
        name = "_".join([path.stem, values["ELEMENT"], *([values["DIM"]] if "DIM" in values else [])])
        kernels = re.findall(r"^KERNEL\(.*?\) (\w+)\(", source, re.M)
        yield from (f"#define {name} {value}" for name, value in values.items())
        yield f'namespace in_{name} {{\n#include "{path.name}"\n}}'
        yield f"struct {name} {{\n    using Element = ELEMENT;"
        if "DIM" in values:
            yield f"    using Tile = in_{name}::Tile;\n    static constexpr int DIM_ = DIM, TILE_ = TILE;"
        yield from (f"    static constexpr auto {kernel} = in_{name}::{kernel};" for kernel in kernels)
        yield "};"
        yield from (f"#undef {name}" for name in [*values, *re.findall(r"#define (\w+)", source)])
        if path.stem.startswith("attention"):
            others = (name.replace(path.stem, "decode"), f"means_{values['ELEMENT']}")
            attention.append(f"RUN({', '.join([name, *others])})")
    yield f"#define ATTENTION_INSTANCES(RUN) {' '.join(attention)}"


def run_all():
    folder = ROOT / ".cache" / "kernels"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "check"
    (folder / "instances.h").write_text("\n".join(instances()) + "\n")
    command = [os.environ.get("CXX", "g++"), "-std=c++20", "-O1", "-g", "-fsanitize=address", "--param=asan-stack=0",
               "-Wall", "-Wno-unknown-pragmas", f"-I{SOURCES}", f"-I{folder}", "-o", program, TESTS / "check.cpp"]
    if subprocess.run(command).returncode != 0:
        sys.exit("check_kernels: the kernels do not compile for the CPU: see the message above")
    # Fibers leave their stacks in ways that its search for leaks does not follow.
    environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0"}
    running = [subprocess.Popen([program, element], env=environment) for element in ("float", "bf16")]
    if any([process.wait() != 0 for process in running]):
        sys.exit("check_kernels: wrong numbers: see the lines with `WRONG` above")


def main():
    parser = argparse.ArgumentParser(description="Compiles the CUDA kernels and checks their numbers, without a GPU.")
    parser.add_argument("--only-compile", action="store_true")
    parser.add_argument("--only-run", action="store_true")
    wanted = parser.parse_args()
    if not wanted.only_run:
        compile_all()
    if not wanted.only_compile:
        run_all()


if __name__ == "__main__":
    main()
