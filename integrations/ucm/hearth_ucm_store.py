"""A UCM store on directories: UCM loads UcmHearthStore by ucm_connector_module_path.

A block is a file in one of the storage_backends, chosen by its hash. A block becomes visible under its name when all
of its shards are dumped; until then its file has another name. Memory is named by address, so tensors must stay where
they are until wait() has returned.
"""

import errno
import os
import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hearth._native import HearthError, Transfers
from ucm.store.ucmstore_v1 import Task, UcmKVStoreBaseV1

Place = tuple[int, int, bool]  # address, bytes, on the GPU

_DEFAULT_THREADS = 32
_DEFAULT_TIMEOUT_MS = 30_000


@dataclass
class HearthTask(Task):
    """A batch of transfers, and for each transfer its block."""

    batch: int
    blocks: list[bytes]
    is_dump: bool
    shards: dict[bytes, set[int]] = field(default_factory=dict)
    failures: dict[bytes, str] = field(default_factory=dict)  # of blocks that never began


class BlocksFailedError(RuntimeError):
    """Some blocks of a task failed: `failures` has a message for each of them; all others are whole."""

    def __init__(self, failures: dict[bytes, str]) -> None:
        self.failures = failures
        first = next(iter(failures.items()))
        super().__init__(f"{len(failures)} blocks failed, the first is {first[0].hex()}: {first[1]}")


class UcmHearthStore(UcmKVStoreBaseV1):
    """Configured by ucm_connector_config:

    storage_backends: directories that exist, as a list or separated by ":".
    device_id: the GPU whose memory load_data and dump_data get addresses of; -1 (the default) for host memory.
    useDirect: True moves bytes between the caller's memory and the storage: past the page cache, and between GPU and
    storage past host memory where the machine has such a way and it is faster. False moves them by way of the host.
    tensor_size_list or tensor_size: bytes of each tensor of a shard; shard_size: bytes of one shard, by default the
    sum; block_size: bytes of one block, by default one shard.
    stream_number (32) transfers run side by side; timeout_ms (30000) ends every wait.
    """

    def __init__(self, config: dict[str, object]) -> None:
        super().__init__(config)
        backends = config["storage_backends"]
        names = backends.split(":") if isinstance(backends, str) else list(backends)
        self._roots = [Path(name) for name in names]
        for root in self._roots:
            if not root.is_dir():
                raise HearthError(f"storage_backends: {root} is no directory; create or mount it")
        self._shard_bytes = int(config.get("shard_size", 0))
        self._block_bytes = int(config.get("block_size", self._shard_bytes))
        sizes = config.get("tensor_size_list")
        self._tensor_bytes = [int(size) for size in sizes] if sizes else None
        if self._tensor_bytes is None and config.get("tensor_size"):
            self._tensor_bytes = [int(config["tensor_size"])]
        if self._shard_bytes == 0 and self._tensor_bytes:
            self._shard_bytes = sum(self._tensor_bytes)
            self._block_bytes = self._block_bytes or self._shard_bytes
        if self._shard_bytes < 0 or (self._shard_bytes > 0 and self._block_bytes % self._shard_bytes != 0):
            raise HearthError("block_size must be a multiple of shard_size")
        self._timeout_ms = int(config.get("timeout_ms", _DEFAULT_TIMEOUT_MS))
        device_id = int(config.get("device_id", -1))
        self._device = f"cuda:{device_id}" if device_id >= 0 else "cpu"
        self._transfers = Transfers(
            int(config.get("stream_number", _DEFAULT_THREADS)), bool(config.get("useDirect", False)), self._device
        )
        self._lock = threading.Lock()  # guards the one below
        self._dumped: dict[bytes, set[int]] = defaultdict(set)  # shards of blocks that are not published

    def cc_store(self) -> int:
        """0: UCM's own pipelines in C++ cannot stack on this store."""
        return 0

    def lookup(self, block_ids: list[bytes]) -> list[bool]:
        return [self._path(block).is_file() for block in block_ids]

    def lookup_on_prefix(self, block_ids: list[bytes]) -> int:
        """The index of the last block of the longest prefix that is stored; -1 without one."""
        for index, block in enumerate(block_ids):
            if not self._path(block).is_file():
                return index - 1
        return len(block_ids) - 1

    def prefetch(self, block_ids: list[bytes]) -> None:
        """Asks the kernel to begin reading the blocks into the page cache."""
        for block in block_ids:
            try:
                file = os.open(self._path(block), os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_WILLNEED)
            finally:
                os.close(file)

    def load(self, block_ids: list[bytes], shard_index: list[int], dst_tensor: list[list]) -> Task:
        return self._begin(False, block_ids, shard_index, self._places(dst_tensor))

    def dump(self, block_ids: list[bytes], shard_index: list[int], src_tensor: list[list]) -> Task:
        """Bytes of a GPU must be there: the stream that computes them has been waited for."""
        return self._begin(True, block_ids, shard_index, self._places(src_tensor))

    def load_data(self, block_ids: list[bytes], shard_index: list[int], dst_addr: Sequence[Sequence[int]]) -> Task:
        return self._begin(False, block_ids, shard_index, self._sized(dst_addr))

    def dump_data(
        self,
        block_ids: list[bytes],
        shard_index: list[int],
        src_addr: Sequence[Sequence[int]],
        prerequisite_handle: int = 0,
    ) -> Task:
        """prerequisite_handle: a CUDA event, which the GPU reaches when the bytes are there; it lives until wait()."""
        return self._begin(True, block_ids, shard_index, self._sized(src_addr), prerequisite_handle)

    def wait(self, task: Task) -> None:
        """Returns when the task has ended, and publishes blocks whose dump is complete.

        Raises BlocksFailedError for those that failed, and HearthError with the code DeadlineExceeded after
        timeout_ms: then the task still uses its memory, and wait() may be called again.
        """
        assert isinstance(task, HearthTask)
        failures = dict(task.failures)
        for transfer, code, message in self._transfers.wait(task.batch, self._timeout_ms):
            failures.setdefault(task.blocks[transfer], f"{code}: {message}")
        if task.is_dump:
            for block, shards in task.shards.items():
                if block not in failures:
                    self._finish_shards(block, shards, failures)
        if failures:
            raise BlocksFailedError(failures)

    def check(self, task: Task) -> bool:
        assert isinstance(task, HearthTask)
        return self._transfers.is_done(task.batch)

    def need_register_kv_caches(self) -> bool:
        return self._device != "cpu"

    def register_kv_caches(self, registrations: Iterable[Sequence[int]]) -> None:
        """Takes (address, bytes) of each KV cache in GPU memory, which drivers then check and register only once."""
        if self._device == "cpu":
            return
        for address, size in registrations:
            self._transfers.enroll(int(address), int(size))

    def _begin(
        self,
        is_dump: bool,
        block_ids: list[bytes],
        shard_index: list[int],
        places: Iterable[list[Place]],
        event: int = 0,
    ) -> HearthTask:
        if self._shard_bytes == 0:
            raise HearthError("shard_size is not configured: this store, of a scheduler, only looks blocks up")
        transfers, blocks = [], []
        shards: dict[bytes, set[int]] = defaultdict(set)
        paths: dict[bytes, str] = {}
        failures: dict[bytes, str] = {}
        for block, shard, parts in zip(block_ids, shard_index, places, strict=True):
            offset = shard * self._shard_bytes
            end = offset + sum(size for _, size, _ in parts)
            if shard < 0 or end > offset + self._shard_bytes or end > self._block_bytes:
                raise HearthError(f"shard {shard} of {end - offset} bytes does not fit blocks of {self._block_bytes}")
            shards[block].add(shard)
            if block not in paths:
                paths[block] = str(self._unpublished(block) if is_dump else self._path(block))
                if is_dump and (failure := self._create(block)):
                    failures[block] = failure
            if block in failures:
                continue
            for address, size, is_on_device in parts:
                transfers.append((paths[block], offset, address, size, is_on_device))
                blocks.append(block)
                offset += size
        return HearthTask(self._transfers.begin(is_dump, transfers, event), blocks, is_dump, dict(shards), failures)

    def _create(self, block: bytes) -> str | None:
        """Creates the unpublished file of a block with its full size; returns why it could not."""
        path = self._unpublished(block)
        try:
            with open(path, "ab") as file:
                if os.fstat(file.fileno()).st_size != self._block_bytes:
                    os.posix_fallocate(file.fileno(), 0, self._block_bytes)
        except OSError as error:
            code = "OutOfSpace" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "IoError"
            try:
                path.unlink(missing_ok=True)
            except OSError:
                pass  # The directory is gone, and the file with it.
            return f"{code}: create {path}: {error.strerror}; free space in or remount {path.parent}"
        return None

    def _finish_shards(self, block: bytes, shards: set[int], failures: dict[bytes, str]) -> None:
        with self._lock:
            self._dumped[block] |= shards
            if len(self._dumped[block]) * self._shard_bytes < self._block_bytes:
                return
            del self._dumped[block]
        try:
            self._unpublished(block).rename(self._path(block))
        except OSError as error:
            failures[block] = f"IoError: {error}"

    def _path(self, block: bytes) -> Path:
        return self._roots[block[-1] % len(self._roots)] / block.hex()

    def _unpublished(self, block: bytes) -> Path:
        return self._path(block).with_suffix(f".{os.getpid()}.part")

    def _sized(self, addresses: Sequence[Sequence[int]]) -> Iterable[list[Place]]:
        is_on_device = self._device != "cpu"
        for row in addresses:
            sizes = self._tensor_bytes
            if sizes is None or len(sizes) != len(row):
                even = self._tensor_bytes[0] if sizes and len(sizes) == 1 else self._shard_bytes // len(row)
                sizes = [even] * len(row)
            yield [(int(address), size, is_on_device) for address, size in zip(row, sizes, strict=True)]

    def _places(self, rows: list[list]) -> Iterable[list[Place]]:
        for row in rows:
            yield [self._place(tensor) for tensor in row]

    def _place(self, tensor: Any) -> Place:
        if not tensor.is_contiguous():
            raise HearthError("a tensor is not contiguous; give its parts one by one")
        device = tensor.device
        is_on_device = device.type != "cpu"
        if is_on_device and f"{device.type}:{device.index or 0}" != self._device:
            raise HearthError(f"a tensor is on {device}, this store serves {self._device}; configure its device_id")
        return (tensor.data_ptr(), tensor.numel() * tensor.element_size(), is_on_device)
