#!/usr/bin/env bash
# Builds libfio-gd2fs.so into build/fio, for the fio of Debian that is installed. fio offers no headers in a package, so
# they come from the source package of the same version, by apt, and are kept in ~/.cache/hearth (HEARTH_CACHE).
set -euo pipefail
cd "$(dirname "$0")/../.."

version=$(dpkg-query -W -f='${Version}' fio)
kept=${HEARTH_CACHE:-$HOME/.cache/hearth}/fio-$version

fetch() {
  local folder=$1
  mkdir -p "$folder/lists/partial" "$folder/archives/partial"
  # Debian's own sources, of the mirrors that its packages come from.
  apt-get indextargets --format 'deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(REPO_URI) $(RELEASE) $(COMPONENT)' \
    'Created-By: Packages' 'Origin: Debian' | sort -u >"$folder/sources.list"
  local apt=(apt-get -qq -o Dir::Etc::SourceList="$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o Dir::State::Lists="$folder/lists" -o Dir::Cache="$folder/archives" -o APT::Sandbox::User=root)
  "${apt[@]}" update
  (cd "$folder" && "${apt[@]}" source --download-only "fio=$version")
  mkdir "$folder/fio"
  tar -xf "$folder"/fio_*.orig.tar.[gx]z --strip-components=1 -C "$folder/fio"
  # The layout of fio's structures depends on what the C library has, which is the same for Debian's build.
  (cd "$folder/fio" && CC=${CC:-gcc} ./configure >/dev/null)
}

if [[ ! -f $kept/config-host.h ]]; then
  mkdir -p "$(dirname "$kept")"
  made=$(mktemp -d "$kept.XXXXXX")
  trap '/bin/rm -rf "$made"' EXIT
  fetch "$made"
  mv -T "$made/fio" "$kept"
fi

libraries=$PWD/build/release/client
mkdir -p build/fio
# `#include <fio.h>` has warnings of its own.
"${CC:-gcc}" -shared -fPIC -O2 -g -Wall -D_GNU_SOURCE -include "$kept/config-host.h" -isystem "$kept" \
  -I native/client/include clients/fio/gd2fs.c -o build/fio/libfio-gd2fs.so \
  -L "$libraries" -lgd2fs -Wl,-rpath,"$libraries"
echo "$PWD/build/fio/libfio-gd2fs.so"
