#!/bin/sh
# SPDX-License-Identifier: MIT
# make analyze: gcc's and clang's analyzers over the library and the program, a file at a time. A report must be in
# cmake/analyze.known, with the reason why it is wrong; one that is no longer made must not. Left out are the
# kernels' bodies: the analyzers do not know vectors.
failed=0
sources=$(git ls-files 'src/*.c' | grep -v '^src/kernel/isa_')
flags="-std=gnu17 -Iinclude -Isrc $(pkg-config --cflags libpcre2-8 jansson)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Without optimisation, which joins paths that the analyzer then takes apart wrongly. __clang_analyzer__ is what
# the headers ask to say which calls never succeed (base/error.h).
for source in $sources; do
    gcc $flags -O0 -D__clang_analyzer__ -fanalyzer -Wno-analyzer-too-complex -c "$source" -o /dev/null 2>"$work/one" ||
        failed=1
    cat "$work/one" >>"$work/said"
    sed -n 's/^\(src[^:]*\):.* warning: .*\[-Wanalyzer-\([a-z-]*\)\]$/\1 \2/p' "$work/one" >>"$work/found"
done
sort -u "$work/found" >"$work/reports"
sed -n 's/^\(src[^ ]* [a-z-]*\):.*/\1/p' cmake/analyze.known | sort -u >"$work/known"
if ! diff "$work/known" "$work/reports" >"$work/diff"; then
    grep ' warning: ' "$work/said"
    echo "gcc -fanalyzer: not as in cmake/analyze.known (<: listed but not found, >: found but not listed)"
    cat "$work/diff"
    failed=1
else
    echo "gcc -fanalyzer: clean but for the $(wc -l <"$work/known") reports that cmake/analyze.known explains"
fi

# Kinds with a dot are clang's.
scan-build --use-cc=clang -o "$work/scan" sh -c '
    flags=$1; shift
    for source; do $CC $flags -c "$source" -o /dev/null || exit 1; done' sh "$flags" $sources >"$work/log" 2>&1 || failed=1
sed -n 's/^\(src[^:]*\):.* warning: .*\[\([A-Za-z.]*\)\]$/\1 \2/p' "$work/log" | sort -u >"$work/reports"
sed -n 's/^\(src[^ ]* [A-Za-z]*\.[A-Za-z.]*\):.*/\1/p' cmake/analyze.known | sort -u >"$work/known"
if ! diff "$work/known" "$work/reports" >"$work/diff"; then
    cat "$work/log"
    echo "scan-build: not as in cmake/analyze.known (<: listed but not found, >: found but not listed)"
    cat "$work/diff"
    failed=1
else
    echo "scan-build: clean but for the $(wc -l <"$work/known") reports that cmake/analyze.known explains"
fi
exit $failed
