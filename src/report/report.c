/* SPDX-License-Identifier: MIT
 *
 * Reads the folders and puts the parts of the page together. */
#define _GNU_SOURCE
#include "report/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/path.h"
#include "report/sections.h"

/* ------------------------------------------------------------------------------------------------ reading */

typedef struct part {
    const char *file, *what;
    void (*write)(sia_report *r, const sia_lines *lines);
} part;

static const part parts[] = {
    {"compare.jsonl", "Comparison", sia_section_compare},
    {"needle.jsonl", "Needles", sia_section_needle},
    {"theory.jsonl", "Gaussian model", sia_section_theory},
    {"probe.jsonl", "Probe", sia_section_probe},
};
enum { PARTS = sizeof parts / sizeof *parts };

typedef struct folder {
    const char *path;
    char name[SIA_LABEL];
    sia_lines lines[PARTS];
} folder;

typedef struct inputs {
    folder folders[SIA_REPORT_FOLDERS];
    sia_report_run runs[SIA_REPORT_FOLDERS];
    int folder_count, run_count;
} inputs;

static sia_status read_run(inputs *in, const folder *f, sia_error *err) {
    sia_report_run *run = &in->runs[in->run_count];
    char *path = sia_path_join(f->path, "metrics.jsonl");
    sia_status status = path ? sia_lines_read(&run->metrics, path, err) : sia_fail_memory(err, 64, f->path);
    free(path);
    if (status || !run->metrics.found) return status;
    memcpy(run->name, f->name, sizeof run->name);
    in->run_count++;
    path = sia_path_join(f->path, "config.json");
    status = path ? sia_object_read(&run->config, path, err) : sia_fail_memory(err, 64, f->path);
    free(path);
    return status;
}

static sia_status read_folder(inputs *in, const char *path, sia_error *err) {
    folder *f = &in->folders[in->folder_count++];
    struct stat info;
    bool found = false;
    f->path = path;
    size_t length;
    const char *name = sia_path_last(path, &length);
    (void)snprintf(f->name, sizeof f->name, "%.*s", (int)length, name);
    if (stat(path, &info)) return sia_fail_file(err, path);
    if (!S_ISDIR(info.st_mode)) return sia_fail(err, SIA_FILE, "%s: want a folder", path);
    for (int i = 0; i < PARTS; i++) {
        char *file = sia_path_join(path, parts[i].file);
        sia_status status = file ? sia_lines_read(&f->lines[i], file, err) : sia_fail_memory(err, 64, path);
        free(file);
        if (status) return status;
        found = found || f->lines[i].found;
    }
    int runs = in->run_count;
    sia_status status = read_run(in, f, err);
    if (!status && !found && in->run_count == runs)
        status =
            sia_fail(err, SIA_FILE,
                     "%s: nothing to report: want compare.jsonl, needle.jsonl, theory.jsonl, probe.jsonl or "
                     "metrics.jsonl",
                     path);
    return status;
}

static void free_inputs(inputs *in) {
    for (int i = 0; i < in->folder_count; i++)
        for (int p = 0; p < PARTS; p++) sia_lines_free(&in->folders[i].lines[p]);
    for (int i = 0; i < in->run_count; i++) json_decref(in->runs[i].config);
    for (int i = 0; i < SIA_REPORT_FOLDERS; i++) sia_lines_free(&in->runs[i].metrics);
    free(in);
}

/* ------------------------------------------------------------------------------------------------ writing */

static void write_parts(sia_report *r, const inputs *in) {
    int studies = 0, of_part[PARTS] = {0};
    for (int i = 0; i < in->folder_count; i++) {
        bool study = false;
        for (int p = 0; p < PARTS; p++)
            if (in->folders[i].lines[p].count) {
                study = true;
                if (of_part[p]++) r->alike = true;
            }
        studies += study;
    }
    for (int i = 0; i < in->folder_count; i++) {
        const folder *f = &in->folders[i];
        r->folder = studies > 1 ? f->name : NULL;
        for (int p = 0; p < PARTS; p++)
            if (f->lines[p].count) parts[p].write(r, &f->lines[p]);
        for (int p = 0; p < PARTS; p++)
            if (f->lines[p].count) sia_section_setting(r, &f->lines[p], parts[p].what);
    }
    if (in->run_count) sia_section_runs(r, in->runs, in->run_count);
}

static const char *choose_title(const inputs *in) {
    for (int i = 0; i < in->folder_count; i++)
        for (int p = 0; p < PARTS; p++)
            if (in->folders[i].lines[p].count)
                return p == 0   ? sia_compare_title(&in->folders[i].lines[p])
                       : p == 1 ? "Needles"
                       : p == 2 ? "The Gaussian model"
                                : "Inside trained models";
    return in->run_count == 1 ? "A training run" : "Training runs";
}

static void add_page(sia_page *page, const sia_page *added, const char *before, const char *after) {
    if (!added->bytes) return;
    sia_page_add(page, before);
    sia_page_add(page, added->bytes);
    sia_page_add(page, after);
    page->failed = page->failed || added->failed;
}

static sia_status compose(const inputs *in, const char *title, sia_page *page, sia_error *err) {
    sia_report r = {0};
    write_parts(&r, in);
    sia_html_open(page, title ? title : choose_title(in));
    add_page(page, &r.lead, "<div class=\"lead\">\n", "</div>\n");
    add_page(page, &r.nav, "<nav aria-label=\"Sections\"><ul>\n", "</ul></nav>\n");
    add_page(page, &r.body, "", "");
    sia_page_printf(page, "<footer class=\"soft\">Written by <code>sia report</code>, sia %s.</footer>\n",
                    sia_version());
    sia_html_close(page);
    bool failed = page->failed || r.lead.failed || r.nav.failed || r.body.failed;
    sia_page_free(&r.lead);
    sia_page_free(&r.nav);
    sia_page_free(&r.body);
    return failed ? sia_fail_memory(err, page->room, "the report") : SIA_OK;
}

sia_status sia_report_refuse(const char *where, sia_error *err) {
    enum { HEAD = 4096 }; /* of bytes: where its mark is */
    sia_map map;
    bool there = false, ours = false;
    sia_status status = sia_link_refuse(where, "report.html", err);
    if (!status) status = sia_folder_look(where, "report.html", &there, err);
    if (status || !there) return status;
    char *path = sia_path_join(where, "report.html");
    status = path ? sia_map_open(&map, path, err) : sia_fail_memory(err, strlen(where), where);
    if (!status) {
        size_t head = map.size < HEAD ? map.size : HEAD;
        ours = memmem(map.bytes, head, SIA_HTML_MARK, strlen(SIA_HTML_MARK)) != NULL;
        sia_map_close(&map);
        if (!ours)
            status = sia_fail(err, SIA_ARGUMENT, "%s: exists, and is not a report of sia: rename it", path);
    }
    free(path);
    return status;
}

/* A file that was named may be anything but what reports are made of: logs and settings, which begin so. */
static sia_status refuse_json(const char *path, sia_error *err) {
    struct stat about;
    sia_map map;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode) || sia_map_open(&map, path, NULL)) return SIA_OK;
    bool json = map.size && map.bytes[0] == '{';
    sia_map_close(&map);
    return json ? sia_fail(err, SIA_ARGUMENT, "%s: exists, and is JSON: name another file", path) : SIA_OK;
}

sia_status sia_report_write_titled(const char *const *folders, int count, const char *out, const char *title,
                                   sia_error *err) {
    if (!folders || count < 1 || count > SIA_REPORT_FOLDERS)
        return sia_fail(err, SIA_ARGUMENT, "%d folders: want 1 to %d", count, SIA_REPORT_FOLDERS);
    inputs *in = calloc(1, sizeof *in);
    if (!in) return sia_fail_memory(err, sizeof *in, "the report");
    sia_page page = {0};
    sia_status status = SIA_OK;
    for (int i = 0; i < count && !status; i++) status = read_folder(in, folders[i], err);
    if (!status) status = compose(in, title, &page, err);
    char *path = out ? strdup(out) : sia_path_join(folders[0], "report.html");
    if (!status && !path) status = sia_fail_memory(err, 64, "the report");
    if (!status) status = out ? refuse_json(out, err) : sia_report_refuse(folders[0], err);
    if (!status) status = sia_file_replace(path, page.bytes, page.size, err);
    free(path);
    sia_page_free(&page);
    free_inputs(in);
    return status;
}

sia_status sia_report_write(const char *const *folders, int count, const char *out, sia_error *err) {
    return sia_report_write_titled(folders, count, out, NULL, err);
}
