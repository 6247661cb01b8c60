"""Values under keys of a volume, such as the blocks of a KV cache (xfer/hearth_kv.h).

The blocking calls and the coroutines of one KV may be mixed, on any threads and event loops. No call has a thread of
its own: a coroutine's loop watches the descriptor of the key space. docs/clients.md tells units and errors.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import math
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pygd2fs import _native
from pygd2fs._native import SGE

__all__ = ["KV", "Result"]

_PUT, _GET, _EXISTS, _PREFIX, _DELETE = range(5)
# A thread that waits looks so often for signals, and whether another has taken its completion.
_POLL_MS = 100


class Result(NamedTuple):
    """How a batch ended. Statuses are 0 or an errno."""

    value: int  # items whose status is 0; of prefix those before the first other
    status: int  # 0, or the first status of an item that is neither 0 nor ENOENT
    at_rest: bool  # nothing touches the memory of the batch any more
    statuses: list[int]  # of each item
    sizes: list[int]  # bytes of each value; with EMSGSIZE what the memory has to hold

    def check(self) -> Result:
        """Raises OSError when the batch has failed."""
        if self.status != 0:
            raise OSError(self.status, "a batch of a key space has failed")
        return self


class _Batch:
    """A batch in flight: for a thread that waits, or for a coroutine of `loop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.id = 0
        self.result: Result | None = None
        self.woken = threading.Event()  # the batch has ended, or its thread is to take completions
        self.future: asyncio.Future[Result] | None = loop.create_future() if loop is not None else None

    def end(self, result: Result) -> None:
        self.result = result
        future = self.future
        if future is None:
            return self.woken.set()
        loop = future.get_loop()
        if loop is asyncio._get_running_loop():
            self._resolve(result)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(self._resolve, result)

    def _resolve(self, result: Result) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_result(result)


class KV:
    """A key space: keys with the same volume, fingerprint and salt. OSError with its errno when it cannot be opened.

    Keys are bytes. A value is an object with the buffer protocol (contiguous; for get also writable), or a sequence of
    SGEs of the client's registered memory.
    """

    def __init__(self, client: Any, volume: str, fingerprint: bytes, salt: bytes = b"") -> None:
        self._channel = client._channel
        self._space = _native.KvSpace(self._channel, volume, fingerprint, salt)
        self._taking = threading.Lock()  # held by the one thread that takes completions for all
        self._lock = threading.Lock()  # guards the number below
        self._turns = 0  # of threads that are to have `_taking` next
        self._loops: set[asyncio.AbstractEventLoop] = set()
        self._in_flight: set[_Batch] = set()
        self._closed = False

    def close(self) -> None:
        """Cancels what is in flight; afterwards no memory is touched. Idempotent."""
        with self._turn():
            if self._closed:
                return
            self._closed = True
            loops, self._loops = self._loops, set()
            descriptor = self._space.fileno()
            for loop in loops:
                if loop is asyncio._get_running_loop():
                    loop.remove_reader(descriptor)
                elif not loop.is_closed():
                    loop.call_soon_threadsafe(loop.remove_reader, descriptor)
            self._space.close()
            while self._in_flight:
                batch = self._in_flight.pop()
                batch.end(Result(0, errno.ECANCELED, True, [], []))

    def __enter__(self) -> KV:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def put(self, keys: Sequence[bytes], values: Sequence[Any], timeout: int = 0) -> Result:
        """Stores values. `timeout` in milliseconds, here and below; 0: the client's."""
        return self._run(_PUT, keys, self._memory(values, False), timeout)

    def get(self, keys: Sequence[bytes], values: Sequence[Any], timeout: int = 0) -> Result:
        """Reads values into memory that may be longer than they are."""
        return self._run(_GET, keys, self._memory(values, True), timeout)

    def exists(self, keys: Sequence[bytes], timeout: int = 0) -> list[bool]:
        """Whether each key has a value. OSError when nobody says."""
        return [status == 0 for status in self._run(_EXISTS, keys, None, timeout).check().statuses]

    def prefix(self, keys: Sequence[bytes], timeout: int = 0) -> int:
        """How many keys have a value before the first that has none. OSError when nobody says."""
        return self._run(_PREFIX, keys, None, timeout).check().value

    def delete(self, keys: Sequence[bytes], timeout: int = 0) -> int:
        """Removes values; how many there were. OSError when some may be left."""
        return self._run(_DELETE, keys, None, timeout).check().value

    async def put_async(self, keys: Sequence[bytes], values: Sequence[Any], timeout: int = 0) -> Result:
        return await self._run_async(_PUT, keys, self._memory(values, False), timeout)

    async def get_async(self, keys: Sequence[bytes], values: Sequence[Any], timeout: int = 0) -> Result:
        return await self._run_async(_GET, keys, self._memory(values, True), timeout)

    async def exists_async(self, keys: Sequence[bytes], timeout: int = 0) -> list[bool]:
        return [status == 0 for status in (await self._run_async(_EXISTS, keys, None, timeout)).check().statuses]

    async def prefix_async(self, keys: Sequence[bytes], timeout: int = 0) -> int:
        return (await self._run_async(_PREFIX, keys, None, timeout)).check().value

    async def delete_async(self, keys: Sequence[bytes], timeout: int = 0) -> int:
        return (await self._run_async(_DELETE, keys, None, timeout)).check().value

    def drain(self, timeout: int = -1) -> bool:
        """Waits until no memory of any batch is touched any more, `timeout` ms or for ever; whether that is so."""
        ends = None if timeout < 0 else time.monotonic() + timeout / 1000
        while True:
            # Others that wait take their completions between two looks.
            left = _POLL_MS if ends is None else max(0, min(_POLL_MS, math.ceil((ends - time.monotonic()) * 1000)))
            with self._turn():
                if self._space.drain(left):
                    return True
            if ends is not None and time.monotonic() >= ends:
                return False

    def _memory(self, values: Iterable[Any], writable: bool) -> list[Sequence[SGE]]:
        return [self._sges(value, writable) for value in values]

    def _sges(self, value: Any, writable: bool) -> Sequence[SGE]:
        if isinstance(value, (list, tuple)):
            return value
        iomem = self._channel.register(value, None, writable)
        return (SGE(iomem.addr, iomem.length, iomem),)

    def _run(self, call: int, keys: Sequence[bytes], memory: list[Sequence[SGE]] | None, timeout: int) -> Result:
        batch = _Batch()
        self._submit(call, keys, memory, timeout, batch)
        while batch.result is None:
            if self._turns == 0 and self._taking.acquire(blocking=False):
                try:
                    while batch.result is None and self._turns == 0:
                        self._take(_POLL_MS)
                finally:
                    self._taking.release()
                    self._hand_over()
            else:
                batch.woken.wait(_POLL_MS / 1000)
                batch.woken.clear()
        return batch.result

    def _hand_over(self) -> None:
        """Has another thread that waits take completions from now on."""
        for batch in list(self._in_flight):
            if batch.future is None and batch.result is None:
                return batch.woken.set()

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Nobody else takes completions in here but event loops; the thread that does leaves soon."""
        with self._lock:
            self._turns += 1
        try:
            with self._taking:
                yield
        finally:
            with self._lock:
                self._turns -= 1
            self._hand_over()

    async def _run_async(
        self, call: int, keys: Sequence[bytes], memory: list[Sequence[SGE]] | None, timeout: int
    ) -> Result:
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            loop.add_reader(self._space.fileno(), self._take, 0)
            self._loops.add(loop)
        batch = _Batch(loop)
        self._submit(call, keys, memory, timeout, batch)
        assert batch.future is not None
        try:
            return await batch.future
        except asyncio.CancelledError:
            if batch.result is None:
                self._space.cancel(batch.id)
            raise

    def _submit(
        self, call: int, keys: Sequence[bytes], memory: list[Sequence[SGE]] | None, timeout: int, batch: _Batch
    ) -> None:
        self._in_flight.add(batch)
        try:
            batch.id = self._space.submit(call, keys, memory, timeout, batch)
        except BaseException:
            self._in_flight.discard(batch)
            raise

    def _take(self, timeout: int) -> None:
        for batch, value, status, at_rest, statuses, sizes in self._space.take(timeout):
            self._in_flight.discard(batch)
            batch.end(Result(value, status, at_rest, statuses, sizes))
