#!/bin/sh
# SPDX-License-Identifier: MIT
# The tests of attention under valgrind: no error, no leak. $1: a build folder. Those that take long have the instruction set
# that is chosen there (valgrind has no AVX-512), and are in haste; that is an hour and more all the same.
check() {
    valgrind --quiet --fair-sched=yes --error-exitcode=1 --leak-check=full --errors-for-leak-kinds=definite "$1/tests/attention/$2" >/dev/null || exit 1
    echo "valgrind $2: clean"
}

for test in test_errors test_tables test_oracle; do check "$1" $test; done
isa=$(valgrind --quiet "$1/sia" info | sed -n 's/^kernels  *//p')
[ -n "$isa" ] || { echo "valgrind: sia info does not tell the kernels" >&2; exit 1; }
echo "with $isa alone:"
export SIA_TEST_HASTE=1 SIA_TEST_ISA="$isa"
for test in test_invariants test_extremes test_schemes test_cache; do check "$1" $test; done
