/* SPDX-License-Identifier: MIT
 *
 * Sample input for the report: SAMPLES, NOT MEASUREMENTS. The numbers are made from formulas that have about the
 * shape of real ones, so that figures and tables can be looked at and tested. */
#ifndef SIA_TESTS_REPORT_SAMPLE_H
#define SIA_TESTS_REPORT_SAMPLE_H

/* Writes compare.jsonl, needle.jsonl, theory.jsonl and probe.jsonl of a study into folder (which exists), and
 * metrics.jsonl and config.json of a run into folder/run. seeds: 1 or more. Returns 0, or -1. */
int sample_write(const char *folder, int seeds);

#endif
