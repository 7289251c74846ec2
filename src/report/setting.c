/* SPDX-License-Identifier: MIT
 *
 * The setting of a study: the command, the data, the machine, the configuration. And what every section begins
 * with. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/sections.h"

void sia_report_section(sia_report *r, const char *title) {
    char id[24];
    (void)snprintf(id, sizeof id, "s%d", ++r->sections);
    sia_page_printf(&r->nav, "<li><a href=\"#%s\">", id);
    for (int copy = 0; copy < 2; copy++) {
        sia_page *page = copy ? &r->body : &r->nav;
        if (copy) sia_page_printf(page, "<h2 id=\"%s\">", id);
        sia_page_escape(page, title);
        if (r->folder) {
            sia_page_add(page, copy ? " <span class=\"soft\">" : " (");
            sia_page_escape(page, r->folder);
            sia_page_add(page, copy ? "</span>" : ")");
        }
        sia_page_add(page, copy ? "</h2>\n" : "</a></li>\n");
    }
}

void sia_report_lead(sia_report *r) {
    sia_page_add(&r->lead, "<p>");
    if (!r->folder || !r->alike) return;
    sia_page_add(&r->lead, "<code>");
    sia_page_escape(&r->lead, r->folder);
    sia_page_add(&r->lead, "</code>: ");
}

/* ------------------------------------------------------------------------------------------------ objects */

enum { PAIRS_OPEN = 12, PAIRS_MOST = 300, DEPTH_MOST = 6, PATH_TEXT = 200 };

/* A number as its text in the file would be, other values as JSON. */
static void add_pair(sia_data *pairs, const char *path, const json_t *value) {
    sia_data_text(pairs, path);
    if (json_is_string(value)) {
        sia_data_text(pairs, json_string_value(value));
    } else if (json_is_real(value)) {
        char number[SIA_NUMBER_TEXT];
        sia_data_text(pairs, sia_number_exact(json_real_value(value), number));
    } else {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
        if (!text)
            pairs->failed = true;
        else
            sia_data_text(pairs, text);
        free(text);
    }
}

static void walk(sia_data *pairs, const json_t *object, const char *path, int depth) {
    json_t *value;
    const char *key;
    json_object_foreach((json_t *)object, key, value) {
        char name[PATH_TEXT];
        (void)snprintf(name, sizeof name, "%s%s%s", path, *path ? "." : "", key);
        if (pairs->count >= 2 * PAIRS_MOST) return;
        if (json_is_object(value) && depth < DEPTH_MOST)
            walk(pairs, value, name, depth + 1);
        else
            add_pair(pairs, name, value);
    }
}

void sia_object_pairs(sia_data *pairs, const json_t *object) { walk(pairs, object, "", 0); }

void sia_object_table(sia_page *page, const char *title, const json_t *object) {
    if (!json_is_object(object) || !json_object_size(object)) return;
    sia_data pairs = {.columns = 2};
    sia_object_pairs(&pairs, object);
    bool folded = pairs.count > 2 * PAIRS_OPEN;
    if (folded) {
        sia_page_add(page, "<details><summary>");
        sia_page_escape(page, title);
        sia_page_printf(page, ", %zu values</summary>\n", pairs.count / 2);
    } else {
        sia_html_heading(page, title);
    }
    sia_html_pairs(page, &pairs);
    if (pairs.count >= 2 * PAIRS_MOST)
        sia_page_printf(page, "<p class=\"note\">The first %d values.</p>\n", PAIRS_MOST);
    if (folded) sia_page_add(page, "</details>\n");
    sia_data_free(&pairs);
}

/* ------------------------------------------------------------------------------------------------ setting */

/* A command breaks between its words, not in them. */
static void add_command(sia_page *page, const char *command) {
    sia_page_add(page, "<pre><code>");
    for (const char *at = command; *at;) {
        size_t length = strcspn(at, " ");
        bool whole = length <= 40; /* a longer one may be wider than the screen */
        char *word = strndup(at, length);
        page->failed = page->failed || !word;
        sia_page_add(page, whole ? "<span class=\"nowrap\">" : "");
        sia_page_escape(page, word ? word : "");
        sia_page_add(page, whole ? "</span>" : "");
        free(word);
        at += length;
        if (*at) sia_page_add(page, " ");
        at += *at != 0;
    }
    sia_page_add(page, "</code></pre>\n");
}

/* A study that was added to has a line for each command that did. */
static void add_commands(sia_page *page, const sia_lines *lines) {
    int count = 0;
    for (size_t i = 0; i < lines->count; i++)
        count += sia_line_is(lines->list[i], "study") && *sia_line_text(lines->list[i], "command");
    if (count) sia_page_add(page, count > 1 ? "<p>The commands, in turn:</p>\n" : "<p>The command:</p>\n");
    for (size_t i = 0; i < lines->count; i++)
        if (sia_line_is(lines->list[i], "study") && *sia_line_text(lines->list[i], "command"))
            add_command(page, sia_line_text(lines->list[i], "command"));
}

void sia_section_setting(sia_report *r, const sia_lines *lines, const char *what) {
    const json_t *study = sia_lines_first(lines, "study");
    if (!study) return;
    static const char *const plain[][2] = {{"data", "data"},
                                           {"date", "date"},
                                           {"version", "version of sia"},
                                           {"windows", "windows of validation"},
                                           {"train_len", "training length"},
                                           {"lengths", "lengths"}};
    enum { OF_ALL = 4 }; /* these are of the whole study; the others not where the training length is swept */
    double train_lens[SIA_REPORT_LENGTHS];
    bool swept = sia_list_distinct(lines, "result", "train_len", train_lens) > 1;
    char title[64];
    (void)snprintf(title, sizeof title, "%s: setting", what);
    sia_report_section(r, title);
    add_commands(&r->body, lines);
    sia_data pairs = {.columns = 2};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        const json_t *value = json_object_get(study, plain[i][0]);
        if ((i < OF_ALL || !swept) && value && !json_is_null(value)) add_pair(&pairs, plain[i][1], value);
    }
    sia_html_pairs(&r->body, &pairs);
    sia_data_free(&pairs);
    sia_object_table(&r->body, "Machine", json_object_get(study, "machine"));
    sia_object_table(&r->body, "Configuration", json_object_get(study, "config"));
}
