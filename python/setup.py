# SPDX-License-Identifier: MIT
"""Builds the package; everything that is not the extension stands in pyproject.toml."""

import os
import sys

from setuptools import setup

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # a PEP 517 build does not put it there

import build_library  # noqa: E402

setup(cffi_modules=["build_library.py:ffi"], cmdclass={"build_ext": build_library.BuildExtension})
