"""LMCache's storage manager with hearth_lmcache by `native_plugin`: eight objects of 2 MiB, by the agent at the address that is given."""

import argparse
import json
import time

import torch
from hearth_lmcache import Client
from lmcache.v1.distributed.api import GroupedObjectKeys, ObjectKey, PrefetchTaskSpec
from lmcache.v1.distributed.config import add_storage_manager_args, parse_args_to_config
from lmcache.v1.distributed.l2_adapters.native_connector_l2_adapter import _object_key_to_string
from lmcache.v1.distributed.storage_manager import StorageManager
from lmcache_tiers import LAYOUT, LIMIT_S, OBJECTS, SIZE
from step import content, run

FINGERPRINT = "weights-1/bf16"


def keys() -> list[ObjectKey]:
    rank = ObjectKey.ComputeKVRank(1, 0, 1, 0)
    return [ObjectKey(bytes([7, number]) * 16, "org/model", rank) for number in range(OBJECTS)]


def settings(address: str, fingerprint: str) -> dict[str, str]:
    return {"volume": "kv", "fingerprint": fingerprint, "addresses": address, "cluster": "e2e"}


def manager(address: str, fingerprint: str = FINGERPRINT) -> StorageManager:
    adapter = {
        "type": "native_plugin",
        "module_path": "hearth_lmcache",
        "class_name": "Client",
        "adapter_params": settings(address, fingerprint),
        "shared": True,
    }
    words = ["--l1-size-gb", "0.25", "--no-l1-use-lazy", "--eviction-policy", "LRU", "--l2-adapter"]
    parser = add_storage_manager_args(argparse.ArgumentParser())
    return StorageManager(parse_args_to_config(parser.parse_args([*words, json.dumps(adapter)])))


def expected(number: int) -> torch.Tensor:
    return torch.frombuffer(bytearray(content(700 + number, SIZE)), dtype=torch.bfloat16)


def await_stored(address: str) -> None:
    client = Client(**settings(address, FINGERPRINT))
    found: list[bool] | None = None
    ends = time.monotonic() + LIMIT_S
    while found != [True] * OBJECTS:
        assert time.monotonic() < ends, found
        client.submit_batch_exists([_object_key_to_string(key) for key in keys()])
        completions = []
        while not completions:
            time.sleep(0.01)
            completions = client.drain_completions()
        ((_, ok, error, found),) = completions
        assert ok, error
    client.close()


def store(address: str) -> None:
    ours = manager(address)
    written = ours.reserve_write(keys(), LAYOUT)
    for number, key in enumerate(keys()):
        written[key].tensor.view(-1).copy_(expected(number))
    ours.finish_write(keys())
    await_stored(address)
    ours.close()


def hits(ours: StorageManager) -> str:
    absent = ObjectKey(b"\xff" * 32, "org/model", keys()[0].kv_rank)
    asked = ours.submit_prefetch_task(PrefetchTaskSpec([GroupedObjectKeys([*keys(), absent], 0, LAYOUT)]))
    assert ours.wait_prefetch_status(asked, LIMIT_S)
    (found,) = ours.query_prefetch_status(asked).hit_cells
    return str(found)


def load(address: str) -> None:
    ours = manager(address)
    assert hits(ours) == "1" * OBJECTS + "0"
    with ours.read_prefetched_results(keys()) as found:
        for number, each in enumerate(found):
            assert each.tensor.view(-1).view(torch.uint8).equal(expected(number).view(torch.uint8)), number
    ours.close()
    other = manager(address, "weights-2/bf16")
    assert hits(other) == "0" * (OBJECTS + 1)
    other.close()


if __name__ == "__main__":
    run(store, load)
    print("done")
