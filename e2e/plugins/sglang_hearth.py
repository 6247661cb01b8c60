"""SGLang's HiCache with hearth_sglang: its factory, host pool and controller, by the agent at the address that is given.

Two ranks of a model keep 200 pages each, as the controller moves them: in batches of 128.
"""

import queue
import sys
import time

import torch
from losing import LIMIT_S, await_loss
from sglang.srt.managers.cache_controller import HiCacheController, PrefetchOperation, StorageOperation
from sglang.srt.mem_cache.device_pool_info import KVBufferLayout, KVBuffers, MHABufferInfo
from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost
from sglang.srt.mem_cache.storage import StorageBackendFactory
from sglang.srt.mem_cache.utils import get_hash_str
from step import content, run

LAYERS, HEADS, HEAD_BYTES, PAGE = 4, 8, 64, 16
PAGES = 200
RANKS = 2
TOKENS = list(range(PAGES * PAGE))
LAYOUTS = ("page_first", "layer_first")


def host_pool(layout: str) -> MHATokenToKVPoolHost:
    buffers = [torch.zeros(1024, HEADS, HEAD_BYTES, dtype=torch.bfloat16) for _ in range(2 * LAYERS)]
    k, v = buffers[:LAYERS], buffers[LAYERS:]
    addresses = [torch.tensor([each.data_ptr() for each in half], dtype=torch.uint64) for half in (k, v)]
    kv = KVBuffers(
        k=tuple(k), v=tuple(v), k_data_ptrs=addresses[0], v_data_ptrs=addresses[1], layout=next(iter(KVBufferLayout))
    )
    info = MHABufferInfo(
        buffers=kv,
        page_size=PAGE,
        head_num=HEADS,
        head_dim=HEAD_BYTES,
        v_head_dim=HEAD_BYTES,
        dtype=torch.bfloat16,
        device=torch.device("cpu"),
    )
    return MHATokenToKVPoolHost(
        info, 8.0, 0, PAGE, layout, pin_memory=False, device_capacity_tokens=1024, start_layer=0, end_layer=LAYERS
    )


class Rank:
    """The controller of one rank, on pages of a host pool; made without its constructor, which wants a device."""

    def __init__(self, address: str, rank: int, layout: str, timeout_ms: int = 60_000, fingerprint: str = "1") -> None:
        self.pool = host_pool(layout)
        options = {"volume": "kv", "fingerprint": fingerprint, "addresses": address, "cluster": "e2e"}
        config = HiCacheStorageConfig(
            tp_rank=rank,
            tp_size=RANKS,
            pp_rank=0,
            pp_size=1,
            attn_cp_rank=0,
            attn_cp_size=1,
            is_mla_model=False,
            enable_storage_metrics=False,
            is_page_first_layout=layout == "page_first",
            model_name="org/model",
            extra_config={
                "backend_name": "hearth",
                "module_path": "hearth_sglang",
                "class_name": "Storage",
                "interface_v1": 1,
                "timeout_ms": timeout_ms,
                **options,
            },
        )
        self.storage = StorageBackendFactory.create_backend("dynamic", config, self.pool)
        self.storage.register_mem_pool_host(self.pool)
        self.storage.on_host_pools_registered()
        self.seed = RANKS * LAYOUTS.index(layout) + rank
        self.controller = HiCacheController.__new__(HiCacheController)
        state = {
            "storage_backend": self.storage,
            "storage_host_pool": self.pool,
            "mem_pool_host": self.pool,
            "page_size": PAGE,
            "storage_config": config,
            "prefetch_sync_queue": queue.Queue(),
            "page_get_func": self.controller._page_get_zero_copy,
            "page_set_func": self.controller._page_set_zero_copy,
        }
        vars(self.controller).update(state)

    def page(self, rows: torch.Tensor, number: int) -> torch.Tensor:
        return self.pool.get_data_page(rows[number * PAGE]).flatten().view(torch.uint8)

    def expected(self, number: int, size: int) -> torch.Tensor:
        return torch.frombuffer(bytearray(content(self.seed * PAGES + number, size)), dtype=torch.uint8)

    def store(self) -> None:
        rows = self.pool.alloc(len(TOKENS))
        for number in range(PAGES):
            size = self.page(rows, number).numel()
            data = self.expected(number, size).view(torch.bfloat16)
            self.pool.set_from_flat_data_page(rows[number * PAGE], data)
        operation = StorageOperation(rows, TOKENS, hash_value=get_hash_str(TOKENS, None, page_size=PAGE))
        self.controller._page_backup(operation)
        assert operation.completed_tokens == len(TOKENS), operation.completed_tokens

    def hits(self) -> list[str]:
        hashes, tokens = self.controller._storage_hit_query(PrefetchOperation("request", TOKENS, None, None))
        assert tokens == len(hashes) * PAGE
        return hashes

    def load(self, hashes: list[str]) -> int:
        """The number of leading pages that came, of which it compares every byte."""
        operation = PrefetchOperation("request", TOKENS, None, None)
        operation.hash_value, operation.host_indices = hashes, self.pool.alloc(len(hashes) * PAGE)
        loaded = self.controller._page_transfer(operation)
        for number in range(loaded):
            page = self.page(operation.host_indices, number)
            assert page.equal(self.expected(number, page.numel())), number
        return loaded


def store(address: str) -> None:
    for layout in LAYOUTS:
        for rank in range(RANKS):
            ours = Rank(address, rank, layout)
            ours.store()
            ours.storage.close()


def load(address: str) -> None:
    for layout in LAYOUTS:
        for rank in range(RANKS):
            ours = Rank(address, rank, layout)
            assert ours.load(ours.hits()) == PAGES
            ours.storage.close()
    other = Rank(address, 0, LAYOUTS[0], fingerprint="2")
    assert other.hits() == []
    other.storage.close()


def lose(address: str) -> None:
    """The agent dies between the look-up of pages and their reads."""
    ours = Rank(address, 0, LAYOUTS[0], timeout_ms=800)
    hashes = get_hash_str(TOKENS, None, page_size=PAGE)
    await_loss(address)
    began = time.monotonic()
    ours.load(hashes)
    ours.hits()
    assert time.monotonic() - began < LIMIT_S
    ours.storage.close()


if __name__ == "__main__":
    run(store, load, lose)
    sys.stdout.write("done\n")
