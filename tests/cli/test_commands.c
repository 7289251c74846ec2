/* SPDX-License-Identifier: MIT
 *
 * The program's own command line: help, version, what it says to a wrong command, option or value; and the
 * same for the script that compares with PyTorch. Nothing here is timed. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "../commands.h"
#include "cli/progress.h"

/* A whole run that takes no time: every operation, small. */
#define SMALL "--quick --rounds 1 --len 40,100 --heads 2,3 --head-dim 16,24 --keys 300 --megabytes 1"

static const command_case cases[] = {
    /* The program. */
    {"$SIA", 2, "Commands:\n"},
    {"$SIA --help", 0, "sia bench attention"},
    {"$SIA help", 0, "'sia COMMAND --help' tells more"},
    {"$SIA help info", 0, "Usage: sia info [options]"},
    {"$SIA help bench attention", 0, "Usage: sia bench attention [options]"},
    {"$SIA help bench", 0, "'sia bench COMMAND --help' tells more"},
    {"$SIA help data pack x", 2, "sia help: x: want one command\nTry 'sia --help'.\n"},
    {"$SIA help info x", 2, "sia help: x: want one command"},
    {"$SIA help inof", 2, "did you mean 'sia info'?"},
    {"$SIA help bench atention", 2, "did you mean 'sia bench attention'?"},
    {"$SIA --version", 0, "sia 0."},
    {"$SIA --version", 0, "kernels   "},
    {"$SIA --version", 0, "BLAS      OpenBLAS "},
    /* Where it cannot be loaded. */
    {": >libopenblas.so.0; LD_LIBRARY_PATH=. $SIA --version", 0, "BLAS      not installed"},
    {"LD_LIBRARY_PATH=. $SIA bench attention --ops sgemm", 2, "--ops sgemm: OpenBLAS is not installed"},
    {"LD_LIBRARY_PATH=. $SIA bench attention --rounds 1 --heads 1 --head-dim 8 --len 16 --keys 64 "
     "--megabytes 1 --threads 1 2>&1 | grep -c sgemm",
     1, "0"},
    {"$SIA --version", 0, "MPI       "},
    {"$SIA --version > /dev/full", 1, "No space left on device"},
    {"$SIA info", 0, "threads    "},
    {"$SIA info", 0, " si+prope"},
    {"$SIA info | awk 'length > 80 { exit 1 }'", 0, ""},
    {"$SIA info --help=3", 2, "sia info: --help takes no value\n"},
    {"SIA_ISA=baseline $SIA info", 0, "kernels    baseline"},
    {"$SIA info --help", 0, "Usage: sia info [options]"},
    {"$SIA inof", 2, "sia: unknown command 'inof'; did you mean 'sia info'?"},
    {"$SIA hlep", 2, "did you mean 'sia help'?"},
    {"$SIA --vresion", 2, "did you mean 'sia --version'?"},
    {"$SIA tokenzier train", 2, "unknown command 'tokenzier'; did you mean 'sia tokenizer'?"},
    {"$SIA tok", 2, "did you mean 'sia tokenizer'?"},
    {"$SIA xyzzy", 2, "sia: unknown command 'xyzzy'\nTry 'sia --help'."},
    {"$SIA --json", 2, "unknown command '--json'"},
    {"$SIA info extra", 2, "extra: this command takes no operands"},
    {"$SIA -h", 0, "Commands:"},
    {"$SIA data -h", 0, "Commands:"},
    {"$SIA info -h", 0, "Usage: sia info"},
    {"$SIA info -v", 2, "-v: options are words, such as --help"},
    {"$SIA info > /dev/full", 1, "No space left on device"},
    {"$SIA bench", 2, "sia bench: want one of these\n  sia bench attention"},
    {"$SIA bench --help", 0, "sia bench attention"},
    {"$SIA bench atention", 2, "unknown command 'bench atention'; did you mean 'sia bench attention'?"},
    {"$SIA bench xyzzy", 2, "want one of these"},
    /* The pages and scripts that are made from the tables; test_documents.c reads them. */
    {"$SIA man", 0, ".TH \"SIA\" 1"},
    {"$SIA man data pack", 0, "sia\\-data\\-pack \\- "},
    {"$SIA man data pck", 2, "unknown command 'data pck'; did you mean 'data pack'?"},
    {"$SIA man data pack too", 2, "unknown command 'data pack"},
    {"$SIA man --out pages && ls pages", 0, "sia-data-pack.1\n"},
    {"$SIA man --out pages/sia.1/x", 1, "sia: pages/sia.1/x: Not a directory"},
    {"$SIA man --out pages info", 2, "info: --out writes every page, want no command"},
    {"$SIA completion bash", 0, "complete -F _sia sia"},
    {"$SIA completion", 2, "want one shell: bash, zsh or fish"},
    {"$SIA completion ksh", 2, "ksh: want bash, zsh or fish"},
    /* sia bench train. */
    {"$SIA bench train --help", 0, "Examples:\n  sia bench train"},
    {"$SIA bench train --rounds 1 --preset tiny --threads 1 --layers 1 --width 16 --heads 1 --vocabulary 64 "
     "--len 8 "
     "--batch 4 --micro-batch 2 --recompute --scheme logn+rope",
     0, "tiny: logn+rope, 1 layers, width 16, 1 heads, vocabulary 64\n  batch 4 of 8 tokens; "},
    {"$SIA bench train --preset large", 2, "preset 'large': want tiny"},
    {"$SIA bench train --preset tiny,tiny", 2, "tiny is there twice"},
    {"$SIA bench train --threads 0", 2, "--threads 0: want numbers from 1"},
    {"$SIA bench train --scheme what", 2, "what"},
    {"$SIA bench train --preset tiny --batch 3 --micro-batch 2", 2,
     "batch 3: want a multiple of micro_batch, 2"},
    {"$SIA bench train --width 12", 2, "head_dim 3: want 8 to 256"},
    /* sia bench attention: what works. */
    {"$SIA bench attention --help", 0, "Examples:\n  sia bench attention"},
    {"$SIA bench attention --help", 0, "--head-dim LIST"},
    {"$SIA bench attention " SMALL, 0, "median of 1 round\n"},
    {"$SIA bench attention " SMALL, 0, "fma peak"},
    {"$SIA bench attention " SMALL, 0, "kernels "},
    {"$SIA bench attention " SMALL " --threads 1", 0, "time over plain (nope)"},
    {"$SIA bench attention " SMALL " --ops decode", 0, "int8   si+nope "},
    {"$SIA bench attention " SMALL " --ops forward --threads 1 | grep -c '^forward'", 0, "10\n"},
    {"$SIA bench attention " SMALL " --ops forward,backward --schemes alibi,logn+prope,rope --threads=1", 0,
     "backward logn+prope"},
    {"SIA_ISA=baseline $SIA bench attention " SMALL " --ops forward", 0, "kernels baseline"},
    {"$SIA bench attention " SMALL " --json >lines && ! grep -v '^{.*}$' lines", 0, ""},
    /* Wrong usage: exit code 2 and a sentence that names the thing. */
    {"SIA_ISA=nonsense $SIA bench attention", 2, "sia: SIA_ISA=nonsense: this processor and this build have"},
    {"$SIA bench attention --round 3", 2, "unknown option --round; did you mean --rounds?"},
    {"$SIA bench attention --mega 3", 2, "unknown option --mega; did you mean --megabytes?"},
    {"$SIA bench attention --xyzzy", 2, "unknown option --xyzzy\nTry 'sia bench attention --help'."},
    {"$SIA bench attention --rounds", 2, "--rounds: want a value, N"},
    {"$SIA bench attention --rounds 0", 2, "--rounds 0: want 1 to 101"},
    {"$SIA bench attention --rounds ten", 2, "--rounds ten: want a whole number"},
    {"$SIA bench attention --quick=yes", 2, "--quick takes no value"},
    {"$SIA bench attention extra", 2, "extra: this command takes no operands"},
    {"$SIA bench attention --len 256,", 2, "--len 256,: want whole numbers with commas between them"},
    {"$SIA bench attention --len 256,x", 2, "--len 256,x: want whole numbers"},
    {"$SIA bench attention --len ''", 2, "--len : want whole numbers"},
    {"$SIA bench attention --len 99999999999999999999", 2, "want whole numbers"},
    {"$SIA bench attention --len 0", 2, "--len 0: want numbers from 1 to 1048576"},
    {"$SIA bench attention --len $(seq -s, 33)", 2, "want 32 at most"},
    {"$SIA bench attention --heads 4,6 --head-dim 64,96,128", 2, "--heads has 2 numbers and --head-dim 3"},
    {"$SIA bench attention --quick --head-dim 60", 2, "sia: head_dim 60: want a multiple of 8"},
    {"$SIA bench attention --quick --head-dim 512", 2, "--head-dim 512: want numbers from 8 to 256"},
    {"$SIA bench attention --threads 1,1024", 2, "--threads 1024: this process may use "},
    {"$SIA bench attention --threads 0", 2, "--threads 0: want numbers from 1 to 1024"},
    {"$SIA bench attention --ops forward,sideways", 2, "--ops sideways: want some of fma_peak, sgemm, read"},
    {"$SIA bench attention --ops forward,forward", 2, "forward is there twice"},
    {"$SIA bench attention --ops forward,,backward", 2, "want words with commas between them"},
    {"$SIA bench attention --schemes nope,si+nop", 2, "sia: "},
    {"$SIA bench attention --schemes si+alibi", 2, "sia: "},
    {"$SIA bench attention " SMALL " --json > /dev/full", 1, "sia: stdout: "},
};

/* bench/peer_torch.py where there is a Python; a module that cannot be imported: PyTorch is missing. */
static const command_case peer_cases[] = {
    {"python3 \"$PEER\" --help", 0, "--sia SIA"},
    {"python3 \"$PEER\" --peers eager,tensorflow", 2,
     "--peers tensorflow: want some of eager, sdpa, mask, flex"},
    {"python3 \"$PEER\" --heads 4,6 --head-dim 64", 2, "want as many of one as of the other"},
    {"python3 \"$PEER\" --rounds 0", 2, "--rounds 0: want 1 or more"},
    {"mkdir -p none; echo 'raise ImportError()' > none/torch.py; PYTHONPATH=none python3 \"$PEER\" --sia "
     "$SIA",
     1, "peer_torch: this Python has no PyTorch; 'make bench-peer' makes an environment that has it"},
};

static void test_program(void **state) {
    (void)state;
    run_cases(cases, sizeof cases / sizeof *cases, NULL);
}

static void test_peer(void **state) {
    (void)state;
    if (system("command -v python3 >/dev/null") != 0) {
        print_message("skipped: no python3\n");
        skip();
    }
    run_cases(peer_cases, sizeof peer_cases / sizeof *peer_cases, NULL);
}

/* What a terminal gets when a line of progress is drawn and taken away. */
static void drawn_and_cleared(const char *term, char *text, size_t room) {
    int terminal = posix_openpt(O_RDWR | O_NOCTTY), before = dup(STDERR_FILENO);
    assert_true(terminal >= 0 && before >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    int line = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    assert_true(line >= 0 && dup2(line, STDERR_FILENO) >= 0);
    assert_int_equal(setenv("TERM", term, 1), 0);
    cli_progress progress;
    cli_progress_start(&progress, "pack", 0, "rounds", 1);
    progress.drawn = 0; /* long ago */
    cli_progress_update(&progress, 7.68);
    cli_progress_clear(&progress);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    (void)close(line);
    (void)close(before);
    size_t used = 0; /* what was written may come in parts */
    for (ssize_t size; (size = read(terminal, text + used, room - 1 - used)) > 0;) used += (size_t)size;
    text[used] = 0;
    (void)close(terminal);
}

/* The "^C" of a person stands behind the line, and goes with it; of things that are counted, whole ones are shown. */
static void test_cleared_line(void **state) {
    (void)state;
    char text[256];
    assert_int_equal(setenv("NO_COLOR", "1", 1), 0);
    drawn_and_cleared("xterm", text, sizeof text);
    assert_string_equal(text, "\rpack    7 rounds\r\x1b[K");
    drawn_and_cleared("dumb", text, sizeof text);
    assert_string_equal(text, "\rpack    7 rounds\r                  \r");
}

/* What was there when a study went on took none of the time: half of its own part is done in ten seconds. */
static void test_found(void **state) {
    (void)state;
    char text[256];
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    assert_true(file && before >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    cli_progress progress;
    cli_progress_start(&progress, "study", 100, "", 1);
    progress.started -= 10;
    progress.last_line = 0; /* long ago */
    progress.found = 90;
    cli_progress_update(&progress, 95);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    (void)close(before);
    rewind(file);
    assert_non_null(fgets(text, sizeof text, file));
    assert_string_equal(text, "study  95%   0:10 left\n");
    (void)fclose(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_program), cmocka_unit_test(test_peer),
                                       cmocka_unit_test(test_cleared_line), cmocka_unit_test(test_found)};
    return cmocka_run_group_tests(tests, open_command_folder, close_command_folder);
}
