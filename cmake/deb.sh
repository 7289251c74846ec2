#!/bin/sh
# SPDX-License-Identifier: MIT
# make deb: a Debian package of the program, the library, the header and the pages, all in one. $1: a build folder that was configured
# with the prefix /usr. The package is written beside that folder; its name is printed.
set -e
umask 022
source=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
architecture=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

DESTDIR=$root cmake --install "$build" --strip >/dev/null
strip --strip-debug "$(find "$root/usr/lib" -name libsia.a)"
documents=$root/usr/share/doc/sia
mkdir -p "$documents" "$root/DEBIAN" "$work/debian"

# Where Debian wants it otherwise than an installation from source: pages and changes compressed, without a time inside; zsh looks for
# what packages bring in a folder of its own.
gzip -9n "$root"/usr/share/man/man1/*.1
gzip -9nc "$source/CHANGELOG.md" >"$documents/changelog.gz"
mkdir "$root/usr/share/zsh/vendor-completions"
mv "$root/usr/share/zsh/site-functions/_sia" "$root/usr/share/zsh/vendor-completions/_sia"
rmdir "$root/usr/share/zsh/site-functions"
{
    echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
    echo "Upstream-Name: sia"
    echo
    echo "Files: *"
    sed -n 's/^Copyright (c) /Copyright: /p' "$source/LICENSE"
    echo "License: MIT"
    sed -e '1,/^Copyright/d' "$source/LICENSE" | sed -e '1{/^$/d}' -e 's/^$/./' -e 's/^/ /'
} >"$documents/copyright"

# What the binaries are linked with, as packages and their least versions.
printf 'Source: sia\n\nPackage: sia\nArchitecture: any\n' >"$work/debian/control"
library=$(find "$root/usr/lib" -name 'libsia.so.*' -type f)
depends=$(cd "$work" && dpkg-shlibdeps -O "$root/usr/bin/sia" "$library" 2>"$work/log") || { cat "$work/log" >&2; exit 1; }
depends=${depends#shlibs:Depends=}

soname=$(objdump -p "$library" | sed -n 's/.*SONAME *libsia\.so\.//p')
echo "libsia $soname sia (>= $version)" >"$root/DEBIAN/shlibs"
echo "activate-noawait ldconfig" >"$root/DEBIAN/triggers"
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
cat >"$root/DEBIAN/control" <<END
Package: sia
Version: $version
Section: science
Priority: optional
Architecture: $architecture
Maintainer: The sia authors
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: $depends
Suggests: libjansson-dev, libpcre2-dev, libopenblas0, openmpi-bin
Description: scale-invariant attention for language models on CPUs
 Attention that is trained on short contexts and works on long ones, as fused
 kernels with exact gradients, chosen for the processor at start.
 .
 The package has the program sia, the library with its header, and the man
 pages. Of the packages that are suggested, linking the static library needs
 the first two, 'sia bench attention' compares itself with the third, and the
 last one starts programs on several machines.
END
chmod 644 "$root"/DEBIAN/*

package=$(dirname "$build")/sia_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$root" "$package" >/dev/null
echo "$package"
