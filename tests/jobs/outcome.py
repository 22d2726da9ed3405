"""What a model leaves behind for comparison, in the words of scripts/demo_train.py: losses, a hash, memory."""

import hashlib
import json

import jax
import numpy as np


def write(path, state, losses):
    """state: any pytree of arrays; losses: scalars on the device, fetched here so that no step was waited for before."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(state):
        array = np.asarray(leaf)
        digest.update(f"{array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    device = jax.devices()[0]
    values = [float(value) for value in losses]
    result = {
        "platform": device.platform,
        "losses": values,
        "losses_exact": [value.hex() for value in values],
        "state_sha256": digest.hexdigest(),
        "memory_stats": {k: v for k, v in (device.memory_stats() or {}).items() if isinstance(v, int)},
    }
    with open(path, "w") as file:
        json.dump(result, file, indent=1)
