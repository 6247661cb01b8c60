"""fsspec's file system "hearth": hearth://DATASET/path, read through pygd2fs.

    fsspec.open("hearth://default.llama-3/config.json")

Read-only. In a pod with a volume of client access nothing needs to be said; elsewhere, where agents and token are.
"""

import asyncio
import datetime
import errno
import os
import stat
import threading
import weakref
from typing import Any

from fsspec.asyn import AbstractAsyncStreamedFile, AsyncFileSystem, get_loop, sync
from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.spec import AbstractBufferedFile

from pygd2fs import SGE, Client, InspectStatus, Request
from pygd2fs.token import granted_datasets

_PREFIX = "/dataset/"
# Entries of a folder that one request asks for.
_PAGE = 1024
# A file of fewer bytes comes by one request, without one for its size before.
_FIRST_BYTES = 1 << 20
# Of a file that is copied: bytes of a request, and requests at the same time.
_PART_BYTES = 16 << 20
_PARTS = 4


def _kind(mode: int) -> str:
    return {stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}.get(stat.S_IFMT(mode), "file")


# By id: two that are equal are two.
_file_systems: weakref.WeakValueDictionary[int, "HearthFileSystem"] = weakref.WeakValueDictionary()


def _after_fork() -> None:
    for file_system in list(_file_systems.values()):
        file_system._forked()


# After fsspec's own, which forgets the thread of its loop.
os.register_at_fork(after_in_child=_after_fork)


class HearthFileSystem(AsyncFileSystem):
    """Any thread, also several at once; any event loop with asynchronous=True. Requests of one call run side by side.

    cpaddr: addresses of agents. cluster: the cluster's name. Without them, and always for the token, libgd2fs looks
    where xfer/gd2fs.h says: in HEARTH_CPADDR, HEARTH_CLUSTER and the pod's volume, /var/run/hearth or
    HEARTH_CLIENT_ACCESS. dpaddrs, iothreads, streams: as pygd2fs.Client() takes them. OSError when no agent answers.
    """

    protocol = "hearth"
    root_marker = ""
    cachable = True

    def __init__(
        self,
        cpaddr: str = "",
        cluster: str = "",
        dpaddrs: str = "",
        iothreads: int = 0,
        streams: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._arguments = (cpaddr, dpaddrs, cluster, iothreads, 0, streams)
        self._connecting = threading.Lock()
        self._connected: Client | None = Client(*self._arguments)
        _file_systems[id(self)] = self

    @property
    def _client(self) -> Client:
        if self._connected is None:
            with self._connecting:
                if self._connected is None:
                    self._connected = Client(*self._arguments)
        return self._connected

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        if self._loop is None and not self.asynchronous:
            self._loop = get_loop()
        return self._loop

    def _forked(self) -> None:
        """In a child of fork(2), as a worker of a DataLoader is: has none of its parent's threads, and connects anew."""
        self._connecting = threading.Lock()
        self._connected = None
        self._loop = None
        self._pid = os.getpid()

    async def _info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        if not path:
            return {"name": "", "size": 0, "type": "directory"}
        request = _ended(await self._client.StatAsync(_PREFIX + path), path)
        size, mtime_ns, mode = request.Stat()
        return {"name": path, "size": size, "type": _kind(mode), "mtime": mtime_ns / 1e9, "mode": mode}

    def modified(self, path: str) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], tz=datetime.timezone.utc)

    async def _ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        info = await self._info(path)
        if not info["name"]:
            entries = await self._datasets()
        elif info["type"] == "directory":
            entries = await self._entries(info["name"])
        else:
            entries = [info]
        return entries if detail else [entry["name"] for entry in entries]

    async def _datasets(self) -> list[dict[str, Any]]:
        """Those that the token grants and the cluster has."""
        found = await asyncio.gather(*map(self._info, granted_datasets()), return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException) and not isinstance(each, FileNotFoundError):
                raise each
        return [each for each in found if not isinstance(each, BaseException)]

    async def _entries(self, path: str) -> list[dict[str, Any]]:
        """All entries of a folder, in the order of their names' bytes."""
        entries: list[dict[str, Any]] = []
        after = ""
        while True:
            page = _ended(await self._client.ListAsync(_PREFIX + path, after, _PAGE), path).Entries()
            entries += [
                {"name": f"{path}/{name}", "size": size, "type": _kind(mode), "mode": mode} for name, size, mode in page
            ]
            if len(page) < _PAGE:
                return entries
            after = page[-1][0]

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        path = self._strip_protocol(path)
        begin = start or 0
        if begin < 0 or (end is not None and end < 0):
            begin, stop, _step = slice(start, end).indices((await self._info(path))["size"])
            return bytes(await self._read(path, begin, stop - begin))
        wanted = _FIRST_BYTES if end is None else end - begin
        first = await self._read(path, begin, min(wanted, _FIRST_BYTES))
        if len(first) < _FIRST_BYTES or (end is not None and wanted <= _FIRST_BYTES):
            return bytes(first)
        size = (await self._info(path))["size"]
        stop = size if end is None else min(end, size)
        rest = await self._read(path, begin + len(first), stop - begin - len(first))
        return b"".join((first, rest))

    async def _get_file(self, rpath: str, lpath: str, callback: Callback = DEFAULT_CALLBACK, **_: Any) -> None:
        info = await self._info(rpath)
        if info["type"] == "directory":
            os.makedirs(lpath, exist_ok=True)
            return
        size = info["size"]
        callback.set_size(size)
        with open(lpath, "wb") as file:
            for begin in range(0, size, _PARTS * _PART_BYTES):
                offsets = range(begin, min(begin + _PARTS * _PART_BYTES, size), _PART_BYTES)
                parts = [self._read(info["name"], at, min(_PART_BYTES, size - at)) for at in offsets]
                for part in await asyncio.gather(*parts):
                    callback.relative_update(file.write(part))

    def _open(self, path: str, mode: str = "rb", **options: Any) -> "HearthFile":
        _check_mode(path, mode)
        options.setdefault("cache_type", "readahead")
        return HearthFile(self, path, mode, **options)

    async def open_async(self, path: str, mode: str = "rb", **options: Any) -> "HearthStreamedFile":
        _check_mode(path, mode)
        info = await self._info(path)
        return HearthStreamedFile(self, info["name"], mode, size=info["size"], cache_type="none", **options)

    async def _read(self, path: str, offset: int, length: int) -> memoryview:
        """Fewer bytes only at the end of the file."""
        if length <= 0:
            return memoryview(b"")
        memory = bytearray(length)
        iomem = self._client.RegIOMEM(memory)
        request = await self._client.ReadAsync(_PREFIX + path, offset, [SGE(iomem.addr, length, iomem)])
        return memoryview(memory)[: _ended(request, path).Value()]


def _check_mode(path: str, mode: str) -> None:
    if mode != "rb":
        raise OSError(errno.EROFS, f"{path}: datasets are read-only")


def _ended(request: Request | None, path: str) -> Request:
    """OSError when it failed."""
    if request is None:
        raise OSError(errno.EINVAL, f"{path}: the request is refused; the path may be too long, or the client closed")
    code = InspectStatus(request.Status())[3]
    if code:
        raise OSError(code, os.strerror(code), path)
    return request


class HearthFile(AbstractBufferedFile):
    """A file that is read in blocks, as fsspec caches them."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        return bytes(sync(self.fs.loop, self.fs._read, self.path, start, end - start))


class HearthStreamedFile(AbstractAsyncStreamedFile):
    """A file that is read on an event loop, without a cache."""

    async def _fetch_range(self, start: int, end: int) -> bytes:
        return bytes(await self.fs._read(self.path, start, end - start))
