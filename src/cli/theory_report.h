/* SPDX-License-Identifier: MIT
 *
 * What `sia theory` found: tables for people, lines of JSON for machines. */
#ifndef SIA_CLI_THEORY_REPORT_H
#define SIA_CLI_THEORY_REPORT_H

#include <stdio.h>

#include "eval/theory.h"

/* Verdicts: how many properties do not hold; whether the better fit is sqrt(ln t) for si and ln t for plain. */
int theory_broken(const sia_theory *theory);
bool theory_fits_as_expected(const sia_theory *theory);

void theory_print(const sia_theory *theory); /* on stdout */

/* One object a line, each with a field "figure" that says what it is: 'sia theory --help' lists them. */
sia_status theory_write_json(const sia_theory *theory, FILE *stream, sia_error *err);

#endif
