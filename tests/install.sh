#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs into a temporary prefix, then builds and runs a program against what was installed: with pkg-config, with CMake, shared
# and static. Also: there are man pages and completions; the shared library exports what the header declares, and nothing else. $1: source folder, $2: build folder.
set -e
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
cmake --install "$2" --prefix "$prefix" >/dev/null
lib=$(dirname "$(find "$prefix" -name libsia.so)")
example=$1/examples/attention.c

# The .pc file holds the prefix of the configuration; a moved installation says where it is.
export PKG_CONFIG_PATH="$lib/pkgconfig"
"${CC:-cc}" $CFLAGS "$example" -o "$prefix/by_pkg_config" $(pkg-config --define-variable=prefix="$prefix" --cflags --libs sia)
LD_LIBRARY_PATH="$lib" "$prefix/by_pkg_config"

cmake -S "$1/tests/consumer" -B "$prefix/by_cmake" -DEXAMPLE="$example" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_FLAGS="$CFLAGS" >/dev/null
cmake --build "$prefix/by_cmake" >/dev/null
"$prefix/by_cmake/consumer"
"$prefix/by_cmake/consumer_static"
"$prefix/bin/sia" --version | head -1

# A page for every command that the program lists, and the completions, each as the program prints it.
share=$prefix/share
page() { "$prefix/bin/sia" man $1 | cmp - "$share/man/man1/sia$(printf -- "${1:+-}$1" | tr ' ' -).1"; }
page ''
"$prefix/bin/sia" --help | sed -nE 's/^  sia ([a-z]+( [a-z]+)?)(  .*)?$/\1/p' >"$prefix/commands"
while read -r command; do page "$command"; done <"$prefix/commands"
pages=$(ls "$share/man/man1" | wc -l)
[ "$pages" = $(($(wc -l <"$prefix/commands") + 1)) ] || { echo "$pages man pages, want one for each command and sia.1"; exit 1; }
"$prefix/bin/sia" completion bash | cmp - "$share/bash-completion/completions/sia"
"$prefix/bin/sia" completion zsh | cmp - "$share/zsh/site-functions/_sia"
"$prefix/bin/sia" completion fish | cmp - "$share/fish/vendor_completions.d/sia.fish"
echo "install: $pages man pages, 3 completions"

# A program that was linked asks for the version that its structures are of: 0.1 until 1.0, then 1.
version=$("$prefix/bin/sia" --version | sed -n '1s/^sia \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
set -- "$1" "$2" $version
wanted=libsia.so.$3
[ "$3" = 0 ] && wanted=$wanted.$4
readelf -d "$lib/libsia.so" | grep -qF "soname: [$wanted]" || { echo "the soname of libsia.so is not $wanted"; exit 1; }
test -L "$lib/$wanted" || { echo "$wanted is not a link in $lib"; exit 1; }

nm -D --defined-only "$lib/libsia.so" | awk '{print $3}' | grep -v '^_' | sort >"$prefix/exported"
grep -o 'sia_[a-z0-9_]*(' "$1/include/sia.h" | tr -d '(' | sort -u >"$prefix/declared"
undeclared=$(comm -23 "$prefix/exported" "$prefix/declared")
[ -z "$undeclared" ] || { echo "exported, but not in sia.h: $undeclared"; exit 1; }
for name in $(grep -A2 '^SIA_API' "$1/include/sia.h" | grep -o 'sia_[a-z0-9_]*(' | tr -d '('); do
    grep -qx "$name" "$prefix/exported" || { echo "in sia.h, but not exported: $name"; exit 1; }
done
echo "install: $(wc -l <"$prefix/exported") functions, all declared"

# Nothing in the static library has a name that a program may have, too.
foreign=$(nm -g --defined-only "$lib/libsia.a" 2>/dev/null | awk 'NF == 3 && $3 !~ /^(_|sia_)/ {print $3}' | sort -u)
[ -z "$foreign" ] || { echo "in libsia.a without the prefix: $foreign"; exit 1; }
