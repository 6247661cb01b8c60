#!/usr/bin/env bash
# fio reads a file through libgd2fs from a real agent and compares each block with the checksum that fio itself wrote into
# it. A file with one byte changed must not pass.
set -euo pipefail
cd "$(dirname "$0")/../.."
scripts/build-native.sh release gd2fs hearth_gd2fs_serve
engine=$(clients/fio/build.sh)
folder=$(mktemp -d)
serve=
finish() {
  if [[ -n $serve ]]; then
    exec {input}>&-
    wait "$serve" || true
  fi
  /bin/rm -rf "$folder"
}
trap finish EXIT

# serve FILE: it is /dataset/test/file of the agent at $address from now on.
serve() {
  if [[ -n $serve ]]; then
    exec {input}>&-
    wait "$serve"
  fi
  coproc agent { exec build/release/client_tests/hearth_gd2fs_serve "$1"; }
  serve=$agent_PID
  exec {output}<&"${agent[0]}" {input}>&"${agent[1]}"
  eval "exec ${agent[0]}<&- ${agent[1]}>&-"
  read -r address <&"$output"
  read -r HEARTH_TOKEN <&"$output"
  export HEARTH_TOKEN HEARTH_CLIENTS_SOCKET=
  exec {output}<&-
}

checks=(--bs=64k --verify=crc32c --verify_fatal=1 --verify_state_save=0 --randrepeat=1)

# read_through NAME OPTION...: reads all of the file, and prints what fio says when that fails.
read_through() {
  fio --name="$1" "--ioengine=external:$engine" --filename=/dataset/test/file "--cp_address=$address" \
    --cluster_id=test --io_threads=2 "${checks[@]}" "${@:2}" >"$folder/said" 2>&1
}
expect_intact() {
  read_through "$@" || { cat "$folder/said"; echo "fio $1: failed"; exit 1; }
  echo "fio $1: $(grep -o 'io=[0-9.]*[KMG]iB' "$folder/said" | head -1)"
}

fio --name=write --ioengine=psync --filename="$folder/file" --rw=write --size=33m "${checks[@]}" --do_verify=0 >/dev/null
serve "$folder/file"
expect_intact sequential --rw=read --iodepth=1
expect_intact random --rw=randread --iodepth=16
expect_intact processes --rw=read --iodepth=4 --numjobs=3
expect_intact threads --rw=randread --iodepth=8 --numjobs=2 --thread
if read_through writing --rw=write --iodepth=1; then echo "fio wrote to a dataset"; exit 1; fi
grep -q 'Read-only file system' "$folder/said" || { cat "$folder/said"; echo "fio writing: not refused as read-only"; exit 1; }

printf '\xff' | dd of="$folder/file" bs=1 seek=20000000 conv=notrunc status=none
serve "$folder/file"
if read_through changed --rw=read --iodepth=4; then echo "fio did not see a changed byte"; exit 1; fi
grep -q 'crc32c: verify failed' "$folder/said" || { cat "$folder/said"; echo "fio failed for another reason"; exit 1; }
echo "fio changed: found"
