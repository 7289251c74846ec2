#!/bin/sh
# SPDX-License-Identifier: MIT
# make lint: formatting, clang-tidy, cppcheck. $1: a configured build folder.
set -e
sources=$(git ls-files 'src/*.c' 'tests/*.c' 'examples/*.c' 'bench/*.c')
git ls-files '*.c' '*.h' | xargs clang-format --dry-run --Werror
echo "$sources" | xargs -P 2 -n 4 clang-tidy -p "$1" --quiet 2>/dev/null
cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,portability --inline-suppr \
    --suppressions-list=cmake/cppcheck.suppress -I include -I src $sources
echo "lint: clean"
