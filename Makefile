# Hearth. `make help` lists the targets; each installs the Debian packages that it needs.
SHELL := /bin/bash
.DEFAULT_GOAL := help
NODE := node_modules/.bin/node
STAMP := build/.setup
# The programs of a release. Tests of TypeScript and `make run` need no other native code.
PRODUCT := hearth_binding hearth-holder hearth-probe hearth-load hearth-rdma-bench
# The last file that `npm run generate` writes; `npm install` runs it, too.
GENERATED := csi-driver/src/generated/kubelet/pluginregistration/api.ts

.PHONY: help run test test-all test-slow smoke test-unit test-native test-asan test-tsan test-upgrade test-rdma test-fio test-autoscalers fuzz lint lint-commits tidy verify e2e cluster cluster-down image bench bench-quick bench-pods bench-scale soak check-gpu product wheel kubectl-hearth release test-python test-plugins build setup generate format clean

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

run: product ## Start three agents, warm a real model, mount and verify it (SOURCE=..., ONESHOT=1)
	@$(NODE) demo/main.ts

test: build ## The gate: C++ and TypeScript tests, types, style, generated files; no Go, no Kubernetes
	@$(NODE) scripts/test/main.ts gate

test-all: build ## Everything: the gate, slow tests, clang-tidy, Kubernetes, upgrade, fuzzers, sanitizers, soak
	@$(NODE) scripts/test/main.ts all

test-slow: build ## Tests of C++ and TypeScript that the gate leaves out: slow, timed, or in need of Go programs
	@$(NODE) scripts/test/main.ts test-slow

smoke: build ## Kubernetes in minutes: one node, install, one Dataset, one pod, uninstall (root)
	@$(NODE) scripts/test/main.ts smoke

test-unit: product ## TypeScript tests of the gate
	@$(NODE) scripts/test/main.ts unit

test-native: build ## C++ tests of the gate
	@$(NODE) scripts/test/main.ts native

test-asan: $(GENERATED) ## All C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(NODE) scripts/test/main.ts asan

test-tsan: $(GENERATED) ## All C++ tests under ThreadSanitizer
	@$(NODE) scripts/test/main.ts tsan

test-upgrade: build ## Replace a running cluster of the previous release, under readers
	@$(NODE) scripts/test/main.ts upgrade

test-rdma: $(GENERATED) ## RDMA over a kernel's soft-RoCE, in an emulated machine of Debian packages; beside ib_write_bw
	@$(NODE) scripts/test/main.ts rdma

wheel: $(GENERATED) ## Build the Python package hearth into build/wheels
	@scripts/build-wheel.sh

kubectl-hearth: $(GENERATED) ## Build kubectl hearth, one file for each platform, into build/kubectl-hearth
	@$(NODE) cli/executables/main.ts

release: $(GENERATED) ## Everything of a release into build/dist, image and chart to REGISTRY=HOST/PATH when given (root)
	@$(NODE) e2e/release/main.ts

test-python: $(GENERATED) ## The wheel in a fresh virtual environment, without compilers
	@$(NODE) scripts/test/main.ts python

test-plugins: build ## File tiers of vLLM, SGLang, LMCache, NIXL and PyTorch on scratch volumes (pip installs 7 GB once)
	@$(NODE) scripts/test/main.ts plugins

test-autoscalers: $(GENERATED) ## Karpenter's and the scheduler's own packages judge objects of the operator
	@$(NODE) scripts/test/main.ts autoscalers

test-fio: build ## fio reads through libgd2fs and compares what it reads; fetches fio's headers by apt
	@$(NODE) scripts/test/main.ts fio

fuzz: $(GENERATED) ## Each fuzzer for FUZZ_SECONDS (60)
	@$(NODE) scripts/test/main.ts fuzz

lint: $(GENERATED) ## Types, biome, clang-format
	@$(NODE) scripts/test/main.ts lint

lint-commits: ## Advice on the subjects of commits since SINCE (main), by commitlint; no gate
	@PATH="$(CURDIR)/node_modules/.bin:$$PATH" npm exec --yes --loglevel=error --package=@commitlint/cli@21.2.4 -- commitlint --from $(or $(SINCE),main) --verbose || true

tidy: $(GENERATED) ## clang-tidy
	@$(NODE) scripts/test/main.ts tidy

verify: $(GENERATED) ## Prove that committed generated files are current
	@$(NODE) scripts/test/main.ts verify

e2e: build ## Kubernetes on this machine: cluster, image, chart, volumes (root; the first run builds the tools)
	@$(NODE) scripts/test/main.ts e2e

cluster: $(GENERATED) ## A Kubernetes cluster to try things on (root; NODES=2, NAME=dev); prints how to use it
	@$(NODE) e2e/cluster/main.ts up

cluster-down: $(GENERATED) ## Remove that cluster, and what interrupted runs have left
	@$(NODE) e2e/cluster/main.ts down

image: $(GENERATED) ## Build the container image, without a daemon (root); REGISTRY=HOST/PATH pushes it (TAG=...)
	@$(NODE) e2e/cluster/main.ts image

bench: build ## Measure against baselines in the same run, for 15 minutes; writes bench/report.html (BENCH_AGAINST=COMMIT: before and after)
	@$(NODE) bench/main.ts

bench-quick: build ## The same for 3 minutes: fewer rows, bytes and runs
	@BENCH_QUICK=1 $(NODE) bench/main.ts

bench-pods: build ## Measure reads in pods against the node's disk, on a cluster; writes bench/results-pods.json
	@$(NODE) e2e/bench/main.ts

bench-scale: build ## Measure operator and store beside a thousand simulated agents; writes build/scale.json (SCALE_NODES)
	@$(NODE) e2e/scale/main.ts

soak: build ## Readers on four agents while everything goes wrong, for an hour (root; SOAK_SECONDS, SOAK_BYTES, SOAK_SEED)
	@$(NODE) e2e/soak/main.ts

check-gpu: build ## On a machine with a GPU: every path into its memory and back, checked and measured (DIRECTORY=... of the files)
	@scripts/check-gpu.sh $(DIRECTORY)

build: $(GENERATED) ## Build the native engine with its tests (release)
	@scripts/build-native.sh release

product: $(GENERATED) ## Build the addon and the programs of a release, without tests of C++
	@scripts/build-native.sh release $(PRODUCT)

setup: $(STAMP) build/.packages-all ## Install Node 24, npm packages and the Debian packages of all suites

$(STAMP): package-lock.json scripts/setup.sh
	@scripts/setup.sh
	@mkdir -p build && touch $@

# Packages that some targets need besides those of the build.
test test-unit test-native test-slow test-asan test-tsan test-upgrade test-rdma test-fio test-autoscalers lint format smoke e2e bench bench-quick bench-pods bench-scale soak: build/.packages-gate
test-slow smoke e2e cluster image release test-autoscalers bench bench-quick bench-pods bench-scale soak: build/.packages-programs
smoke e2e cluster image release bench-pods: build/.packages-cluster
e2e release kubectl-hearth test-python: build/.packages-release
wheel release test-python test-slow bench bench-quick: build/.packages-python
test-slow e2e: build/.packages-pages
test-asan test-tsan fuzz: build/.packages-sanitizers
test-fio: build/.packages-fio
tidy: build/.packages-tidy
test-all: build/.packages-all

build/.packages-%: scripts/setup.sh | $(STAMP)
	@scripts/setup.sh $*
	@touch $@

$(GENERATED): package.json scripts/generate-constants.ts scripts/generate-protocols.ts $(shell find proto -type f) | $(STAMP)
	@npm run --silent generate

generate: $(GENERATED) ## Write all generated sources again
	@npm run --silent generate
	@$(NODE) scripts/generate-crds.ts
	@$(NODE) scripts/generate-rooms.ts
	@$(NODE) monitoring/generate.ts

format: $(GENERATED) ## Format all sources
	@node_modules/.bin/biome check --write . > /dev/null
	@git ls-files 'native/*.h' 'native/*.cc' 'integrations/*.h' 'integrations/*.cc' | xargs clang-format -i

clean: ## Remove build outputs
	@rm -rf build
