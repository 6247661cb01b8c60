#!/bin/bash
# First process of a machine: init.sh FOLDER, in new mount, network and process namespaces, with everything private.
# Gives the machine its own boot id, /run, /var/lib, /var/cache and /var/log, and /sys of its own network, says so by FOLDER/ready, and then reaps.
set -eu
folder=$1
# What is in /run ends with the machine; all else is on disks.
rm -rf --one-file-system "${folder:?}/run"
mkdir -p "$folder/run" "$folder/lib" "$folder/cache" "$folder/log" "$folder/cgroup"
# A new sysfs shows the network devices of this namespace; the control groups stay those of the host.
mount --rbind /sys/fs/cgroup "$folder/cgroup"
mount -t sysfs sysfs /sys
mount --rbind "$folder/cgroup" /sys/fs/cgroup
umount --lazy "$folder/cgroup"
cat /proc/sys/kernel/random/uuid >"$folder/boot_id"
mount --bind "$folder/boot_id" /proc/sys/kernel/random/boot_id
mount --bind "$folder/run" /run
mount --bind "$folder/lib" /var/lib
mount --bind "$folder/cache" /var/cache
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
