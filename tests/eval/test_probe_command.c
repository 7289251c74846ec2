/* SPDX-License-Identifier: MIT
 *
 * sia probe as a person calls it, on a run of two steps. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../commands.h"

#define TRAIN                                                                                               \
    "$SIA train --quiet --layers 2 --width 16 --heads 2 --train-len 32 --vocabulary 300 --steps 2 --batch " \
    "2 "                                                                                                    \
    "--eval-windows 2 "
#define SMALL "--windows 2 --length 4x "

static const command_case cases[] = {
    {"$SIA probe --help", 0, "Examples:\n  sia probe runs/si runs/rope\n"},
    {TRAIN "--out si", 0, ""},
    {TRAIN "--out rope --scheme rope --seed 3", 0, ""},
    /* What people see. */
    {"$SIA probe si " SMALL, 0,
     "si: si+prope, step 2\n2 windows of 128 tokens of generated text, seed 0, its validation part\n"},
    {"$SIA probe si " SMALL, 0, "context      entropy  last 100 itself  first   entropy by distance, from\n"},
    {"$SIA probe si " SMALL "2>/dev/null", 0, "layer    mean variance  off 1"},
    {"$SIA probe si | awk 'length > 80 { print; exit 1 }'", 0, ""},
    {"$SIA probe si " SMALL "--json >lines && ! grep -v '^{' lines", 0, ""},
    {"$SIA probe si " SMALL "--quiet", 0, ""},
    {"$SIA probe si " SMALL "--quiet 2>&1 | wc -c", 0, "0\n"},
    /* Every way to name a model; the default length. */
    {"$SIA probe si/step-000002 " SMALL, 0, "step 2\n2 windows"},
    {"$SIA probe si/step-000002/model.safetensors " SMALL, 0, "step 2\n2 windows"},
    {"$SIA probe si --windows 1", 0, "1 window of 512 tokens"},
    {"$SIA probe si --windows 1 | grep -c '+-'", 1, "0\n"}, /* one window has no standard error */
    {"$SIA probe si --length 50 --windows 3", 0, "3 windows of 50 tokens"},
    /* JSON: one object a line, the same in the file and for any number of threads. */
    {"$SIA probe si rope " SMALL "--json --quiet >one; grep -vc '^{\"kind\":\"[a-z-]*\",.*}$' one", 1, "0\n"},
    {"head -1 one", 0,
     "{\"kind\":\"study\",\"command\":\"sia probe si rope --length 4x --windows 2 --json --quiet\""},
    {"grep -c '\"kind\":\"probe-context\",\"scheme\":\"rope\",\"seed\":3,\"length\":' one", 0, "4\n"},
    {"grep -c '\"kind\":\"probe-range\",\"scheme\":\"si+prope\"' one", 0, "9\n"},
    {"grep -c '\"kind\":\"probe-mass\"' one", 0, "24\n"},
    {"grep -c '\"kind\":\"probe-logits\".*\"rotary\":true' one", 0, "8\n"},
    {"grep -c '\"kind\":\"probe-logits\".*\"rotary\":false' one", 0, "8\n"},
    {"grep -c '\"kind\":\"probe-final\"' one", 0, "8\n"},
    {"for n in 1 2 3; do $SIA probe si rope " SMALL "--json --quiet --threads $n | sed 1d >more; "
     "sed 1d one | cmp - more || exit 9; done",
     0, ""},
    {"$SIA probe si rope " SMALL "--json --quiet --seed 1 | sed 1d | cmp - more", 1, "differ"},
    {"$SIA probe si rope " SMALL "--out found && sed 1d found/probe.jsonl | cmp - more && ls -A found", 0,
     "found/probe.jsonl: written\nprobe.jsonl\n"},
    /* Another scheme; one that the weights are not for. */
    {"$SIA probe rope " SMALL "--scheme ntk", 0, "rope: rope+ntk, step 2"},
    {"$SIA probe rope " SMALL "--scheme yarn --json --quiet | grep -c '\"scheme\":\"rope+yarn\"'", 0, ""},
    {"$SIA probe rope " SMALL "--scheme si+prope", 2, "si+prope"},
    {"$SIA probe rope --scheme sillier", 2, "sillier"},
    /* What it reads is the text that was validated on. */
    {"$SIA data generate --documents 2 --words 900 >train.txt; $SIA data generate --documents 2 --words 900 "
     "--seed 1 >val.txt; " TRAIN "--out named train.txt --val val.txt; $SIA probe named " SMALL,
     0, "128 tokens of val.txt\n"},
    {TRAIN "--out part train.txt --val-fraction 0.5; $SIA probe part " SMALL, 0,
     "128 tokens of train.txt, its validation part\n"},
    /* Other text. */
    {"$SIA data generate --documents 2 --words 500 >text.txt; $SIA probe si " SMALL "--data text.txt", 0,
     "tokens of text.txt"},
    {"mkdir texts && cp text.txt texts/one.txt && $SIA probe si " SMALL "--data texts", 0, "tokens of texts"},
    {"$SIA data pack texts --out packed --tokenizer si/tokenizer.json && $SIA probe si " SMALL
     "--data packed",
     0, "tokens of packed"},
    {"$SIA probe si " SMALL "--data packed/train_000000.bin", 0, "tokens of packed/train_000000.bin"},
    {"$SIA probe si --windows 1 --length 100000 --data text.txt", 2, "longest"},
    {"$SIA probe si --data none.txt", 1, "sia: none.txt: No such file or directory"},
    {"printf '\\000\\001\\002' >binary; $SIA probe si --data binary", 1, "binary"},
    {": >empty; $SIA probe si --data empty", 1, "empty"},
    /* A model that left its run. */
    {"mkdir alone && cp si/step-000002/model.safetensors alone && $SIA probe alone/model.safetensors", 2,
     "sia: alone: no run is there, hence no validation text: name some text"},
    {"$SIA probe alone/model.safetensors " SMALL "--data text.txt", 2, "has no tokenizer.json beside it"},
    {"$SIA probe alone/model.safetensors " SMALL "--data text.txt --tokenizer si/tokenizer.json", 0,
     "2 windows of 128"},
    /* Tokens that the model does not have. */
    {"$SIA tokenizer train text.txt --size 400 --out more.json && "
     "$SIA probe si " SMALL "--data text.txt --tokenizer more.json",
     2, "more.json: another tokenizer than si/tokenizer.json"},
    {"cp -r si alien && rm alien/tokenizer.json && $SIA probe alien " SMALL
     "--data text.txt --tokenizer more.json",
     2, "the model's vocabulary ends at 300"},
    /* Wrong usage. */
    {"$SIA probe", 2, "sia probe: want models: runs, checkpoints or files"},
    {"$SIA probe none", 1, "sia: none: No such file or directory"},
    {"$SIA probe texts", 1, "texts"},
    {"$SIA probe text.txt", 1, "text.txt"},
    {"$SIA probe si --length 0", 2, "--length 0: want tokens, like 4096, or training lengths, like 16x"},
    {"$SIA probe si --length 16y", 2, "--length 16y: want tokens"},
    {"$SIA probe si --length x", 2, "--length x: want tokens"},
    {"$SIA probe si --length 99999999999999999999", 2, "want tokens"},
    {"$SIA probe si --length 1000000000x", 2, "length 1000000000x: want tokens"},
    {"$SIA probe si --length 15", 2, "length 15: want 16 to 1073741824"},
    {"$SIA probe si --windows 0", 2, "--windows 0: want 1 to 1024"},
    {"$SIA probe si --windows 1025", 2, "--windows 1025: want 1 to 1024"},
    /* Files that cannot be written. */
    {"$SIA probe si --out text.txt", 1, "text.txt"},
    {"touch plain && $SIA probe si --out plain/such", 1, "plain/such: Not a directory"},
    {"$SIA probe si " SMALL "--json --quiet >/dev/full", 1, "No space left on device"},
    /* Ctrl-C: 130, and no file. */
    {"timeout --foreground --preserve-status -s INT 1 $SIA probe si --data text.txt --length 400 --windows "
     "1024 --threads "
     "1 "
     "--out stopped $(yes si | head -400); code=$?; ls -A stopped | wc -l; exit $code",
     130, "sia: stopped\n0\n"},
};

static void test_command(void **state) {
    (void)state;
    run_cases(cases, sizeof cases / sizeof *cases, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_command)};
    return cmocka_run_group_tests(tests, open_command_folder, close_command_folder);
}
