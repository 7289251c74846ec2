# SPDX-License-Identifier: MIT
"""Builds the package; everything that is not the extension stands in pyproject.toml."""

import os
import sys

from setuptools import setup

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # a PEP 517 build does not put it there

import build_library  # noqa: E402

# In a clone, setuptools works where everything else is built; it would leave python/build and python/sia.egg-info behind. An sdist
# takes its files from beside this one.
options = {}
if build_library.is_clone():
    folder = os.path.join(build_library.CLONE, "build", "pip")
    options["build"] = {"build_base": folder}
    if "sdist" not in sys.argv:
        os.makedirs(folder, exist_ok=True)
        options["egg_info"] = {"egg_base": folder}

setup(options=options, cffi_modules=["build_library.py:ffi"], cmdclass={"build_ext": build_library.BuildExtension})
