/* SPDX-License-Identifier: MIT
 *
 * What a person gets wrong, and what the program says to it: a table of command lines, exit codes and sentences. A sentence has to name what was
 * given, what was wanted and, where it is not plain, what to do next; it is compared from its start to its end, so that a change of words is seen
 * here. Codes: 1 for files and results, 2 for usage. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "../commands.h"

/* A run and what belongs to it, as small as they can be. */
#define SMALL                                                                                  \
    " --steps 2 --layers 1 --width 16 --heads 1 --train-len 16 --batch 2 --threads 1 --quiet " \
    "--eval-windows 1"                                                                         \
    " --lengths 1x,2x"
static const command_case setup[] = {
    {"$SIA data generate --documents 4 --words 600 > text.txt && printf 'a few words' > few.txt", 0, ""},
    {": > empty.txt; mkdir hollow; echo '{\"model\": {\"layer\": 3}}' > typo.json", 0, ""},
    {"$SIA train --out run text.txt --vocabulary 300" SMALL, 0, ""},
    {"mkdir -p newer cut/step-000002 && cp run/tokenizer.json newer", 0, ""},
    /* The file keeps its length: tau, which is the default, makes room for a longer name of the format. */
    {"LC_ALL=C sed 's/\\\\\"tau\\\\\":10.0,//; s/\"format\":\"sia\"/\"format\":\"sia 2 of 2030-01\"/' "
     "run/step-000002/model.safetensors > newer/model.safetensors",
     0, ""},
    {"head -c 700 run/step-000002/model.safetensors > cut/step-000002/model.safetensors", 0, ""},
    {"sed 's/\"version\": 1/\"version\": 2/' run/data/data.json > data.json; cp -r run/data packed; mv "
     "data.json "
     "packed",
     0, ""},
    {"head -c 1500 run/data/train_000000.bin > cut.bin", 0, ""},
};

static const command_case cases[] = {
    /* Words that nobody knows. */
    {"$SIA trian --out x", 2, "sia: unknown command 'trian'; did you mean 'sia train'?\n"},
    {"$SIA train --out x --shceme rope", 2,
     "sia train: unknown option --shceme; did you mean --scheme?\nTry 'sia train --help'.\n"},
    {"$SIA train --out x -s rope", 2, "sia train: -s: options are words, such as --help\n"},
    {"$SIA train --out x --scheme si-prope text.txt", 2,
     "sia: scheme si-prope: unknown word 'si-prope'; want nope, rope, prope, "},
    {"$SIA train --out x --scheme si+alibi text.txt", 2,
     "sia: scheme si+alibi: 'si' and 'alibi' both fill the distance slot\n"},
    /* Options that would make no difference. */
    {"$SIA train --out x --scheme rope --tau 5 text.txt", 2,
     "sia train: --tau: the scheme rope does not use it\nTry 'sia train --help'.\n"},
    {"$SIA train --out x --sharp 5 text.txt", 2,
     "sia train: --sharp: the scheme si+prope does not use it\nTry 'sia train --help'.\n"},
    {"$SIA bench train --preset tiny --scheme rope --tau 3", 2,
     "sia bench train: --tau: the scheme rope does not use it\nTry 'sia bench train --help'.\n"},
    {"$SIA bench train --preset tiny --len 16 --train-len 32", 2,
     "sia bench train: want --len or --train-len, which are the same, not both\n"},
    {"$SIA bench text --megabytes 1 text.txt", 2,
     "sia bench text: text.txt: --megabytes is for text that is made up: want one or the other\n"},
    {"$SIA data info --symbols 1000 text.txt", 2, "sia data info: --symbols: only with --statistics\n"},
    {"$SIA data info --tokenizer run/tokenizer.json text.txt", 2,
     "sia: text.txt: is text: --tokenizer is for shards\n"},
    {"$SIA compare --out x --schemes nope,alibi --rotary-base 500 text.txt", 2,
     "sia compare: --rotary-base: none of the schemes uses it\nTry 'sia compare --help'.\n"},
    /* A name that is empty, as of a variable that was not set. */
    {"$SIA eval ''", 1, "sia: \"\": No such file or directory\n"},
    {"$SIA train --out x --preset huge", 2,
     "sia train: --preset huge: want tiny, small, medium, paper-162m or paper-304m\n"},
    {"$SIA compare --out x --schemes rope,prop", 2, "sia: scheme prop: unknown word 'prop'; want nope, "},
    {"$SIA eval run --cache f64", 2, "sia eval: --cache f64: want f32, f16 or int8\n"},
    {"$SIA completion tcsh", 2, "sia completion: tcsh: want bash, zsh or fish\n"},
    {"SIA_ISA=sse9 $SIA info", 2, "sia: SIA_ISA=sse9: this processor and this build have "},
    {"$SIA train --out x --config typo.json text.txt", 1,
     "sia: typo.json: 'layer' is not a model setting that sia 0."},
    /* Numbers of the wrong kind or size. */
    {"$SIA train --out x --train-len -4", 2, "sia train: --train-len -4: want 1 to 1073741824\n"},
    {"$SIA train --out x --steps 0", 2, "sia train: --steps 0: want 1 to 1000000000\n"},
    {"$SIA train --out x --steps 1e3", 2, "sia train: --steps 1e3: want a whole number\n"},
    {"$SIA train --out x --matrix-rate fast", 2, "sia train: --matrix-rate fast: want a number\n"},
    {"$SIA train --out x --steps", 2, "sia train: --steps: want a value, N\n"},
    {"$SIA train --out x --seed 1 --seed 2", 2, "sia train: --seed: given twice\n"},
    {"$SIA train --out x --threads -1", 2, "sia train: --threads -1: want 0 to 1024\n"},
    {"$SIA bench attention --threads 0", 2,
     "sia bench attention: --threads 0: want numbers from 1 to 1024\n"},
    {"$SIA eval run --lengths 1x,-4x", 2,
     "sia: lengths '1x,-4x': want multiples of the training length or tokens, like 1x,4x,4096\n"},
    {"$SIA probe run --length -5", 2,
     "sia probe: --length -5: want tokens, like 4096, or training lengths, like 16x\n"},
    {"$SIA generate run --tokens -1", 2, "sia generate: --tokens -1: want 0 to 1073741824\n"},
    {"$SIA generate run --temperature hot", 2, "sia generate: --temperature hot: want a number\n"},
    {"$SIA theory --alpha 2 --beta 1", 2, "beta 1: want beta >= alpha ln alpha, about 1.38629"},
    {"$SIA train --out x text.txt --width 100 --heads 3", 2,
     "sia: width 100: want a multiple of the 3 heads, or a head_dim\n"},
    {"$SIA train --out x text.txt --batch 5 --micro-batch 2", 2,
     "sia: batch 5: want a multiple of micro_batch, 2\n"},
    /* Too few or too many words. */
    {"$SIA train text.txt", 2, "sia train: want --out RUN, the folder of the run\n"},
    {"$SIA eval", 2, "sia eval: want one MODEL: a run, a checkpoint or a model.safetensors\n"},
    {"$SIA needle --out x", 2, "sia needle: want RUNS, folders that 'sia train' made\n"},
    {"$SIA data pack text.txt", 2,
     "sia data pack: want --tokenizer PATH, a tokenizer.json, as 'sia tokenizer train' makes it\n"},
    {"$SIA info run", 2, "sia info: run: this command takes no operands\n"},
    {"$SIA generate run --prompt a --prompt-file text.txt", 2,
     "sia generate: want --prompt or --prompt-file, not both\n"},
    /* Files that are not there, or not what they should be. */
    {"$SIA train --out x absent.txt", 1, "sia: absent.txt: No such file or directory\n"},
    {"$SIA train --out x 'shards_*.bin'", 1, "shards_*.bin: no file matches\n"},
    {"$SIA train --out x empty.txt", 1, "sia: empty.txt: an empty file: want text\n"},
    {"mkdir blank; cp empty.txt blank; $SIA train --out x blank", 1,
     "sia: no text: all files of the folders that were named are empty or binary\n"},
    {"$SIA train --out x run/step-000002/model.safetensors", 1,
     "sia: run/step-000002/model.safetensors: a binary file: want text\n"},
    {"$SIA train --out x run", 2,
     "sia train: run: is a run, want text; its own tokens, if it was given text, are in run/data\n"},
    {"$SIA train --out x text.txt --tokenizer text.txt", 1, "; want a tokenizer in JSON\n"},
    {"$SIA train --out x text.txt --config text.txt", 1,
     "; want settings in JSON, such as the config.json of a run\n"},
    {"$SIA eval text.txt", 1,
     "sia: text.txt: not a safetensors file: its first 8 bytes, the length of the header, say "},
    {"$SIA eval hollow", 1,
     "sia: hollow: no checkpoint: want a run of 'sia train', which holds step-N/model.safetensors\n"},
    {"$SIA eval run --data run/step-000002/model.safetensors", 1,
     "sia: run/step-000002/model.safetensors: a binary file: want text\n"},
    {"$SIA tokenizer info hollow", 1,
     "sia: hollow: holds neither tokenizer.json nor encoder.json and vocab.bpe\n"},
    {"$SIA data info cut.bin", 1, "sia: cut.bin: header says "},
    {"$SIA eval cut", 1,
     "sia: no checkpoint can be used, the newest: cut/step-000002/model.safetensors: header of "},
    {"$SIA report hollow", 1, "sia: hollow: nothing to report: want compare.jsonl, needle.jsonl"},
    /* Of a newer version. */
    {"$SIA eval newer/model.safetensors --data text.txt", 1,
     "sia: newer/model.safetensors: format 'sia 2 of 2030-01': want 'sia'; a newer version wrote it than "
     "this one, 0."},
    {"$SIA data info packed", 1,
     "sia: packed/data.json: version 2: want 1; a newer sia wrote it, and can read it\n"},
    /* Text that is too short. */
    {"$SIA train --out x text.txt --vocabulary 300", 2, "sia: no document of 4097 tokens: the longest has "},
    {"$SIA train --out x few.txt --tokenizer run/tokenizer.json" SMALL, 2,
     "sia: no text is left for validation: give more text, or a text of its own\n"},
    {"$SIA train --out x few.txt --val text.txt --tokenizer run/tokenizer.json" SMALL, 2,
     "too few for a sequence of 16"},
    {"$SIA train --out x few.txt", 2,
     "sia: the text has pairs for a vocabulary of 257, want 1024: give more text or a smaller vocabulary\n"},
    {"$SIA eval run --data few.txt --lengths 1x", 2,
     "sia: no document of 17 tokens: the longest has 11; want longer documents or shorter lengths\n"},
    /* Folders that are taken. */
    {"$SIA train --out run text.txt --vocabulary 300" SMALL, 2,
     "sia: run: holds a run already: want --resume, or another folder\n"},
    {"$SIA train --out run --resume --steps 9", 2,
     "sia: run: was begun with steps 2, not 9: a run is resumed as it was begun (or --from it in another "
     "folder)\n"},
    {"$SIA compare --out x --schemes rope si+prope", 2,
     "sia compare: si+prope: a scheme, where a text file was wanted; --schemes takes A,B,C\n"},
    {"$SIA compare --out run text.txt", 2,
     "sia compare: --out run: holds a run: a study needs a folder of its own\n"},
    {"$SIA needle run --out run", 2,
     "sia needle: --out run: holds a run: a study needs a folder of its own\n"},
    {"$SIA data pack --tokenizer run/tokenizer.json --out run text.txt", 1,
     "sia: run: exists already and is not empty: remove it or name another\n"},
    {"$SIA train --out text.txt", 1, "sia: text.txt: is a file, want a folder\n"},
    {"flock run/lock $SIA train --out run --resume", 1, " is at work in this run\n"},
    /* A model and a scheme, a tokenizer, a length that do not go together. */
    {"$SIA eval run --scheme alibi", 2,
     "sia: scheme 'alibi': the model was trained with 'si+prope'; only rope, ntk and yarn can stand for one "
     "another\n"},
    {"$SIA needle run --out y", 2, "sia: length 16: the needles, question and answer alone take "},
    /* Another tokenizer, with the same numbers; text that became another one; results that are no text. */
    {"$SIA tokenizer train --size 300 --out other.json --quiet few.txt text.txt few.txt few.txt && $SIA data "
     "pack --quiet "
     "--tokenizer other.json --out others --val-fraction 0.2 text.txt && $SIA eval run --data others "
     "--lengths 1x",
     1, "sia: others: packed with another tokenizer than the one it is to be read with\n"},
    {"$SIA data info 'others/train_*.bin' --tokenizer run/tokenizer.json", 1,
     "sia: others: packed with another tokenizer than the one it is to be read with\n"},
    {"$SIA data info others/train_000000.bin", 0, " 300\n"},
    {"$SIA train --out second others" SMALL
     " && rm -r others second/step-000002 && $SIA data pack --quiet --tokenizer "
     "other.json --out others --val-fraction 0.4 text.txt && $SIA train --out second --resume --quiet",
     1, "/others: the text to train on is not what it was when the run was begun\n"},
    {"$SIA train --out x text.txt --val others --vocabulary 300" SMALL, 2,
     "sia: others: packed text, a run or a study: want text files\n"},
    {"$SIA compare --out mine absent.txt --schemes rope" SMALL, 1,
     "sia: absent.txt: No such file or directory\n"},
    {"test ! -e mine", 0, ""},
    {"$SIA train --out w text.txt --kv-heads 3 --heads 4 --width 32", 2,
     "sia: kv_heads 3: want a divisor of heads, 4\n"},
    {"test ! -e w/data && $SIA train --out w text.txt --from absent" SMALL
     " --vocabulary 300; test ! -e w/data",
     0, "sia: absent: No such file or directory\n"},
    {"$SIA compare --out y text.txt --schemes rope --sweep seed=1,2" SMALL, 2,
     "sia: sweep 'seed': every variant has the same seeds (--seeds)\n"},
    {"$SIA generate run --tokens 0 --scheme rope+yarn", 2,
     "sia: rope+yarn is fitted to the length of the text: want --tokens 1 or more, or --scheme rope\n"},
    /* What is read is not written over. */
    {"$SIA tokenizer train --size 300 --out text.txt text.txt", 2,
     "sia: --out text.txt: is also an input: name another file\n"},
    {"$SIA tokenizer encode --tokenizer run/tokenizer.json --out run/tokenizer.json text.txt", 2,
     "sia: --out run/tokenizer.json: is also an input: name another file\n"},
    {"ln text.txt same.txt; $SIA tokenizer encode --tokenizer run/tokenizer.json --out same.txt text.txt; rm "
     "same.txt",
     0, "sia: --out same.txt: is also an input: name another file\n"},
    {"$SIA report run --out run/metrics.jsonl", 2,
     "sia: run/metrics.jsonl: exists, and is JSON: name another file\n"},
    {"cat text.txt | $SIA data pack --tokenizer run/tokenizer.json --out p - -", 2,
     "sia: stdin is named twice\n"},
    /* A damaged checkpoint with a whole one beside it; one window; a rank without a job; a long name. */
    {"cp -r run two && cp -r run/step-000002 two/step-000004 && $SIA generate two --tokens 1 --quiet", 0,
     "sia: a checkpoint cannot be used: two/step-000004/model.safetensors: is of step 2, want 4: step 2 is "
     "used\n"},
    {"$SIA eval run --lengths 1x --windows 1 --json", 0, "\"error\": null, "},
    {"SLURM_PROCID=3 $SIA eval run --lengths 1x", 0, "perplexity"},
    {"$SIA tokenizer info $(printf '%0600d' 7)", 1, "0007: File name too long\n"},
    /* No room on the disk. */
    {"$SIA eval run --lengths 1x --json --quiet > /dev/full", 1, "sia: stdout: No space left on device\n"},
    {"$SIA generate run --tokens 5 --ignore-end --quiet > /dev/full", 1, "No space left on device\n"},
    {"$SIA data generate --words 10 > /dev/full", 1, "No space left on device\n"},
    {"(ulimit -f 1; trap '' XFSZ; $SIA train --out full text.txt --vocabulary 300" SMALL ")", 1,
     "File too large\n"},
};

/* What root may do is not refused to it. */
static const command_case permissions[] = {
    {"mkdir locked && cp text.txt locked && chmod 000 locked/text.txt && $SIA train --out z locked/text.txt",
     1, "sia: locked/text.txt: Permission denied\n"},
    {"chmod 500 locked && $SIA train --out locked/run text.txt", 1, "Permission denied\n"},
    {"$SIA theory --samples 16 --max-t 1000 --out locked > said", 1, "Permission denied\n"},
    {"chmod 700 locked", 0, ""},
};

static void test_wrong_uses(void **state) {
    (void)state;
    run_cases(setup, sizeof setup / sizeof *setup, NULL);
    run_cases(cases, sizeof cases / sizeof *cases, NULL);
}

/* Nothing that failed above left a run behind, or changed the one that there was. */
static void test_nothing_left(void **state) {
    (void)state;
    static const command_case left[] = {
        {"test ! -e x/config.json && ls -d x/step-* full/step-* 2>/dev/null", 2, ""},
        {"ls -A run | tr '\\n' ' '", 0, "config.json data lock metrics.jsonl step-000002 tokenizer.json "},
        {"$SIA train --out x text.txt --vocabulary 300" SMALL " && ls x", 0, "step-000002"}};
    run_cases(left, sizeof left / sizeof *left, NULL);
}

static void test_permissions(void **state) {
    (void)state;
    if (geteuid() == 0) {
        print_message("skipped: root may do everything\n");
        skip();
    }
    run_cases(permissions, sizeof permissions / sizeof *permissions, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wrong_uses), cmocka_unit_test(test_nothing_left),
                                       cmocka_unit_test(test_permissions)};
    return cmocka_run_group_tests(tests, open_command_folder, close_command_folder);
}
