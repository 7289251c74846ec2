/* SPDX-License-Identifier: MIT
 *
 * Folders from someone else, and limits of the system, as a person meets them: nothing hangs, every end is a
 * sentence, and nothing is left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../commands.h"
#include "../sanitizers.h"

#define SMALL                                                                                         \
    " --vocabulary 262 --layers 1 --width 16 --heads 1 --train-len 16 --batch 2 --threads 1 --quiet " \
    "--steps "
#define NO_LEFTOVER "{ ! find . -name '*.tmp-*' | grep .; }"
/* What a loop prints has no other lines, and no temporary name is left. */
#define NOTHING_BUT(lines) "{ ! grep -E -v '" lines "'; } && " NO_LEFTOVER
/* The run's own files with a named pipe in the place of one. */
#define PIPE(file) "rm -rf odd; cp -r run odd; rm odd/" file "; mkfifo odd/" file "; timeout -k 1 30 $SIA "

static const command_case cases[] = {
    {"$SIA data generate --documents 20 --out text.txt", 0, ""},
    {"$SIA train text.txt --out run" SMALL "2", 0, ""},
    {"$SIA compare text.txt --out study --schemes rope --lengths 1x" SMALL "2", 0, ""},

    /* Pipes and devices. */
    {PIPE("config.json") "eval odd --lengths 1x", 1, "odd/config.json: not a regular file"},
    {PIPE("config.json") "train --out odd --resume --quiet", 1, "odd/config.json: not a regular file"},
    {PIPE("config.json") "report odd", 1, "odd/config.json: not a regular file"},
    {PIPE("metrics.jsonl") "report odd", 1, "odd/metrics.jsonl: not a regular file"},
    {PIPE("metrics.jsonl") "train --out odd --resume --quiet", 1,
     "odd/metrics.jsonl: is neither a file nor a folder"},
    {PIPE("lock") "train --out odd --resume --quiet", 1, "odd/lock: is neither a file nor a folder"},
    {PIPE("tokenizer.json") "generate odd --tokens 3", 1, "odd/tokenizer.json: not a regular file"},
    {PIPE("data/data.json") "data info odd/data", 1, "odd/data/data.json: not a regular file"},
    {PIPE("step-000002/model.safetensors") "generate odd --tokens 3", 1, "not a regular file"},
    {"rm -rf odd; cp -r study odd; rm odd/study.json; mkfifo odd/study.json; "
     "timeout -k 1 30 $SIA compare text.txt --out odd --schemes rope --lengths 1x" SMALL "2",
     1, "odd/study.json: is neither a file nor a folder"},
    {"rm -rf odd; cp -r run odd; ln -sf /dev/zero odd/tokenizer.json; $SIA generate odd --tokens 3", 1,
     "odd/tokenizer.json: not a regular file"},
    {"echo the | $SIA generate run --prompt-file /dev/stdin --tokens 3", 0,
     ""}, /* what a person names may be one */

    /* A person's own folder, a study, checkpoints of another run. */
    {"mkdir -p own/data; echo precious >own/data/notes.txt; cp text.txt own/data; $SIA train "
     "own/data/text.txt --out own" SMALL "2",
     2, "own/data: is there, in a folder that is neither a run nor a study"},
    {"cat own/data/notes.txt && cmp own/data/text.txt text.txt", 0, "precious"},
    {"cp -r study before; $SIA train text.txt --out study --resume auto" SMALL "2", 2,
     "study: holds a study: a run needs a folder of its own"},
    {"diff -r -x lock before study", 0, ""},
    {"cp -r run steps; rm steps/config.json; $SIA train text.txt --out steps" SMALL "2", 2,
     "steps: holds checkpoints, but not the config.json of their run"},
    {"$SIA theory --out both --max-t 1000 >/dev/null && $SIA compare text.txt --out both --schemes rope "
     "--lengths 1x" SMALL "2",
     0, ""}, /* whichever comes first */

    {"mkdir typed; $SIA train typo.txt --out typed" SMALL "2; ls -A typed", 0, "typo.txt: No such file"},
    {"rmdir typed", 0, ""}, /* nothing is in it that would make it ours */
    {"mkdir thesis; echo mine >thesis/report.html; $SIA compare text.txt --out thesis --schemes rope "
     "--lengths 1x" SMALL "2",
     2, "thesis/report.html: exists, and is not a report of sia: rename it"},
    {"$SIA theory --out thesis --max-t 1000 >/dev/null && $SIA report thesis", 2, "is not a report of sia"},
    {"cat thesis/report.html", 0, "mine"},
    {"$SIA report thesis --out thesis/report.html && $SIA report thesis && grep -c Gaussian "
     "thesis/report.html",
     0, ""}, /* who names it means it */
    {"cp run/metrics.jsonl run/metrics.jsonl.tmp-202611161620 && $SIA train --out run --resume --quiet && rm "
     "run/*.tmp-*",
     0, ""}, /* a copy with a date */

    /* What a start that failed has left is no part of another. */
    {"$SIA train text.txt --out other --seed 5" SMALL
     "2 && $SIA train text.txt --out begun --from other" SMALL
     "2 && rm -r begun/config.json begun/step-000002 begun/metrics.jsonl && ls begun",
     0, "step-000000"},
    {"$SIA train text.txt --out begun" SMALL "2 && cmp begun/step-000002/model.safetensors "
     "run/step-000002/model.safetensors",
     0, ""},
    {"$SIA train text.txt --out failed --layers 1 --width 16 --heads 1 --train-len 16 --batch 2 --quiet "
     "--steps 2 "
     "--vocabulary 300 --lengths 100000x",
     2, "no document of"},
    {"ls failed && mkdir shards && cp run/data/*.bin shards && "
     "$SIA train shards/train_000000.bin --out failed --val shards/val_000000.bin --quiet "
     "--layers 1 "
     "--width 16 --heads 1 --train-len 16 --batch 2 --steps 2 --lengths 1x && { ! ls failed/tokenizer.json; "
     "}",
     0, "tokenizer.json"},
    /* What was named has to be text, and what was said has to agree. */
    {"printf 'a\\0b' >binary.txt; $SIA train text.txt binary.txt --out named" SMALL "2", 1,
     "binary.txt: a binary file: want text"},
    {": >empty.txt; $SIA train text.txt --val empty.txt --out named" SMALL "2", 1,
     "empty.txt: an empty file"},
    {"$SIA train --out run --resume --val-fraction 0.5 --quiet", 2,
     "val-fraction 0.5: it was begun with 0.05: leave it out"},
    {"$SIA train --out run --resume --val-fraction 0.05 --quiet", 0, ""},
    {"$SIA compare text.txt --out many --sweep tau=1,2,3,4,5,6" SMALL "2; ls -d many", 2,
     "66 schemes and values together: want 64 at most"},
    {"echo '{\"training\": {\"multiples\": []}}' >none.json; $SIA compare text.txt --out none --config "
     "none.json "
     "--schemes rope" SMALL "2",
     2, "multiples: want a length to compare at"},
    /* A run with the name of a checkpoint; names that a terminal would obey. */
    {"cp -r run step-5 && $SIA eval step-5 --lengths 1x && $SIA eval step-5/step-000002 --lengths 1x", 0, ""},
    {"cp text.txt \"$(printf '\\033[31mred.txt')\"; $SIA probe run --length 16 --windows 1 --data *red.txt "
     "2>&1 | "
     "{ ! grep \"$(printf '\\033')\"; }",
     0, ""},
    {"$SIA data generate --documents 300 --words 40 --out short.txt && $SIA data info short.txt --statistics "
     "| "
     "grep 'first tenth'",
     0, "-               "},

    /* A folder of texts into which is written: what is ours is no text. */
    {"mkdir -p texts/packed.tmp-ghijklmnopqr; cp text.txt texts; cp run/data/data.json texts/*.tmp-*; for "
     "from in text.txt texts; do $SIA data pack --tokenizer run/tokenizer.json --out texts/packed $from && "
     "mv texts/packed $from.packed || exit; done; cmp text.txt.packed/train_000000.bin "
     "texts.packed/train_000000.bin && ls texts",
     0, "text.txt"}, /* what a killed process left of it */
    {"cd texts && $SIA train . --out inside" SMALL "2", 0, ""},
    {"cmp texts/inside/data/train_000000.bin run/data/train_000000.bin", 0, ""},
    {"rm -r texts/inside/config.json texts/inside/step*; cd texts && $SIA train . --out inside" SMALL
     "2 && cmp inside/data/train_000000.bin ../run/data/train_000000.bin",
     0, ""}, /* of a start that was killed */
    {"$SIA train texts --out texts" SMALL "2", 2,
     "texts: is the folder that is written to: name the texts in it"},
    /* Links that make ever more ways to one folder, and circles: what is there is taken once. */
    {"mkdir -p ways/5; cp text.txt ways/5; for i in 1 2 3 4 5 6 7 8 9; do mkdir -p ways/$i; for n in a b c d "
     "e f g h; do ln -s ../$((i % 9 + 1)) ways/$i/$n; done; done; ln -s . ways/0; timeout -k 1 60 $SIA data "
     "pack --tokenizer run/tokenizer.json --out once ways && cmp once/train_000000.bin "
     "text.txt.packed/train_000000.bin",
     0, ""},
    {"mkdir one two; ln -s ../ways one/a; ln -s ../ways two/a; $SIA data pack --tokenizer run/tokenizer.json "
     "--out twice one two",
     0, ", 40 documents"}, /* who names it twice gets it twice */

    /* Closed descriptors: what is printed goes into no file. */
    {"$SIA train text.txt --out closed --vocabulary 262 --layers 1 --width 16 --heads 1 --train-len 16 "
     "--batch 2 --threads 1 --steps 2 <&- 2>&- && diff -r -x lock -x metrics.jsonl -x config.json run closed "
     "&& $SIA "
     "train --resume --out closed --quiet",
     0, ""},
    {"$SIA eval closed --lengths 1x --record >&-", 1, "stdout"},
    {"$SIA data generate --words 1000 --out a.txt <&- >&- 2>&-; $SIA data generate --words 1000 --out b.txt "
     "&& cmp a.txt b.txt",
     0, ""},

    /* What is not a file is written where it is. */
    {"$SIA data generate --words 5 --documents 1 --out /dev/stdout | grep -c .", 0, ""},
    {"mkdir packs; ln -s packs link; $SIA data pack --tokenizer run/tokenizer.json --out link text.txt", 1,
     "link: is a link"},

    /* A file that may not grow, no more descriptors. */
    {"(ulimit -f 4; $SIA data generate --words 100000 --out large.txt)", 1, "large.txt: File too large"},
    {NO_LEFTOVER, 0, ""},
    {"for n in 4 5 6 7 8; do (ulimit -n $n; $SIA train text.txt --out few --resume auto" SMALL "2"
     ") 2>&1; done | " NOTHING_BUT("Too many open files|loading shared libraries"),
     0, ""},

/* Little memory. The sanitizers' own does not bear a limit. */
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    {"for kib in 20000 40000 50000; do (ulimit -v $kib; timeout -k 1 60 $SIA train text.txt --out little"
     " --resume auto" SMALL
     "2 || echo ended $?) 2>&1; done | " NOTHING_BUT("no memory for|loading shared libraries|ended 1(27)?$"),
     0, ""},
#endif

    /* Tokens that are cut while they are mapped. */
    {"$SIA train text.txt --out long" SMALL "1000000 --log-every 1 & n=0; "
     "until test -s long/metrics.jsonl || [ $n = 300 ]; do n=$((n + 1)); sleep 0.1; done; "
     ": >long/data/train_000000.bin; wait $!",
     1, "sia: a file was cut while it was read"},
    {NO_LEFTOVER, 0, ""},
};

static void hostile(void **state) {
    (void)state;
    run_cases(cases, sizeof cases / sizeof *cases, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(hostile)};
    return cmocka_run_group_tests(tests, open_command_folder, close_command_folder);
}
