#!/bin/sh
# Builds versitygw, the S3 server of the origins' tests, once for each version, and prints the program's path.
# The version is the one in scripts/tools/versitygw/go.mod. Needs Go and the Go module proxy the first time.
# Exit 3: there is no Go on this machine (the tests then skip themselves and say so).
set -eu

module="$(CDPATH='' cd -- "$(dirname -- "$0")/tools/versitygw" && pwd)"
version="$(sed -n 's|^.*github.com/versity/versitygw \(v[^ ]*\).*$|\1|p' "$module/go.mod" | head -n 1)"
folder="${HEARTH_CACHE:-$HOME/.cache/hearth}/versitygw-$version"
program="$folder/versitygw"

if [ ! -x "$program" ]; then
  if ! command -v go >/dev/null 2>&1; then
    echo "get-versitygw: 'go' is not installed, so the S3 server of the tests cannot be built; install Go 1.25 or later (https://go.dev/dl)" >&2
    exit 3
  fi
  mkdir -p "$folder"
  building="$folder/.versitygw.$$"
  trap 'rm -f "$building"' EXIT
  (cd "$module" && CGO_ENABLED=0 go build -mod=readonly -trimpath -o "$building" github.com/versity/versitygw/cmd/versitygw) >&2
  mv "$building" "$program" # two builds at once: each leaves a whole program
fi
echo "$program"
