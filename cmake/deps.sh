#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs those of the named Debian packages that are missing; silent when there is nothing to do.
if ! command -v dpkg-query >/dev/null; then
    echo "make deps: this is not Debian; install what corresponds to: $*" >&2
    exit 0
fi
missing=
for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0

give_up() {
    echo "make deps: $1. As root, with a way to Debian's packages, run:" >&2
    echo "    apt-get install$missing" >&2
    echo "Where the compiler and the libraries come from elsewhere (modules, a prefix of your own), CMake alone builds it:" >&2
    echo "    cmake --preset release && cmake --build build/release" >&2
    exit 1
}

if [ "$(id -u)" = 0 ]; then
    sudo=
elif command -v sudo >/dev/null; then
    sudo=sudo
else
    give_up "missing packages, and neither root nor sudo here to install them"
fi
echo "make deps: installing$missing" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The list of packages may be older than the packages: refresh it only when the first try fails.
install() { $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; }
if ! install >"$log" 2>&1; then
    { $sudo apt-get update && install; } >"$log" 2>&1 || { cat "$log" >&2; give_up "packages could not be installed (above)"; }
fi
