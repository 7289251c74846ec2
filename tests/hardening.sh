#!/bin/sh
# SPDX-License-Identifier: MIT
# What cmake/harden.cmake asks for is in the files: $1 the program, $2 the shared library.
failed=0
want() { # what it is called, the file, a pattern, the text to look in
    if ! printf '%s\n' "$4" | grep -Eq "$3"; then
        echo "$2: no $1"
        failed=1
    fi
}
refuse() {
    if printf '%s\n' "$4" | grep -Eq "$3"; then
        echo "$2: has $1"
        failed=1
    fi
}
for file in "$1" "$2"; do
    headers=$(readelf -hlW "$file") dynamic=$(readelf -dW "$file") symbols=$(readelf -W --dyn-syms "$file")
    want "position-independent code" "$file" '^ *Type: +DYN' "$headers"
    want "GNU_RELRO" "$file" '^ *GNU_RELRO' "$headers"
    want "BIND_NOW" "$file" 'FLAGS.*NOW' "$dynamic"
    want "GNU_STACK" "$file" '^ *GNU_STACK' "$headers"
    refuse "an executable stack" "$file" '^ *GNU_STACK.* RWE ' "$headers"
    refuse "a segment that can be written and executed" "$file" '^ *LOAD.* RWE ' "$headers"
    refuse "relocations in the code" "$file" 'TEXTREL' "$dynamic"
    refuse "a search path for libraries of its own" "$file" 'RPATH' "$dynamic"
    want "stack protector" "$file" '__stack_chk_fail' "$symbols"
    want "fortified functions" "$file" '_chk@' "$symbols"
done
want "PIE" "$1" 'FLAGS_1.*PIE' "$(readelf -dW "$1")"
[ $failed = 0 ] && echo "PIE, RELRO, BIND_NOW, no executable stack, stack protector, fortified functions: $1 $2"
exit $failed
