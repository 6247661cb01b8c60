"""The contract of SGLang's dynamic back end, without SGLang: its host pool is one of bytes."""

import ctypes
import random
import time
import unittest
from array import array

from hearth_sglang import Storage
from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig
from volume_agents import TIMEOUT_MS, VolumeTest

TOKENS = 16  # of a page
PAGES = 8
TOKEN_BYTES = 640  # of K, and of V
LIMIT_S = 60


class Buffer:
    def __init__(self, size):
        self.memory = (ctypes.c_ubyte * size)()
        self.nbytes = size

    def data_ptr(self):
        return ctypes.addressof(self.memory)

    def is_contiguous(self):
        return True


class Pool:
    """K of all tokens and V of all tokens, as SGLang's page_first has them."""

    def __init__(self, token_bytes=TOKEN_BYTES, layout="page_first", page_size=TOKENS, dtype="torch.bfloat16"):
        self.layout, self.page_size, self.dtype, self.layer_num = layout, page_size, dtype, 4
        self.token_bytes = token_bytes
        self.buffers = [Buffer(PAGES * TOKENS * token_bytes) for _ in range(2)]

    def get_hybrid_pool_buffer(self):
        return self.buffers

    def get_page_buffer_meta(self, indices):
        firsts = indices.tolist()[:: self.page_size]
        addresses = [each.data_ptr() + first * self.token_bytes for first in firsts for each in self.buffers]
        return addresses, [self.page_size * self.token_bytes] * len(addresses)

    def fill(self, seed):
        for buffer in self.buffers:
            buffer.memory[:] = random.Random(seed).randbytes(buffer.nbytes)

    def page(self, number):
        span = slice(number * TOKENS * self.token_bytes, (number + 1) * TOKENS * self.token_bytes)
        return [bytes(buffer.memory[span]) for buffer in self.buffers]


def indices(pages):
    return array("q", [page * TOKENS + token for page in pages for token in range(TOKENS)])


KEYS = [f"{number:064x}" for number in range(PAGES)]


class SglangTest(VolumeTest):
    def open(self, agent=0, pool=None, timeout_ms=TIMEOUT_MS, more=None, **config):
        options = self.options(agent, interface_v1=1, timeout_ms=timeout_ms, **(more or {}))
        storage = Storage(HiCacheStorageConfig(**{"model_name": "org/model", **config}, extra_config=options), {})
        self.addCleanup(storage.close)
        storage.register_mem_pool_host(pool or Pool())
        storage.register_mem_host_pool_v2(storage.mem_pool_host, "kv")
        return storage

    def store(self, pages=range(PAGES), **options):
        storage = self.open(**options)
        storage.mem_pool_host.fill(1)
        keys = [KEYS[page] for page in pages]
        self.assertEqual(storage.batch_set_v1(keys, indices(pages)), [True] * len(keys))
        return storage

    def test_another_node_reads_what_one_has_stored(self):
        writer, reader = self.store(), self.open(1)
        self.assertEqual(reader.batch_exists([*KEYS, "f" * 64]), PAGES)
        # To other places than they came from.
        places = list(reversed(range(PAGES)))
        self.assertEqual(reader.batch_get_v1(KEYS, indices(places)), [True] * PAGES)
        for page, place in enumerate(places):
            self.assertEqual(reader.mem_pool_host.page(place), writer.mem_pool_host.page(page))

    def test_a_prefix_ends_where_a_page_is_missing(self):
        self.store([0, 1, 3])
        reader = self.open(1)
        self.assertEqual(reader.batch_exists(KEYS[:4]), 2)
        self.assertEqual(reader.batch_get_v1(KEYS[:4], indices(range(4))), [True, True, False, True])
        self.assertFalse(reader.exists(KEYS[2]))
        self.assertTrue(reader.exists(KEYS[3]))

    def test_pages_of_another_length_are_absent(self):
        self.store([0])
        for token_bytes in (TOKEN_BYTES - 1, TOKEN_BYTES + 1):
            reader = self.open(pool=Pool(token_bytes))
            self.assertEqual(reader.batch_get_v1(KEYS[:1], indices([0])), [False])

    def test_pages_of_another_fingerprint_are_absent(self):
        self.store([0])
        self.assertEqual(self.open(1).batch_exists(KEYS[:1]), 1)
        others = [
            {"model_name": "org/other"},
            {"tp_rank": 1, "tp_size": 2},
            {"tp_size": 2},
            {"pp_rank": 1, "pp_size": 2},
            {"attn_cp_rank": 1, "attn_cp_size": 2},
            {"pool": Pool(layout="layer_first")},
            {"pool": Pool(page_size=32)},
            {"pool": Pool(dtype="torch.float8_e4m3fn")},
            {"more": {"fingerprint": "weights-2"}},
            {"more": {"salt": "another tenant"}},
        ]
        for other in others:
            with self.subTest(**{name: str(value) for name, value in other.items()}):
                self.assertEqual(self.open(**other).batch_exists(KEYS[:1]), 0)

    def test_ranks_of_mla_share_their_pages(self):
        self.store([0], is_mla_model=True, tp_rank=0, tp_size=4)
        self.assertEqual(self.open(1, is_mla_model=True, tp_rank=3, tp_size=4).batch_exists(KEYS[:1]), 1)

    def test_pages_without_agents_are_absent_in_time(self):
        agents = self.replaceable_agents()
        storage = self.store([0], timeout_ms=800, more={"addresses": ",".join(agents.addresses)})
        agents.kill()
        began = time.monotonic()
        with self.assertLogs("hearth_sglang", "WARNING"):
            self.assertEqual(storage.batch_exists(KEYS), 0)
            self.assertEqual(storage.batch_get_v1(KEYS, indices(range(PAGES))), [False] * PAGES)
            self.assertEqual(storage.batch_set_v1(KEYS[1:], indices(range(1, PAGES))), [False] * (PAGES - 1))
        self.assertLess(time.monotonic() - began, LIMIT_S)

    def test_what_cannot_be_kept_is_refused(self):
        storage = self.open()
        with self.assertRaisesRegex(NotImplementedError, "mamba"):
            storage.register_mem_host_pool_v2(Pool(), "mamba")
        logical = Pool()
        logical.buffers = []
        with self.assertRaisesRegex(NotImplementedError, "hybrid"):
            self.open(pool=logical)
        for options in ({"volume": "kv"}, {"interface_v1": 1}):
            with self.assertRaises(ValueError):
                Storage(HiCacheStorageConfig(extra_config=options), {})

    def test_after_close_nothing_is_there(self):
        storage = self.store([0])
        storage.close()
        self.assertEqual(storage.batch_exists(KEYS[:1]), 0)
        self.assertEqual(storage.batch_get_v1(KEYS[:1], indices([0])), [False])


if __name__ == "__main__":
    unittest.main()
