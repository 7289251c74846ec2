# SPDX-License-Identifier: MIT
"""The package from its sdist, without a clone around it, on a library that was installed in a folder of one's own."""

import importlib.util
import os
import shutil
import subprocess
import sys

import pytest
from conftest import CLONE

# Looked up, not imported: setuptools will not be imported after pip.
if not all(importlib.util.find_spec(name) for name in ("cffi", "pip", "setuptools")):
    pytest.skip("cffi, pip or setuptools is not here", allow_module_level=True)


def run(*command, cwd=None, **first):
    """What it prints; a folder in `first` comes before the others of that variable."""
    ours = ("LD_LIBRARY_PATH", "SIA_BUILD")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    for name, folder in first.items():
        environment[name] = os.pathsep.join([str(folder), *filter(None, [environment.get(name)])])
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def prefix(program_path, tmp_path):
    """Of an installation: the header, the shared library, and the file for pkg-config."""
    build, folder = program_path.parent, tmp_path / "prefix"
    run("cmake", "--build", build, "--target", "sia_shared")
    (folder / "include").mkdir(parents=True)
    (folder / "lib/pkgconfig").mkdir(parents=True)
    shutil.copy(CLONE / "include/sia.h", folder / "include")
    for library in build.glob("libsia.so*"):
        shutil.copy(library, folder / "lib", follow_symlinks=False)
    made = (CLONE / "cmake/sia.pc.in").read_text(encoding="utf-8")
    values = {"PREFIX": str(folder), "LIBDIR": "lib", "INCLUDEDIR": "include"}
    for name, value in values.items():
        made = made.replace("@CMAKE_INSTALL_%s@" % name, value)
    made = made.replace("@PROJECT_DESCRIPTION@", "sia").replace("@PROJECT_VERSION@", "0")
    (folder / "lib/pkgconfig/sia.pc").write_text(made, encoding="utf-8")
    return folder


def test_the_loader_finds_the_library(prefix, tmp_path):
    source, site, pkg_config = tmp_path / "source", tmp_path / "site", prefix / "lib/pkgconfig"
    shutil.copytree(CLONE / "python", source, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    run(sys.executable, "setup.py", "sdist", cwd=source, PKG_CONFIG_PATH=pkg_config)
    (archive,) = (source / "dist").iterdir()
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-build-isolation", "--no-deps"]
    run(*pip, "--target", site, archive, PKG_CONFIG_PATH=pkg_config)
    script = "import sia; print(sia.__file__, sia.Attention(heads=1, head_dim=8).scheme)"
    found = run(sys.executable, "-c", script, PYTHONPATH=site).split()
    assert found == [str(site / "sia/__init__.py"), "si+prope"]
    (extension,) = (site / "sia").glob("_sia*.so")
    assert str(prefix / "lib/libsia.so") in run("ldd", extension)
