#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs the package of `make deb`, uses what it brought, removes it, and looks for what was left. $1: the package. $2: "system" to
# install it on this machine, as root; otherwise into a folder of its own, where dpkg has a database of its own.
set -e
package=$1
fail() { echo "deb: $*" >&2; exit 1; }
[ -f "$package" ] || fail "want a package, such as build/sia_0.1.0_amd64.deb"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ "$2" = system ]; then
    if dpkg-query -W -f '${db:Status-Abbrev}' sia >/dev/null 2>&1; then fail "a package sia is installed here; remove it first"; fi
    root=
    dpkg='dpkg'
else
    # The packages that it depends on are in the system's database, not in this one.
    root=$work/root
    mkdir -p "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/triggers"
    touch "$root/var/lib/dpkg/status"
    dpkg="dpkg --root=$root --force-not-root --force-depends --log=$work/dpkg.log"
fi

# What the binaries are linked with was found.
dpkg-deb -f "$package" Depends | tr ',' '\n' >"$work/depends"
grep -q libc6 "$work/depends" && grep -q libjansson4 "$work/depends" || fail "Depends: $(cat "$work/depends")"

$dpkg -i "$package" >"$work/install" 2>&1 || { cat "$work/install"; fail "dpkg -i failed"; }
"$root/usr/bin/sia" --version | grep -q "^sia $(dpkg-deb -f "$package" Version)\$" || fail "sia --version names another version"
"$root/usr/bin/sia" data generate --words 20 >/dev/null
[ -z "$($dpkg -V sia 2>&1)" ] || fail "dpkg -V: $($dpkg -V sia)"
pages=$(find "$root/usr/share/man/man1" -name 'sia*.1.gz' | wc -l)
[ "$pages" -gt 2 ] || fail "$pages man pages"
gzip -dc "$root/usr/share/man/man1/sia-data-pack.1.gz" | grep -q '^\.SH OPTIONS' || fail "sia-data-pack.1 has no options"
for file in bash-completion/completions/sia zsh/vendor-completions/_sia fish/vendor_completions.d/sia.fish doc/sia/copyright; do
    [ -s "$root/usr/share/$file" ] || fail "no /usr/share/$file"
done

# A program against the installed library.
pc=$(find "$root/usr/lib" -name sia.pc)
example=$(dirname "$0")/../examples/attention.c
flags=$(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --define-variable=prefix="$root/usr" --cflags --libs sia)
cc "$example" -o "$work/example" $flags
LD_LIBRARY_PATH=${root:+$(dirname "$(find "$root/usr/lib" -name libsia.so)")} "$work/example" >/dev/null
[ -n "$root" ] || ldconfig -p | grep -q libsia.so || fail "ldconfig has not heard of libsia.so"

$dpkg -L sia >"$work/files"
$dpkg -P sia >"$work/remove" 2>&1 || { cat "$work/remove"; fail "dpkg -P failed"; }
while read -r file; do
    [ -d "$root$file" ] || [ ! -e "$root$file" ] || fail "left behind: $file"
done <"$work/files"
[ -n "$root" ] || ! ldconfig -p | grep -q libsia.so || fail "ldconfig still knows libsia.so"
echo "deb: $(wc -l <"$work/files") names installed, used and removed; $pages man pages"
