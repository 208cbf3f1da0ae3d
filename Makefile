# Holdfast: every task of the house. `make help` lists them.

# Options are given behind the target, as in `make run PORT=9000`; the environment's HOST and PORT mean other things.
HOST = $(or $(HOLDFAST_HOST),127.0.0.1)
PORT = $(or $(HOLDFAST_PORT),8080)
DATA_DIR = $(or $(HOLDFAST_DATA_DIR),.data)
# One process more than cores keeps them busy while tests wait; each has services of its own, so more would take longer.
WORKERS = $(shell echo $$(($$(nproc 2>/dev/null || echo 2) + 1)))
N = 100
ARGS =
PARTS =

BIN = .venv/bin
# A value as one word of the shell, whatever it holds.
quote = '$(subst ','\'',$(1))'

# Programs that start often start twice as fast from compiled files.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup run web dev types demo test schema check format bench campaign chaos fresh lock clean

help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Use
setup: ## Install what the other targets need (as root or with sudo; quick when nothing is missing)
	@tools/setup.sh test

run: ## Set up and serve on http://127.0.0.1:8080 (HOST=, PORT=, DATA_DIR=)
	@tools/setup.sh run
	@exec tools/with-engine $(BIN)/holdfast serve --host $(call quote,$(HOST)) --port $(call quote,$(PORT)) --data-dir $(call quote,$(DATA_DIR))

web: ## Build the web pages, if their source has changed
	@tools/web.sh build

dev: ## Serve the web pages with hot reload on port 5173, in front of `make run`
	@tools/web.sh dev

demo: ## Fill a service with a year of sample backups and serve it (DEMO_EXIT=1 stops it when it is filled)
	@tools/setup.sh demo
	@exec tools/with-engine .venv/bin/python tools/demo.py

##@ Check
test: ## Set up, check, and run the tests (WORKERS=, ARGS='-k name')
	@tools/setup.sh test
	@tools/test_all.sh -n $(WORKERS) --dist worksteal $(ARGS)

schema: ## Try the API with requests that its OpenAPI document allows, and with some that it does not
	$(BIN)/pytest tests/contract/test_schema.py

campaign: ## Run what takes too long for `make test`; one summary at the end (N=100, ARGS='-k name', PARTS=tests)
	@tools/setup.sh test
	@tools/campaign.sh -n $(N) -a $(call quote,$(ARGS)) $(PARTS)

fresh: ## Try make run, the tour and make test on bare Debian 12 and 13 (as root; ARGS='-s trixie -u somebody')
	@tools/try_fresh.sh $(ARGS)

check: ## Check lint, formatting, types and import direction
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	tools/web.sh check

bench: ## Measure the numbers of docs/numbers.md
	@tools/setup.sh test
	$(BIN)/python -m bench $(ARGS)

chaos: ## Kill processes and cut networks N times; look for anything lost or doubled (N=100, ARGS='--seed 7')
	@tools/setup.sh test
	$(BIN)/python -m tests.chaos --rounds $(N) $(ARGS)
	$(BIN)/python -m tests.chaos.partition --rounds $(N) $(ARGS)

##@ Change
types: ## Make the web UI's types anew from the API
	@tools/web.sh types

format: ## Format the code and fix what the linter can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: ## Renew the lock files from the pyproject.toml files (ARGS=--upgrade for the newest versions)
	@tools/setup.sh run
	@tools/lock.sh $(ARGS)

clean: ## Remove what set-up and tools made; the data folder stays
	rm -rf .venv .boot .engines .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
