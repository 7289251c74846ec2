/* SPDX-License-Identifier: MIT
 *
 * The pages that people read: their links lead somewhere, the targets of make that they name exist, their C compiles and runs, and
 * every field of the files that the program writes is in docs/formats.md. Commands of sia and their options are read by
 * test_documents.c.
 *
 * C in a page, in blocks that start with ```c, and in comments that start with <!-- c, which a reader does not see:
 *
 *     a block with main               is a program of its own
 *     all other blocks of a page      are one program, in their order: lines that include, and blocks that start with "static", come
 *                                     first; the rest is the body of main
 *
 * A program is compiled with warnings as errors against the public header and the shared library, and has to end with 0. */
#define _GNU_SOURCE
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "../commands.h"
#include "source_pages.h"

enum { PAGE_MOST = 1 << 20, PAGES_MOST = 64 };

typedef struct page {
    char path[4096];
    char text[PAGE_MOST];
} page;

static int failures;

static void wrong(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void wrong(const char *path, const char *format, ...) {
    char sentence[4096];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    print_message("%s: %s\n", path, sentence);
    failures++;
}

static bool read_page(page *p, const char *path) {
    FILE *file = fopen(path, "r");
    if (!file) return false;
    (void)snprintf(p->path, sizeof p->path, "%s", path);
    size_t used = fread(p->text, 1, sizeof p->text - 1, file);
    (void)fclose(file);
    p->text[used] = 0;
    return used < sizeof p->text - 1;
}

/* Calls look with every page of the source. */
static void for_each_page(void (*look)(const page *p)) {
    static page p;
    glob_t files = source_pages();
    failures = 0;
    for (size_t i = 0; i < files.gl_pathc; i++) {
        assert_true(read_page(&p, files.gl_pathv[i]));
        look(&p);
    }
    assert_true(files.gl_pathc >= 10);
    globfree(&files);
    assert_int_equal(failures, 0);
}

/* ------------------------------------------------------------------------------------------------ blocks */

/* The next line of *at, and *at behind it; NULL at the end. */
static const char *next_line(const char **at, int *length) {
    const char *line = *at;
    if (!*line) return NULL;
    *length = (int)strcspn(line, "\n");
    *at = line + *length + (line[*length] == '\n');
    return line;
}

static bool line_is(const char *line, int length, const char *text) {
    return (int)strlen(text) == length && strncmp(line, text, (size_t)length) == 0;
}

static bool starts(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* ------------------------------------------------------------------------------------------------- links */

static int links_seen;

/* The anchor that a heading gets: small letters, spaces to dashes, punctuation left out. */
static void anchor_of(const char *heading, int length, char *anchor, int room) {
    int used = 0;
    for (int i = 0; i < length && used < room - 1; i++) {
        unsigned char c = (unsigned char)heading[i];
        if (isalnum(c) || c == '-' || c == '_' || c >= 0x80) anchor[used++] = (char)tolower(c);
        if (c == ' ') anchor[used++] = '-';
    }
    anchor[used] = 0;
}

static bool has_anchor(const page *p, const char *wanted) {
    const char *at = p->text, *line;
    int length;
    bool code = false;
    while ((line = next_line(&at, &length))) {
        if (starts(line, "```")) code = !code;
        int level = (int)strspn(line, "#");
        char anchor[256];
        if (code || level == 0 || line[level] != ' ') continue;
        anchor_of(line + level + 1, length - level - 1, anchor, sizeof anchor);
        if (strcmp(anchor, wanted) == 0) return true;
    }
    return false;
}

static void check_link(const page *p, const char *target) {
    static page other;
    char path[8192], file[4096];
    const char *anchor = strchr(target, '#');
    if (starts(target, "https://") || starts(target, "http://") || starts(target, "mailto:")) return;
    links_seen++;
    (void)snprintf(file, sizeof file, "%.*s", (int)(anchor ? anchor - target : (long)strlen(target)), target);
    const char *slash = strrchr(p->path, '/');
    (void)snprintf(path, sizeof path, "%.*s/%s", (int)(slash - p->path), p->path, file);
    struct stat info;
    if (*file && stat(path, &info) != 0) {
        wrong(p->path, "link to %s: there is no such file", target);
        return;
    }
    if (!anchor) return;
    if (*file && !read_page(&other, path))
        wrong(p->path, "link to %s: a page cannot be read there", target);
    else if (!has_anchor(*file ? &other : p, anchor + 1))
        wrong(p->path, "link to %s: there is no such heading", target);
}

/* [text](target), outside of blocks of code and of `code`. */
static void check_links(const page *p) {
    const char *at = p->text, *line;
    int length;
    bool code = false;
    while ((line = next_line(&at, &length))) {
        if (starts(line, "```")) code = !code;
        if (code || starts(line, "    ")) continue;
        bool quoted = false;
        for (const char *c = line; c < line + length; c++) {
            if (*c == '`') quoted = !quoted;
            if (quoted || c[0] != ']' || c[1] != '(') continue;
            char target[2048];
            (void)snprintf(target, sizeof target, "%.*s", (int)strcspn(c + 2, ")\n"), c + 2);
            check_link(p, target);
        }
    }
}

static void test_links(void **state) {
    (void)state;
    static page p;
    char anchor[64];
    anchor_of("What is assumed, and `what` models do", 37, anchor, sizeof anchor);
    assert_string_equal(anchor, "what-is-assumed-and-what-models-do");
    links_seen = 0;
    for_each_page(check_links);
    assert_true(links_seen >= 30);
    /* The check can fail. */
    (void)snprintf(p.path, sizeof p.path, "%s/README.md", getenv("SOURCE"));
    (void)snprintf(
        p.text, sizeof p.text,
        "# A b\n[ok](#a-b) [one](none.md) [two](#a-c) [ok](docs/data.md#batches) [three](docs/data.md#no)\n");
    print_message("three links that lead nowhere:\n");
    check_links(&p);
    assert_int_equal(failures, 3);
}

/* -------------------------------------------------------------------------------------------------- make */

static char makefile[PAGE_MOST];

static bool has_target(const char *name, int length) {
    for (const char *at = makefile; (at = strstr(at, name)); at++)
        if ((at == makefile || at[-1] == '\n') && at[length] == ':') return true;
    return false;
}

/* "make word" at the start of a line of code, or behind a backquote. */
static void check_targets(const page *p) {
    for (const char *at = p->text; (at = strstr(at, "make ")); at++) {
        bool line =
            at - p->text >= 4 && strncmp(at - 4, "    ", 4) == 0 && (at - 4 == p->text || at[-5] == '\n');
        if (!line && !(at > p->text && at[-1] == '`')) continue;
        char name[64];
        int length = (int)strspn(at + 5, "abcdefghijklmnopqrstuvwxyz-");
        (void)snprintf(name, sizeof name, "%.*s", length, at + 5);
        if (length && !has_target(name, length)) wrong(p->path, "make %s: there is no such target", name);
    }
}

static void test_make(void **state) {
    (void)state;
    static page p;
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/Makefile", getenv("SOURCE"));
    assert_true(read_page(&p, path));
    memcpy(makefile, p.text, sizeof makefile);
    assert_true(has_target("demo", 4) && !has_target("dem", 3));
    for_each_page(check_targets);
}

/* ----------------------------------------------------------------------------------------------------- C */

static int programs_run;

static void run_program(const page *p, const char *source) {
    char path[256], output[8192];
    (void)snprintf(path, sizeof path, "%s/page.c", command_folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(source, file) >= 0);
    assert_int_equal(fclose(file), 0);
    if (run_command("$CC $CFLAGS -std=gnu17 -O1 -Wall -Wextra -Werror -I\"$SOURCE\"/include page.c -o page "
                    "\"$LIBRARY\" "
                    "-Wl,-rpath,\"$(dirname \"$LIBRARY\")\" -lm",
                    output, sizeof output) != 0)
        wrong(p->path, "C that does not compile (after page.c:N, count from the first block)\n%s", output);
    else if (run_command("./page", output, sizeof output) != 0)
        wrong(p->path, "a program of this page failed, saying\n%s", output);
    programs_run++;
}

typedef struct program {
    char includes[PAGE_MOST], top[PAGE_MOST], body[PAGE_MOST],
        whole[3 * PAGE_MOST + 64]; /* 64: what main takes */
} program;

static void append(char *to, const char *text, int length) {
    size_t used = strlen(to);
    (void)snprintf(to + used, PAGE_MOST - used, "%.*s\n", length, text);
}

/* One block goes to where it belongs in the page's program. */
static void add_block(program *c, const char *block, const char *end) {
    const char *at = block, *line;
    int length;
    bool top = false, decided = false;
    while (at < end && (line = next_line(&at, &length))) {
        if (starts(line, "#include")) {
            append(c->includes, line, length);
            continue;
        }
        if (!decided && length) {
            decided = true;
            top = starts(line, "static ");
        }
        append(top ? c->top : c->body, line, length);
    }
}

/* The block that starts behind this line, if it is C: its end; else NULL. */
static const char *block_end(const char *line, int length, const char *at) {
    bool fence = line_is(line, length, "```c"), comment = line_is(line, length, "<!-- c");
    if (!fence && !comment) return NULL;
    const char *end = strstr(at, fence ? "\n```" : "\n-->");
    return end ? end + 1 : at + strlen(at);
}

static void check_c(const page *p) {
    static program c;
    c = (program){0};
    const char *at = p->text, *line, *end;
    int length;
    while ((line = next_line(&at, &length))) {
        if (!(end = block_end(line, length, at))) continue;
        const char *main = strstr(at, "int main(");
        if (main && main < end) {
            (void)snprintf(c.whole, sizeof c.whole, "%.*s", (int)(end - at), at);
            run_program(p, c.whole);
        } else
            add_block(&c, at, end);
        at = end;
    }
    if (!*c.body) return;
    (void)snprintf(c.whole, sizeof c.whole, "%s%sint main(void) {\n%sreturn 0;\n}\n", c.includes, c.top,
                   c.body);
    run_program(p, c.whole);
}

static void test_c(void **state) {
    (void)state;
    static page p;
    if (!getenv("CC") || !getenv("LIBRARY")) fail_msg("want the compiler in CC and libsia.so in LIBRARY");
    programs_run = 0;
    for_each_page(check_c);
    assert_true(programs_run >= 3);
    /* The check can fail: when it is compiled, and when it is run. */
    (void)snprintf(p.path, sizeof p.path, "a page with two mistakes");
    (void)snprintf(p.text, sizeof p.text,
                   "```c\nint main(void) { return sia_none(); }\n```\n\n```c\nreturn 3;\n```\n");
    check_c(&p);
    assert_int_equal(failures, 2);
}

/* ----------------------------------------------------------------------------------------------- formats */

/* Every file of JSON that the program writes, small, and then the names of all fields in them, each once. "long" and
 * numbers are names of runs and lengths, not of fields. */
#define SMALL " --layers 1 --width 16 --heads 1 --vocabulary 300 --threads 1 --quiet --eval-windows 1"
static const command_case writers[] = {
    {"$SIA data generate --documents 4 --words 600 > text.txt", 0, ""},
    {"$SIA train --out run text.txt --steps 2 --train-len 16 --batch 2 --lengths 1x,2x" SMALL, 0, ""},
    {"$SIA eval run --record --positions --lengths 1x --quiet", 0, ""},
    {"$SIA compare --out study text.txt --steps 2 --train-len 16 --batch 2 --lengths 1x,2x --schemes si "
     "--sweep "
     "tau=1,10 --eval-every 1" SMALL,
     0, ""},
    {"$SIA theory --samples 16 --max-t 1000 --threads 1 --out study", 0, ""},
    {"$SIA probe run --out study --length 32 --windows 1 --threads 1 --quiet", 0, ""},
    {"$SIA train --out long --steps 1 --train-len 256 --batch 1 --lengths 1x" SMALL, 0, ""},
    {"$SIA needle long --out study --needles 1 --steps 1 --batch 1 --lengths 1x --samples 1 --threads 1 "
     "--quiet",
     0, ""},
    {"ls run/data/data.json run/config.json long/config.json run/*.jsonl study/study.json study/*.jsonl > "
     "written",
     0, ""},
    {"grep -c . written", 0, "10\n"},
    {"cat $(cat written) | grep -o '\"[A-Za-z_][A-Za-z_0-9]*\" *:' | tr -d '\": ' | sort -u | grep -vx long "
     "> names",
     0, ""},
};

static void test_formats(void **state) {
    (void)state;
    static page p;
    char path[4096], name[128], output[65536];
    run_cases(writers, sizeof writers / sizeof *writers, NULL);
    (void)snprintf(path, sizeof path, "%s/docs/formats.md", getenv("SOURCE"));
    assert_true(read_page(&p, path));
    assert_int_equal(run_command("cat names", output, sizeof output), 0);
    int names = 0;
    failures = 0;
    for (char *at = strtok(output, "\n"); at; at = strtok(NULL, "\n"), names++) {
        (void)snprintf(name, sizeof name, "`%s`", at);
        if (!strstr(p.text, name)) wrong(path, "the field %s is not there", name);
    }
    assert_true(names > 100);
    assert_int_equal(failures, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_links), cmocka_unit_test(test_make),
                                       cmocka_unit_test(test_c), cmocka_unit_test(test_formats)};
    return cmocka_run_group_tests(tests, open_command_folder, close_command_folder);
}
