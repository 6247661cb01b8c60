#!/usr/bin/env bash
# Installs the wheel for arm64 on another machine and runs tests of it in Debian's Python of that architecture under qemu:
# both packages are imported, and pygd2fs reads from an agent of this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build-wheel.sh arm64
scripts/build-native.sh release hearth_gd2fs_serve
export HEARTH_GD2FS_SERVE=$PWD/build/release/client_tests/hearth_gd2fs_serve
fresh=$(mktemp -d)
trap '/bin/rm -rf "$fresh"' EXIT
# As a machine of that architecture chooses packages.
build/python-tools/bin/pip install --quiet --disable-pip-version-check --only-binary :all: --target "$fresh/packages" \
  --platform manylinux_2_35_aarch64 --platform manylinux_2_28_aarch64 --platform manylinux_2_17_aarch64 \
  --implementation cp --python-version 3.11 build/wheels-arm64/hearth_storage-*-abi3-*.whl
export PYTHONPATH=$fresh/packages
sysroot=$PWD/build/sysroot-arm64
cd clients/python/tests
exec qemu-aarch64-static -L "$sysroot" "$sysroot/usr/bin/python3.11" -m unittest test_symbols test_pygd2fs
