"""Runs another script after setting XLA_FLAGS as scripts do that believe it is theirs: what a preload put there is gone.

    overwrites_flags.py ARGUMENTS...    (of the model next to this file)

The flags that the device itself needs stay: they are in the environment whatever is preloaded.
"""

import os
import runpy

mine = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if not flag.startswith(("--xla_multiheap", "--xla_gpu_enable_command_buffer"))]
os.environ["XLA_FLAGS"] = " ".join(mine)
runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "model_decode.py"), run_name="__main__")
