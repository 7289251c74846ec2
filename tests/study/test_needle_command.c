/* SPDX-License-Identifier: MIT
 *
 * sia needle as a person calls it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../commands.h"

#define RUN                                                                                              \
    "--layers 1 --width 32 --heads 2 --vocabulary 400 --train-len 128 --steps 3 --batch 2 --lengths 1x " \
    "--quiet"
#define QUICK "--steps 3 --batch 2 --samples 3 --needles 1 --digits 3 --lengths 1x,2x"

static const command_case cases[] = {
    {"$SIA needle --help", 0, "Examples:\n  sia train"},
    {"$SIA needle", 2, "want --out FOLDER"},
    {"$SIA needle --out n", 2, "want RUNS"},
    {"$SIA needle absent --out n " QUICK, 1, "absent/config.json: No such file"},
    {"$SIA train --out si --scheme si+prope " RUN, 0, ""},
    {"$SIA train --out alibi --scheme alibi " RUN, 0, ""},
    {"$SIA needle si alibi --out n --steps 3 --batch 2 --samples 3 --needles 16 --digits 15 --lengths 1x,2x",
     2, "needles"},
    {"$SIA needle si alibi --out n " QUICK, 0, "not learnt at this budget\n"},
    {"ls n n/si", 0, "tokenizer.json"},
    {"$SIA data generate --words 3000 --out long.txt && $SIA data generate --words 150 --seed 2 --out "
     "held.txt && "
     "$SIA train --out short long.txt --val held.txt " RUN " --eval-windows 1 && "
     "$SIA needle short --out s --steps 1 --batch 2 --samples 1 --needles 1 --digits 2 --lengths 1x,16x",
     0, "short at 2048: haystacks of text that was trained on, for what was held out is shorter\n"},
    {"$SIA needle si alibi --out n " QUICK, 2, "n: holds a study already: want --resume"},
    {"$SIA needle si alibi --out n --resume", 2, "n: was begun with "},
    {"$SIA needle si alibi --out n --resume --json " QUICK " | grep -c '\"count\": 3, \"right\": 0'", 0,
     "4\n"},
    {"grep -c needle-depth n/needle.jsonl", 0, "40\n"},
    {"cp -r n wrong && grep -v '\"depth_from\":0.5,' n/needle.jsonl >wrong/needle.jsonl && "
     "$SIA needle si alibi --out wrong --resume " QUICK,
     1, "wrong/needle.jsonl: the lines of 'si' at 128 are not whole, or of another model"},
    {"sed 's/\"count\":3,\"right\":0/\"count\":3,\"right\":4/' n/needle.jsonl >wrong/needle.jsonl && "
     "$SIA needle si alibi --out wrong --resume " QUICK,
     1, "are not whole"},
    {"$SIA needle n/si --out m --quiet " QUICK, 0, "si+prope"}, /* a copy is a run like any other */
    {"$SIA needle si --out easy --name-cities --one-token-a-digit --alike --quiet " QUICK, 0, "si+prope"},
    {"$SIA needle si --out x --needles 17 " QUICK, 2, "--needles 17: want 1 to 16"},
    {"$SIA needle si --out x --digits 0", 2, "--digits 0: want 1 to 15"},
    {"$SIA needle si --out x --lengths 4", 2, "lengths '4'"},
    {"$SIA needle si --out x --lengths 4x,1x --steps 3", 2, "1x after 4x: want them in rising order"},
    {"$SIA needle si --out x --samples 0", 2, "--samples 0"},
    {"$SIA needle si --out x --steps 3 --warmup 4", 2, "warm"},
    /* A study from someone else does not make us write elsewhere; what a person names may be a link. */
    {"mkdir -p theirs victim && printf 'sia 1' >theirs/lock && ln -s ../victim theirs/si && $SIA needle si "
     "--out theirs "
     "--resume "
     "--quiet " QUICK,
     1, "theirs/si: is a link: want a file of the folder itself, or none"},
    {"rm theirs/si && mkdir theirs/si && ln -s ../../victim/t theirs/si/tokenizer.json && "
     "$SIA needle si --out theirs --resume --quiet " QUICK,
     1, "theirs/si/tokenizer.json: is a link"},
    {"ls victim | wc -l", 0, "0\n"},
    {"rm theirs/si/tokenizer.json; ln -s theirs named && $SIA needle si --out named --resume --quiet " QUICK,
     0, "si+prope"},
    {"touch plain && $SIA needle si --out plain/y " QUICK, 1, "plain/y: Not a directory"},
    /* Nothing of the run but its name: the haystack does not fit. */
    {"$SIA needle si --out big --needles 16 --steps 3 --lengths 1x", 2,
     "tokens: want fewer needles or digits, or a longer length"},
};

static void command_lines(void **state) {
    (void)state;
    run_cases(cases, sizeof cases / sizeof *cases, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(command_lines)};
    return cmocka_run_group_tests(tests, open_command_folder, close_command_folder);
}
