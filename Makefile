# The commands of the README. Each installs what is missing first (tools/setup.sh, tools/venv.sh), then builds with CMake.
#
#   make demo         compile real models and read text off a picture
#   make test         build and run the tests
#   make test-all     ... the long ones too (more samples, constant inputs, kernels of real networks, sanitizers)
#   make test-models  fetch real networks, compare with ONNX Runtime, print a table; check all of their kernels
#                     (MODELS: groups or names of tools/models.py; "ocr nets transformers packages" is all of them, 3 GB)
#   make build        the library and the command line, in build/
#   make lint         include directions, target text, layout of the sources
#   make format       lay out the sources
#   make clean

BUILD ?= build
WERROR ?= OFF
MODELS ?= ocr nets
VENV := $(or $(TILEWRIGHT_VENV),.venv)
PYTHON := $(VENV)/bin/python

.PHONY: all configure build demo test test-all test-models lint format clean setup venv
all: build

setup:
	@tools/setup.sh

venv: setup
	@tools/venv.sh

configure: setup
	@cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release -DTW_WERROR=$(WERROR) >/dev/null

build: configure
	@cmake --build $(BUILD)

test: build venv
	@$(PYTHON) tools/test_all.py --build $(BUILD)

test-all: build venv
	@$(PYTHON) tools/test_all.py --build $(BUILD) --all

test-models: build venv
	@$(PYTHON) tools/run_models.py $(BUILD)/tilewright $(MODELS)
	@$(PYTHON) tools/run_kernels.py $(BUILD)/kernels_check --models
	@TILEWRIGHT_BUILD=$(BUILD) $(PYTHON) tools/test_soak.py --models

demo: configure
	@cmake --build $(BUILD) --target example_ocr
	@tools/demo.sh $(BUILD)

lint: setup
	@python3 tools/layers.py
	@tools/format.sh --check

format: setup
	@tools/format.sh

clean:
	@rm -rf $(BUILD) $(BUILD)-sanitizers
