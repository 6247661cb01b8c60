"""vLLM's tier `fs` under its own tiering manager, without a GPU: eight chunks of 64 KiB."""

import itertools
import os
import time

from step import content, run
from vllm.v1.kv_offload.base import LookupResult, ReqContext, ScheduleEndContext, make_offload_key
from vllm.v1.kv_offload.config import (
    OffloadingCacheConfig,
    OffloadingConfig,
    OffloadingGroupConfig,
    OffloadingModelConfig,
    OffloadingParallelConfig,
)
from vllm.v1.kv_offload.factory import OffloadingSpecFactory

CHUNKS = 8
KEYS = [make_offload_key(bytes([number]) * 32, 0) for number in range(CHUNKS)]
ABSENT = make_offload_key(b"\xff" * 32, 0)

engines = itertools.count()


class Manager:
    """vLLM's manager with one secondary tier, for one request."""

    def __init__(self, tier: dict[str, object]) -> None:
        spec = OffloadingSpecFactory.create_spec(
            OffloadingConfig(
                groups=(OffloadingGroupConfig(16, ("layers.0",), 0),),
                worker_kv_bytes_per_block=65536,
                enable_kv_cache_events=False,
                extra_config={
                    "spec_name": "TieringOffloadingSpec",
                    "cpu_bytes_to_use": 4 << 20,
                    "secondary_tiers": [tier],
                },
                engine_id=f"engine-{os.getpid()}-{next(engines)}",
                model=OffloadingModelConfig("org/model", "bfloat16", 4096),
                cache=OffloadingCacheConfig(16, 1),
                parallel=OffloadingParallelConfig(0, 1, 1, 1, 1, 1, 0, 1, None, True),
            )
        )
        self.manager = spec.get_manager()
        self.tier = self.manager.secondary_tiers[0]
        self.memory = self.manager.primary_tier.get_kv_memoryview().cast("B")
        self.chunk = spec.kv_bytes_per_chunk
        self.request = ReqContext("request")
        with self.manager.lock:
            self.manager.on_new_request(self.request)

    def step(self) -> None:
        with self.manager.lock:
            self.manager.on_schedule_end(ScheduleEndContext([], []))
        time.sleep(0.01)

    def found(self, keys: list[bytes]) -> list[LookupResult]:
        while True:
            with self.manager.lock:
                results = [self.manager.lookup(key, self.request) for key in keys]
            if all(result in (LookupResult.HIT, LookupResult.MISS) for result in results):
                return results
            self.step()

    def bytes_of(self, chunk: int) -> slice:
        return slice(chunk * self.chunk, (chunk + 1) * self.chunk)


    def store(self) -> None:
        """Has all chunks on their way to the tier."""
        with self.manager.lock:
            prepared = self.manager.prepare_store(KEYS, self.request)
        for number, chunk in enumerate(prepared.store_spec.block_ids):
            self.memory[self.bytes_of(int(chunk))] = content(number, self.chunk)
        with self.manager.lock:
            self.manager.complete_store(KEYS, self.request)

    def load(self, keys: list[bytes]) -> None:
        """Compares every byte of keys that were found."""
        with self.manager.lock:
            loaded = self.manager.prepare_load(keys, self.request)
        for key, chunk in zip(keys, loaded.block_ids, strict=True):
            expected = content(KEYS.index(key), self.chunk)
            assert bytes(self.memory[self.bytes_of(int(chunk))]) == expected, key
        with self.manager.lock:
            self.manager.complete_load(keys, self.request)


def manager(mount: str) -> Manager:
    ours = Manager({"type": "fs", "root_dir": os.path.join(mount, "vllm")})
    assert ours.tier._use_o_direct
    return ours


def store(mount: str) -> None:
    ours = manager(mount)
    ours.store()
    paths = [ours.tier.file_mapper.get_file_name(key) for key in KEYS]
    while not all(os.path.exists(path) for path in paths):
        ours.step()
    ours.manager.shutdown()


def load(mount: str) -> None:
    ours = manager(mount)
    assert ours.found([ABSENT]) == [LookupResult.MISS]
    assert ours.found(KEYS) == [LookupResult.HIT] * CHUNKS
    ours.load(KEYS)
    ours.manager.shutdown()


if __name__ == "__main__":
    run(store, load)
