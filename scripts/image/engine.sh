#!/bin/sh
# Builds the programs of native/ that the image holds into programs/, without debugging information:
# engine.sh BUILD TARGET, as Debian names the architectures of this machine and of the image (amd64, arm64).
set -eu
build=$1
target=$2

strip=strip
options=-DCMAKE_CXX_COMPILER_LAUNCHER=ccache
if [ "$build" != "$target" ]; then
  case $target in
    amd64) processor=x86_64 ;;
    arm64) processor=aarch64 ;;
  esac
  strip=$processor-linux-gnu-strip
  options="$options --toolchain cmake/cross.cmake -DHEARTH_PROCESSOR=$processor"
fi

# shellcheck disable=SC2086 # a list of words
(cd native && cmake --preset release $options >/dev/null)
cmake --build build/release --target hearth_binding hearth-holder hearth-probe hearth-load hearth-rdma-bench -- --quiet
for program in binding/hearth.node gpu/hearth-load holder/hearth-holder probe/hearth-probe rdma_bench/hearth-rdma-bench; do
  mkdir -p "programs/${program%/*}"
  $strip -o "programs/$program" "build/release/$program"
done
rm -rf build
