"""Reads of files of a Hearth cluster into memory of the caller's, through libgd2fs.

Synchronous calls hand their requests back by Client.Wait(), asynchronous ones end their awaitable;
both may share a client. All methods are for any thread. One thread of each client waits for
completions, without the interpreter's lock. docs/clients.md tells units and errors.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import itertools
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable, Sequence

__all__ = ["IOMEM", "SGE", "Client", "InspectStatus", "Request"]


class _Options(ctypes.Structure):
    _fields_ = [
        ("cp_address", ctypes.c_char_p),
        ("dp_address", ctypes.c_char_p),
        ("cluster_id", ctypes.c_char_p),
        ("iothread_count", ctypes.c_uint),
        ("memthread_count", ctypes.c_uint),
        ("conn_stream_count", ctypes.c_uint),
        ("log_level", ctypes.c_char_p),
        ("timeout", ctypes.c_uint),
    ]


class _Sge(ctypes.Structure):
    _fields_ = [("addr", ctypes.c_void_p), ("len", ctypes.c_size_t), ("iomem", ctypes.c_void_p)]


class _Completion(ctypes.Structure):
    _fields_ = [
        ("id", ctypes.c_void_p),
        ("value", ctypes.c_uint64),
        ("status", ctypes.c_uint16),
        ("reserved", ctypes.c_uint8 * 6),
    ]


def _load() -> ctypes.CDLL:
    library = ctypes.CDLL(os.environ.get("HEARTH_LIBGD2FS", "libgd2fs.so.1"), use_errno=True)
    pointer, text, short = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint16
    vector = [pointer, pointer, text, ctypes.c_uint64, ctypes.POINTER(_Sge), short, short]
    for name, result, arguments in (
        ("connect", pointer, [ctypes.POINTER(_Options)]),
        ("close", None, [pointer]),
        ("reg_iomem", pointer, [pointer, pointer, ctypes.c_size_t, pointer]),
        ("dereg_iomem", ctypes.c_int, [pointer, pointer]),
        ("preadv", ctypes.c_ssize_t, vector),
        ("pwritev", ctypes.c_ssize_t, vector),
        ("wait", ctypes.c_int, [pointer, ctypes.POINTER(_Completion), ctypes.c_int, ctypes.c_int]),
    ):
        function = getattr(library, f"xfer_gd2fs_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class IOMEM:
    """Registered memory; of one client."""

    __slots__ = ("addr", "handle", "length")

    def __init__(self, addr: int, length: int, handle: int) -> None:
        self.addr, self.length, self.handle = addr, length, handle


class SGE:
    """A part of registered memory: an address and a length in bytes."""

    __slots__ = ("addr", "iomem", "length")

    def __init__(self, addr: int, length: int, iomem: IOMEM) -> None:
        self.addr, self.length, self.iomem = addr, length, iomem


class Request:
    """One read or write; Status() and Value() tell how it ended, once it has."""

    __slots__ = ("_future", "_status", "_value", "desc")

    def __init__(self, desc: str, future: asyncio.Future[Request] | None) -> None:
        self.desc = desc
        self._future = future
        self._status = self._value = 0

    def Status(self) -> int:
        """0, or what InspectStatus() takes apart."""
        return self._status

    def Value(self) -> int:
        """Bytes that were read; fewer than asked for at the end of the file."""
        return self._value


def InspectStatus(status: int) -> tuple[int, int, int, int]:
    """(status, class, 0, code): code is 0 or an errno; the classes are those of xfer/gd2fs.h."""
    return status, status >> 8 & 0xFF, 0, status & 0xFF


_clients: weakref.WeakSet[Client] = weakref.WeakSet()


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
    ) -> None:
        self._library = _load()
        nics = dpaddrs if isinstance(dpaddrs, str) else ",".join(dpaddrs)
        options = _Options(
            cpaddr.encode(), nics.encode() or None, cluster.encode(), iothreads, memthreads, streams, None, 0
        )
        self._context = self._library.xfer_gd2fs_connect(ctypes.byref(options))
        if not self._context:
            raise OSError(ctypes.get_errno(), f"{cpaddr}: {os.strerror(ctypes.get_errno())}")
        self._numbers = itertools.count(1)
        self._requests: dict[int, Request] = {}
        self._done: deque[Request] = deque()
        self._changed = threading.Condition()
        arguments = (self._library, self._context, self._requests, self._done, self._changed)
        self._thread = threading.Thread(target=_take, args=arguments, name="pygd2fs", daemon=True)
        self._thread.start()
        _clients.add(self)

    def close(self) -> None:
        """Ends what is in flight; afterwards no memory is touched. Idempotent."""
        self._library.xfer_gd2fs_close(self._context)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_thread"):
            self.close()

    def RegIOMEM(self, addr: int, len: int) -> IOMEM:  # noqa: A002: the published name
        handle = self._library.xfer_gd2fs_reg_iomem(self._context, addr, len, None)
        if not handle:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return IOMEM(addr, len, handle)

    def DeregIOMEM(self, iomem: IOMEM) -> None:
        """OSError with EBUSY while requests use it."""
        error = -self._library.xfer_gd2fs_dereg_iomem(self._context, iomem.handle)
        if error:
            raise OSError(error, os.strerror(error))

    def Read(
        self, path: str, offset: int, sges: Sequence[SGE], flags: int = 0, desc: str = ""
    ) -> Request | None:
        """None when the request cannot be made; else Wait() returns it when it has ended."""
        return self._submit(self._library.xfer_gd2fs_preadv, path, offset, sges, flags, Request(desc, None))

    def Write(
        self, path: str, offset: int, sges: Sequence[SGE], flags: int = 0, desc: str = ""
    ) -> Request | None:
        """None: datasets are read-only."""
        return self._submit(self._library.xfer_gd2fs_pwritev, path, offset, sges, flags, Request(desc, None))

    async def ReadAsync(self, path: str, offset: int, sges: Sequence[SGE], flags: int = 0) -> Request | None:
        return await self._await(self._library.xfer_gd2fs_preadv, path, offset, sges, flags)

    async def WriteAsync(self, path: str, offset: int, sges: Sequence[SGE], flags: int = 0) -> Request | None:
        return await self._await(self._library.xfer_gd2fs_pwritev, path, offset, sges, flags)

    def Wait(self, timeout: int = -1) -> list[Request]:
        """Requests of Read() that have ended; waits `timeout` ms for the first, for ever with -1."""
        deadline = None if timeout < 0 else time.monotonic() + timeout / 1000
        with self._changed:
            while not self._done and self._thread.is_alive():
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    break
                self._changed.wait(left)
            ended = list(self._done)
            self._done.clear()
        return ended

    def _submit(self, call, path, offset, sges, flags, request):
        vector = (_Sge * len(sges))(*((each.addr, each.length, each.iomem.handle) for each in sges))
        number = next(self._numbers)
        self._requests[number] = request
        try:
            made = call(self._context, number, path.encode(), offset, vector, len(sges), flags) == 0
        except BaseException:
            del self._requests[number]
            raise
        if made:
            return request
        del self._requests[number]
        return None

    async def _await(self, call, path, offset, sges, flags):
        future = asyncio.get_running_loop().create_future()
        if self._submit(call, path, offset, sges, flags, Request("", future)) is None:
            return None
        # The memory is written into until the request has ended, also when the caller is cancelled.
        return await asyncio.shield(future)


def _take(library, context, requests, done, changed) -> None:
    """The thread of a client; knows no client, so that one that is forgotten can go."""
    completions = (_Completion * 64)()
    while (count := library.xfer_gd2fs_wait(context, completions, len(completions), -1)) > 0:
        ended = []
        for completion in completions[:count]:
            request = requests.pop(completion.id)
            request._status, request._value = completion.status, completion.value
            if request._future is None:
                ended.append(request)
                continue
            try:
                request._future.get_loop().call_soon_threadsafe(_resolve, request)
            except RuntimeError:  # the loop has been closed
                pass
        if ended:
            with changed:
                done.extend(ended)
                changed.notify_all()
    with changed:
        changed.notify_all()


def _resolve(request: Request) -> None:
    if not request._future.done():
        request._future.set_result(request)


@atexit.register
def _close_all() -> None:
    for client in list(_clients):
        client.close()
