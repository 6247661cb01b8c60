#!/usr/bin/env bash
# Two soft-RoCE devices with a cable between them, in one network namespace (rxe listens in the first one only):
# `up [MTU MTU]` makes v0 (10.77.0.1, rxe0) and v1 (10.77.0.2, rxe1), in place of earlier ones; `down` removes them, and
# waits for processes that have them open; `unplug` and `plug` pull the cable and put it back.
# Packets between two addresses of one machine take the loopback device, which no rxe device hears. So the rules
# look addresses of this machine up only for packets that have come, and packets that leave take the cable.
set -euo pipefail

up() {
  ip link delete v0 2>/dev/null || true
  sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv4.conf.default.accept_local=1
  ip -batch - <<END
link set lo up
link add v0 mtu ${1:-1500} type veth peer name v1 mtu ${2:-1500}
address add 10.77.0.1/24 dev v0
address add 10.77.0.2/24 dev v1
link set v0 up
link set v1 up
END
  if [[ $(ip rule list pref 0) ]]; then
    ip -batch - <<END
rule add pref 100 lookup local
rule add pref 10 iif v0 lookup local
rule add pref 11 iif v1 lookup local
rule add pref 12 lookup 77
rule delete pref 0
END
  fi
  routes
  rdma link add rxe0 type rxe netdev v0
  rdma link add rxe1 type rxe netdev v1
}

# The kernel forgets them when an interface goes down.
routes() {
  ip route replace 10.77.0.2/32 dev v0 src 10.77.0.1 table 77
  ip route replace 10.77.0.1/32 dev v1 src 10.77.0.2 table 77
}

case $1 in
  up) up "${@:2}" ;;
  down) ip link delete v0 ;;
  unplug) ip link set v1 down ;;
  plug)
    ip link set v1 up
    routes
    ;;
  *)
    echo "usage: devices.sh up [MTU MTU] | unplug | plug | down" >&2
    exit 2
    ;;
esac
