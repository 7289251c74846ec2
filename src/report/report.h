/* SPDX-License-Identifier: MIT
 *
 * Folders of results to one HTML file that needs nothing else.
 *
 *     const char *folders[] = {"study"};
 *     if (sia_report_write(folders, 1, NULL, err)) return err->status;      study/report.html
 *
 * A folder is looked through for compare.jsonl, needle.jsonl, theory.jsonl, probe.jsonl (see lines.c) and for
 * metrics.jsonl with config.json, a run of 'sia train'. The same files give the same bytes: there is no date in
 * the page but those of the files. */
#ifndef SIA_REPORT_REPORT_H
#define SIA_REPORT_REPORT_H

#include "sia.h"

enum { SIA_REPORT_FOLDERS = 64 };

/* out: NULL for report.html in the first folder, "-" for stdout; a file of JSON is not written over. A folder that is
 * missing or has none of these files is an error, as is a line that does not hold what it should; then nothing is written. */
sia_status sia_report_write(const char *const *folders, int count, const char *out, sia_error *err);

/* The same under a title; NULL: one from the data. */
sia_status sia_report_write_titled(const char *const *folders, int count, const char *out, const char *title,
                                   sia_error *err);

/* Whether report.html in a folder may be written: it is absent or one of ours, and no link. Anything else is a
 * person's, and an error. sia_report_write looks too; this is for one who works for hours before. */
sia_status sia_report_refuse(const char *folder, sia_error *err);

#endif
