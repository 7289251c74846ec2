#!/bin/sh
# SPDX-License-Identifier: MIT
# make demo: the paper's comparison on generated text, its theory, one report. $1: the program; $2: the folder to make.
# Stopped, it goes on where it was.
set -e
sia=$1 out=$2
"$sia" compare --out "$out"
"$sia" theory --out "$out" >"$out/theory.txt"
"$sia" report --quiet "$out"
echo "report: $out/report.html"
