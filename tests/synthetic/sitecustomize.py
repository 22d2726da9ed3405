"""Prepares a Python process for the synthetic GPU, when and if it imports JAX.

JAX looks for a device file of NVIDIA's, and the synthetic GPU has none. And JAX's extension modules carry an RPATH that
finds NVIDIA's own runtime library, where it is installed, before the library path is asked: a library that is already
loaded under its name is found first of all.
"""

import ctypes
import importlib.abc
import importlib.machinery
import importlib.util
import pathlib
import sys

_PACKAGES = ("jax", "jaxlib", "jax_plugins")
_CHECK = "jax._src.hardware_utils"
_LIBRARIES = ("libcuda.so.1", "libcudart.so.13", "libcudnn.so.9", "libnvidia-ml.so.1")


class _Loader(importlib.abc.Loader):
    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        module.has_visible_nvidia_gpu = lambda: True


class _Finder(importlib.abc.MetaPathFinder):
    _loaded = False

    def find_spec(self, name, path=None, target=None):
        if name in _PACKAGES and not self._loaded:
            self._loaded = True
            directory = pathlib.Path(__file__).parent.parent
            for library in _LIBRARIES:
                ctypes.CDLL(str(directory / library))
        if name != _CHECK:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec and spec.loader:
            spec.loader = _Loader(spec.loader)
        return spec


def _run_the_next_one():
    """This file hides the sitecustomize that would have been found without it."""
    here = pathlib.Path(__file__).parent.resolve()
    path = [entry for entry in sys.path if pathlib.Path(entry or ".").resolve() != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec and spec.loader:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


sys.meta_path.insert(0, _Finder())
_run_the_next_one()
