#!/bin/sh
# SPDX-License-Identifier: MIT
# make demo: the paper's comparison on generated text, needles in haystacks, the theory; one report.
# $1: the program; $2: the folder to make. Stopped, it goes on where it was.
set -e
sia=$1 out=$2

echo "1/3  Loss: every scheme trained at 256 tokens, and read at 256, 1024 and 4096"
"$sia" compare --out "$out" --steps 400

# From the first steps of a run on: what generated text teaches a model this small in more of them, it has to unlearn
# before it copies (docs/reproduce.md).
echo "2/3  Needle: four schemes learn to find a number in 128 tokens, and look for one in 128, 512 and 2048"
runs=
for scheme in si+prope logn+prope alibi rope; do
  run=$out/needle-runs/$scheme
  "$sia" train --out "$run" --scheme $scheme --train-len 128 --steps 20 --lengths 1x --resume auto --quiet
  runs="$runs $run"
done
# shellcheck disable=SC2086 # a list
"$sia" needle $runs --out "$out/needle" --resume --needles 1 --digits 4 --name-cities --numbers-only --alike \
  --steps 1000 --batch 8 --warmup 0 --matrix-rate 0.02 --embedding-rate 0.1 --unembedding-rate 0.002 --samples 50

echo "3/3  Theory"
"$sia" theory --out "$out/theory" >"$out/theory.txt"
"$sia" report --quiet "$out" "$out/needle" "$out/theory"
echo "report: $out/report.html"
