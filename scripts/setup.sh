#!/usr/bin/env bash
# Brings a Debian 12 machine to where everything builds: Debian packages, Node 24 and npm packages.
# Without root it installs what it can and names what is missing.
# Usage: setup.sh [GROUP... | all]: the packages of these groups; without one, all that `make run` needs.
set -euo pipefail
cd "$(dirname "$0")/.."

# What builds and runs Hearth, then what single suites use besides.
declare -A groups=(
  [build]="clang-19 libstdc++-12-dev ccache cmake ninja-build pkg-config git ca-certificates liburing-dev libibverbs-dev
    libcurl4-openssl-dev libssl-dev zlib1g-dev libgtest-dev libgmock-dev fuse3"
  # promtool is of prometheus.
  [gate]="clang-format curl openssl iproute2 attr nginx-light dosfstools e2fsprogs prometheus"
  [sanitizers]="libclang-rt-19-dev llvm-19"
  [tidy]="clang-tidy-19"
  # Headers of CPython's stable interface, and the virtual environments of builds and tests.
  [python]="python3-dev python3-venv"
  # clients/fio is an engine of it.
  [fio]="fio"
  # Go calls gcc for the programs of tests that link C.
  [programs]="gcc libseccomp-dev"
  # The page of `kubectl hearth ui`, and pictures of dashboards.
  [pages]="chromium"
  [cluster]="buildah debootstrap busybox containernetworking-plugins nftables qemu-user-static"
  # skopeo copies images to registries; lld links for other processors.
  [release]="skopeo qemu-user-static lld-19"
)
wanted=("${@:-build}")
if [[ ${wanted[*]} == all ]]; then wanted=("${!groups[@]}"); fi
packages=()
for group in "${wanted[@]}"; do
  read -r -d '' -a more <<<"${groups[$group]}" || true
  packages+=("${more[@]}")
done

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
command -v npm >/dev/null || missing+=(npm)
# Only `make run` uses pip, for its model; it generates one without.
if [[ $(id -u) == 0 ]] && ! command -v pip3 >/dev/null; then missing+=(python3-pip); fi

if ((${#missing[@]})); then
  if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    echo "Installing Debian packages: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  else
    echo "These Debian packages are missing: ${missing[*]}" >&2
    echo "Install them as root: apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
fi

if (($#)); then exit; fi

# Not `npm ci`: it refuses a lock file that leaves out optional packages of platforms that a registry does not
# offer. All direct dependencies are pinned exactly, the others by the lock file, which is kept.
npm install --no-save --no-audit --no-fund --loglevel=error
# The npm package `node` links the runtime when it is installed; where install scripts are not run, do it now.
if [[ $(node_modules/.bin/node --version 2>/dev/null) != v24.* ]]; then
  (cd node_modules/node && node installArchSpecificPackage.js)
fi
node_modules/.bin/node --version | grep -q '^v24\.' || {
  echo "Node 24 could not be installed by the npm package 'node'; install Node 24 and link it as node_modules/.bin/node" >&2
  exit 1
}
# `npm install` has done so, except where install scripts are not run.
[[ -f csi-driver/src/generated/kubelet/pluginregistration/api.ts ]] || npm run --silent generate
