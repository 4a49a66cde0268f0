"""gpubench measures how training throughput scales over 1, 2 and more devices, and says why."""

__version__ = "0.1.0"
