#!/bin/sh
# Last step of the Dockerfile, in the image: programs on the PATH, data of the self-test, Node's compile cache.
set -eu
root=/opt/hearth
cd "$root"

# Before the first program of Node, which would make it for its own user alone.
mkdir -m 777 "$NODE_COMPILE_CACHE"

for program in */bin/* build/release/*/hearth-*; do
  chmod 755 "$program"
  ln -s "$root/$program" "/usr/local/bin/${program##*/}"
done

# The dataset `selftest` reads these files.
if [ -f scripts/image/selftest.ts ]; then node scripts/image/selftest.ts /usr/share/hearth/selftest; fi

# Node keeps what it has compiled by user: root for what mounts, 65532 for the rest.
for user in 0 65532; do
  setpriv --reuid="$user" --regid="$user" --clear-groups env HOME=/tmp node scripts/image/compile.ts
done
# And by this flag, with which the operator runs.
setpriv --reuid=65532 --regid=65532 --clear-groups env HOME=/tmp node --optimize-for-size scripts/image/compile.ts
chmod 755 "$NODE_COMPILE_CACHE"
