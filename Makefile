.PHONY: test-agents test-cluster setup hooks fmt lint quick test coverage test-pythons test-vm check bench bench-docs docs clean

PYTHON := .venv/bin/python
# A backend that is named here and missing fails the tests instead of skipping its own. An engine can be started by root only.
BACKENDS ?= bubblewrap $(if $(filter 0,$(shell id -u)),docker)

# Half of the time of a test that starts sandboxes is waiting: with three processes for each processor few waits leave it idle.
WORKERS ?= $(shell expr 3 '*' $$(nproc))
# What is compiled once serves every process, whatever the environment says. A group of tests stays with one worker.
PYTEST = PYTHONDONTWRITEBYTECODE= $(PYTHON) -m pytest -n $(WORKERS) --dist=loadgroup --no-loadscope-reorder
# A loaded machine fails a test now and then: it is tried twice more and counted as rerun. A broken claim never gets a second try.
RERUNS = -raR --reruns 2 --reruns-delay 3 --rerun-except "'broken' == 'held'"
QUICK := decide spec config approvals artefacts runner test_explain.py test_settings.py

setup: ## make .venv with everything that development needs
	@scripts/bootstrap dev

hooks: setup ## look at every commit before it is made
	.venv/bin/pre-commit install

fmt: setup ## format the code
	@$(PYTHON) -m ruff check --fix-only --quiet src bench tests
	@$(PYTHON) -m ruff format src bench tests

lint: setup ## ruff, mypy --strict, import-linter, and the contracts that it cannot hold
	$(PYTHON) -m ruff check src bench tests
	$(PYTHON) -m ruff format --check src bench tests
	$(PYTHON) -m mypy
	.venv/bin/lint-imports
	$(PYTHON) -m pytest -q tests/unit/test_contracts.py

quick: WORKERS = $(shell expr 2 '*' $$(nproc))
quick: setup ## the decisions, the runner and one real sandbox: without root, without an engine, within a minute
	$(PYTEST) -m 'not slow' $(QUICK:%=tests/unit/%) tests/live/test_smoke.py

test: setup ## every test that this machine can run
	scripts/test-machine $(BACKENDS)
	PYTHONDONTWRITEBYTECODE= $(PYTHON) -m compileall -q src bench
	@# Otherwise every worker compiles all tests for itself. What is wrong with one is reported by the run.
	@PYTHONDONTWRITEBYTECODE= $(PYTHON) -m pytest --collect-only -qq -p no:cacheprovider >/dev/null || :
	@# What an engine runs for a container lives for a moment: collecting garbage in it is an eighth of the cost of a start.
	GOGC=400 CRABPOT_REQUIRE_BACKENDS="$(BACKENDS)" scripts/with-engine env -u GOGC $(PYTEST) $(RERUNS)

coverage: setup ## what the unit tests cover, line by line and branch by branch
	$(PYTEST) $(RERUNS) --cov --cov-report=term:skip-covered tests/unit

test-pythons: ## the unit tests on every Python of Debian's releases, each in a folder of its own; as root
	scripts/test-pythons

test-vm: ## cgroup v2, systemd, AppArmor and Docker as users have them: in emulated guests, about half an hour; as root
	scripts/test-vm

test-cluster: setup ## the suites on real pods of a one-node cluster that is built and started for them; as root, not part of `make test`
	scripts/test-cluster

test-frameworks: setup ## the suites of the frameworks that we integrate with, each in an environment of its own
	scripts/test-frameworks

test-agents: setup ## the real Claude Code, Codex, OpenCode, Gemini CLI, OpenClaw, Aider and MCP servers, installed from npm and PyPI into a folder of their own
	scripts/test-agents

check: lint test coverage ## the three together

bench: setup ## measure everything beside every peer, and fail where a figure is missed by far
	scripts/bench

bench-docs: setup ## the same, and write docs/benchmarks.md with its results and plots
	scripts/bench docs

docs: ## build the site of docs/ into site/, and fail on a broken link
	scripts/docs

clean:
	rm -rf .venv .venv.lock .venv-frameworks .venv-docs .venv-docs.lock site .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
