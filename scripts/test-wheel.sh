#!/usr/bin/env bash
# Installs the wheels into fresh virtual environments, in which no compiler can be found, and runs their tests there: with the
# Pythons of images of today, or those that PYTHONS names. Tests of PyTorch run with Debian's; PyPI's would bring gigabytes of
# libraries for GPUs.
set -euo pipefail
cd "$(dirname "$0")/.."
pythons=()
for version in ${PYTHONS-3.10 3.12}; do pythons+=("$(scripts/find-python.sh "$version")"); done
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
root=$PWD
system=$PATH
for python in "${pythons[@]}"; do
  version=$("$python" -c 'import sys; print(f"{sys.version_info[0]}.{sys.version_info[1]}")')
  echo "Python $version"
  environment=$fresh/$version
  "$python" -m venv "$environment"
  export PATH=$environment/bin
  wheel=$root/build/wheels/hearth_storage-*-abi3-*.whl
  if [[ $version == 3.10 ]]; then wheel=$root/build/wheels/hearth_storage-*-cp310-*.whl; fi
  # shellcheck disable=SC2086 # a pattern
  pip install --quiet --disable-pip-version-check --only-binary :all: $wheel safetensors fsspec
  # Without torch, which its tests replace.
  pip install --quiet --disable-pip-version-check --only-binary :all: --no-deps fastsafetensors
  # Away from the sources, so that only what the wheel holds is imported.
  cd "$fresh"
  for tests in clients/python/tests integrations/ucm/tests; do
    python -m unittest discover --start-directory "$root/$tests" --top-level-directory "$root/$tests"
  done
  cd "$root"
  PATH=$system
done
if [[ -n ${PYTHONS-} ]]; then exit; fi

echo "Debian's Python with PyTorch"
if ! /usr/bin/python3 -c 'import torch' 2>/dev/null; then
  # Only these tests use it, so setup.sh leaves it out.
  [[ $(id -u) == 0 ]] || { echo 'PyTorch is missing; install it as root: apt-get install python3-torch' >&2 && exit 1; }
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-torch >/dev/null
fi
/usr/bin/python3 -m venv --system-site-packages "$fresh/torch"
PATH=$fresh/torch/bin
# shellcheck disable=SC2086 # a pattern
pip install --quiet --disable-pip-version-check --only-binary :all: $root/build/wheels/hearth_storage-*-abi3-*.whl safetensors fsspec
cd "$fresh"
PYTHONPATH=$root/clients/python/tests python -m unittest test_dataloader test_distributed
