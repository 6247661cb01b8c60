#!/usr/bin/env bash
# Karpenter's and the scheduler's own packages judge the objects of the operator. The first run compiles them.
set -euo pipefail
cd "$(dirname "$0")/../.."
mkdir -p build
export OBJECTS="$PWD/build/autoscalers.json"
node_modules/.bin/node e2e/autoscalers/objects.ts >"$OBJECTS"
cd e2e/autoscalers
PATH="$PATH:/usr/local/go/bin" GOFLAGS=-mod=readonly go test -count=1 -v ./...
