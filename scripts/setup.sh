#!/usr/bin/env bash
# Brings a Debian 12 machine to where everything builds: Debian packages, Node 24 and npm packages.
# Without root it installs what it can and names what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  clang-19 libclang-rt-19-dev llvm-19 libstdc++-12-dev ccache cmake ninja-build pkg-config git ca-certificates
  liburing-dev libibverbs-dev libcurl4-openssl-dev libssl-dev zlib1g-dev libgtest-dev libgmock-dev
  clang-format clang-tidy-19
  # The wheel: headers of CPython's stable interface, and its build's virtual environment.
  python3-dev python3-venv
  curl openssl fuse3 iproute2 attr nginx-light dosfstools e2fsprogs
  # clients/fio is an engine of it.
  fio
  # For the programs of tests: Go calls it for those that link C.
  gcc
  buildah debootstrap busybox containernetworking-plugins nftables libseccomp-dev
  # Releases: images are copied to registries, and those of other processors made, by these; lld links for other processors.
  skopeo qemu-user-static lld-19
  # promtool, and Prometheus for the queries of dashboards.
  prometheus
  # The page of `kubectl hearth ui`, and pictures of dashboards.
  chromium
)

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
