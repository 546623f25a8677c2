# make lab     build .venv and open the workbook in JupyterLab
# make test    build .venv with the test tools and run every test, notebooks included (2 cores: minutes)
# make help    the rest
#
# PYTHON=...     the Python 3.11 or 3.12 to build .venv with (found by itself when left out)
# INSTALLER=...  uv or pip (uv first, pip where uv cannot reach an index, when left out)
# EXTRAS=...     for make env: bench (PyTorch as a peer), cu12 or cu13 (an NVIDIA card)
# RUN=...        for make train: the new run directory (runs/ANDREA-nano, numbered, when left out)
# LAB_FLAGS, TEST_FLAGS, TRAIN_FLAGS   handed on to JupyterLab, pytest, andrea train

SHELL := /bin/sh
BIN := .venv/bin
ENV := PYTHON="$(PYTHON)" INSTALLER="$(INSTALLER)" sh tools/env.sh
JOBS ?= 2

.PHONY: help env lab test test-full train gpu-check lint lock clean

help:
	@awk '!/^#/ {exit} {sub(/^# ?/, ""); print}' Makefile
	@echo "make env | train | gpu-check | test-full | lint | lock | clean"

env:
	@$(ENV) lab $(EXTRAS)

lab:
	@$(ENV) lab
	@sh tools/lab.sh $(LAB_FLAGS)

train:
	@$(ENV) lab
	@$(BIN)/andrea train ANDREA-nano $(if $(RUN),--run $(RUN)) $(TRAIN_FLAGS)

test:
	@$(ENV) test
	@$(BIN)/python -m pytest -n $(JOBS) $(TEST_FLAGS)

test-full:
	@$(ENV) test
	@$(BIN)/python -m pytest -n $(JOBS) -m "full or not full" $(TEST_FLAGS)

gpu-check:
	@$(ENV) test
	@$(BIN)/python tools/gpu_check.py

lint:
	@$(ENV) test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

lock:
	@$(ENV) lab
	@sh tools/lock.sh

clean:
	rm -rf .venv build andrea_lab.egg-info .pytest_cache .hypothesis .ruff_cache
	find andrea_lab kernels tests tools notebooks -name __pycache__ -o -name .ipynb_checkpoints | xargs rm -rf
