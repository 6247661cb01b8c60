"""Reads of files of a Hearth cluster into memory of the caller's, through libgd2fs.

Synchronous calls hand their requests back by Client.Wait(), asynchronous ones end their awaitable; both may share a
client. All methods are for any thread. One thread of each client takes completions; like every wait here it does
without the interpreter's lock. docs/clients.md tells units and errors.
"""

from __future__ import annotations

import asyncio
import atexit
import math
import os
import threading
import time
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from pygd2fs import _native
from pygd2fs._native import IOMEM, SGE, Request

__all__ = ["IOMEM", "SGE", "Client", "InspectStatus", "Request"]


def InspectStatus(status: int) -> tuple[int, int, int, int]:
    """(status, class, 0, code): code is 0 or an errno; the classes are those of xfer/gd2fs.h."""
    return status, status >> 8 & 0xFF, 0, status & 0xFF


class Client:
    """A connection to a cluster. OSError with its errno when none comes about."""

    def __init__(
        self,
        cpaddr: str,
        dpaddrs: str | Iterable[str],
        cluster: str,
        iothreads: int = 0,
        memthreads: int = 0,
        streams: int = 0,
        *,
        timeout: int = 0,
        log_level: str | None = None,
    ) -> None:
        """timeout: milliseconds for a request, all its retries included; 0 chooses."""
        nics = dpaddrs if isinstance(dpaddrs, str) else ",".join(dpaddrs)
        self._channel = _native.Channel(
            cpaddr, nics or None, cluster, iothreads, memthreads, streams, log_level, timeout
        )
        self._ended = _native.Queue()  # of requests for Wait()
        self._lock = threading.Lock()  # guards changes of the one below
        self._queues: dict[asyncio.AbstractEventLoop, _native.Queue] = {}
        self._process = os.getpid()
        _clients.add(self)

    def close(self) -> None:
        """Ends what is in flight; afterwards no memory is touched. Idempotent; nothing in a child of fork(2)."""
        if self._process != os.getpid():
            return
        self._channel.close()
        self._ended.close()
        with self._lock:
            queues, self._queues = self._queues, {}
        for loop, queue in queues.items():
            _leave(loop, queue)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_process"):
            self.close()

    def RegIOMEM(self, addr: Any, len: int | None = None) -> IOMEM:  # noqa: A002: the published name
        """Registers memory for SGEs.

        addr: an address of memory that stays where it is until the IOMEM has gone; or an object whose memory the IOMEM
        keeps: one with the buffer protocol (writable, contiguous) or with DLPack (host memory, contiguous), of which
        `len` may be left out.

        OSError as xfer_gd2fs_reg_iomem() says; TypeError and BufferError for objects that do not lend their memory.
        """
        return self._channel.register(addr, len)

    def DeregIOMEM(self, iomem: IOMEM) -> None:
        """Waits as Drain() does, for ever; the memory is not touched any more afterwards.

        An IOMEM that is forgotten deregisters itself. OSError with EINVAL when it is not registered.
        """
        self._channel.deregister(iomem)

    def Drain(self, iomem: IOMEM, timeout: int = -1) -> bool:
        """Waits `timeout` ms, for ever with -1, until nothing touches the memory any more; False: something still may.

        Neither requests in flight do then, nor what a failed one has left behind that is not Request.IsQuiescent().
        Completions stay to be taken. OSError as xfer_gd2fs_drain() says, without ETIMEDOUT.
        """
        ends = None if timeout < 0 else time.monotonic() + timeout / 1000
        while True:
            # A second at a time, so that signal handlers run.
            left = 1000 if ends is None else max(0, min(1000, math.ceil((ends - time.monotonic()) * 1000)))
            if self._channel.drain(iomem, left):
                return True
            if ends is not None and time.monotonic() >= ends:
                return False

    def Read(self, path: str, offset: int, sges: Sequence[SGE], flags: int = 0, desc: str = "") -> Request | None:
        """None when the request cannot be made; else Wait() returns it when it has ended."""
        return self._channel.read(path, offset, sges, flags, desc, self._ended, None)

    def Write(self, path: str, offset: int, sges: Sequence[SGE], flags: int = 0, desc: str = "") -> Request | None:
        """As Read(), of a file of a volume. None also for paths of datasets, which are read-only."""
        return self._channel.write(path, offset, sges, flags, desc, self._ended, None)

    def Stat(self, path: str, desc: str = "") -> Request | None:
        """As Read(); Request.Stat() has the answer."""
        return self._channel.stat(path, desc, self._ended, None)

    async def ReadAsync(self, path: str, offset: int, sges: Sequence[SGE], flags: int = 0) -> Request | None:
        """None when the request cannot be made. The memory is in use until the read has ended, also after a cancel."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Request] = loop.create_future()
        if self._channel.read(path, offset, sges, flags, "", self._queue_of(loop), future) is None:
            return None
        return await future

    async def WriteAsync(self, path: str, offset: int, sges: Sequence[SGE], flags: int = 0) -> Request | None:
        """As ReadAsync(), of a file of a volume. None also for paths of datasets, which are read-only."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Request] = loop.create_future()
        if self._channel.write(path, offset, sges, flags, "", self._queue_of(loop), future) is None:
            return None
        return await future

    async def StatAsync(self, path: str) -> Request | None:
        """As ReadAsync(); Request.Stat() has the answer."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Request] = loop.create_future()
        if self._channel.stat(path, "", self._queue_of(loop), future) is None:
            return None
        return await future

    async def ListAsync(self, path: str, after: str, limit: int) -> Request | None:
        """As ReadAsync(); Request.Entries() has at most `limit` entries of the folder whose names come after `after`."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Request] = loop.create_future()
        if self._channel.list(path, after, limit, "", self._queue_of(loop), future) is None:
            return None
        return await future

    def Wait(self, timeout: int = -1) -> list[Request]:
        """Requests of Read(), Write() and Stat() that have ended; waits `timeout` ms for the first, for ever with -1.

        An empty list when none came in time or the client is closed.
        """
        return self._ended.wait(timeout)

    def GetFd(self) -> int:
        """A descriptor of the client's that is readable while Wait(0) has requests to return, and once it is closed."""
        return self._ended.fileno()

    def _queue_of(self, loop: asyncio.AbstractEventLoop) -> _native.Queue:
        return self._queues.get(loop) or self._join(loop)

    def _join(self, loop: asyncio.AbstractEventLoop) -> _native.Queue:
        """Has the loop, which runs on this thread, watch a queue of its own."""
        queue = _native.Queue()
        loop.add_reader(queue.fileno(), queue.resolve)
        with self._lock:
            # Requests may still be on their way to the queue of a loop that was closed.
            gone = [each for each, its in self._queues.items() if each.is_closed() and its.is_idle()]
            for each in gone:
                del self._queues[each]
            self._queues[loop] = queue
        return queue


def _leave(loop: asyncio.AbstractEventLoop, queue: _native.Queue) -> None:
    """Resolves what has ended on the loop's own thread, which then watches the queue no more."""

    def end() -> None:
        queue.resolve()
        loop.remove_reader(queue.fileno())

    try:
        loop.call_soon_threadsafe(end)
    except RuntimeError:  # the loop is closed, and nobody awaits anything on it
        queue.discard()


_clients: weakref.WeakSet[Client] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for client in list(_clients):
        client.close()
    _native.end_waits()
