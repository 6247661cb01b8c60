#!/bin/busybox sh
# The first process of the machine: loads modules in the order of their names, shows the host's files read-only, and
# runs `guest.sh` of the results' folder among them.
/bin/busybox mkdir -p /bin /proc /sys /dev /host
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in /modules/*.ko; do
  insmod "$module" || echo "the module $module does not load"
done
options=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o "$options,ro,cache=loose" host /host
mount -t proc proc /host/proc
mount -t sysfs sys /host/sys
mount -t devtmpfs dev /host/dev
mkdir -p /host/dev/shm /host/dev/pts
mount -t tmpfs shm /host/dev/shm
mount -t devpts pts /host/dev/pts
# Not over /tmp: the clone may lie there.
mount -t tmpfs run /host/run
mkdir -p /host/run/results /host/run/tmp
mount -t 9p -o "$options" results /host/run/results
export HOME=/root TMPDIR=/run/tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin
chroot /host /bin/bash /run/results/guest.sh
sync
poweroff -f
