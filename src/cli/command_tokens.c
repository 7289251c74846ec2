/* SPDX-License-Identifier: MIT
 *
 * sia tokenizer encode: text to ids. sia tokenizer decode: ids to text. Both are filters: they read and write
 * in parts of some megabytes, so that the size of the input does not matter. */
#include "cli/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/threads.h"
#include "cli/progress.h"
#include "cli/stream.h"

typedef enum format { FORMAT_TEXT, FORMAT_U16, FORMAT_U32 } format;

/* The table of options lets no other name pass. */
static format parse_format(const char *name) {
    if (strcmp(name, "text") == 0) return FORMAT_TEXT;
    return strcmp(name, "u16") == 0 ? FORMAT_U16 : FORMAT_U32;
}

/* What both commands have: where it comes from and goes to. */
typedef struct job {
    const cli_args *args;
    sia_tokenizer *t;
    sia_output *out;
    format format;
    int threads;
    cli_progress progress;
    double done_before;        /* bytes of the inputs before this one */
    uint32_t *ids;             /* room for ids_room */
    size_t ids_room, ids_seen; /* seen: for sentences, the number of ids so far */
} job;

typedef sia_status work(job *j, cli_stream *in, sia_error *err);

static sia_status reserve_ids(job *j, size_t wanted, sia_error *err) {
    if (wanted <= j->ids_room) return SIA_OK;
    free(j->ids);
    j->ids_room = 0;
    j->ids = calloc(wanted, sizeof *j->ids);
    if (!j->ids) {
        (void)sia_fail_memory(err, wanted * sizeof *j->ids, "tokens");
        return SIA_MEMORY;
    }
    j->ids_room = wanted;
    return SIA_OK;
}

static sia_status run_inputs(job *j, char **paths, int count, const char *what, work *each, sia_error *err) {
    static char standard[] = "-";
    char *none[] = {standard};
    if (count == 0) paths = none;
    if (count == 0) count = 1;
    double total = 0;
    bool known = true;
    for (int i = 0; i < count; i++) {
        double size = cli_stream_size(paths[i]);
        known = known && size > 0;
        total += size;
    }
    cli_progress_start(&j->progress, what, known ? total : 0, "MB", 1e6);
    sia_status status = SIA_OK;
    for (int i = 0; i < count && !status; i++) {
        cli_stream in;
        status = cli_stream_open(&in, paths[i], err);
        if (!status) status = each(j, &in, err);
        j->done_before += in.read;
        cli_stream_close(&in);
    }
    cli_progress_end(&j->progress);
    return status;
}

static int run_job(const cli_args *args, const char *what, work *each) {
    job j = {.args = args,
             .format = parse_format(cli_text(args, "format")),
             .threads = cli_has(args, "threads") ? (int)cli_int(args, "threads") : 1};
    char **paths;
    int count = cli_operands(args, &paths);
    sia_error err;
    const char *path = cli_text(args, "tokenizer");
    if (cli_flag(args, "quiet")) cli_progress_silence();
    sia_status status = sia_tokenizer_open(&j.t, path, &err);
    if (!status && j.format == FORMAT_U16 && sia_tokenizer_size(j.t) > 65536)
        status = sia_fail(&err, SIA_ARGUMENT, "--format u16: the tokenizer has %u tokens, want at most 65536",
                          sia_tokenizer_size(j.t));
    const char *out = cli_text(args, "out");
    if (!status) status = cli_refuse_input(out, path, &err);
    for (int i = 0; !status && i < count; i++) status = cli_refuse_input(out, paths[i], &err);
    if (!status) status = sia_output_open(&j.out, out, &err);
    cli_catch_stop();
    if (!status) status = run_inputs(&j, paths, count, what, each, &err);
    if (!status)
        status = sia_output_commit(j.out, &err);
    else
        sia_output_abandon(j.out);
    free(j.ids);
    sia_tokenizer_close(j.t);
    return status ? cli_fail(&err) : CLI_DONE;
}

/* ------------------------------------------------------------------------------------------------- encode */

static char *put_decimal(char *to, uint32_t value) {
    char digits[10];
    int n = 0;
    do digits[n++] = (char)('0' + value % 10);
    while (value /= 10);
    while (n) *to++ = digits[--n];
    *to++ = '\n';
    return to;
}

static char *put_little(char *to, uint32_t value, int bytes) {
    for (int i = 0; i < bytes; i++) *to++ = (char)(value >> 8 * i);
    return to;
}

static sia_status write_ids(job *j, const uint32_t *ids, size_t count, sia_error *err) {
    enum { PART = 4096, LONGEST = 11 };
    char buffer[PART * LONGEST];
    for (size_t first = 0; first < count; first += PART) {
        char *to = buffer;
        for (size_t i = first; i < count && i < first + PART; i++)
            to = j->format == FORMAT_TEXT ? put_decimal(to, ids[i])
                                          : put_little(to, ids[i], j->format == FORMAT_U16 ? 2 : 4);
        sia_status status = sia_output_write(j->out, buffer, (size_t)(to - buffer), err);
        if (status) return status;
    }
    return SIA_OK;
}

static sia_status encode(job *j, cli_stream *in, sia_error *err) {
    sia_status status = SIA_OK;
    uint32_t mark = sia_tokenizer_end_of_text(j->t);
    if (cli_flag(j->args, "end-of-text")) status = write_ids(j, &mark, 1, err);
    while (!status && !(status = cli_stream_fill(in, err)) && in->used) {
        size_t count, take = in->end ? in->used : sia_tokenizer_cut(in->bytes, in->used);
        status = reserve_ids(j, take, err);
        if (!status)
            status = sia_tokenizer_encode_parallel(j->t, j->threads, in->bytes, take, j->ids, &count, err);
        if (!status) status = write_ids(j, j->ids, count, err);
        if (!status) cli_stream_take(in, take);
        cli_progress_update(&j->progress, j->done_before + in->read - (double)in->used);
    }
    return status;
}

static int run_encode(const cli_args *args) { return run_job(args, "encode", encode); }

/* clang-format off */
#define COMMON_OPTIONS(what)                                                                                         \
    {"tokenizer", CLI_TEXT, "PATH", "tokenizer.json", "a tokenizer.json, or a folder with GPT-2's two files", 0, 0}, \
    {"out", CLI_TEXT, "PATH", "-", "where to write the " what ", - for stdout", 0, 0},                               \
    {"format", CLI_TEXT, "text|u16|u32", "text", "ids: text is one a line; the others little-endian", 0, 0},         \
    {"quiet", CLI_FLAG, NULL, NULL, "no progress", 0, 0}
/* clang-format on */

static const cli_option encode_options[] = {
    COMMON_OPTIONS("ids"),
    {"threads", CLI_INT, "N", "0", "threads, 0 for all processors", 0, SIA_MAX_THREADS},
    {"end-of-text", CLI_FLAG, NULL, NULL, "put the end-of-text token before each input", 0, 0},
    {0}};

const cli_command command_tokenizer_encode = {
    .name = "tokenizer encode",
    .summary = "Text to token ids",
    .examples = "  echo 'Hello world' | sia tokenizer encode --tokenizer gpt2/\n"
                "  sia tokenizer encode --format u16 --out books.ids books.txt\n",
    .operands = "[FILES...]",
    .options = encode_options,
    .notes = "Without files, or for the file -, text comes from stdin. Any bytes can be encoded and come "
             "back from\n"
             "'sia tokenizer decode'. Special tokens never arise from text. For shards to train on: 'sia "
             "data pack'.\n",
    .run = run_encode,
};

/* ------------------------------------------------------------------------------------------------- decode */

static sia_status write_text(job *j, const uint32_t *ids, size_t count, sia_error *err) {
    bool named = cli_flag(j->args, "special");
    for (size_t i = 0; i < count; i++) {
        size_t length;
        if (ids[i] >= sia_tokenizer_size(j->t))
            return sia_fail(err, SIA_FORMAT, "token %zu is %u, want ids below %u", j->ids_seen + i, ids[i],
                            sia_tokenizer_size(j->t));
        const char *bytes = sia_tokenizer_bytes(j->t, ids[i], &length);
        const char *name = named ? sia_tokenizer_special(j->t, ids[i]) : NULL;
        sia_status status = name ? sia_output_write(j->out, name, strlen(name), err)
                                 : sia_output_write(j->out, bytes, length, err);
        if (status) return status;
    }
    j->ids_seen += count;
    return SIA_OK;
}

static inline bool is_gap(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == ','; }

/* The ids in what the stream holds, *taken of it: unless it is the end, a number that touches the end may go on. */
static sia_status parse_text(job *j, const cli_stream *in, size_t *taken, size_t *count, sia_error *err) {
    size_t at = 0, limit = in->used;
    *count = 0;
    if (!in->end)
        while (limit > 0 && !is_gap(in->bytes[limit - 1])) limit--;
    if (limit == 0 && !in->end) limit = in->used; /* megabytes without a gap: no number, said below */
    while (at < limit) {
        uint64_t value = 0;
        size_t start = at;
        for (; at < limit && in->bytes[at] >= '0' && in->bytes[at] <= '9' && value <= UINT32_MAX; at++)
            value = value * 10 + (uint64_t)(in->bytes[at] - '0');
        if (value > UINT32_MAX || (at < limit && !is_gap(in->bytes[at])))
            return sia_fail(err, SIA_FORMAT, "%s: token %zu, byte %.0f: want a whole number", in->name,
                            j->ids_seen + *count, in->read - (double)in->used + (double)at);
        if (at > start) j->ids[(*count)++] = (uint32_t)value;
        at++;
    }
    *taken = limit;
    return SIA_OK;
}

static sia_status parse_binary(job *j, const cli_stream *in, size_t *taken, size_t *count, sia_error *err) {
    size_t size = j->format == FORMAT_U16 ? 2 : 4;
    *count = in->used / size;
    *taken = *count * size;
    if (in->end && *taken != in->used)
        return sia_fail(err, SIA_FORMAT, "%s: %.0f bytes, want a multiple of %zu", in->name, in->read, size);
    const unsigned char *from = (const unsigned char *)in->bytes;
    for (size_t i = 0; i < *count; i++, from += size) {
        j->ids[i] = from[0] | (uint32_t)from[1] << 8;
        if (size == 4) j->ids[i] |= (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
    }
    return SIA_OK;
}

static sia_status decode_part(job *j, cli_stream *in, sia_error *err) {
    size_t taken = 0, count = 0;
    sia_status status = reserve_ids(j, in->used, err);
    if (status) return status;
    if (j->format == FORMAT_TEXT)
        status = parse_text(j, in, &taken, &count, err);
    else
        status = parse_binary(j, in, &taken, &count, err);
    // The analyser loses sight of j->ids, which run_job frees. NOLINTNEXTLINE(clang-analyzer-unix.Malloc)
    if (!status) status = write_text(j, j->ids, count, err);
    if (!status) cli_stream_take(in, taken);
    return status;
}

static sia_status decode(job *j, cli_stream *in, sia_error *err) {
    sia_status status;
    while (!(status = cli_stream_fill(in, err)) && in->used) {
        status = decode_part(j, in, err);
        if (status) break;
        cli_progress_update(&j->progress, j->done_before + in->read - (double)in->used);
    }
    return status;
}

static int run_decode(const cli_args *args) { return run_job(args, "decode", decode); }

static const cli_option decode_options[] = {
    COMMON_OPTIONS("text"),
    {"special", CLI_FLAG, NULL, NULL, "write the names of special tokens, which are left out otherwise", 0,
     0},
    {0}};

const cli_command command_tokenizer_decode = {
    .name = "tokenizer decode",
    .summary = "Token ids to text",
    .examples = "  echo 15496 995 | sia tokenizer decode --tokenizer gpt2/\n"
                "  sia tokenizer decode --format u16 --out books.txt books.ids\n",
    .operands = "[FILES...]",
    .options = decode_options,
    .notes = "Without files, or for the file -, ids come from stdin; as text they are divided by spaces, "
             "commas or\n"
             "newlines.\n",
    .run = run_decode,
};
