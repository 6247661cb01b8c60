"""vLLM's contract with secondary tiers as far as HearthTier is held to it, for tests without vLLM."""

from dataclasses import dataclass
from enum import Enum, auto


class Medium(Enum):
    CPU = "CPU"
    STORAGE = "STORAGE"


class LookupResult(Enum):
    MISS = auto()
    HIT = auto()
    HIT_PENDING = auto()
    RETRY = auto()


@dataclass
class RequestOffloadingContext:
    policy: str = "chunk_level"
