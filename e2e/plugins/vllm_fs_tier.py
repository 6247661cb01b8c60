"""vLLM's tier `fs` under its own tiering manager, without a GPU: eight chunks of 64 KiB."""

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


class Manager:
    def __init__(self, mount: str) -> None:
        tier = {"type": "fs", "root_dir": os.path.join(mount, "vllm")}
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
                engine_id=f"engine-{os.getpid()}",
                model=OffloadingModelConfig("org/model", "bfloat16", 4096),
                cache=OffloadingCacheConfig(16, 1),
                parallel=OffloadingParallelConfig(0, 1, 1, 1, 1, 1, 0, 1, None, True),
            )
        )
        self.manager = spec.get_manager()
        self.tier = self.manager.secondary_tiers[0]
        assert self.tier._use_o_direct
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


def store(mount: str) -> None:
    ours = Manager(mount)
    with ours.manager.lock:
        prepared = ours.manager.prepare_store(KEYS, ours.request)
    for number, chunk in enumerate(prepared.store_spec.block_ids):
        ours.memory[ours.bytes_of(int(chunk))] = content(number, ours.chunk)
    with ours.manager.lock:
        ours.manager.complete_store(KEYS, ours.request)
    paths = [ours.tier.file_mapper.get_file_name(key) for key in KEYS]
    while not all(os.path.exists(path) for path in paths):
        ours.step()
    ours.manager.shutdown()


def load(mount: str) -> None:
    ours = Manager(mount)
    assert ours.found([ABSENT]) == [LookupResult.MISS]
    assert ours.found(KEYS) == [LookupResult.HIT] * CHUNKS
    with ours.manager.lock:
        loaded = ours.manager.prepare_load(KEYS, ours.request)
    for number, chunk in enumerate(loaded.block_ids):
        assert bytes(ours.memory[ours.bytes_of(int(chunk))]) == content(number, ours.chunk), number
    with ours.manager.lock:
        ours.manager.complete_load(KEYS, ours.request)
    ours.manager.shutdown()


if __name__ == "__main__":
    run(store, load)
