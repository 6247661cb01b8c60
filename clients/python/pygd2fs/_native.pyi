from asyncio import Future
from collections.abc import Sequence
from typing import Any, final

@final
class Request:
    @property
    def desc(self) -> str: ...
    def Status(self) -> int: ...
    def Value(self) -> int: ...
    def IsQuiescent(self) -> bool: ...
    def Entries(self) -> list[tuple[str, int, int]]: ...
    def Stat(self) -> tuple[int, int, int]: ...

@final
class IOMEM:
    @property
    def addr(self) -> int: ...
    @property
    def length(self) -> int: ...

@final
class SGE:
    def __new__(cls, addr: int, len: int, iomem: IOMEM) -> SGE: ...  # noqa: A002
    @property
    def addr(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def iomem(self) -> IOMEM: ...

@final
class Queue:
    def __new__(cls) -> Queue: ...
    def wait(self, milliseconds: int, /) -> list[Request]: ...
    def resolve(self) -> None: ...
    def discard(self) -> None: ...
    def is_idle(self) -> bool: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...

@final
class Channel:
    def __new__(
        cls,
        addresses: str,
        nics: str | None,
        cluster: str,
        iothreads: int,
        memthreads: int,
        streams: int,
        log_level: str | None,
        timeout: int,
        /,
    ) -> Channel: ...
    def read(
        self,
        path: str,
        offset: int,
        sges: Sequence[SGE],
        flags: int,
        desc: str,
        queue: Queue,
        future: Future[Request] | None,
        /,
    ) -> Request | None: ...
    def write(
        self,
        path: str,
        offset: int,
        sges: Sequence[SGE],
        flags: int,
        desc: str,
        queue: Queue,
        future: Future[Request] | None,
        /,
    ) -> Request | None: ...
    def stat(self, path: str, desc: str, queue: Queue, future: Future[Request] | None, /) -> Request | None: ...
    def list(
        self,
        path: str,
        after: str,
        max: int,  # noqa: A002
        desc: str,
        queue: Queue,
        future: Future[Request] | None,
        /,
    ) -> Request | None: ...
    def register(self, memory: Any, length: int | None, /) -> IOMEM: ...
    def deregister(self, iomem: IOMEM, /) -> None: ...
    def drain(self, iomem: IOMEM, milliseconds: int, /) -> bool: ...
    def close(self) -> None: ...

def end_waits() -> None: ...
