"""SGLang's contract with back ends of HiCache as far as Storage is held to it, for tests without SGLang."""

from abc import ABC, abstractmethod
from dataclasses import dataclass


@dataclass
class HiCacheStorageConfig:
    tp_rank: int = 0
    tp_size: int = 1
    pp_rank: int = 0
    pp_size: int = 1
    attn_cp_rank: int = 0
    attn_cp_size: int = 1
    is_mla_model: bool = False
    model_name: str | None = None
    extra_config: dict | None = None


class HiCacheStorage(ABC):
    def register_mem_pool_host(self, mem_pool_host):
        self.mem_pool_host = mem_pool_host

    def register_mem_host_pool_v2(self, host_pool, host_pool_name):
        self.registered_pools = {**getattr(self, "registered_pools", {}), host_pool_name: host_pool}

    @abstractmethod
    def get(self, key, target_location=None, target_sizes=None): ...
    @abstractmethod
    def batch_get(self, keys, target_locations=None, target_sizes=None): ...
    @abstractmethod
    def set(self, key, value=None, target_location=None, target_sizes=None): ...
    @abstractmethod
    def batch_set(self, keys, values=None, target_locations=None, target_sizes=None): ...
    @abstractmethod
    def exists(self, key): ...
