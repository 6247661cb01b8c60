"""vLLM's tiering manager with hearth_vllm, without a GPU: eight chunks of 64 KiB, by the agent at the address that is given."""

import sys
import time

from losing import LIMIT_S, await_loss
from step import run
from vllm.v1.kv_offload.base import LookupResult
from vllm_fs_tier import ABSENT, CHUNKS, KEYS, Manager

MISS = [LookupResult.MISS] * CHUNKS
HIT = [LookupResult.HIT] * CHUNKS


def manager(address: str, **options: object) -> Manager:
    tier = {
        "type": "HearthTier",
        "module_path": "hearth_vllm",
        "volume": "kv",
        "fingerprint": "weights-1",
        "addresses": address,
        "cluster": "e2e",
    }
    return Manager({**tier, **options})


def store(address: str) -> None:
    ours = manager(address)
    ours.store()
    while ours.manager.has_pending_work():
        ours.step()
    ours.manager.shutdown()
    other = manager(address)
    assert other.found(KEYS) == HIT
    other.manager.shutdown()


def load(address: str) -> None:
    ours = manager(address)
    assert ours.found([ABSENT]) == [LookupResult.MISS]
    assert ours.found(KEYS) == HIT
    ours.load(KEYS)
    # vLLM asserts that every job has been reported.
    with ours.manager.lock:
        ours.manager.reset_cache()
    ours.manager.shutdown()
    other = manager(address, fingerprint="weights-2")
    assert other.found(KEYS) == MISS
    other.manager.shutdown()


def lose(address: str) -> None:
    """The agent dies while a manager's lookups are under way, and before another has made any."""
    busy, idle = (manager(address, timeout_ms=2000, lookup_timeout_ms=2000) for _ in range(2))
    with busy.manager.lock:
        for key in KEYS:
            busy.manager.lookup(key, busy.request)
    busy.step()
    await_loss(address)
    for each in (busy, idle):
        began = time.monotonic()
        found = each.found(KEYS)
        assert time.monotonic() - began < LIMIT_S
        each.load([key for key, result in zip(KEYS, found, strict=True) if result is LookupResult.HIT])
        each.manager.shutdown()


if __name__ == "__main__":
    run(store, load, lose)
    sys.stdout.write("done\n")
