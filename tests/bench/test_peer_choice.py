#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which Python bench/peer_torch.sh takes, and what it leaves behind. Nothing is installed: scripts stand for Python, for pip
and for cmake/deps.sh, in a folder that stands for the clone.

    python3 tests/bench/test_peer_choice.py [-v]
"""
import os
import shutil
import subprocess
import tempfile
import time
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "peer_torch.sh")

# What it is asked goes to 'log'. It has PyTorch when a file beside it says which version.
PYTHON = """#!/bin/sh
echo "$0 $*" >>log
case "$1 $2" in
"-c import torch"*) exec cat "$0.torch" ;;
"-c import ensurepip"*) [ ! -e no-ensurepip ] ;;
"-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
"-m pip") . ./pip ;;
bench/*) echo "$0 $*" ;;
esac
"""
DEPS = """echo "deps $*" >>log
[ ! -e packages ] || cp packages debian/python3.torch
"""
INSTALLS = 'echo 2.15 >"$0.torch"'
FAILS = 'echo "ERROR: No matching distribution found for torch"; exit 1'
INTERRUPTED = INSTALLS + "; kill -9 $PPID"
WAITS = "n=0; until [ -e go ] || [ $n = 500 ]; do sleep 0.02; n=$((n + 1)); done; " + INSTALLS
ENVIRONMENT = "build/peer/bin/python"


class Choice(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        with open(SCRIPT) as file:
            script = file.read()
        self.assertEqual(script.count("/usr/bin/python3"), 1)
        self.write("bench/peer_torch.sh", script.replace("/usr/bin/python3", "debian/python3"))
        self.write("cmake/deps.sh", DEPS)
        self.write("pip", FAILS)
        for python in ("path/python3", "debian/python3", "named/python"):
            self.add_python(python)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as file:
            file.write(text)

    def read(self, name):
        with open(self.path(name)) as file:
            return file.read()

    def add_python(self, name, version=None):
        self.write(name, PYTHON)
        os.chmod(self.path(name), 0o755)
        if version:
            self.write(name + ".torch", version + "\n")

    def start(self, named=None):
        environment = {"PATH": self.path("path") + ":" + os.environ["PATH"], "PYTHON": named or ""}
        return subprocess.Popen(["sh", "bench/peer_torch.sh", "--rounds", "3"], cwd=self.folder, env=environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run_script(self, named=None):
        """Exit code, stderr; the Python that ran the benchmark, if any did, and what was asked of each, in self."""
        self.write("log", "")
        process = self.start(named)
        out, err = process.communicate()
        self.log = self.read("log").replace(self.folder + "/", "")
        self.used = None
        if out:
            self.used, rest = out.replace(self.folder + "/", "").split(" ", 1)
            self.assertEqual(rest, "bench/peer_torch.py --rounds 3\n")
        return process.returncode, err

    def assert_used(self, python, version, named=None):
        code, err = self.run_script(named)
        self.assertEqual((code, self.used), (0, python), err)
        self.assertRegex(err, "make bench-peer: PyTorch %s of .*%s\n$" % (version, python))
        return err

    def assert_asked_for(self, *words):
        """Of making an environment and installing, this and no more was asked for, in this order."""
        asked = [line for line in self.log.splitlines() if line.startswith("deps ") or " -m " in line]
        self.assertEqual(asked, list(words))

    VENV = "path/python3 -m venv build/peer.new"
    PIP = "build/peer.new/bin/python -m pip install torch numpy"
    DEBIAN = "deps python3-torch"

    def test_named(self):
        self.add_python("named/python", "2.1")
        self.add_python(ENVIRONMENT, "2.15")
        self.assert_used("named/python", "2.1", named=self.path("named/python"))
        self.assert_asked_for()

    def test_named_without(self):
        self.add_python(ENVIRONMENT, "2.15")
        err = self.assert_used(ENVIRONMENT, "2.15", named="named/python")
        self.assertIn("named/python has no PyTorch\n", err)
        self.assert_asked_for()

    def test_named_makes_environment(self):
        self.write("pip", INSTALLS)
        self.assert_used(ENVIRONMENT, "2.15", named="named/python")
        self.assert_asked_for("named/python -m venv build/peer.new", self.PIP)

    def test_named_is_not_there(self):
        code, err = self.run_script("nowhere/python")
        self.assertEqual((code, self.used), (1, None))
        self.assertIn("make bench-peer: no nowhere/python here", err)
        self.assert_asked_for()

    def test_environment_before_others(self):
        self.add_python("path/python3", "1.13")
        self.add_python(ENVIRONMENT, "2.15")
        self.assertNotIn("newest", self.assert_used(ENVIRONMENT, "2.15"))
        self.assert_asked_for()

    def test_pypi_before_debian(self):
        self.add_python("path/python3", "1.13")
        self.add_python("debian/python3", "1.13")
        self.write("pip", INSTALLS)
        err = self.assert_used(ENVIRONMENT, "2.15")
        self.assertNotIn("not measured with the newest", err)
        self.assertNotIn("another run", err)
        self.assert_asked_for(self.VENV, self.PIP)
        self.assert_used(ENVIRONMENT, "2.15")
        self.assert_asked_for()  # not a second time

    def test_what_debian_has_apart(self):
        self.write("no-ensurepip", "")
        self.write("pip", INSTALLS)
        self.assert_used(ENVIRONMENT, "2.15")
        self.assert_asked_for("deps python3-venv python3-dev", self.VENV, self.PIP)

    def test_system_python(self):
        """When PyPI cannot be had. From the last choice, which leaves PyTorch installed, to the first."""
        self.write("packages", "1.13\n")
        for python, version, asked in (
            ("debian/python3", "1.13", [self.DEBIAN]), ("debian/python3", "1.13", []), ("path/python3", "2.4", [])
        ):
            if python == "path/python3":
                self.add_python(python, version)
            err = self.assert_used(python, version)
            self.assert_asked_for(self.VENV, self.PIP, *asked)
            self.assertIn("could not be installed from PyPI (all of it: build/peer.log)", err)
            self.assertIn("make bench-peer: what follows is not measured with the newest PyTorch\n", err)
            self.assertEqual(self.read("build/peer.log"), "ERROR: No matching distribution found for torch\n")
            self.assertFalse(os.path.exists(self.path("build/peer.new")))

    def test_nothing(self):
        code, err = self.run_script()
        self.assertEqual((code, self.used), (1, None))
        self.assert_asked_for(self.VENV, self.PIP, self.DEBIAN)
        self.assertIn("ERROR: No matching distribution found for torch\n", err)
        self.assertIn("neither PyPI's (build/peer.log says why) nor Debian's python3-torch could be installed", err)
        self.assertIn("make bench-peer PYTHON=/path/to/python3", err)

    def test_installed_but_broken(self):
        """pip is content, and yet PyTorch cannot be imported: why is in the log."""
        self.write("pip", "exit 0")
        self.add_python("debian/python3", "1.13")
        self.assert_used("debian/python3", "1.13")
        self.assertIn("build/peer.new/bin/python.torch", self.read("build/peer.log"))
        self.assertFalse(os.path.exists(self.path("build/peer")))

    def test_half_made(self):
        self.add_python(ENVIRONMENT)
        self.write("build/peer/stale", "")
        self.write("pip", INSTALLS)
        self.assert_used(ENVIRONMENT, "2.15")
        self.assert_asked_for(self.VENV, self.PIP)
        self.assertFalse(os.path.exists(self.path("build/peer/stale")))

    def test_interrupted(self):
        """PyTorch could be imported already when it was killed, but was not whole: begin again."""
        self.write("pip", INTERRUPTED)
        code, _ = self.run_script()
        self.assertEqual(code, -9)
        self.assertTrue(os.path.exists(self.path("build/peer.new/bin/python.torch")))
        self.write("build/peer.new/stale", "")
        self.write("pip", INSTALLS)
        self.assert_used(ENVIRONMENT, "2.15")
        self.assert_asked_for(self.VENV, self.PIP)
        self.assertFalse(os.path.exists(self.path("build/peer/stale")))

    def test_two_at_once(self):
        self.write("pip", WAITS)
        self.write("log", "")
        first = self.start()
        for _ in range(500):
            if " -m pip" in self.read("log"):
                break
            time.sleep(0.02)
        second = self.start()
        self.assertIn("another run is making build/peer", second.stderr.readline())
        self.write("go", "")
        for process in (first, second):
            out, err = process.communicate()
            self.assertEqual(out, ENVIRONMENT + " bench/peer_torch.py --rounds 3\n", err)
        self.assertEqual(self.read("log").count(" -m pip"), 1)


if __name__ == "__main__":
    unittest.main()
