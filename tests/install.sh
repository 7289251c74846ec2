#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs into a temporary prefix, then builds and runs a program against what was installed: with pkg-config, with CMake, shared
# and static. Also: the shared library exports what the header declares, and nothing else. $1: source folder, $2: build folder.
set -e
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install "$2" --prefix "$prefix" >/dev/null
lib=$(dirname "$(find "$prefix" -name libsia.so)")
example=$1/examples/attention.c

# The .pc file holds the prefix of the configuration; a moved installation says where it is.
export PKG_CONFIG_PATH="$lib/pkgconfig"
cc $CFLAGS "$example" -o "$prefix/by_pkg_config" $(pkg-config --define-variable=prefix="$prefix" --cflags --libs sia)
LD_LIBRARY_PATH="$lib" "$prefix/by_pkg_config"

cmake -S "$1/tests/consumer" -B "$prefix/by_cmake" -DEXAMPLE="$example" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_FLAGS="$CFLAGS" >/dev/null
cmake --build "$prefix/by_cmake" >/dev/null
"$prefix/by_cmake/consumer"
"$prefix/by_cmake/consumer_static"
"$prefix/bin/sia" --version | head -1

nm -D --defined-only "$lib/libsia.so" | awk '{print $3}' | grep -v '^_' | sort >"$prefix/exported"
grep -o 'sia_[a-z0-9_]*(' "$1/include/sia.h" | tr -d '(' | sort -u >"$prefix/declared"
undeclared=$(comm -23 "$prefix/exported" "$prefix/declared")
[ -z "$undeclared" ] || { echo "exported, but not in sia.h: $undeclared"; exit 1; }
for name in $(grep -A2 '^SIA_API' "$1/include/sia.h" | grep -o 'sia_[a-z0-9_]*(' | tr -d '('); do
    grep -qx "$name" "$prefix/exported" || { echo "in sia.h, but not exported: $name"; exit 1; }
done
echo "install: $(wc -l <"$prefix/exported") functions, all declared"
