# Holdfast: every task of the house. `make help` lists them.

# Options are given behind the target, as in `make run PORT=9000`; the environment's HOST and PORT mean other things.
HOST = $(or $(HOLDFAST_HOST),127.0.0.1)
PORT = $(or $(HOLDFAST_PORT),8080)
DATA_DIR = $(or $(HOLDFAST_DATA_DIR),.data)
# One more than there are cores: tests wait for services and engines a third of their time.
WORKERS = $(shell echo $$(($$(nproc 2>/dev/null || echo 2) + 1)))
N = 100
ARGS =

BIN = .venv/bin
# The system's engine serves `make run`; the built one stands in where there is none.
ENGINE = $(if $(shell command -v borg),,HOLDFAST_BORG1=$(or $(HOLDFAST_BORG1),$(CURDIR)/.engines/borg-1.4/bin/borg))

# Programs that start often start twice as fast from compiled files.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup run demo test schema check format bench campaign chaos lock clean

help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Use
setup: ## Install all that the other targets need (as root or with sudo; quick when nothing is to do)
	@tools/setup.sh test

run: ## Set up and serve on http://127.0.0.1:8080 (HOST=, PORT=, DATA_DIR=)
	@tools/setup.sh run
	@$(ENGINE) exec $(BIN)/holdfast serve --host $(HOST) --port $(PORT) --data-dir $(DATA_DIR)

demo: ## A guided tour: a service on sample data, a backup, its log (DEMO_EXIT=1 ends it at the end)
	@tools/setup.sh demo
	@$(ENGINE) tools/demo.sh

##@ Check
test: ## Set up, check, and run every test (WORKERS=, ARGS='-k name')
	@tools/setup.sh test
	@$(MAKE) --no-print-directory -j2 --output-sync=target check schema
	$(BIN)/pytest -n $(WORKERS) --dist worksteal $(ARGS)

schema: ## Try the API with all that its own document allows, and with what it does not
	$(BIN)/pytest tests/contract/test_schema.py

campaign: ## Run the tests that need minutes of real engines each (WORKERS=, ARGS=)
	@tools/setup.sh test
	$(BIN)/pytest -m campaign -n $(WORKERS) --dist worksteal $(ARGS)

check: ## Lint, formatting, types, import direction
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: ## Measure the numbers that the design promises
	@tools/setup.sh test
	$(BIN)/python -m bench $(ARGS)

chaos: ## Play N rounds of killing processes and look for anything lost or doubled (N=100, ARGS='--seed 7')
	@tools/setup.sh test
	$(BIN)/python -m tests.chaos --rounds $(N) $(ARGS)
	$(BIN)/python -m tests.chaos.partition --rounds $(N) $(ARGS)

##@ Change
format: ## Format the code and mend what the linter can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: ## Make the lock files anew from the pyproject.toml files (ARGS=--upgrade for the newest of everything)
	@tools/setup.sh run
	@tools/lock.sh $(ARGS)

clean: ## Remove all that set-up and tools made; the data folder stays
	rm -rf .venv .boot .engines .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
