from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any


@dataclass
class TransferJob:
    job_id: int
    keys: Any
    chunk_ids: Any
    is_promotion: bool
    req_context: Any


@dataclass
class JobResult:
    job_id: int
    success: bool
    successful_keys: Any = None
    transfer_time: float | None = None
    transfer_bytes: int | None = None


class SecondaryTierManager(ABC):
    def __init__(self, offloading_spec, primary_kv_view, tier_type, backpressure_detector=None):
        self.tier_type = tier_type
        self.bp_detector = backpressure_detector

    @abstractmethod
    def lookup(self, key, req_context): ...
    @abstractmethod
    def submit_store(self, job_metadata): ...
    @abstractmethod
    def submit_load(self, job_metadata): ...
    @abstractmethod
    def get_finished_jobs(self): ...
    @abstractmethod
    def on_new_request(self, req_context): ...
    @abstractmethod
    def drain_jobs(self): ...
