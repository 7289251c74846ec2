/* SPDX-License-Identifier: MIT
 *
 * Any bytes as the lines of a study, and behind the first byte 0 as the config.json of a run: refused with
 * a sentence, or every section of the report is made of them and is markup that is whole. */
#include "fuzz.h"

#include "../report/markup.h"
#include "report/sections.h"

static void check_page(const sia_page *page) {
    markup m;
    if (page->failed) abort();
    if (page->bytes && !markup_read(&m, page->bytes)) {
        fprintf(stderr, "%s\n", m.wrong);
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sia_error err;
    sia_report_run run = {.name = "run"};
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t behind = zero ? size - (size_t)(zero - data) - 1 : 0;
    if (zero) size = (size_t)(zero - data);
    if (sia_lines_parse(&run.metrics, (const char *)data, size, "compare.jsonl", &err) != SIA_OK) {
        fuzz_sentence(&err);
        return 0;
    }
    if (zero) run.config = json_loadb((const char *)zero + 1, behind, 0, NULL);
    if (!json_is_object(run.config)) {
        json_decref(run.config);
        run.config = NULL;
    }
    sia_report report = {0};
    sia_section_compare(&report, &run.metrics);
    sia_section_needle(&report, &run.metrics);
    sia_section_theory(&report, &run.metrics);
    sia_section_probe(&report, &run.metrics);
    sia_section_setting(&report, &run.metrics, "Fuzz");
    sia_section_runs(&report, &run, 1);
    check_page(&report.lead);
    check_page(&report.nav);
    check_page(&report.body);
    sia_page_free(&report.lead);
    sia_page_free(&report.nav);
    sia_page_free(&report.body);
    sia_lines_free(&run.metrics);
    json_decref(run.config);
    return 0;
}
