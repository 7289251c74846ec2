/* SPDX-License-Identifier: MIT
 *
 * sia data info: what a shard, a packed folder, a pattern of shards or a text holds; whether it is whole;
 * and how its text is made, in figures. */
#include "cli/commands.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/path.h"
#include "cli/progress.h"
#include "cli/show.h"
#include "data/inputs.h"
#include "data/manifest.h"
#include "data/shard.h"
#include "data/statistics.h"

/* What is shown of one thing: words for people, the same as JSON for machines. */
typedef struct shown {
    const cli_args *args;
    bool json;
    json_t *object;
} shown;

static void show_count(shown *s, const char *key, const char *label, int64_t value) {
    if (s->json)
        sia_json_set(&s->object, key, json_integer((json_int_t)value));
    else
        printf("  %-25s %lld\n", label, (long long)value);
}

/* Half of a count: a whole number, or one that ends in .5. */
static void show_half(shown *s, const char *key, const char *label, int64_t twice) {
    if (twice % 2 == 0)
        show_count(s, key, label, twice / 2);
    else if (s->json)
        sia_json_set(&s->object, key, json_real((double)twice / 2));
    else
        printf("  %-25s %lld.5\n", label, (long long)(twice / 2));
}

static void show_text(shown *s, const char *key, const char *label, const char *value) {
    if (s->json)
        sia_json_set(&s->object, key, sia_json_text(value));
    else
        printf("  %-25s %s\n", label, cli_shown(value));
}

static void start(shown *s, const char *path) {
    s->object = json_object();
    if (s->json)
        show_text(s, "path", "", path);
    else
        printf("%s\n", cli_shown(path));
}

/* A thing that failed has its sentence on stderr, and no object. */
static sia_status end(shown *s, sia_status status, sia_error *err) {
    if (s->json && !status) return cli_json_line(s->object, err);
    json_decref(s->object);
    return status;
}

/* ------------------------------------------------------------------------------------------- statistics */

static void statistics_json(json_t **object, const char *key, const sia_statistics *r) {
    json_t *ranks = json_array(), *distances = json_array();
    for (int i = 0; i < r->ranks; i++)
        sia_json_push(&ranks, json_pack("{s:I, s:o}", "rank", (json_int_t)r->rank[i], "share",
                                        sia_json_number(r->share[i])));
    for (int i = 0; i < r->distances; i++)
        sia_json_push(&distances,
                      json_pack("{s:I, s:I, s:o, s:o, s:o}", "distance", (json_int_t)r->at[i].distance,
                                "pairs", (json_int_t)r->at[i].pairs, "information",
                                sia_json_number(r->at[i].information), "noise",
                                sia_json_number(r->at[i].noise), "recurrence",
                                sia_json_number(r->at[i].recurrence)));
    sia_json_set(object, key,
                 json_pack("{s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "symbols",
                           (json_int_t)r->symbols, "types", (json_int_t)r->types, "once", (json_int_t)r->once,
                           "entropy", sia_json_number(r->entropy), "zipf_head", sia_json_number(r->zipf_head),
                           "zipf_tail", sia_json_number(r->zipf_tail), "information_document",
                           sia_json_number(r->information_document), "recurrence_document",
                           sia_json_number(r->recurrence_document), "information_power",
                           sia_json_number(r->information_power), "recurrence_power",
                           sia_json_number(r->recurrence_power), "ranks", ranks, "distances", distances));
}

/* "rank^-1.021 at ranks 10 to 1000"; a dash and the reason when there was too little to fit it on. */
static void print_power(const char *law, double power, const char *where, const char *reason) {
    if (isfinite(power))
        printf("%s^%.3f %s", law, -power, where);
    else
        printf("- %s (%s)", where, reason);
}

static void print_recurrence(int width, double value) {
    if (isfinite(value))
        printf("%*.2f", width, value);
    else
        printf("%*s", width, "-");
}

static void print_statistics(const sia_statistics *r, const char *what) {
    printf("  %lld %ss, %lld different, %lld of them once\n  entropy of one %.3f nats\n",
           (long long)r->symbols, what, (long long)r->types, (long long)r->once, r->entropy);
    printf("\n  Rank and frequency\n    share ~ ");
    print_power("rank", r->zipf_head, "at ranks 10 to 1000", "fewer than 1000 are different");
    printf("\n    share ~ ");
    print_power("rank", r->zipf_tail, "at ranks 1000 to 10000", "fewer than 10000 are different");
    printf("\n\n");
    for (int i = 0; i < r->ranks; i++)
        printf("    %8lld  %.3e%s", (long long)r->rank[i], r->share[i],
               i % 3 == 2 || i + 1 == r->ranks ? "\n" : "");
    printf("\n  Information between two %ss at a distance (nats, bias taken off), and\n"
           "  how many times more often than by chance a rare %s comes again there\n\n"
           "    distance   information   noise     recurrence\n",
           what, what);
    for (int i = 0; i < r->distances; i++) {
        printf("    %8lld   %10.5f   %.5f   ", (long long)r->at[i].distance, r->at[i].information,
               r->at[i].noise);
        print_recurrence(9, r->at[i].recurrence);
        putchar('\n');
    }
    printf("    anywhere   %10.5f             ", r->information_document);
    print_recurrence(9, r->recurrence_document);
    printf("     in the same document\n\n  Information ~ ");
    print_power("distance", r->information_power, "over 10 to 1000", "fewer than three are above the noise");
    printf("\n  Recurrence - 1 ~ ");
    print_power("distance", r->recurrence_power, "over 10 to 10000", "fewer than three are above chance");
    putchar('\n');
}

static sia_statistics_at at_distance(const sia_statistics *r, int64_t distance) {
    for (int i = 0; i < r->distances; i++)
        if (r->at[i].distance == distance) return r->at[i];
    return (sia_statistics_at){.information = NAN, .noise = NAN, .recurrence = NAN};
}

/* A dash where documents are too short for the distance. */
static void print_drift(const char *label, const sia_statistics *r) {
    sia_statistics_at ten = at_distance(r, 10), hundred = at_distance(r, 100);
    printf("    %-14s  %.3f   ", label, r->entropy);
    if (isfinite(ten.information))
        printf("%.5f  ", ten.information);
    else
        printf("%7s  ", "-");
    if (isfinite(hundred.information))
        printf("%.5f (+- %.5f)   ", hundred.information, hundred.noise);
    else
        printf("%7s               ", "-");
    print_recurrence(6, ten.recurrence);
    print_recurrence(8, hundred.recurrence);
    putchar('\n');
}

/* The beginnings of documents beside their ends. */
static sia_status show_drift(shown *s, const sia_sequence *text, sia_error *err) {
    static const struct {
        const char *key, *label;
        double from, to;
    } slices[] = {{"first_tenth", "first tenth", 0, 0.1}, {"last_tenth", "last tenth", 0.9, 1}};
    if (!s->json)
        printf("\n  Does it drift?  entropy   information at 10, 100       recurrence at 10, 100\n");
    for (int i = 0; i < 2; i++) {
        sia_sequence slice;
        sia_statistics r;
        sia_status status = sia_sequence_slice(text, slices[i].from, slices[i].to, &slice, err);
        if (status) return status;
        if (slice.count > 1000) {
            status = sia_statistics_compute(
                &slice,
                &(sia_statistics_options){.classes = 256, .max_distance = 100, .stopped = cli_stopped}, &r,
                err);
            if (!status && s->json) statistics_json(&s->object, slices[i].key, &r);
            if (!status && !s->json) print_drift(slices[i].label, &r);
        }
        sia_sequence_free(&slice);
        if (status) return status;
    }
    return SIA_OK;
}

static sia_status show_statistics(shown *s, const sia_sequence *text, const char *what, sia_error *err) {
    sia_statistics r;
    cli_catch_stop(); /* only now: what comes before does not look whether it was stopped */
    sia_status status =
        sia_statistics_compute(text, &(sia_statistics_options){.stopped = cli_stopped}, &r, err);
    if (status) return status;
    if (s->json)
        statistics_json(&s->object, "statistics", &r);
    else
        print_statistics(&r, what);
    return show_drift(s, text, err);
}

/* Figures that are not of the whole say so. */
static void say_prefix(shown *s, int64_t count, int64_t all, const char *what) {
    if (s->json)
        sia_json_set(&s->object, "statistics_of_first", json_integer((json_int_t)count));
    else
        printf("\n  Statistics of the first %lld of %lld %ss (--symbols):\n", (long long)count,
               (long long)all, what);
}

/* The first documents of a corpus, without their end-of-text tokens, as symbols. */
static sia_status corpus_statistics(shown *s, const sia_corpus *c, sia_error *err) {
    int64_t most = cli_int(s->args, "symbols"), count = 0, ends = 0, documents = 0, first, length;
    size_t room = (size_t)(most < sia_corpus_tokens(c) ? most : sia_corpus_tokens(c));
    uint32_t *symbols = malloc((room + 1) * sizeof *symbols);
    int64_t *starts = malloc(((size_t)sia_corpus_documents(c) + 1) * sizeof *starts);
    sia_status status =
        symbols && starts ? SIA_OK : sia_fail_memory(err, room * sizeof *symbols, "statistics");
    for (int64_t i = 0; !status && i < sia_corpus_documents(c) && count < most; i++) {
        (void)sia_corpus_document(c, i, &first, &length, NULL);
        uint32_t id;
        status = sia_corpus_read(c, first, 1, &id, err);
        if (status) break;
        int64_t skip = id == sia_corpus_end_of_text(c),
                take = length - skip < most - count ? length - skip : most - count;
        starts[documents++] = count;
        ends += skip;
        status = sia_corpus_read(c, first + skip, take, symbols + count, err);
        count += take;
    }
    if (!status) {
        starts[documents] = count;
        if (count + ends < sia_corpus_tokens(c)) say_prefix(s, count, sia_corpus_tokens(c), "token");
        status = show_statistics(s, &(sia_sequence){symbols, count, starts, documents}, "token", err);
    }
    free(symbols);
    free(starts);
    return status;
}

/* ---------------------------------------------------------------------------------------------- corpora */

static int by_length(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static sia_status show_lengths(shown *s, const sia_corpus *c, sia_error *err) {
    int64_t documents = sia_corpus_documents(c), first;
    if (!documents) return SIA_OK;
    int64_t *lengths = malloc((size_t)documents * sizeof *lengths);
    if (!lengths) return sia_fail_memory(err, (size_t)documents * sizeof *lengths, "documents");
    for (int64_t i = 0; i < documents; i++) (void)sia_corpus_document(c, i, &first, &lengths[i], NULL);
    qsort(lengths, (size_t)documents, sizeof *lengths, by_length);
    show_count(s, "shortest", "shortest document, tokens", lengths[0]);
    show_half(s, "median", "median document, tokens", lengths[(documents - 1) / 2] + lengths[documents / 2]);
    show_count(s, "longest", "longest document, tokens", lengths[documents - 1]);
    free(lengths);
    return SIA_OK;
}

static sia_status show_corpus(shown *s, const char *path, const char *part, const sia_tokenizer *tokenizer,
                              sia_error *err) {
    sia_corpus *c;
    sia_status status =
        sia_corpus_open(&c, path, &(sia_corpus_config){.part = part, .tokenizer = tokenizer, .scan = 1}, err);
    if (status) return status;
    if (part) show_text(s, "part", "part", part);
    show_count(s, "shards", "shards", sia_corpus_shards(c));
    show_count(s, "tokens", "tokens", sia_corpus_tokens(c));
    show_count(s, "vocabulary", "vocabulary", sia_corpus_vocabulary(c));
    show_count(s, "end_of_text", "end-of-text token", sia_corpus_end_of_text(c));
    show_count(s, "documents", "documents", sia_corpus_documents(c));
    status = show_lengths(s, c, err);
    if (!status && cli_flag(s->args, "statistics")) status = corpus_statistics(s, c, err);
    sia_corpus_close(c);
    return status;
}

static sia_status show_folder(shown *s, const char *path, const sia_tokenizer *tokenizer, sia_error *err) {
    sia_manifest m;
    sia_status status = sia_manifest_read(&m, path, err);
    if (status) return status;
    status = sia_manifest_verify(&m, path, err);
    for (int part = 0; !status && part < SIA_PARTS; part++) {
        if (!m.parts[part].shard_count) continue;
        start(s, path);
        status = show_corpus(s, path, sia_part_names[part], tokenizer, err);
        if (!status) {
            show_count(s, "bytes", "bytes of text", m.parts[part].bytes);
            show_text(s, "checksums", "checksums", "right");
        }
        status = end(s, status, err);
    }
    sia_manifest_free(&m);
    return status;
}

/* ------------------------------------------------------------------------------------------------- text */

static sia_status text_words(const sia_inputs *inputs, sia_word_list *words, sia_error *err) {
    for (int64_t i = 0; i < inputs->count; i++) {
        sia_input_text text;
        sia_text document;
        sia_status status = sia_input_open(&inputs->list[i], &text, err);
        if (status) return status;
        for (size_t at = 0; !status && sia_next_document(text.bytes, text.size, false, &at, &document);)
            status = cli_stopped() ? sia_fail(err, SIA_STOPPED, "stopped")
                                   : sia_word_list_add(words, document.bytes, document.size, err);
        sia_input_close(&text);
        if (status) return status;
    }
    return SIA_OK;
}

static sia_status show_text_file(shown *s, const char *path, sia_error *err) {
    sia_inputs inputs = {.stopped = cli_stopped};
    /* All words are counted; those that statistics are of must be kept, too. */
    bool statistics = cli_flag(s->args, "statistics");
    sia_word_list words = {.limited = true, .most = statistics ? cli_int(s->args, "symbols") : 0};
    cli_catch_stop();
    sia_status status = sia_inputs_add(&inputs, path, false, err);
    if (!status) status = text_words(&inputs, &words, err);
    if (!status) {
        start(s, path);
        show_count(s, "files", "text files", inputs.count);
        show_count(s, "bytes", "bytes", inputs.bytes);
        show_count(s, "documents", "documents", words.texts);
        show_count(s, "words", "words", words.words);
        sia_sequence sequence = sia_word_list_sequence(&words);
        if (statistics && words.count < words.words) say_prefix(s, words.count, words.words, "word");
        if (statistics) status = show_statistics(s, &sequence, "word", err);
        status = end(s, status, err);
    }
    sia_word_list_free(&words);
    sia_inputs_free(&inputs);
    return status;
}

/* ------------------------------------------------------------------------------------------ the command */

typedef enum kind { KIND_TEXT, KIND_SHARDS, KIND_FOLDER } kind;

static bool ends_in_bin(const char *name) {
    size_t length = strlen(name);
    return length > 4 && strcmp(name + length - 4, ".bin") == 0;
}

/* Shards that lie in a folder without a data.json are no text, and what vocabulary they are for nobody says:
 * a pattern names them. */
static sia_status refuse_loose_shards(const char *folder, sia_error *err) {
    bool found = false;
    sia_names names;
    sia_status status = sia_folder_list(folder, &names, err);
    for (size_t i = 0; !status && !found && i < names.count; i++) {
        if (names.list[i][0] == '.' || !ends_in_bin(names.list[i])) continue;
        sia_map map;
        char *path = sia_path_join(folder, names.list[i]);
        if (!path) {
            status = sia_fail_memory(err, strlen(folder), folder);
        } else if (!sia_map_open(&map, path, NULL)) {
            found = sia_shard_looks_like(map.bytes, map.size);
            sia_map_close(&map);
        }
        free(path);
    }
    sia_names_free(&names);
    char *pattern = found ? sia_path_join(folder, "*.bin") : NULL;
    if (pattern)
        status = sia_fail(err, SIA_FORMAT, "%s: shards without a data.json: give a pattern, such as '%s'",
                          folder, pattern);
    else if (found)
        status = sia_fail_memory(err, strlen(folder), folder);
    free(pattern);
    return status;
}

/* What a path is: a folder with a data.json was packed; a file that ends in .bin or starts as a shard does
 * is one; what does not exist but has a pattern's characters is a pattern of shards. */
static sia_status kind_of(const char *path, kind *result, sia_error *err) {
    struct stat info;
    *result = KIND_TEXT;
    if (strcmp(path, "-") == 0) return SIA_OK;
    if (stat(path, &info) != 0) {
        *result = KIND_SHARDS;
        return strpbrk(path, "*?[") ? SIA_OK : sia_fail_file(err, path);
    }
    if (S_ISDIR(info.st_mode)) {
        bool packed;
        sia_status status = sia_folder_look(path, "data.json", &packed, err);
        if (packed) *result = KIND_FOLDER;
        return status || packed ? status : refuse_loose_shards(path, err);
    }
    sia_map map;
    sia_status status = sia_map_open(&map, path, err);
    if (status) return status;
    if (sia_shard_looks_like(map.bytes, map.size) || ends_in_bin(path)) *result = KIND_SHARDS;
    sia_map_close(&map);
    return SIA_OK;
}

static sia_status show_path(shown *s, const char *path, const sia_tokenizer *tokenizer, sia_error *err) {
    kind k;
    sia_status status = kind_of(path, &k, err);
    if (status) return status;
    if (k == KIND_TEXT && tokenizer)
        return sia_fail(err, SIA_ARGUMENT, "%s: is text: --tokenizer is for shards", path);
    if (k == KIND_TEXT) return show_text_file(s, path, err);
    if (k == KIND_FOLDER) return show_folder(s, path, tokenizer, err);
    start(s, path);
    status = show_corpus(s, path, NULL, tokenizer, err);
    return end(s, status, err);
}

static int run(const cli_args *args) {
    char **operands;
    int count = cli_operands(args, &operands);
    if (count < 1) return cli_usage(args, "want a shard, a folder, a pattern or a text");
    if (cli_given(args, "symbols") && !cli_flag(args, "statistics"))
        return cli_usage(args, "--symbols: only with --statistics");
    sia_error err;
    sia_tokenizer *tokenizer = NULL;
    if (cli_given(args, "tokenizer") && sia_tokenizer_open(&tokenizer, cli_text(args, "tokenizer"), &err))
        return cli_fail(&err);
    shown s = {.args = args, .json = cli_flag(args, "json")};
    int code = CLI_DONE;
    for (int i = 0; i < count && code == CLI_DONE; i++)
        if ((cli_stopped() && sia_fail(&err, SIA_STOPPED, "stopped")) ||
            show_path(&s, operands[i], tokenizer, &err))
            code = cli_fail(&err);
    sia_tokenizer_close(tokenizer);
    return code;
}

static const cli_option options[] = {
    {"tokenizer", CLI_TEXT, "PATH", NULL, "whose ids the shards hold [data.json's, else GPT-2's]", 0, 0},
    {"statistics", CLI_FLAG, NULL, NULL, "rank-frequency, information and recurrence by distance", 0, 0},
    {"symbols", CLI_INT, "N", "20000000", "statistics of the first N words or tokens, at most", 1000, 1e9},
    {"json", CLI_FLAG, NULL, NULL, "one JSON object a line on stdout", 0, 0},
    {0}};

const cli_command command_data_info = {
    .name = "data info",
    .summary = "What shards or texts hold, and whether they are whole",
    .examples = "  sia data info books                       a packed folder: counts, checksums\n"
                "  sia data info 'fineweb_train_*.bin'       shards as they are\n"
                "  sia data info --statistics books.txt      Zipf's law, information\n",
    .operands = "PATHS...",
    .options = options,
    .notes =
        "Every token is read and compared with the vocabulary, and the files of a packed folder with all "
        "that "
        "its data.json says:\n"
        "checksums, vocabulary, counts of tokens, documents and bytes.\n"
        "Statistics are of words for text, of tokens for shards; docs/data.md says how they are taken.\n",
    .run = run,
};
