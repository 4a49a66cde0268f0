"""A process a device, as DistributedDataParallel has it. The ranks share nothing but their orders."""

from gpubench.frameworks.fake.one_process import training

__all__ = ["training"]
