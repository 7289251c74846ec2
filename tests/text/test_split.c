/* SPDX-License-Identifier: MIT
 *
 * The pre-tokeniser: a table of texts with their pieces, the scanner against the pattern in PCRE2, bytes that
 * are not UTF-8, places to cut, and time. */
#include "support.h"
#include "text/split.h"

/* Pieces are divided by '|', which none of the texts holds. */
static const struct {
    const char *text, *pieces;
} cases[] = {
    {"Hello world", "Hello| world"},
    {"I'm you're he's", "I|'m| you|'re| he|'s"},
    {"''s 's", "''|s| '|s"},
    {"it's'll've'd't", "it|'s|'ll|'ve|'d|'t"},
    {"I'M", "I|'|M"},
    {"a  b", "a| | b"},
    {"a   b", "a|  | b"},
    {"a\n\nb", "a|\n|\n|b"},
    {"a \n b", "a| \n| b"},
    {"a  ", "a|  "},
    {" ", " "},
    {"  ", "  "},
    {"\t\tx", "\t|\t|x"},
    {"x1y22", "x|1|y|22"},
    {"a,b!? c", "a|,|b|!?| c"},
    {"\xc3\xa9t\xc3\xa9 3\xc2\xbd", "\xc3\xa9t\xc3\xa9| 3\xc2\xbd"},
    {"\xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\x98\x80!", "\xe6\xbc\xa2\xe5\xad\x97| \xf0\x9f\x98\x80!"},
    {"a\xc2\xa0"
     "b",
     "a|\xc2\xa0|b"}, /* a no-break space is a space, but not U+0020 */
    {"a\xc2\xa0\xc2\xa0"
     "b",
     "a|\xc2\xa0|\xc2\xa0|b"},
    {"a\xe1\xa0\x8e"
     "b",
     "a|\xe1\xa0\x8e|b"}, /* U+180E is no White_Space since Unicode 6.3 */
    {"a\x1c"
     "b",
     "a|\x1c|b"},
    /* Not UTF-8: a piece for each byte, and what is beside it is cut as if it stood alone. */
    {"ab\xff"
     "cd",
     "ab|\xff|cd"},
    {" \xff", " |\xff"},
    {"a  \xff", "a|  |\xff"}, /* two spaces at the end of the valid text stay together */
    {"\xc3(", "\xc3|("},
    {"\xe2\x82", "\xe2|\x82"},
    {"\xed\xa0\x80", "\xed|\xa0|\x80"}, /* a surrogate */
    {"\xc0\xaf", "\xc0|\xaf"},          /* overlong */
    {"\xe0\x80\xaf", "\xe0|\x80|\xaf"},
    {"\xf4\x90\x80\x80", "\xf4|\x90|\x80|\x80"}, /* beyond U+10FFFF */
    {"'\xff"
     "s",
     "'|\xff|s"},
};

static void test_table(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const char *text = cases[c].text;
        char found[256] = "";
        size_t bytes = strlen(text), used = 0;
        for (size_t at = 0, length; at < bytes; at += length) {
            length = sia_split_next(text + at, bytes - at);
            if (used) found[used++] = '|';
            memcpy(found + used, text + at, length);
            used += length;
        }
        found[used] = 0;
        if (strcmp(found, cases[c].pieces) != 0)
            fail_msg("'%s': '%s', want '%s'", text, found, cases[c].pieces);
    }
}

/* Unicode's own table of the byte sequences that are UTF-8: which bytes may be first, and the least and most of the
 * second. All others are 80 .. BF. */
static size_t utf8_by_table(const unsigned char *s, size_t bytes) {
    static const unsigned char table[][5] = {
        {0x00, 0x7f, 1, 0, 0},       {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
        {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
        {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const unsigned char *row = table[i];
        if (s[0] < row[0] || s[0] > row[1]) continue;
        if (bytes < row[2] || (row[2] > 1 && (s[1] < row[3] || s[1] > row[4]))) return 0;
        for (size_t j = 2; j < row[2]; j++)
            if (s[j] < 0x80 || s[j] > 0xbf) return 0;
        return row[2];
    }
    return 0;
}

/* What is a character and what is not decides where pieces end, and the comparison with PCRE2 takes it for granted. */
static void test_characters_of_bytes(void **state) {
    (void)state;
    static const unsigned char edges[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90,
                                          0x9f, 0xa0, 0xbf, 0xc0, 0xe0, 0xff};
    enum { EDGES = sizeof edges };
    for (int n = 0; n < 256 * EDGES * EDGES * EDGES; n++) {
        unsigned char s[] = {(unsigned char)(n % 256), edges[n / 256 % EDGES], edges[n / 256 / EDGES % EDGES],
                             edges[n / 256 / EDGES / EDGES]};
        for (size_t bytes = 1; bytes <= 4; bytes++)
            if (sia_utf8_length((const char *)s, bytes) != utf8_by_table(s, bytes))
                fail_msg("%02x %02x %02x %02x, the first %zu: %zu, want %zu", s[0], s[1], s[2], s[3], bytes,
                         sia_utf8_length((const char *)s, bytes), utf8_by_table(s, bytes));
    }
    assert_int_equal(sia_utf8_length("", 0), 0);
}

/* The reference on text that is not UTF-8: PCRE2 on each valid stretch. */
static size_t reference_next(sia_splitter *s, const char *text, size_t bytes, size_t at) {
    size_t start = at, end = at, length;
    if (sia_utf8_length(text + at, bytes - at) == 0) return 1;
    /* The stretch starts after the last invalid byte: looking back never matters to this pattern. */
    while (end < bytes && (length = sia_utf8_length(text + end, bytes - end)) > 0) end += length;
    return sia_split_reference(s, text + start, end - start, 0);
}

static void test_against_pcre2(void **state) {
    (void)state;
    enum { ROOM = 96, ROUNDS = 60000 };
    char text[ROOM];
    sia_splitter *s;
    sia_error err;
    check(sia_splitter_create(&s, &err), &err);
    for (uint64_t seed = 0; seed < ROUNDS; seed++) {
        size_t bytes = random_text(seed, text, ROOM);
        for (size_t at = 0, length; at < bytes; at += length) {
            length = reference_next(s, text, bytes, at);
            size_t found = sia_split_next(text + at, bytes - at);
            if (found != length)
                fail_msg("seed %d, byte %zu: piece of %zu, PCRE2 has %zu", (int)seed, at, found, length);
        }
    }
    sia_splitter_destroy(s);
}

/* Every character of Unicode, between a letter, a number and a space. */
static void test_all_characters(void **state) {
    (void)state;
    sia_splitter *s;
    sia_error err;
    check(sia_splitter_create(&s, &err), &err);
    for (uint32_t code = 1; code < 0x110000; code++) {
        if (code >= 0xd800 && code < 0xe000) continue;
        char text[16] = "a";
        size_t n = 1;
        if (code < 0x80)
            text[n++] = (char)code;
        else if (code < 0x800) {
            text[n++] = (char)(0xc0 | code >> 6);
        } else if (code < 0x10000) {
            text[n++] = (char)(0xe0 | code >> 12);
            text[n++] = (char)(0x80 | (code >> 6 & 0x3f));
        } else {
            text[n++] = (char)(0xf0 | code >> 18);
            text[n++] = (char)(0x80 | (code >> 12 & 0x3f));
            text[n++] = (char)(0x80 | (code >> 6 & 0x3f));
        }
        if (code >= 0x80) text[n++] = (char)(0x80 | (code & 0x3f));
        size_t width = n - 1;
        assert_int_equal(sia_utf8_length(text + 1, width), width);
        text[n] = ' '; /* which a space before it would take into its piece */
        if (code >= 0x80 && sia_split_can_cut(text, n) != (sia_split_next(text + 1, width + 1) == width))
            fail_msg("U+%04X: a space, or none?", code);
        text[n] = '1';
        text[n + 1] = ' ';
        memcpy(text + n + 2, text + 1, width);
        n += 2 + width;
        for (size_t at = 0, length; at < n; at += length) {
            length = sia_split_reference(s, text, n, at);
            if (sia_split_next(text + at, n - at) != length)
                fail_msg("U+%04X: the scanner and PCRE2 differ", code);
        }
    }
    sia_splitter_destroy(s);
}

/* Cutting where it is allowed changes no piece. */
static void test_cuts(void **state) {
    (void)state;
    enum { ROOM = 96 };
    char text[ROOM];
    size_t cuts = 0;
    for (uint64_t seed = 0; seed < 20000; seed++) {
        size_t bytes = random_text(seed, text, ROOM), at = 0;
        bool starts[ROOM + 1] = {false};
        for (; at < bytes; at += sia_split_next(text + at, bytes - at)) starts[at] = true;
        for (size_t cut = 1; cut < bytes; cut++) {
            if (!sia_split_can_cut(text, cut)) continue;
            cuts++;
            assert_true(starts[cut]);
            for (at = 0; at < cut; at += sia_split_next(text + at, cut - at)) assert_true(starts[at]);
        }
        size_t last = sia_tokenizer_cut(text, bytes);
        if (last) assert_true(sia_split_can_cut(text, last));
        for (size_t cut = last + 1; cut < bytes; cut++) assert_false(sia_split_can_cut(text, cut));
    }
    assert_true(cuts > 10000);
    assert_int_equal(sia_tokenizer_cut("", 0), 0);
    assert_int_equal(sia_tokenizer_cut("abc", 3), 0);
    assert_int_equal(sia_tokenizer_cut("ab c", 4), 2);
    assert_int_equal(sia_tokenizer_cut("\xe3\x80\x82\n\xe4\xb8\x80", 7), 3);
    assert_int_equal(sia_tokenizer_cut("\xe3\x80\x80\n\xe4\xb8\x80", 7), 0); /* a wide space */
    assert_int_equal(sia_tokenizer_cut("\x80\x82\n", 3), 0);                 /* no character */
}

/* The blocks cover a text without a gap, also when a word is longer than many of them. */
static void test_blocks(void **state) {
    (void)state;
    size_t bytes = 6 * SIA_SPLIT_BLOCK + 17;
    char *text = malloc(bytes);
    assert_non_null(text);
    for (int kind = 0; kind < 3; kind++) {
        memset(text, 'x', bytes);
        for (size_t i = 5; i < bytes && kind == 1; i += 7) text[i] = ' ';
        if (kind == 2) text[3 * SIA_SPLIT_BLOCK + 100] = ' ';
        size_t covered = 0, start, end, full = 0;
        for (size_t b = 0; b < sia_split_blocks(bytes); b++)
            if (sia_split_block(text, bytes, b, &start, &end)) {
                assert_int_equal(start, covered);
                assert_true(end > start);
                covered = end;
                full++;
            }
        assert_int_equal(covered, bytes);
        assert_int_equal(full, kind == 0 ? 1 : kind == 1 ? 7 : 2);
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),         cmocka_unit_test(test_characters_of_bytes),
        cmocka_unit_test(test_against_pcre2), cmocka_unit_test(test_all_characters),
        cmocka_unit_test(test_cuts),          cmocka_unit_test(test_blocks),
    };
    sia_error err;
    if (sia_split_prepare(&err)) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
