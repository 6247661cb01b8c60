"""A UCM store on directories: UCM loads UcmHearthStore by ucm_connector_module_path.

A block is a file in one of the storage_backends, chosen by its hash. A block becomes visible under its name when all
of its shards are dumped; until then its file has a name that no other process has. When one of its shards fails, that
file is deleted, and the block has to be dumped anew. Memory is named by address, so tensors must stay where
they are until wait() has returned.
"""

import errno
import os
import secrets
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


@dataclass(eq=False)
class _Attempt:
    """One try to dump a whole block, into a file of its own; guarded by the store's lock."""

    path: Path
    shards: set[int] = field(default_factory=set)  # that are dumped
    tasks: int = 0  # that may write into the file
    failed: bool = False


@dataclass
class HearthTask(Task):
    """A batch of transfers, and for each transfer its block."""

    batch: int
    blocks: list[bytes]
    is_dump: bool
    shards: dict[bytes, set[int]] = field(default_factory=dict)
    attempts: dict[bytes, _Attempt] = field(default_factory=dict)  # of a dump
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
    stream_number (32) transfers run side by side; wait() cancels a task after timeout_ms (30000), and waits as long
    again for the transfers that have begun.
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
        self._attempts: dict[bytes, _Attempt] = {}  # of blocks that are not published

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

        After timeout_ms it cancels what has not begun and waits for the rest. Raises BlocksFailedError for blocks that
        failed or were cancelled: the task uses its memory no more. Raises HearthError with the code DeadlineExceeded
        when transfers that have begun do not end for timeout_ms more: the task then still uses its memory, and wait()
        may be called again.
        """
        assert isinstance(task, HearthTask)
        failures = dict(task.failures)
        for transfer, code, message in self._drain(task.batch):
            failures.setdefault(task.blocks[transfer], f"{code}: {message}")
        for block, attempt in task.attempts.items():
            self._finish(block, attempt, task.shards[block], failures)
        if failures:
            raise BlocksFailedError(failures)

    def _drain(self, batch: int) -> list[tuple[int, str, str]]:
        try:
            return self._transfers.wait(batch, self._timeout_ms)
        except HearthError as error:
            if error.code != "DeadlineExceeded":
                raise
        self._transfers.cancel(batch)
        return self._transfers.wait(batch, self._timeout_ms)

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
        # All are checked before the first file is created.
        rows = [
            (block, shard, self._offset_of(shard, parts), parts)
            for block, shard, parts in zip(block_ids, shard_index, places, strict=True)
        ]
        task = HearthTask(0, [], is_dump, defaultdict(set))
        transfers = []
        for block, shard, offset, parts in rows:
            task.shards[block].add(shard)
            if is_dump and block not in task.attempts and block not in task.failures:
                self._attempt(block, task)
            if block in task.failures:
                continue
            path = str(task.attempts[block].path if is_dump else self._path(block))
            for address, size, is_on_device in parts:
                transfers.append((path, offset, address, size, is_on_device))
                task.blocks.append(block)
                offset += size
        try:
            task.batch = self._transfers.begin(is_dump, transfers, event)
        except BaseException:
            for block, attempt in task.attempts.items():
                self._finish(block, attempt, set(), {block: "not begun"})
            raise
        return task

    def _offset_of(self, shard: int, parts: list[Place]) -> int:
        offset = shard * self._shard_bytes
        size = sum(size for _, size, _ in parts)
        if shard < 0 or size > self._shard_bytes or offset + size > self._block_bytes:
            raise HearthError(f"shard {shard} of {size} bytes does not fit blocks of {self._block_bytes}")
        return offset

    def _attempt(self, block: bytes, task: HearthTask) -> None:
        """Joins the present attempt to dump the block, or begins one; a failure goes into the task."""
        with self._lock:
            attempt = self._attempts.get(block)
            if attempt is None:
                attempt = _Attempt(self._path(block).with_suffix(f".{secrets.token_hex(16)}.part"))
                if failure := self._create(attempt.path):
                    task.failures[block] = failure
                    return
                self._attempts[block] = attempt
            attempt.tasks += 1
            task.attempts[block] = attempt

    def _create(self, path: Path) -> str | None:
        """Creates the file with the full size of a block; returns why it could not."""
        try:
            with open(path, "xb") as file:
                os.posix_fallocate(file.fileno(), 0, self._block_bytes)
        except OSError as error:
            code = "OutOfSpace" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "IoError"
            _unlink(path)
            return f"{code}: create {path}: {error.strerror}; free space in or remount {path.parent}"
        return None

    def _finish(self, block: bytes, attempt: _Attempt, shards: set[int], failures: dict[bytes, str]) -> None:
        """Ends a task's part in the attempt. The last task publishes the block, or deletes what has failed."""
        with self._lock:
            attempt.tasks -= 1
            attempt.shards |= shards
            attempt.failed = attempt.failed or block in failures
            is_over = attempt.failed or len(attempt.shards) * self._shard_bytes >= self._block_bytes
            # A later dump begins another attempt.
            if is_over and self._attempts.get(block) is attempt:
                del self._attempts[block]
            if attempt.failed:
                failures.setdefault(block, "Cancelled: another task failed to dump a part of this block")
            if not is_over or attempt.tasks > 0:
                return
        if attempt.failed:
            _unlink(attempt.path)
            return
        try:
            attempt.path.rename(self._path(block))
        except OSError as error:
            failures[block] = f"IoError: {error}"
            _unlink(attempt.path)

    def _path(self, block: bytes) -> Path:
        return self._roots[block[-1] % len(self._roots)] / block.hex()

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


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        pass  # The directory is gone, and the file with it.
