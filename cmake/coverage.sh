#!/bin/sh
# SPDX-License-Identifier: MIT
# make coverage: lines and branches of the source that the tests reach, by folder; by file, with the lines that
# none reaches, in $1/unreached.txt. $1: a build folder of the preset coverage. $2: ctest's arguments.
# What is left out: the oracle, which is the tests' own; the test of the installation, which finds that the counters'
# own functions are exported, too.
# One instruction set and no long lengths: the kernels' lines are the same ones.
set -e
export SIA_TEST_HASTE=1 SIA_TEST_ISA=avx2
# The counters lie there from the start, for everyone: some tests run the program as another user than root.
find "$1" -name '*.gcda' -delete
find "$1" -name '*.gcno' | sed 's/gcno$/gcda/' | while read -r file; do
    : >"$file"
    chmod 666 "$file"
done
ctest --test-dir "$1" -E '^install$' $2 >"$1/coverage.log" 2>&1 || { tail -40 "$1/coverage.log"; exit 1; }
find "$1" -name '*.gcda' -empty -delete
gcovr -r . --object-directory "$1" --filter src/ --exclude src/kernel/oracle --exclude-throw-branches \
    --exclude-unreachable-branches --exclude-directories '.*CompilerIdC.*' --txt "$1/unreached.txt" --csv "$1/coverage.csv" \
    2>"$1/gcovr.log" || { cat "$1/gcovr.log"; exit 1; }
awk -F, 'NR > 1 { split($1, part, "/"); f = part[2]; lines[f] += $2; hit[f] += $3; branches[f] += $5; taken[f] += $6
                  lines["all"] += $2; hit["all"] += $3; branches["all"] += $5; taken["all"] += $6 }
         END { printf "%-12s %7s %7s %9s %7s\n", "folder", "lines", "%", "branches", "%"
               n = split("base comm text data position kernel attention model optim train eval study report cli all", order, " ")
               for (i = 1; i <= n; i++) { f = order[i]
                   if (lines[f]) printf "%-12s %7d %7.1f %9d %7.1f\n", f, lines[f], 100 * hit[f] / lines[f], branches[f],
                                        branches[f] ? 100 * taken[f] / branches[f] : 100 } }' "$1/coverage.csv"
echo "by file, with the lines that no test reaches: $1/unreached.txt"
