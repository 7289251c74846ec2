/* SPDX-License-Identifier: MIT
 *
 * sia theory as a person calls it. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../commands.h"

/* A whole run that takes little time. */
#define SMALL "--samples 32 --max-t 1000"

static const command_case cases[] = {
    {"$SIA theory --help", 0, "Examples:\n  sia theory\n"},
    {"$SIA theory --help", 0, "entropy-range  scheme, D, t: entropy, error"},
    {"$SIA theory " SMALL, 0, "18 of 18 hold"},
    {"$SIA theory --samples 16 --max-t 100000000 | awk 'length > 80 { print; exit 1 }'", 0, ""},
    {"$SIA theory " SMALL, 0, "Entropy within each range of distances, n = 1000\n"},
    {"$SIA theory " SMALL, 0, "Why the samples are tilted: the plain mean of Z over 32 rows"},
    {"$SIA theory " SMALL " --tau 3 --alpha 2 --beta 5", 0, "tau 3, alpha 2, beta 5\n32 rows"},
    /* Parameters at the ends of their ranges: nothing but numbers and dashes. */
    {"$SIA theory " SMALL " --alpha 0.01 --beta 1000 --logn 100", 0, "18 of 18 hold"},
    {"$SIA theory " SMALL " --alpha 0.01 --beta 1000 --logn 100 >wide && ! grep nan wide", 0, ""},
    {"$SIA theory " SMALL " --alpha 0.01 --beta 1000 --logn 100 --json >wide && ! grep nan wide", 0, ""},
    {"$SIA theory " SMALL " --tau 0.001", 0, "18 of 18 hold"},
    {"$SIA theory " SMALL " --tau 1000000", 0, "18 of 18 hold"},
    {"$SIA theory --samples 16 --max-t 100000000 --tau 1", 0, "48 of 48 hold"},
    /* JSON: one object a line; the same for any number of threads, and in the file. */
    {"$SIA theory " SMALL " --json >one; grep -vc '^{\"figure\":\"[a-z-]*\",.*}$' one", 1, "0\n"},
    {"grep -c '\"figure\":\"entropy-range\",\"scheme\":\"si\",\"D\":10,\"t\":1000,\"entropy\":' one", 0,
     "1\n"},
    {"grep -c '\"figure\":\"context\"' one", 0, "12\n"},
    {"grep -c '\"holds\":true' one", 0, "18\n"},
    {"for n in 1 2 3; do $SIA theory " SMALL " --json --threads $n | cmp - one || exit 9; done", 0, ""},
    {"$SIA theory " SMALL " --json --seed 2 | cmp - one", 1, "differ"},
    {"$SIA theory " SMALL " --out run >/dev/null; cmp run/theory.jsonl one && ls run", 0, "theory.jsonl\n"},
    {"$SIA theory " SMALL " --out run 2>&1 >/dev/null", 0, "run/theory.jsonl: written\n"},
    {"ls -A run | wc -l", 0, "1\n"},
    /* Wrong usage. */
    {"$SIA theory --alpha 2 --beta 1", 2,
     "sia: beta 1: want beta >= alpha ln alpha, about 1.38629; below it a_0^2 is negative"},
    {"$SIA theory --alpha 100", 2, "want beta >= alpha ln alpha"},
    {"$SIA theory --tau 0", 2, "--tau 0: want 0.001 to 1000000"},
    {"$SIA theory --tau -3", 2, "--tau -3: want 0.001 to 1000000"},
    {"$SIA theory --tau nan", 2, "--tau nan: want a number"},
    {"$SIA theory --beta inf", 2, "--beta inf: want a number"},
    {"$SIA theory --beta 1e999", 2, "--beta 1e999: want 0.01 to 1000"},
    {"$SIA theory --logn 0", 2, "--logn 0: want 0.001 to 100"},
    {"$SIA theory --max-t 100", 2, "--max-t 100: want 1000 to 100000000"},
    {"$SIA theory --max-t 1000000000", 2, "--max-t 1000000000: want 1000 to 100000000"},
    {"$SIA theory --max-t 99999999999999999999999", 2, "want 1000 to 100000000"},
    {"$SIA theory --samples 0", 2, "--samples 0: want 16 to 100000"},
    {"$SIA theory --seed -1", 2, "--seed -1: want 0 to 9000000000000000"},
    {"$SIA theory --threads 2000", 2, "--threads 2000: want 0 to 1024"},
    {"$SIA theory extra", 2, "extra: this command takes no operands"},
    {"$SIA theory --sample 3", 2, "did you mean --samples?"},
    /* Files that cannot be written: said before the work where it can be. */
    {"echo >file; $SIA theory --out file", 1, "sia: file: is a file, want a folder"},
    {"$SIA theory --out file/such", 1, "sia: file/such: Not a directory"},
    {"$SIA theory --out ''", 1, "No such file or directory"},
    {"mkdir -p taken/theory.jsonl; $SIA theory " SMALL " --json --out taken | grep -v figure", 1,
     "is a folder, want a file"},
    {"$SIA theory " SMALL " --json >/dev/full", 1, "No space left on device"},
    /* Ctrl-C: 130, and no file. */
    {"timeout --foreground --preserve-status -s INT 1 $SIA theory --samples 100000 --out stopped; code=$?; "
     "ls -A stopped "
     "| wc "
     "-l; exit $code",
     130, "sia: stopped\n0\n"},
};

static void test_command(void **state) {
    (void)state;
    run_cases(cases, sizeof cases / sizeof *cases, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_command)};
    return cmocka_run_group_tests(tests, open_command_folder, close_command_folder);
}
