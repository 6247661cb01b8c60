# Hearth. `make help` lists the targets; `make run` and `make test` need nothing but make.
SHELL := /bin/bash
.DEFAULT_GOAL := help
NODE := node_modules/.bin/node
STAMP := build/.setup

.PHONY: help run test test-unit test-native test-asan test-tsan fuzz lint verify e2e cluster cluster-down image bench bench-quick bench-pods soak build setup generate format clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

run: build ## Start three agents, warm a real model, mount and verify it (SOURCE=..., ONESHOT=1)
	@$(NODE) scripts/demo/main.ts

test: build ## Everything: native tests, sanitizers, fuzzers, TypeScript, lint, three agents killed in turn
	@$(NODE) scripts/test/main.ts all

test-unit: build ## TypeScript tests
	@$(NODE) scripts/test/main.ts unit

test-native: build ## C++ tests
	@$(NODE) scripts/test/main.ts native

test-asan: $(STAMP) ## C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(NODE) scripts/test/main.ts asan

test-tsan: $(STAMP) ## C++ tests under ThreadSanitizer
	@$(NODE) scripts/test/main.ts tsan

fuzz: $(STAMP) ## Each fuzzer for FUZZ_SECONDS (60)
	@$(NODE) scripts/test/main.ts fuzz

lint: $(STAMP) ## Types, biome, clang-format, clang-tidy
	@$(NODE) scripts/test/main.ts lint

verify: $(STAMP) ## Prove that generated files are current
	@$(NODE) scripts/test/main.ts verify

e2e: build ## Kubernetes on this machine: cluster, image, chart, volumes (root; the first run builds the tools)
	@$(NODE) scripts/test/main.ts e2e

cluster: $(STAMP) ## A Kubernetes cluster to try things on (root; NODES=2, NAME=dev); prints how to use it
	@$(NODE) e2e/cluster/main.ts up

cluster-down: $(STAMP) ## Remove that cluster, and what interrupted runs have left
	@$(NODE) e2e/cluster/main.ts down

image: $(STAMP) ## Build the container image, without a daemon (root); REGISTRY=HOST/PATH pushes it (TAG=...)
	@$(NODE) e2e/cluster/main.ts image

bench: build ## Measure against baselines in the same run, for 15 minutes; writes bench/report.html (BENCH_AGAINST=COMMIT: before and after)
	@$(NODE) bench/main.ts

bench-quick: build ## The same for 3 minutes: fewer rows, bytes and runs
	@BENCH_QUICK=1 $(NODE) bench/main.ts

bench-pods: build ## Measure reads in pods against the node's disk, on a cluster; writes bench/results-pods.json
	@$(NODE) e2e/bench/main.ts

soak: build ## Readers on four agents while everything goes wrong, for an hour (root; SOAK_SECONDS, SOAK_BYTES, SOAK_SEED)
	@$(NODE) e2e/soak/main.ts

build: $(STAMP) ## Build the native engine (release)
	@scripts/build-native.sh release

setup $(STAMP): package-lock.json scripts/setup.sh ## Install Debian packages, Node 24 and npm packages
	@scripts/setup.sh
	@mkdir -p build && touch $(STAMP)

generate: $(STAMP) ## Write all generated sources again
	@$(NODE) scripts/generate-constants.ts
	@$(NODE) scripts/generate-crds.ts
	@$(NODE) scripts/generate-protocols.ts
	@$(NODE) scripts/generate-rooms.ts

format: $(STAMP) ## Format all sources
	@node_modules/.bin/biome check --write . > /dev/null
	@git ls-files 'native/*.h' 'native/*.cc' | xargs clang-format -i

clean: ## Remove build outputs
	@rm -rf build
