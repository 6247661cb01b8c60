#!/bin/sh
# Prints the path of an etcd server, building it once from its Go module into a cache outside the clone.
# Exit 3 with the reason on standard error when it cannot be built here (tests that need it are then skipped).
#   HEARTH_CACHE   where built tools are kept (default: ~/.cache/hearth)
set -eu

tools=$(cd "$(dirname "$0")/tools/etcd" && pwd)
flags='-trimpath -ldflags=-s\ -w'
version=$(sed -n 's|^[[:space:]]*go.etcd.io/etcd/server/v3 \(v[^ ]*\).*|\1|p' "$tools/go.mod")
needed=$(sed -n 's/^go \([0-9]*\.[0-9]*\).*/\1/p' "$tools/go.mod")
# The same version built with other flags or other dependencies is another program.
key=$(cat "$tools/go.mod" "$tools/go.sum" "$0" | sha256sum | cut -c1-12)
target="${HEARTH_CACHE:-$HOME/.cache/hearth}/etcd-$version-$key/etcd"

cannot() {
  echo "etcd $version cannot be built: $*" >&2
  exit 3
}

# Whether Go version $1 is at least $2.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

if [ -x "$target" ]; then
  echo "$target"
  exit 0
fi

if ! command -v go >/dev/null; then
  offered=$(apt-cache policy golang-go 2>/dev/null | sed -n 's/^ *Candidate: [0-9]*:\{0,1\}\([0-9.]*\).*/\1/p')
  if [ "$(id -u)" != 0 ] || [ -z "$offered" ] || ! at_least "$offered" "$needed"; then
    cannot "no Go compiler is installed (this machine's packages offer ${offered:-none}). Install Go $needed or newer from https://go.dev/dl/ and run this again."
  fi
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends golang-go >&2 ||
    cannot "apt-get could not install golang-go; its messages are above."
fi
# Go 1.21 and later fetch the toolchain that go.mod names by themselves, unless told not to.
found=$(go env GOVERSION | sed 's/^go//')
at_least "$found" 1.21 || cannot "Go $found is too old; Go $needed or newer is needed."

mkdir -p "$(dirname "$target")"
partial=$(mktemp "$target.XXXXXX")
trap 'rm -f "$partial"' EXIT
echo "building etcd $version (about half a minute, once)" >&2
(cd "$tools" && eval "CGO_ENABLED=0 go build -buildvcs=false $flags -o '$partial' go.etcd.io/etcd/server/v3") >&2 ||
  cannot "go build failed; its messages are above. Is the Go module proxy ($(go env GOPROXY)) reachable?"
chmod 755 "$partial"
# Two builds at the same time both end with a complete file.
mv "$partial" "$target"
echo "$target"
