"""LMCache's disk of one process, `local_disk`, with and without O_DIRECT: what it stores on a mount it gets back from it."""

import asyncio
import os
import threading
import time

import torch
from lmcache.utils import CacheEngineKey
from lmcache.v1.config import LMCacheEngineConfig
from lmcache.v1.memory_management import MemoryFormat
from lmcache.v1.metadata import LMCacheMetadata
from lmcache.v1.storage_backend import CreateStorageBackends
from step import content, run

SHAPE = torch.Size([2, 4, 256, 512])
SIZE = 2 * 4 * 256 * 512 * 2
OBJECTS = 8


def expected(number: int) -> torch.Tensor:
    return torch.frombuffer(bytearray(content(number, SIZE)), dtype=torch.uint8)


def round_trip(folder: str, direct: bool, loop: asyncio.AbstractEventLoop) -> None:
    settings = {
        "chunk_size": 256,
        "local_cpu": False,
        "max_local_cpu_size": 0.2,
        "local_disk": f"file://{folder}",
        "max_local_disk_size": 1,
        "extra_config": {"use_odirect": direct},
    }
    shape = (4, 2, 256, 4, 128)
    metadata = LMCacheMetadata("org/model", 1, 1, 0, 0, kv_dtype=torch.bfloat16, kv_shape=shape)
    backends = CreateStorageBackends(LMCacheEngineConfig.from_dict(settings), metadata, loop)
    memory, disk = backends["LocalCPUBackend"], backends["LocalDiskBackend"]
    keys = [CacheEngineKey("org/model", 1, 0, number, torch.bfloat16) for number in range(OBJECTS)]
    for number, key in enumerate(keys):
        stored = memory.allocate(SHAPE, torch.bfloat16, MemoryFormat.KV_2LTD)
        stored.tensor.view(-1).view(torch.uint8).copy_(expected(number))
        disk.batched_submit_put_task([key], [stored])
    while any(disk.exists_in_put_tasks(key) for key in keys):
        time.sleep(0.01)
    for number, key in enumerate(keys):
        loaded = disk.get_blocking(key)
        assert loaded is not None, (direct, number)
        assert loaded.tensor.view(-1).view(torch.uint8).equal(expected(number)), (direct, number)


def both_ways(mount: str) -> None:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    for direct in (False, True):
        round_trip(os.path.join(mount, f"lmcache-disk-{os.getpid()}-{int(direct)}"), direct, loop)


if __name__ == "__main__":
    run(both_ways, both_ways)
