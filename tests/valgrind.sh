#!/bin/sh
# SPDX-License-Identifier: MIT
# The tests that are quick enough under valgrind: no error, no leak. $1: a build folder.
for test in test_errors test_tables test_oracle test_invariants; do
    valgrind --quiet --error-exitcode=1 --leak-check=full --errors-for-leak-kinds=definite "$1/tests/attention/$test" >/dev/null || exit 1
    echo "valgrind $test: clean"
done
