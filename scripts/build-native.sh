#!/usr/bin/env bash
# Configures and builds one CMake preset: build-native.sh release|asan|tsan|fuzz [target ...]
set -euo pipefail
cd "$(dirname "$0")/../native"
preset=$1
shift
log=../build/$preset.configure.log
mkdir -p ../build
launcher=()
# Builds of the same sources in other folders share the cache.
export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=${PWD%/native}
if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
if [[ ! -f ../build/$preset/build.ninja || CMakePresets.json -nt ../build/$preset/build.ninja ]]; then
  # Fresh: a cache made by another compiler would lose all that the preset sets.
  cmake --fresh --preset "$preset" "${launcher[@]}" >"$log" 2>&1 || {
    cat "$log" >&2
    exit 1
  }
fi
if (($#)); then
  exec cmake --build "../build/$preset" --target "$@" -- --quiet
fi
exec cmake --build "../build/$preset" -- --quiet
