#!/bin/bash
# First process of a machine: init.sh FOLDER, in new mount, network and process namespaces, with everything private.
# Gives the machine its own boot id, /run, /var/lib, /var/log, a disk for caches, and /sys of its own network, says so by
# FOLDER/ready, and then reaps.
set -eu
folder=$1

# A file system of its own at /var/cache, so that what stays free of a cache's disk does not depend on who else fills the
# host's. Takes no more of that than what is written to it; the kernel lets go of the loop device with the last mount.
mount_cache_disk() {
  local image=$folder/cache.img
  if [[ ! -e $image ]]; then
    truncate --size=64G "$image.new"
    mkfs.ext4 -q -F -m 0 -N 262144 -E lazy_itable_init=1,lazy_journal_init=1 "$image.new"
    mv "$image.new" "$image"
  fi
  mount -o loop,discard,noinit_itable "$image" /var/cache
  # Else the host keeps a second copy of its pages; not all file systems can.
  losetup --direct-io=on "$(findmnt -no SOURCE /var/cache)" || echo "pages of $image are cached twice"
}

# A machine begins with copies of the host's mounts. Short-lived mounts of other tests would be seen here, and live for as long
# as the machine does.
leave_mounts_of_other_tests() {
  local points point
  mapfile -t points < <(awk '/ - fuse\.hearth / || $5 ~ "^/tmp/hearth" { print $5 }' /proc/self/mountinfo | tac)
  for point in "${points[@]}"; do
    # Blanks are written as \040, which a format gives back (%b would take a digit behind it as well). One mount below another
    # goes with it, and what hangs must not be looked at.
    # shellcheck disable=SC2059
    umount --lazy --internal-only --no-canonicalize -- "$(printf "${point//%/%%}")" || true
  done
}

leave_mounts_of_other_tests
# Only /run ends with the machine; all else is on disks.
rm -rf --one-file-system "${folder:?}/run"
mkdir -p "$folder/run" "$folder/lib" "$folder/log" "$folder/cgroup"
# A new sysfs shows the network devices of this namespace; the control groups stay those of the host.
mount --rbind /sys/fs/cgroup "$folder/cgroup"
mount -t sysfs sysfs /sys
mount --rbind "$folder/cgroup" /sys/fs/cgroup
umount --lazy "$folder/cgroup"
cat /proc/sys/kernel/random/uuid >"$folder/boot_id"
mount --bind "$folder/boot_id" /proc/sys/kernel/random/boot_id
mount --bind "$folder/run" /run
mount --bind "$folder/lib" /var/lib
mount_cache_disk
mount --bind "$folder/log" /var/log
# Mounts spread between this machine's own namespaces (Bidirectional), as on a host, but not to the real host: its
# mounts were made private before.
mount --make-rshared /
ip link set lo up
touch "$folder/ready"
# bash reaps every child that is given to it while it waits.
while :; do
  sleep 3600 &
  wait $!
done
