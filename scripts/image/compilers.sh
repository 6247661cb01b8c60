#!/bin/sh
# Installs compilers of one architecture, and the headers and libraries of the one that they compile for:
# compilers.sh BUILD TARGET, as Debian names them (amd64, arm64).
set -eu
build=$1
target=$2

packages="ccache clang-19 cmake ninja-build pkg-config"
for library in libcurl4-openssl-dev libgmock-dev libgtest-dev libibverbs-dev libssl-dev liburing-dev zlib1g-dev; do
  packages="$packages $library:$target"
done
if [ "$build" != "$target" ]; then
  case $target in
    amd64) binutils=binutils-x86-64-linux-gnu ;;
    arm64) binutils=binutils-aarch64-linux-gnu ;;
  esac
  packages="$packages $binutils libstdc++-12-dev:$target"
  dpkg --add-architecture "$target"
fi
apt-get update
# shellcheck disable=SC2086 # a list of words
apt-get install -y --no-install-recommends $packages
rm -rf /var/lib/apt/lists/*
