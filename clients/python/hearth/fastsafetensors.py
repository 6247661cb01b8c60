"""The copier "hearth" of fastsafetensors: files read into its buffers as load_safetensors() reads them.

Importing this module registers the copier; then a loader names it:

    import hearth.fastsafetensors
    loader = hearth.fastsafetensors.HearthFileLoader(pg=None, device="cuda:0")

Each copier reads its file once, on a thread of its own, to where the tensors stay. A failed read raises HearthError
from wait_io() or finish_io(); so does a file that was written or replaced since its metadata were read.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from fastsafetensors.common import SafeTensorsMetadata
from fastsafetensors.copier.base import CopierInterface, validated_byte_ranges, validated_chunk_allocation_size
from fastsafetensors.copier.registry import CopierConstructFunc, register_copier_constructor
from fastsafetensors.frameworks import FrameworkOpBase, TensorBase
from fastsafetensors.loader import BaseSafeTensorsFileLoader
from fastsafetensors.st_types import Device, DeviceType, DType

from hearth import _native

_PAGE = 4096
# Files that are read side by side; each has its own readers.
_FILES = 4


class HearthFileCopier(CopierInterface):
    """Reads one file. One thread at a time, as fastsafetensors calls its copiers."""

    def __init__(
        self,
        metadata: SafeTensorsMetadata,
        device: Device,
        framework: FrameworkOpBase,
        readers: ThreadPoolExecutor,
        threads: int,
    ) -> None:
        self.metadata = metadata
        self.device = device
        self.framework = framework
        self._readers = readers
        self._threads = threads
        self._ranges: list[tuple[int, int]] | None = None
        self._names: set[str] | None = None
        self._allocation_size: int | None = None
        self._first = metadata.header_length  # the file's byte that the buffer begins with
        self._read: Future[None] | None = None

    def set_byte_ranges(self, byte_ranges: list[tuple[int, int]] | None) -> None:
        """Reads only these [start, end) of the file; tensors outside stay undefined."""
        self._ranges = validated_byte_ranges(self.metadata, byte_ranges)

    def set_chunk(
        self, byte_ranges: list[tuple[int, int]], names: set[str], allocation_size: int | None = None
    ) -> None:
        """Reads only these ranges, into a buffer that is no longer than they are."""
        self._ranges = validated_byte_ranges(self.metadata, byte_ranges)
        self._names = names
        self._allocation_size = validated_chunk_allocation_size(byte_ranges, allocation_size)

    @classmethod
    def chunk_transient_multiplier(cls, paths: list[str]) -> int:
        """1: bytes are read to where they stay."""
        return 1

    @classmethod
    def chunk_device_overhead(cls, paths: list[str]) -> int:
        return 3 * _PAGE

    @classmethod
    def fixed_device_overhead(cls, paths: list[str]) -> int:
        return 0

    def submit_io(self, use_buf_register: bool, max_copy_block_size: int) -> Any:
        begin, end = self.metadata.header_length, self.metadata.size_bytes
        ranges = [(begin, end)] if self._ranges is None else self._ranges
        if self._names is not None:
            begin = min((start for start, _ in ranges), default=begin)
            end = max(max((stop for _, stop in ranges), default=begin), begin + (self._allocation_size or 0))
        nbytes = end - begin + 3 * _PAGE
        buffer = self.framework.alloc_tensor_memory(nbytes, self.device)
        address = buffer.get_base_address()
        self._first = begin - self._shift(begin, address)
        reads = [(start, start - self._first, stop - start) for start, stop in ranges if stop > start]
        device = "cpu" if self.device.type == DeviceType.CPU else f"cuda:{self.device.index or 0}"
        self._read = self._readers.submit(
            _native.read_into, self.metadata.src, self._layout(), reads, address, nbytes, device, self._threads
        )
        return buffer

    def _layout(self) -> tuple[int, int, list[tuple[str, str, list[int], int, int]]]:
        """The header as the metadata have it, which the file must still have when it is read."""
        tensors = [
            (name, frame.dtype.value, frame.shape, *frame.data_offsets) for name, frame in self.metadata.tensors.items()
        ]
        return self.metadata.header_length, self.metadata.size_bytes, tensors

    def _shift(self, begin: int, address: int) -> int:
        """How far into the buffer the first byte goes.

        Reads past the page cache need file and host memory at the same place of their pages. It would misalign the
        tensors of a file whose header is not padded; and GPUs want tensors as the framework has aligned them.
        """
        if self.device.type != DeviceType.CPU or self.metadata.header_length % 8 != 0:
            return 0
        return (begin - address) % _PAGE

    def wait_io(
        self, gbuf: Any, dtype: DType = DType.AUTO, noalign: bool = False, owner: Any = None
    ) -> dict[str, TensorBase]:
        self.finish_io()
        return self.metadata._get_tensors(
            gbuf, self.device, self._first, dtype=dtype, names=self._names, owner=owner
        )

    def finish_io(self) -> None:
        """Returns when the buffer is touched no more."""
        read, self._read = self._read, None
        if read is not None:
            read.result()


@register_copier_constructor("hearth", HearthFileCopier)
def new_hearth_file_copier(device: Device, max_threads: int = 0, **_: Any) -> CopierConstructFunc:
    """max_threads: readers of each file; 0 chooses."""
    readers = ThreadPoolExecutor(_FILES, thread_name_prefix="hearth-copier")

    def construct(metadata: SafeTensorsMetadata, device: Device, framework: FrameworkOpBase) -> CopierInterface:
        return HearthFileCopier(metadata, device, framework, readers, max_threads)

    return construct


class HearthFileLoader(BaseSafeTensorsFileLoader):
    """fastsafetensors' loader with this copier; its other arguments and methods are those of its base."""

    def __init__(self, pg: Any, device: str = "cpu", **options: Any) -> None:
        super().__init__(pg, Device.from_str(device), copier_type="hearth", **options)
