#!/bin/sh
# SPDX-License-Identifier: MIT
# How many instructions a pass takes, counted by valgrind: of one build always the same number, however busy the machine.
#
#     sh bench/instructions.sh BUILD [SCHEME [LENGTH...]]       make bench-instructions
#
# A core does two multiply-adds of a vector in a cycle. One that it shares with another hardware thread begins about
# three instructions in that time (docs/speed.md): so fast a pass can be at most there, as a fraction of the peak.
set -eu
build=$1 scheme=${2:-si+nope}
shift $(($# > 1 ? 2 : 1))
counts=$(mktemp)
trap 'rm -f "$counts"' EXIT
lanes=8 # of AVX2
export SIA_ISA=avx2
echo "$scheme, one thread, AVX2"
echo
echo "op        heads     len   instructions   for each multiply-add   most on a shared core"
for length in ${*:-256 1024}; do
  for shape in '4 64' '6 128'; do
    set -- $shape
    for op in forward backward; do
      valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect="sia_attention_$op" \
        "$build/bench/instructions" "$scheme" "$1" "$2" "$length" 2>"$counts" || { cat "$counts" >&2; exit 1; }
      sed -n 's/.*Collected : //p' "$counts" | awk -v op=$op -v h="$1" -v d="$2" -v n="$length" -v lanes=$lanes '{
        adds = (op == "forward" ? 1 : 2.5) * d * n * (n + 1) * h / lanes
        printf "%-9s %d x %-3d %5d %14d %23.2f %23.3f\n", op, h, d, n, $1, $1 / adds, adds / 2 / ($1 / 3)
      }'
    done
  done
done
