"""LMCache's tiers `fs` and `fs_native`, with and without O_DIRECT, under its storage manager: eight objects of 2 MiB."""

import argparse
import json
import os
import time

import torch
from lmcache.v1.distributed.api import GroupedObjectKeys, MemoryLayoutDesc, ObjectKey, PrefetchTaskSpec
from lmcache.v1.distributed.config import add_storage_manager_args, parse_args_to_config
from lmcache.v1.distributed.storage_manager import StorageManager
from step import content, run

LAYOUT = MemoryLayoutDesc([torch.Size([2, 4, 256, 512])], [torch.bfloat16])
SIZE = 2 * 4 * 256 * 512 * 2
OBJECTS = 8
LIMIT_S = 120.0

TIERS = [
    {"type": kind, "use_odirect": direct} for kind in ("fs", "fs_native") for direct in (False, True)
]


def keys(tier: int) -> list[ObjectKey]:
    rank = ObjectKey.ComputeKVRank(1, 0, 1, 0)
    return [ObjectKey(bytes([tier, number]) * 16, "org/model", rank) for number in range(OBJECTS)]


def path(mount: str, tier: int) -> str:
    return os.path.join(mount, f"lmcache-{tier}")


def manager(mount: str, tier: int) -> StorageManager:
    adapter = {**TIERS[tier], "base_path": path(mount, tier)}
    words = ["--l1-size-gb", "0.25", "--no-l1-use-lazy", "--eviction-policy", "LRU", "--l2-adapter"]
    parser = add_storage_manager_args(argparse.ArgumentParser())
    return StorageManager(parse_args_to_config(parser.parse_args([*words, json.dumps(adapter)])))


def expected(tier: int, number: int) -> torch.Tensor:
    return torch.frombuffer(bytearray(content(tier * OBJECTS + number, SIZE)), dtype=torch.bfloat16)


def store(mount: str) -> None:
    for tier in range(len(TIERS)):
        ours = manager(mount, tier)
        written = ours.reserve_write(keys(tier), LAYOUT)
        for number, key in enumerate(keys(tier)):
            written[key].tensor.view(-1).copy_(expected(tier, number))
        ours.finish_write(keys(tier))
        while sum(name.endswith(".data") for name in os.listdir(path(mount, tier))) < OBJECTS:
            time.sleep(0.01)
        ours.close()


def load(mount: str) -> None:
    for tier in range(len(TIERS)):
        ours = manager(mount, tier)
        absent = ObjectKey(b"\xff" * 32, "org/model", keys(tier)[0].kv_rank)
        asked = ours.submit_prefetch_task(PrefetchTaskSpec([GroupedObjectKeys([*keys(tier), absent], 0, LAYOUT)]))
        assert ours.wait_prefetch_status(asked, LIMIT_S)
        hits = ours.query_prefetch_status(asked).hit_cells
        assert [str(each) for each in hits] == ["1" * OBJECTS + "0"], (TIERS[tier], hits)
        with ours.read_prefetched_results(keys(tier)) as found:
            for number, each in enumerate(found):
                same = each.tensor.view(-1).view(torch.uint8).equal(expected(tier, number).view(torch.uint8))
                assert same, (TIERS[tier], number)
        ours.close()


if __name__ == "__main__":
    run(store, load)
