#!/bin/sh
# SPDX-License-Identifier: MIT
# Draws the figures of docs/theory.md again: sia theory, its report, and of that the figures, each with the style
# that the page gave it.
#
#     sh docs/figures/make.sh build/release/sia        a few seconds; FIGURES=folder writes them elsewhere
set -eu
sia=$(realpath "${1:?want the program}")
out=$(realpath "${FIGURES:-$(dirname "$0")}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$sia" theory --out "$work" >/dev/null
"$sia" report --quiet --out "$work/report.html" "$work"

awk -v out="$out" '
BEGIN {
    file["Total attention: the expected Z over the distances t to tD"] = "total-si.svg"
    file["Entropy over the distances t to tD"] = "entropy-range.svg"
    file["Entropy of attention against context, Gaussian logits"] = "entropy.svg"
    file["Attention to the last 100 tokens, Gaussian logits"] = "last100.svg"
    wanted = 4
}
/^:root/ || /^@media screen/ || /^svg / || /^\.c[04]\{/ { style = style $0 "\n" }
/<svg / {
    label = $0
    sub(/.*aria-label="/, "", label)
    sub(/".*/, "", label)
    name = file[label]
    if (name != "") {
        sub(/.*<svg /, "")
        print "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"640\" " $0 > (out "/" name)
        print "<style>\n" style "svg{background:var(--paper);font-family:system-ui,sans-serif}\n</style>" > (out "/" name)
        drawing = 1
        drawn++
        next
    }
}
drawing {
    line = $0
    if (sub(/<\/svg>.*/, "</svg>", line)) drawing = 0
    print line > (out "/" name)
}
END { if (drawn != wanted) { print "make.sh: " drawn " of " wanted " figures are in the report" > "/dev/stderr"; exit 1 } }
' "$work/report.html"
