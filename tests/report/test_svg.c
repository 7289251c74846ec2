/* SPDX-License-Identifier: MIT
 *
 * Numbers, ticks, figures: values of every kind go in, markup that is whole comes out. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "markup.h"
#include "report/html.h"
#include "report/svg.h"
#include "report/svg_parts.h"

/* ------------------------------------------------------------------------------------------------ numbers */

static void numbers_to_read(void **state) {
    (void)state;
    static const struct {
        double value;
        int digits;
        const char *text;
    } cases[] = {
        {3.6741, 3, "3.674"},
        {-1.5, 1,
         "\xe2\x88\x92"
         "1.5"},
        {0, 2, "0.00"},
        {NAN, 3, "\xe2\x80\x93"},
        {INFINITY, 3, "\xe2\x80\x93"},
        {1e300, 3, "1.000e+300"},
        {0.0002, 3, "0.000"},
        {1e-12, 3, "1.000e-12"},
        {528390, 0, "528390"},
        {-1e308, 6,
         "\xe2\x88\x92"
         "1.000e+308"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[SIA_NUMBER_TEXT];
        assert_string_equal(sia_number_text(cases[i].value, cases[i].digits, text), cases[i].text);
    }
}

static void numbers_come_back(void **state) {
    (void)state;
    static const double values[] = {0.1,           1.0 / 3, 3.67,   1e-300,
                                    123456789.125, -2.5,    5e-324, 1.7976931348623157e308};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char text[SIA_NUMBER_TEXT];
        assert_true(strtod(sia_number_exact(values[i], text), NULL) == values[i]);
    }
    char text[SIA_NUMBER_TEXT];
    assert_string_equal(sia_number_exact(3.67, text), "3.67");
    assert_string_equal(sia_number_exact(NAN, text), "");
}

/* ------------------------------------------------------------------------------------------------ ticks */

static void ticks_are_round(void **state) {
    (void)state;
    static const struct {
        double least, most;
        bool log;
        const char *labels;
    } cases[] = {
        {0, 1, false, "0.0 0.2 0.4 0.6 0.8 1.0"},
        {3.61, 4.23, false, "3.7 3.8 3.9 4.0 4.1 4.2"},
        {-1, 1, false,
         "\xe2\x88\x92"
         "1.0 \xe2\x88\x92"
         "0.5 0.0 0.5 1.0"},
        {0, 1e6, false, "0 200000 400000 600000 800000 1000000"},
        {1, 1000, true, "1 10 100 1000"},
        {10, 1e6, true, "10 100 1000 10\xe2\x81\xb4 10\xe2\x81\xb5 10\xe2\x81\xb6"},
        {5, 900, true, "5 10 20 50 100 200 500"},
        {2, 3, true,
         "2.0 2.2 2.4 2.6 2.8 3.0"}, /* less than two ticks of the logarithm: as a line has them */
        {1e-9, 1e9, true,
         "10\xe2\x81\xbb\xe2\x81\xb9 10\xe2\x81\xbb\xe2\x81\xb6 0.001 1 1000 10\xe2\x81\xb6 10\xe2\x81\xb9"},
        {1, 1, false, ""},
        {0, 10, true, ""},
        {NAN, 1, false, ""},
        {-INFINITY, 1, false, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double ticks[SIA_TICKS];
        char labels[400] = "";
        int count = sia_ticks(cases[i].least, cases[i].most, cases[i].log, ticks);
        bool as_line = count > 1 && fabs((ticks[count - 1] - ticks[0]) / (count - 1) -
                                         (ticks[1] - ticks[0])) < 1e-9 * fabs(ticks[1]);
        for (int t = 0; t < count; t++) {
            char text[SIA_NUMBER_TEXT];
            sia_tick_text(ticks[t], count > 1 ? ticks[1] - ticks[0] : 1, cases[i].log && !as_line, text);
            (void)snprintf(labels + strlen(labels), sizeof labels - strlen(labels), "%s%s", t ? " " : "",
                           text);
        }
        assert_string_equal(labels, cases[i].labels);
    }
}

/* Any range: ticks inside of it, ascending, not too many. */
static void ticks_keep_to_the_range(void **state) {
    (void)state;
    for (int i = -280; i <= 280; i += 7)
        for (int width = -6; width <= 6; width++)
            for (int log = 0; log < 2; log++) {
                double least = pow(10, i), most = least * (1 + pow(10, width)), ticks[SIA_TICKS];
                int count = sia_ticks(least, most, log, ticks);
                assert_true(count <= SIA_TICKS);
                for (int t = 0; t < count; t++) {
                    assert_true(ticks[t] >= least * (1 - 1e-6) && ticks[t] <= most * (1 + 1e-6));
                    assert_true(t == 0 || ticks[t] > ticks[t - 1]);
                }
            }
}

/* ------------------------------------------------------------------------------------------------ figures */

static void is_whole(const sia_page *page) {
    markup m;
    assert_false(page->failed);
    if (!markup_read(&m, page->bytes)) fail_msg("%s", m.wrong);
    assert_null(strstr(page->bytes, "nan"));
    assert_null(strstr(page->bytes, "inf"));
}

static int count_of(const char *text, const char *word) {
    int count = 0;
    for (const char *s = text; (s = strstr(s, word)); s += strlen(word)) count++;
    return count;
}

static void gaps(void **state) {
    (void)state;
    double x[] = {1, 2, 3, 4, 5, sqrt(40)}, y[] = {1, 2, NAN, 4, INFINITY, 6};
    sia_series series = {.name = "one", .x = x, .y = y, .count = 6};
    sia_figure f = {
        .title = "t", .x = {.label = "x"}, .y = {.label = "y"}, .series = &series, .series_count = 1};
    sia_page page = {0};
    sia_svg_lines(&page, &f);
    is_whole(&page);
    /* 1-2, 4, 6: three pieces; four points with a title, and the legend's. */
    const char *path = strstr(page.bytes, "<path class=\"l\" d=\"");
    assert_non_null(path);
    char first[400];
    (void)snprintf(first, sizeof first, "%.*s", (int)strcspn(path + 19, "\""), path + 19);
    assert_int_equal(count_of(first, "M"), 3);
    assert_int_equal(count_of(first, "L"), 1);
    assert_int_equal(count_of(page.bytes, "<title>"), 4);
    assert_non_null(strstr(page.bytes, "<title>one at 6.32456: ")); /* not all seventeen digits */
    sia_page_free(&page);
}

static void figures_of_anything(void **state) {
    (void)state;
    static const double odd[] = {0, -0.0, 1, -1, 1e-320, 1e99, 1e308, -1e308, NAN, INFINITY, -INFINITY, 3.5};
    enum { ODD = sizeof odd / sizeof *odd };
    static const char *const names[] = {"",
                                        "<script>alert(1)</script>",
                                        "a\"b'c&d",
                                        "\x01\x1b[31m\x7f",
                                        "\xff\xfe bad",
                                        "a very long name that goes on and on and on and on and on and on"};
    for (int style = 0; style < 45; style++)
        for (int log = 0; log < 4; log++) {
            double x[64], y[64], error[64];
            for (int i = 0; i < 64; i++) {
                x[i] = odd[(i * 7 + style) % ODD];
                y[i] = odd[(i * 5 + style + log) % ODD];
                error[i] = odd[(i * 11 + style) % ODD];
            }
            sia_series series = {.name = names[style % 6],
                                 .style = style,
                                 .x = x,
                                 .y = y,
                                 .error = error,
                                 .count = (size_t)(style + 10),
                                 .loose = style % 7 == 0};
            sia_figure f = {.title = names[style % 6],
                            .x = {.label = names[(style + 1) % 6], .log = log & 1},
                            .y = {.label = "y", .log = log & 2},
                            .series = &series,
                            .series_count = 1,
                            .small = style % 2,
                            .diagonal = true};
            sia_page page = {0};
            sia_svg_lines(&page, &f);
            is_whole(&page);
            sia_page_free(&page);
        }
}

/* The last length, the last step: whatever else has no room, they have their label. */
static void last_label(void **state) {
    (void)state;
    static const double lengths[] = {256, 1024, 3840, 4096}, far[] = {4096, 131072, 1048576};
    static const double steps[] = {0, 200000}, losses[] = {4, 3, 2, 1};
    static const struct {
        const double *x;
        size_t count;
        bool log, ticks;
        const char *label;
    } cases[] = {{lengths, 4, true, true, ">4096</text>"},
                 {far, 3, true, true, ">1048576</text>"},
                 {far, 3, true, true, ">131072</text>"},
                 {steps, 2, false, false, ">200000</text>"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sia_page page = {0};
        sia_series series = {.name = "s", .x = cases[i].x, .y = losses, .count = cases[i].count};
        sia_figure f = {.title = "t",
                        .x = {.label = "x", .log = cases[i].log},
                        .y = {.label = "y"},
                        .series = &series,
                        .series_count = 1};
        if (cases[i].ticks) f.x.ticks = cases[i].x, f.x.tick_count = (int)cases[i].count;
        sia_svg_lines(&page, &f);
        is_whole(&page);
        assert_non_null(strstr(page.bytes, cases[i].label));
        sia_page_free(&page);
    }
}

static void empty_figures(void **state) {
    (void)state;
    sia_page page = {0};
    sia_svg_lines(&page, &(sia_figure){.title = "", .x = {.label = ""}, .y = {.label = ""}});
    sia_svg_heat(&page, &(sia_heat){.title = "", .x_label = "", .y_label = ""});
    sia_svg_bars(&page, &(sia_bars){.title = "", .label = ""});
    is_whole(&page);
    sia_page_free(&page);
}

static void heat_and_bars(void **state) {
    (void)state;
    static const char *const names[] = {"<b>", "two", "three"};
    static const int styles[] = {0, 9, 44};
    static const double values[] = {0, 0.5, 1, NAN, 2, -1, 1e308, 0.97, INFINITY};
    sia_page page = {0};
    sia_svg_heat(&page, &(sia_heat){.title = "h",
                                    .x_label = "x",
                                    .y_label = "y",
                                    .column_names = names,
                                    .row_names = names,
                                    .values = values,
                                    .columns = 3,
                                    .rows = 3,
                                    .least = 0,
                                    .most = 1,
                                    .percent = true});
    is_whole(&page);
    assert_int_equal(count_of(page.bytes, "class=\"n\""), 2); /* not a number, and infinity */
    assert_non_null(strstr(page.bytes, ">97</text>"));
    sia_page_free(&page);
    static const double lengths[] = {1, NAN, -3};
    sia_svg_bars(&page, &(sia_bars){.title = "b",
                                    .label = "s",
                                    .names = names,
                                    .styles = styles,
                                    .values = lengths,
                                    .errors = values,
                                    .count = 3,
                                    .digits = 1});
    is_whole(&page);
    assert_int_equal(count_of(page.bytes, "class=\"b\""), 1);
    sia_page_free(&page);
}

/* Forty styles are different without their colours, and those of one colour have different markers. */
static void styles_differ(void **state) {
    (void)state;
    char *seen[40] = {0};
    for (int i = 0; i < 40; i++) {
        sia_page page = {0};
        sia_svg_marker(&page, i, 0, 0, 1);
        for (int j = 0; j < i; j++) {
            bool same_marker = strncmp(seen[j], page.bytes, page.size) == 0;
            assert_false(same_marker && strcmp(sia_svg_dashes(i), sia_svg_dashes(j)) == 0);
            assert_false(same_marker && i % SVG_COLOURS == j % SVG_COLOURS);
        }
        seen[i] = page.bytes;
    }
    for (int i = 0; i < 40; i++) free(seen[i]);
}

/* ------------------------------------------------------------------------------------------------ data */

static void csv(void **state) {
    (void)state;
    sia_data data = {.heads = {"name", "value"}, .columns = 2};
    sia_data_text(&data, "a \"quoted\", name");
    sia_data_number(&data, 0.1);
    sia_data_text(&data, "=HYPERLINK(1)");
    sia_data_number(&data, NAN);
    sia_page out = {0};
    sia_data_csv(&data, &out);
    assert_string_equal(out.bytes,
                        "\"name\",\"value\"\r\n\"a \"\"quoted\"\", name\",0.1\r\n\"'=HYPERLINK(1)\",\r\n");
    sia_page_free(&out);
    sia_html_data(&out, &data, "a.csv"); /* frees data */
    is_whole(&out);
    assert_non_null(strstr(out.bytes, "%22a%20%22%22quoted%22%22%2C%20name%22%2C0.1%0D%0A"));
    sia_page_free(&out);
}

/* What is wrong becomes U+FFFD, one for each character or stray byte. */
static void escaping(void **state) {
    (void)state;
    static const struct {
        unsigned char bytes[16];
        const char *text;
    } cases[] = {
        {"<a b=\"c\">&'", "&lt;a b=&quot;c&quot;&gt;&amp;&#39;"},
        {"\x01\x1f\x7f\t\n", "???\t\n"},
        {{0xc3, 0xa9}, "\xc3\xa9"},
        {{0xc2, 0x85}, "?"},             /* a control character of two bytes */
        {{0xff, 'a', 0x80}, "?a?"},      /* stray bytes */
        {{0xe2, 0x80, 0xae, 'x'}, "?x"}, /* turns the direction of writing */
        {{0xed, 0xa0, 0x80}, "???"},     /* half of a surrogate pair */
        {{0xc0, 0xaf}, "??"},            /* longer than it need be */
        {{0xf4, 0x90, 0x80, 0x80}, "????"},
        {{0xe2, 0x82}, "??"}, /* cut off */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sia_page page = {0};
        char want[64] = "";
        for (const char *s = cases[i].text; *s; s++)
            (void)snprintf(want + strlen(want), sizeof want - strlen(want), "%.*s", *s == '?' ? 3 : 1,
                           *s == '?' ? "\xef\xbf\xbd" : s);
        sia_page_escape(&page, (const char *)cases[i].bytes);
        assert_string_equal(page.bytes, want);
        sia_page_free(&page);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_to_read),
        cmocka_unit_test(numbers_come_back),
        cmocka_unit_test(ticks_are_round),
        cmocka_unit_test(ticks_keep_to_the_range),
        cmocka_unit_test(gaps),
        cmocka_unit_test(figures_of_anything),
        cmocka_unit_test(last_label),
        cmocka_unit_test(empty_figures),
        cmocka_unit_test(heat_and_bars),
        cmocka_unit_test(styles_differ),
        cmocka_unit_test(csv),
        cmocka_unit_test(escaping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
