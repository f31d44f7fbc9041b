.PHONY: setup fmt lint test check bench bench-docs clean

PYTHON := .venv/bin/python
# A backend that is named here and missing fails the tests instead of skipping its own. An engine can be started by root only.
BACKENDS ?= bubblewrap $(if $(filter 0,$(shell id -u)),docker)

setup: ## make .venv with everything that development needs
	@scripts/bootstrap dev

fmt: setup ## format the code
	@$(PYTHON) -m ruff check --fix-only --quiet src bench tests
	@$(PYTHON) -m ruff format src bench tests

lint: setup ## ruff, mypy --strict, import-linter
	$(PYTHON) -m ruff check src bench tests
	$(PYTHON) -m ruff format --check src bench tests
	$(PYTHON) -m mypy
	.venv/bin/lint-imports

test: setup ## every test, with coverage
	scripts/test-machine $(BACKENDS)
	CRABPOT_REQUIRE_BACKENDS="$(BACKENDS)" scripts/with-engine $(PYTHON) -m pytest --cov --cov-report=term

check: lint test ## all of the above

bench: setup ## measure everything beside every peer, and fail where a figure is missed by far
	scripts/bench

bench-docs: setup ## the same, and write docs/benchmarks.md with its results and plots
	scripts/bench docs

clean:
	rm -rf .venv .venv.lock .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
