# SPDX-License-Identifier: MIT
"""The extension sia._sia: cffi's API mode on sia.h, with the C library linked into it.

Where the library comes from:
    a clone     compiled by CMake as a static library, in the folder $SIA_BUILD, seen from the clone (one that CMake knows already, such as
                build/release, is brought up to date), or else in setuptools' folder for temporary files
    no clone    the installed one that pkg-config knows as 'sia'; the loader will look where it was found

The declarations are read from sia.h itself: there is no second copy of them to keep up."""

import os
import re
import shlex
import shutil
import subprocess

from cffi import FFI
from setuptools.command.build_ext import build_ext

HERE = os.path.dirname(os.path.abspath(__file__))
CLONE = os.path.dirname(HERE)
NEEDED = ["libpcre2-8", "jansson"]  # by the static library


def output(*command):
    """What a command prints; its own words as the error when it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise SystemExit("sia: %s: %s; it is needed to build the package" % (command[0], error.strerror)) from None
    if done.returncode:
        raise SystemExit("sia: %s\n%s" % (" ".join(command), (done.stdout + done.stderr).strip()))
    return done.stdout


def is_clone():
    return all(os.path.exists(os.path.join(CLONE, name)) for name in ("CMakeLists.txt", "include/sia.h"))


def header_path():
    folder = CLONE + "/include" if is_clone() else output("pkg-config", "--variable=includedir", "sia").strip()
    return os.path.join(folder, "sia.h")


def declarations(header):
    """sia.h as cffi reads it: without comments, what is for C++, and the preprocessor's lines."""
    text = re.sub(r"/\*.*?\*/", " ", header, flags=re.DOTALL)
    text = re.sub(r"\\\n", " ", text)
    text = re.sub(r"^#ifdef __cplusplus\n.*?^#endif", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    return re.sub(r"\bSIA_API\b", "", text)


def make_ffi():
    ffi = FFI()
    with open(header_path(), encoding="utf-8") as file:
        ffi.cdef(declarations(file.read()))
    ffi.cdef(
        "#define SIA_MAX_POSITION ...\n"
        'extern "Python" void sia_python_fill(void *, int, int, int64_t, int64_t, double *, double *);'
    )
    ffi.set_source("sia._sia", "#include <sia.h>", include_dirs=[os.path.dirname(header_path())])
    return ffi


def compile_library(folder):
    """libsia.a, compiled in the folder."""
    if not os.path.exists(os.path.join(folder, "CMakeCache.txt")):
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        settings = ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DSIA_PROGRAM=OFF", "-DSIA_TESTS=OFF"]
        output("cmake", "-S", CLONE, "-B", folder, *generator, *settings)
    output("cmake", "--build", folder, "--target", "sia_static", "--parallel", str(len(os.sched_getaffinity(0))))
    return os.path.join(folder, "libsia.a")


class BuildExtension(build_ext):
    """Compiles the library first, and links it in."""

    def run(self):
        for extension in self.extensions:
            if is_clone():
                folder = os.environ.get("SIA_BUILD") or os.path.abspath(os.path.join(self.build_temp, "library"))
                extension.extra_objects = [compile_library(os.path.join(CLONE, folder))]
                # No other library of the process is to find these symbols, and ours not another's.
                extension.extra_link_args = output("pkg-config", "--libs", *NEEDED).split()
                extension.extra_link_args += ["-lm", "-pthread", "-Wl,--exclude-libs,libsia.a"]
                extension.depends = extension.depends + extension.extra_objects
            else:
                words = shlex.split(output("pkg-config", "--libs", "sia"))
                # pkg-config leaves out the system's own folders. Any other the loader does not know of by itself.
                words += ["-Wl,-rpath," + word[2:] for word in words if word.startswith("-L")]
                extension.extra_link_args = words
        super().run()


ffi = make_ffi()
