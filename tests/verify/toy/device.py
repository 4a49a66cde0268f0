"""Devices that need no taking."""

import numpy as np


def take(case, place):
    pass


def wait(result):
    pass


def observed(place):
    return [device.id for device in place.devices]


def versions():
    return {"toy": "1", "numpy": np.__version__}


def is_out_of_memory(error):
    return False


def peak_memory():
    return None, "process"
