"""A dynamic back end of SGLang's HiCache on values of a Hearth volume: SGLang loads Storage.

A page is one value, its K and its V, so that it is there as a whole or not at all. SGLang calls from three threads: one
asks, one reads and one writes. No call raises OSError: an error is a miss, with a warning now and then.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any

from hearth_engines import Connection, HostMemory, Options, Warnings
from pygd2fs.kv import KV, Result
from sglang.srt.mem_cache.hicache_storage import HiCacheStorage, HiCacheStorageConfig

# Below the second that SGLang's prefetch policy `timeout` waits: it looks at its clock between batches only.
_DEFAULT_TIMEOUT_MS = 800
_CONNECT_TIMEOUT_MS = 10_000
# What a batch has left behind ends with the connections of its client, and this is long after that.
_DRAIN_TIMEOUT_MS = 10_000
_log = logging.getLogger(__name__)


class Storage(HiCacheStorage):
    """Made by SGLang with --hicache-storage-backend dynamic; docs/integrations/sglang.md has the options.

    OSError when no agent answers, ValueError for options that do not fit.
    """

    def __init__(self, storage_config: HiCacheStorageConfig, kwargs: Any = None, **_: Any) -> None:
        options = storage_config.extra_config or {}
        if not options.get("interface_v1"):
            raise ValueError('"interface_v1": 1 is missing: without it SGLang copies each page')
        self._config = storage_config
        self._timeout_ms = int(options.get("timeout_ms", _DEFAULT_TIMEOUT_MS))
        self._warnings = Warnings(_log)
        self._connection = Connection(Options.of(options), _CONNECT_TIMEOUT_MS)
        self._memory = HostMemory(self._connection.client)
        # A space for each of SGLang's threads: none takes the completions of another.
        self._asks: KV | None = None
        self._gets: KV | None = None
        self._sets: KV | None = None

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        """Registers the pool's memory, once. NotImplementedError for pools that hold no pages of their own."""
        super().register_mem_pool_host(mem_pool_host)
        buffers = _buffers(mem_pool_host)
        if not buffers:
            raise NotImplementedError(
                f"{type(mem_pool_host).__name__} has no memory of its own: Hearth's back end keeps pages of one pool, "
                "and no hybrid models"
            )
        for buffer in buffers:
            if not buffer.is_contiguous():
                raise NotImplementedError(f"A buffer of {type(mem_pool_host).__name__} has gaps")
            self._memory.add(buffer.data_ptr(), buffer.nbytes)
        fingerprint = self._connection.fingerprint(_layout(self._config, mem_pool_host))
        self._asks, self._gets, self._sets = (
            KV(self._connection.client, self._connection.volume, fingerprint, self._connection.salt) for _ in range(3)
        )

    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
        """Refuses every pool but that of K and V: a page of one pool alone would be a wrong hit."""
        name = str(getattr(host_pool_name, "value", host_pool_name))
        if name != "kv":
            raise NotImplementedError(
                f"The model has a pool {name} beside its K and V: Hearth's back end keeps pages of one pool, and no "
                "hybrid or draft models"
            )
        super().register_mem_host_pool_v2(host_pool, host_pool_name)

    def batch_exists(self, keys: list[str], extra_info: Any = None) -> int:
        """How many leading pages are there, by one request."""
        try:
            return self._open(self._asks).prefix(_names(keys), self._timeout_ms)
        except OSError as error:
            self._warnings.warn("Pages cannot be looked up, and count as absent", error)
            return 0

    def exists(self, key: str) -> bool:
        return self.batch_exists([key]) == 1

    def batch_get_v1(self, keys: list[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        """Reads pages into SGLang's pool; whether each one is there as a whole."""
        try:
            pages = self._pages(keys, host_indices)
            space = self._open(self._gets)
            result = space.get(_names(keys), [self._memory.parts(page) for page in pages], self._timeout_ms)
        except (OSError, LookupError) as error:
            self._warnings.warn("Pages cannot be read, and count as absent", error)
            return [False] * len(keys)
        self._settle(space, result, "Some pages were not read")
        lengths = [sum(length for _, length in page) for page in pages]
        whole = zip(result.statuses, result.sizes, lengths, strict=True)
        return [status == 0 and size == length for status, size, length in whole]

    def batch_set_v1(self, keys: list[str], host_indices: Any, extra_info: Any = None) -> list[bool]:
        """Writes pages of SGLang's pool; whether each one is there now."""
        try:
            memory = [self._memory.parts(page) for page in self._pages(keys, host_indices)]
            space = self._open(self._sets)
            result = space.put(_names(keys), memory, self._timeout_ms)
        except (OSError, LookupError) as error:
            self._warnings.warn("Pages cannot be written", error)
            return [False] * len(keys)
        self._settle(space, result, "Some pages were not written")
        return [status == 0 for status in result.statuses]

    def clear(self) -> None:
        """Removes nothing: other engines use the values, and the volume evicts them."""
        _log.warning("Pages in volume %s stay; a new salt begins without any", self._connection.volume)

    def close(self) -> None:
        """Ends what is in flight; afterwards no memory of the pool is touched. Idempotent."""
        for space in (self._asks, self._gets, self._sets):
            if space is not None:
                space.close()
        self._memory.close()
        self._connection.close()

    def get(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("Hearth's back end has SGLang's interface_v1 only")

    batch_get = set = batch_set = get

    def _open(self, space: KV | None) -> KV:
        if space is None:
            raise OSError("no host pool is registered")
        return space

    def _pages(self, keys: Sequence[str], host_indices: Any) -> list[list[tuple[int, int]]]:
        """The addresses and lengths that each page takes up: K and V, of each layer where the layout is by layers."""
        addresses, lengths = self.mem_pool_host.get_page_buffer_meta(host_indices)
        places = list(zip(addresses, lengths, strict=True))
        count, rest = divmod(len(places), len(keys))
        if count == 0 or rest != 0:
            raise LookupError(f"SGLang's pool gives {len(places)} buffers for {len(keys)} pages")
        return [places[first : first + count] for first in range(0, len(places), count)]

    def _settle(self, space: KV, result: Result, kind: str) -> None:
        """SGLang uses the pages for others once the call has returned: until then nothing may touch them any more."""
        if result.status != 0:
            self._warnings.warn(kind, os.strerror(result.status))
        if not result.at_rest and not space.drain(_DRAIN_TIMEOUT_MS):
            _log.error("A batch does not come to rest; the back end is closed")
            space.close()


def _names(keys: Sequence[str]) -> list[bytes]:
    return [key.encode() for key in keys]


def _buffers(pool: Any) -> list[Any]:
    """The tensors that the pool keeps its pages in."""
    given = pool.get_hybrid_pool_buffer() if hasattr(pool, "get_hybrid_pool_buffer") else [pool.kv_buffer]
    flat = [part for buffer in given for part in (buffer if isinstance(buffer, (list, tuple)) else [buffer])]
    return [buffer for buffer in flat if buffer is not None]


def _layout(config: HiCacheStorageConfig, pool: Any) -> dict[str, Any]:
    """All that the bytes of a page depend on beside its tokens, as far as SGLang tells it."""
    layout = {
        "engine": "sglang",
        "model": config.model_name,
        "dtype": str(pool.dtype),
        "page_size": pool.page_size,
        "layout": pool.layout,
        "layers": getattr(pool, "layer_num", None),
        "pp": [config.pp_rank, config.pp_size],
        "cp": [config.attn_cp_rank, config.attn_cp_size],
        "dcp": [getattr(config, "dcp_rank", 0), getattr(config, "dcp_size", 1)],
    }
    # Ranks of MLA hold the same bytes, which one of them writes for all.
    if not config.is_mla_model:
        layout["tp"] = [config.tp_rank, config.tp_size]
    return layout
