#!/usr/bin/env bash
# In the machine: tests of rooms on soft-RoCE devices, and rdma-core's own benchmarks beside them. Writes one line
# "CODE NAME" for each step to $RESULTS/steps, and GoogleTest's reports to $RESULTS/*.xml.
set -uo pipefail
export HEARTH_RDMA_DEVICES=$GUEST/devices.sh
echo "$(uname -r), $(cut -d' ' -f1 /proc/uptime) s after the start"

step() {
  local name=$1 code
  shift
  "$@"
  code=$?
  echo "$code $name" >>"$RESULTS/steps"
}

# run_perftest NAME ARGUMENT...: a server on rxe0, and a client on rxe1.
run_perftest() {
  local name=$1 server code
  local words=(-x 1 -F "${@:2}")
  LD_LIBRARY_PATH=$RDMA_LIBRARIES "$RDMA_TOOLS/$name" -d rxe0 "${words[@]}" >"$RESULTS/$name.server.log" 2>&1 &
  server=$!
  until ss -Hltn 'sport = 18515' | grep -q .; do sleep 0.1; done
  LD_LIBRARY_PATH=$RDMA_LIBRARIES "$RDMA_TOOLS/$name" -d rxe1 "${words[@]}" 127.0.0.1 >"$RESULTS/$name.log" 2>&1
  code=$?
  wait "$server" || code=$?
  return "$code"
}

# perftest NAME ARGUMENT...: as above, again where the result is 0: so perftest says that it was disturbed when it measured
# the frequency of the processor.
perftest() {
  local result
  for _ in 1 2 3 4 5; do
    run_perftest "$@" || break
    result=$(grep -A1 '#bytes' "$RESULTS/$1.log")
    if ! grep -qE '^ *[0-9]+ +[0-9]+ +0\.00 ' <<<"$result"; then
      echo "$result"
      return 0
    fi
  done
  cat "$RESULTS/$1.log"
  return 1
}

step 'tests of verbs on soft-RoCE' "$HEARTH_ROOT/build/release/verbs/hearth_verbs_rxe_test" \
  --gtest_output="xml:$RESULTS/verbs.xml" --gtest_color=no

step 'tests of engines on soft-RoCE' "$HEARTH_ROOT/build/release/engine/hearth_engine_rxe_test" \
  --gtest_output="xml:$RESULTS/engine.xml" --gtest_color=no

# bench REPORT ARGUMENT...: hearth-rdma-bench between two processes on the devices.
bench() {
  local bench=$HEARTH_ROOT/build/release/rdma_bench/hearth-rdma-bench address=$RESULTS/bench.address server code
  : >"$address"
  "$bench" --listen 127.0.0.1:0 --device rxe0 --once "${@:3}" >"$address" &
  server=$!
  until [[ -s $address ]]; do sleep 0.1; done
  "$bench" --connect "$(<"$address")" --device rxe1 --milliseconds 700 --sizes "$2" "${@:3}" >"$RESULTS/$1"
  code=$?
  wait "$server" || code=$?
  return "$code"
}

# measure ROUND: perftest, which polls without rest, and hearth-rdma-bench, as perftest does and as agents do.
measure() {
  perftest ib_write_bw -s 1048576 -n 20 && cp "$RESULTS/ib_write_bw.log" "$RESULTS/ib_write_bw.$1.log" || return 1
  bench "spin.$1.json" 4096,1048576 --spin || return 1
  bench "bench.$1.json" 4096,1048576,4194304 || return 1
  perftest ib_read_lat -s 4096 -n 500 && cp "$RESULTS/ib_read_lat.log" "$RESULTS/ib_read_lat.$1.log"
}

step 'soft-RoCE devices' "$GUEST/devices.sh" up
rdma link
step 'rows of hearth-probe' "$HEARTH_ROOT/build/release/probe/hearth-probe" --rdma-peer 10.77.0.2 >"$RESULTS/probe.jsonl"
for ((round = 1; round <= ROUNDS; ++round)); do
  step "round $round of measurements" measure "$(printf '%02d' "$round")"
done
echo "$(cut -d' ' -f1 /proc/uptime) s after the start"
