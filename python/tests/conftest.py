# SPDX-License-Identifier: MIT
"""What the tests share: random arrays, and a tiny run of the program."""

import os
import pathlib
import subprocess

import numpy
import pytest

CLONE = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def random():
    """random(2, 3) is a float32 array of that shape, the same in every run."""
    generator = numpy.random.default_rng(7)
    return lambda *shape: generator.standard_normal(shape).astype(numpy.float32)


@pytest.fixture(scope="session")
def program_path():
    path = pathlib.Path(os.environ.get("SIA_PROGRAM", CLONE / "build/release/sia"))
    if not path.exists():
        pytest.skip("the program sia is not built: %s" % path)
    return path


@pytest.fixture(scope="session")
def program(program_path):
    def run(*arguments, **options):
        command = [str(program_path), *map(str, arguments)]
        return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout

    return run


@pytest.fixture(scope="session")
def run_folder(program, tmp_path_factory):
    """A model of two small layers, trained for some steps on generated text."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    small = ["--layers", 2, "--width", 32, "--heads", 2, "--vocabulary", 512, "--train-len", 64]
    program("train", "--out", folder, "--scheme", "logn+prope", "--steps", 30, "--quiet", "--threads", 1, *small)
    return folder
