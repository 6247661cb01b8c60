"""fsspec's file system "hearth": hearth://DATASET/path, read through pygd2fs.

    fsspec.open("hearth://llama-3/config.json", cpaddr="gd2fs://10.0.0.1:7527", cluster="hearth")

Read-only.
"""

import errno
import os
import pathlib
import stat
import threading
import weakref
from typing import Any

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from pygd2fs import SGE, Client, InspectStatus, Request, _native

_PREFIX = "/dataset/"
# Where pods mount a volume with clientAccess.
_ACCESS = pathlib.Path("/var/run/hearth")


# Entries of a folder that one request asks for.
_PAGE = 1024


def _kind(mode: int) -> str:
    return {stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}.get(stat.S_IFMT(mode), "file")


def _access(name: str) -> str | None:
    """Text of a file of the pod's volume; None where there is no such volume."""
    try:
        return (_ACCESS / name).read_text()
    except OSError:
        return None


# By id: two that are equal are two.
_file_systems: weakref.WeakValueDictionary[int, "HearthFileSystem"] = weakref.WeakValueDictionary()


def _after_fork() -> None:
    for file_system in list(_file_systems.values()):
        file_system._forked()


os.register_at_fork(after_in_child=_after_fork)


class HearthFileSystem(AbstractFileSystem):
    """Any thread, also several at once.

    cpaddr: addresses of agents, by default those in HEARTH_CPADDR, else those of the pod's volume at /var/run/hearth.
    cluster: the cluster's name, by default that in HEARTH_CLUSTER, of the pod's volume, or "hearth". dpaddrs, iothreads, streams: as pygd2fs.Client() takes them.
    """

    protocol = "hearth"
    root_marker = ""
    cachable = True

    def __init__(
        self,
        cpaddr: str | None = None,
        cluster: str | None = None,
        dpaddrs: str = "",
        iothreads: int = 0,
        streams: int = 0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        cpaddr = cpaddr or os.environ.get("HEARTH_CPADDR") or _access("addresses")
        if not cpaddr:
            raise ValueError("cpaddr is missing: pass cpaddr= or set HEARTH_CPADDR to addresses of agents")
        cluster = cluster or os.environ.get("HEARTH_CLUSTER") or _access("cluster") or "hearth"
        self._arguments = (cpaddr, dpaddrs, cluster, iothreads, 0, streams)
        self._connecting = threading.Lock()
        self._connected: Client | None = Client(*self._arguments)
        self._queues = threading.local()  # each thread waits for its own requests
        _file_systems[id(self)] = self

    @property
    def _client(self) -> Client:
        if self._connected is None:
            with self._connecting:
                if self._connected is None:
                    self._connected = Client(*self._arguments)
        return self._connected

    def _forked(self) -> None:
        """In a child of fork(2), as a worker of a DataLoader is: has none of its parent's threads, and connects anew."""
        self._connecting = threading.Lock()
        self._connected = None
        self._queues = threading.local()

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        request = self._ended(self._client._channel.stat(_PREFIX + path, "", self._queue(), None), path)
        size, mtime_ns, mode = request.Stat()
        return {"name": path, "size": size, "type": _kind(mode), "mtime": mtime_ns / 1e9, "mode": mode}

    def modified(self, path: str) -> Any:
        import datetime

        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], tz=datetime.UTC)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        info = self.info(path)
        entries = self._entries(info["name"]) if info["type"] == "directory" else [info]
        return entries if detail else [entry["name"] for entry in entries]

    def _entries(self, path: str) -> list[dict[str, Any]]:
        """All entries of a folder, in the order of their names' bytes."""
        entries: list[dict[str, Any]] = []
        after = ""
        while True:
            request = self._ended(self._client._channel.list(_PREFIX + path, after, _PAGE, "", self._queue(), None), path)
            page = request.Entries()
            entries += [
                {"name": f"{path}/{name}", "size": size, "type": _kind(mode), "mode": mode} for name, size, mode in page
            ]
            if len(page) < _PAGE:
                return entries
            after = page[-1][0]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        path = self._strip_protocol(path)
        size = self.info(path)["size"] if end is None or end < 0 or (start or 0) < 0 else None
        begin = self._from_start(start, size, 0)
        stop = self._from_start(end, size, size)
        return bytes(self._read(path, begin, max(stop - begin, 0)))

    def _open(self, path: str, mode: str = "rb", **options: Any) -> "HearthFile":
        if mode != "rb":
            raise OSError(errno.EROFS, f"{path}: datasets are read-only")
        options.setdefault("cache_type", "readahead")
        return HearthFile(self, path, mode, **options)

    @staticmethod
    def _from_start(offset: int | None, size: int | None, default: int | None) -> int:
        value = default if offset is None else offset
        assert value is not None
        if value < 0:
            assert size is not None
            return max(size + value, 0)
        return value

    def _read(self, path: str, offset: int, length: int) -> memoryview:
        """Fewer bytes only at the end of the file."""
        if length == 0:
            return memoryview(b"")
        memory = bytearray(length)
        iomem = self._client.RegIOMEM(memory)
        sges = [SGE(iomem.addr, length, iomem)]
        submitted = self._client._channel.read(_PREFIX + path, offset, sges, 0, "", self._queue(), None)
        return memoryview(memory)[: self._ended(submitted, path).Value()]

    def _queue(self) -> _native.Queue:
        if not hasattr(self._queues, "queue"):
            self._queues.queue = _native.Queue()
        return self._queues.queue

    def _ended(self, request: Request | None, path: str) -> Request:
        """Waits for the only request of this thread; OSError when it failed."""
        if request is None:
            raise OSError(errno.EINVAL, f"{path}: the request is refused; the path may be too long, or the client closed")
        while request not in self._queue().wait(-1):
            pass  # of a request whose wait was interrupted
        code = InspectStatus(request.Status())[3]
        if code:
            raise OSError(code, os.strerror(code), path)
        return request


class HearthFile(AbstractBufferedFile):
    """A file that is read in blocks, as fsspec caches them."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        return bytes(self.fs._read(self.path, start, end - start))
