#!/usr/bin/env bash
# Installs the wheel into a fresh virtual environment, in which no compiler can be found, and runs its tests there.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build-wheel.sh
scripts/build-native.sh release fake_gpu hearth_gd2fs_serve
export HEARTH_GD2FS_SERVE=$PWD/build/release/client_tests/hearth_gd2fs_serve
export HEARTH_FAKE_GPU=$PWD/build/release/gpu/libfake_gpu.so
fresh=$(mktemp -d)
trap '/bin/rm -rf "$fresh"' EXIT
# UCM's factory and contract, of which the tests import the source: its backends need GPUs, and its build a compiler.
build/python-tools/bin/pip install --quiet --disable-pip-version-check wheel
build/python-tools/bin/pip download --quiet --disable-pip-version-check --no-deps --no-build-isolation \
  --no-binary :all: --dest "$fresh/ucm-source" uc-manager==0.5.0
tar -xzf "$fresh"/ucm-source/*.tar.gz -C "$fresh/ucm-source" --strip-components=1
export HEARTH_UCM_SOURCE=$fresh/ucm-source
python3 -m venv "$fresh"
export PATH=$fresh/bin
wheels=(build/wheels/hearth_storage-*.whl)
pip install --quiet --disable-pip-version-check --only-binary :all: "${wheels[0]}" safetensors fsspec
# Without torch, which its tests replace.
pip install --quiet --disable-pip-version-check --only-binary :all: --no-deps fastsafetensors
# Away from the sources, so that only what the wheel holds is imported.
root=$PWD
cd "$fresh"
for tests in clients/python/tests integrations/ucm/tests; do
  python -m unittest discover --start-directory "$root/$tests" --top-level-directory "$root/$tests"
done
