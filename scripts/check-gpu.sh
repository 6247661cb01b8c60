#!/usr/bin/env bash
# Checks and measures every way of bytes between files and a GPU on this machine, in less than four
# minutes and without a network: check-gpu.sh [DIRECTORY]
#
# DIRECTORY (default: a new one in $TMPDIR) gets 4 GiB of files, which are removed at the end; it
# decides which file system is measured. HEARTH_LOAD is the program (default: the build's).
# HEARTH_CUFILE_LIBRARY may name a libcufile.so.0, as the wheel nvidia-cufile-cu12 has it.
# GPU_DEVICE (cuda:0), FILE_MIB (1024) of each of the four files.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
load=${HEARTH_LOAD:-$here/../build/release/gpu/hearth-load}
[[ -x $load ]] || load=$here/hearth-load
if [[ ! -x $load ]]; then
  echo "check-gpu: hearth-load is not there; run \`make build\` or set HEARTH_LOAD" >&2
  exit 2
fi
export HEARTH_LOAD=$load
device=${GPU_DEVICE:-cuda:0}
mib=${FILE_MIB:-1024}
parent=${1:-${TMPDIR:-/tmp}}
files=$(mktemp -d "$parent/hearth-check-gpu.XXXXXX") || exit 2
trap 'rm -rf "$files"' EXIT
failed=0

if [[ -z ${HEARTH_CUFILE_LIBRARY:-} ]]; then
  for library in "$here"/libcufile.so.0 /usr/local/cuda*/targets/x86_64-linux/lib/libcufile.so.0; do
    if [[ -e $library ]]; then
      export HEARTH_CUFILE_LIBRARY=$library
      break
    fi
  done
fi

field() { # of a JSON object: number or string
  sed -nE "s/.*\"$1\":(\"(([^\"\\\\]|\\\\.)*)\"|([^,}]*)).*/\2\4/p" <<<"$2"
}
# A row of the table: row NAME [hearth-load arguments]. Sets `speed` (GB/s, 0 when it failed).
row() {
  local name=$1 json why path bytes seconds
  shift
  speed=0
  json=$(timeout -k 5 60 "$load" --device "$device" --json "$@" 2>&1)
  local status=$?
  if ((status != 0)); then
    [[ $status == 124 || $status == 137 ]] && json="no answer within 60 s"
    printf '%-44s %8s  %-8s %s\n' "$name" - - "${json##*hearth-load: }"
    return 1
  fi
  bytes=$(field bytes "$json") seconds=$(field seconds "$json") path=$(field path "$json")
  why=$(field whyNotDirect "$json")
  speed=$(awk "BEGIN { printf \"%.2f\", $bytes / $seconds / 1e9 }")
  [[ $(field verified "$json") == true ]] && path+=" ="
  printf '%-44s %8s  %-8s %s\n' "$name" "$speed" "$path" "$why"
}
# The same, of a way that every machine has.
must() {
  row "$@" || failed=1
}
cold() { # drops the files from the page cache
  sync
  if ! { echo 1 >/proc/sys/vm/drop_caches; } 2>/dev/null; then
    for file in "$files"/*; do dd if="$file" iflag=nocache count=0 status=none 2>/dev/null; done
  fi
}

echo "== machine"
date -u +%FT%TZ
uname -sr
nvidia-smi --query-gpu=index,name,driver_version,memory.total,pcie.link.gen.current,pcie.link.width.current \
  --format=csv,noheader 2>/dev/null || echo "no nvidia-smi"
head -1 /proc/driver/nvidia/version 2>/dev/null
echo "nvidia-fs: $(head -1 /proc/driver/nvidia-fs/version 2>/dev/null || echo not loaded)"
echo "$(nproc) processors, $(awk '/MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)"
echo "$files: $(df --output=source,fstype,avail -h "$files" | tail -1)"
echo "cuFile library: ${HEARTH_CUFILE_LIBRARY:-libcufile.so.0 of the system}"

echo "== cuFile's driver, opened in a process of its own"
for library in "${HEARTH_CUFILE_LIBRARY:-libcufile.so.0}" "$here"/cufile-*/libcufile.so.0; do
  [[ $library == libcufile.so.0 || -e $library ]] || continue
  for way in nvidia-fs p2pdma; do
    answer=$(HEARTH_CUFILE_LIBRARY=$library timeout -k 5 15 "$load" --trial $way 2>&1)
    status=$?
    [[ $status == 124 || $status == 137 ]] && answer+=": no answer within 15 s"
    echo "$library, $way: ${answer##*$'\n'} (exit status $status)"
  done
done

for index in 1 2 3 4; do head -c "${mib}M" /dev/urandom >"$files/$index" & done
wait
head -c 1234567 /dev/urandom >"$files/odd"
all=("$files"/1 "$files"/2 "$files"/3 "$files"/4 "$files/odd")
cat "${all[@]}" >/dev/null

echo "== contracts"
timeout -k 5 60 "$load" --device "$device" --check "$files/1" || failed=1
timeout -k 5 60 "$load" --device "$device" --check --path bounced "$files/odd" || failed=1

echo "== pinned memory (cuMemcpyAsync), the baseline"
memcpy=0
for slice in 1024 4096 16384 65536; do
  line=$(timeout -k 5 60 "$load" --device "$device" --memcpy --slice-kib $slice 2>&1) || failed=1
  echo "copies of $slice KiB on 2 streams: $line"
  now=$(sed -nE 's/.*to the device ([0-9.]+).*/\1/p' <<<"$line")
  memcpy=$(awk "BEGIN { print (${now:-0} > $memcpy) ? ${now:-0} : $memcpy }")
done

echo "== paths ('=': read back and compared byte by byte)"
printf '%-44s %8s  %-8s %s\n' way GB/s path "why not direct"
device_before=$device
device=cpu
must "host memory, page cache" --verify --repeat 3 "${all[@]}"
device=$device_before
must "bounced, page cache" --path bounced --verify --repeat 3 "${all[@]}"
best=$speed best_name="default"
for lanes in 8 16 24; do
  for slice in 1024 2048 4096; do
    must "bounced, page cache, $lanes lanes of $slice KiB" --path bounced --repeat 5 --lanes $lanes \
      --slice-kib $slice "${all[@]}"
    if awk "BEGIN { exit !($speed > $best) }"; then best=$speed best_name="$lanes lanes of $slice KiB"; fi
  done
done
cold
device=cpu
must "host memory, disk" "${all[@]}"
device=$device_before
cold
must "bounced, disk" --path bounced "${all[@]}"
must "bounced, GPU to files" --store --path bounced --verify "${all[@]}"
cold
row "direct, disk" --path direct --verify "${all[@]}"
row "direct, GPU to files" --store --path direct --verify "${all[@]:0:4}"
cold
must "as measured, disk" --verify "${all[@]}"

echo "== result"
awk "BEGIN { printf \"bounced from the page cache: %.2f of pinned memcpy (%.2f of %.2f GB/s, %s)\n\",
  $best / ($memcpy > 0 ? $memcpy : 1), $best, $memcpy, \"$best_name\" }"
echo "seconds: $SECONDS"
exit $failed
