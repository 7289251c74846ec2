/* SPDX-License-Identifier: MIT
 *
 * The commands as a person calls them: a table of command lines with the exit code and the words that must
 * come out, and what is left in the folder after a failure and after Ctrl-C. */
#define _GNU_SOURCE
#include "support.h"

#include "../commands.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const command_case cases[] = {
    /* What works. */
    {"yes 'the cat sat on the mat, then the rat sat' | head -300 > story.txt; $SIA tokenizer train --size "
     "270 story.txt",
     0, "tokenizer.json: 270 tokens"},
    {"$SIA tokenizer train --size 270 --out second.json --threads 2 --quiet < story.txt && cmp "
     "tokenizer.json second.json",
     0, ""},
    {"cat story.txt | $SIA tokenizer train --size 270 --out - --quiet - | cmp - tokenizer.json", 0, ""},
    {"$SIA tokenizer train --size 270 --json --quiet --out second.json story.txt", 0,
     "{\"size\": 270, \"bytes\": 12300"},
    {"$SIA tokenizer info tokenizer.json", 0, "special      269 <|endoftext|>"},
    {"$SIA tokenizer info --json tokenizer.json", 0, "\"size\": 270, \"merges\": 13, \"end_of_text\": 269"},
    {"$SIA tokenizer encode --out story.ids story.txt && $SIA tokenizer decode story.ids | cmp - story.txt",
     0, ""},
    {"$SIA tokenizer encode --format u16 < story.txt | $SIA tokenizer decode --format u16 | cmp - story.txt",
     0, ""},
    {"$SIA tokenizer encode --format u32 --out story.u32 story.txt && $SIA tokenizer decode --format u32 "
     "--out back.txt story.u32 && cmp back.txt story.txt",
     0, ""},
    {"$SIA tokenizer encode story.txt story.txt | wc -l | grep -x $((2 * $(wc -l < story.ids)))", 0, ""},
    {"$SIA tokenizer encode --end-of-text story.txt | head -1", 0, "269\n"},
    {"printf '269 116 104,101\\t269\\n' | $SIA tokenizer decode --special", 0,
     "<|endoftext|>the<|endoftext|>"},
    {"printf '269 116 104,101' | $SIA tokenizer decode | cat -A", 0, "the"},
    {"head -c 100000 /dev/urandom > noise; $SIA tokenizer encode noise | $SIA tokenizer decode | cmp - noise",
     0, ""},
    {"$SIA tokenizer encode --out none.ids < /dev/null && test -f none.ids && test ! -s none.ids", 0, ""},
    {"head -c 9000000 /dev/zero | tr '\\0' x | $SIA tokenizer encode --format u16 | $SIA tokenizer decode "
     "--format u16 | wc -c",
     0, "9000000"},
    {"$SIA bench text --megabytes 0.1 --rounds 1 --threads 2", 0, "encode / split"},
    {"$SIA bench text --megabytes 0.1 --rounds 1 --threads 1 --json --train 300", 0,
     "\"encode_over_split\": "},
    {"$SIA tokenizer train --help", 0, "Examples:\n  sia tokenizer train books.txt"},
    {"$SIA tokenizer encode --help", 0, "--format text|u16|u32"},
    {"$SIA tokenizer decode --help", 0, "--special"},
    {"$SIA tokenizer info --help", 0, "Usage: sia tokenizer info [options] PATH"},
    /* Wrong usage. */
    {"$SIA tokenizer", 2, "sia tokenizer: want one of these"},
    {"$SIA tokenizer trian", 2, "did you mean 'sia tokenizer train'?"},
    {"$SIA tokenizer train --size 10 story.txt", 2, "--size 10: want 257 to 1000000\n"},
    {"$SIA tokenizer train --size 99999999999999999999 story.txt", 2,
     "--size 99999999999999999999: want 257 to 1000000\n"},
    {"$SIA tokenizer train --size -99999999999999999999 story.txt", 2, "want 257 to 1000000\n"},
    {"$SIA tokenizer train --size 99999999999999999999x story.txt", 2, "want a whole number"},
    {"$SIA data pack --val-fraction 1e999 story.txt", 2, "--val-fraction 1e999: want 0 to 0.5\n"},
    {"$SIA data pack --val-fraction nan story.txt", 2, "--val-fraction nan: want a number"},
    {"$SIA data pack --shard-tokens 0 story.txt", 2, "--shard-tokens 0: want 1 to 2147483647\n"},
    {"$SIA tokenizer train --size many story.txt", 2, "--size many: want a whole number"},
    {"$SIA tokenizer train --sise 300 story.txt", 2, "unknown option --sise; did you mean --size?"},
    {"$SIA tokenizer train --threads -1 story.txt", 2, "--threads -1: want 0 to 1024"},
    {"$SIA tokenizer train --json --out - story.txt", 2, "both want stdout"},
    {"$SIA tokenizer train --size 270 - - < story.txt", 2, "stdin is named twice"},
    {"$SIA tokenizer encode --format u8 story.txt", 2, "--format u8: want text, u16 or u32"},
    {"$SIA tokenizer info", 2, "want one tokenizer"},
    {"$SIA tokenizer info a b", 2, "want one tokenizer"},
    {"$SIA bench text a b", 2, "want one file at most"},
    /* Bad input: a sentence, and no output under its final name. */
    {"$SIA tokenizer train --out bad.json none.txt", 1, "sia: none.txt: No such file or directory"},
    {"$SIA tokenizer train --out bad.json .", 1, "sia: .: is a folder, want a file"},
    {": > empty.txt; $SIA tokenizer train --out bad.json story.txt empty.txt", 1,
     "sia: empty.txt: there is nothing in it to train on"},
    {"$SIA tokenizer train --out bad.json < /dev/null", 1, "sia: stdin: there is nothing in it to train on"},
    {"printf 'abc\\000def' > binary; $SIA tokenizer train --out bad.json story.txt binary", 1,
     "sia: binary: not text, byte 3 is 0"},
    {"$SIA tokenizer train --size 270 --out any.json --any-bytes story.txt binary", 0,
     "any.json: 270 tokens"},
    {"$SIA tokenizer train --size 4096 --out bad.json story.txt", 2,
     "give more text or a smaller vocabulary"},
    {"$SIA tokenizer train --size 270 --out no/such/folder/bad.json story.txt", 1,
     "No such file or directory"},
    {"$SIA tokenizer train --size 270 --out . story.txt", 1, "sia: .: is a folder, want a file"},
    {"$SIA tokenizer train --size 270 --out /dev/full story.txt", 1,
     "sia: /dev/full: No space left on device"},
    {"$SIA tokenizer encode --tokenizer none.json --out bad.ids story.txt", 1,
     "sia: none.json: No such file or directory"},
    {"$SIA tokenizer encode --tokenizer . --out bad.ids none.txt", 1,
     "sia: none.txt: No such file or directory"},
    {"mkdir -p hollow; $SIA tokenizer encode --tokenizer hollow --out bad.ids story.txt", 1,
     "hollow: holds neither tokenizer.json"},
    {"$SIA tokenizer encode --out bad.ids .", 1, "sia: .: Is a directory"},
    {"head -c 3000 tokenizer.json > cut.json; $SIA tokenizer encode --tokenizer cut.json --out bad.ids "
     "story.txt",
     1, "sia: cut.json: line "},
    {"sed 's/\"the\": 2[0-9]*/\"the\": 7/' tokenizer.json > twice.json; $SIA tokenizer info twice.json", 1,
     "twice.json: two tokens have id 7"},
    {"$SIA tokenizer info story.txt", 1, "sia: story.txt: line 1: "},
    {": > empty.json; $SIA tokenizer info empty.json", 1, "sia: empty.json: the file is empty"},
    {"echo 12 twelve | $SIA tokenizer decode --out bad.txt", 1,
     "sia: stdin: token 1, byte 3: want a whole number"},
    {"echo 99999999999 | $SIA tokenizer decode --out bad.txt", 1, "want a whole number"},
    {"echo -1 | $SIA tokenizer decode --out bad.txt", 1, "want a whole number"},
    {"echo 1 2 270 | $SIA tokenizer decode --out bad.txt", 1, "sia: token 2 is 270, want ids below 270"},
    {"printf abc | $SIA tokenizer decode --format u16 --out bad.txt", 1,
     "sia: stdin: 3 bytes, want a multiple of 2"},
    {"printf abcde | $SIA tokenizer decode --format u32 --out bad.txt", 1, "want a multiple of 4"},
    {"echo old > keep.txt; echo 1 2 270 | $SIA tokenizer decode --out keep.txt; code=$?; cat keep.txt; exit "
     "$code",
     1, "old"},
    {"$SIA tokenizer encode story.txt > /dev/full", 1, "stdout: No space left on device"},
    {"$SIA bench text empty.txt", 1, "sia: empty.txt: the file is empty"},
    {"$SIA bench text noise", 1, "is not valid UTF-8"},
    {"$SIA bench text --megabytes 0.1 --rounds 1 --peer 'echo nonsense'", 1,
     "--peer: want a line with seconds and tokens"},
    {"printf 'one two one two three' | $SIA data info --statistics - > few; code=$?; grep -q nan few && exit "
     "9; cat few; exit $code",
     0, "share ~ - at ranks 10 to 1000 (fewer than 1000 are different)\n    share ~ - at ranks 1000"},
    {"$SIA data pack --quiet --tokenizer tokenizer.json --out packed story.txt > said 2>&1 && test ! -s said "
     "&& test -f packed/data.json",
     0, ""},
    /* Ctrl-C while stdin is open and silent, as a terminal is: a pipe that we hold open for writing too. */
    {"mkfifo silent; timeout --foreground --preserve-status -k 5 -s INT 1 $SIA tokenizer train --out "
     "bad.json - <>silent",
     130, "sia: stopped\n"},
    {"timeout --foreground --preserve-status -k 5 -s INT 1 $SIA data pack --tokenizer tokenizer.json --out "
     "bad - <>silent",
     130, "sia: stopped\n"},
    {"timeout --foreground --preserve-status -k 5 -s INT 1 $SIA data info --statistics - <>silent", 130,
     "sia: stopped\n"},
};

/* Names that start with bad, and temporary ones. */
static int leftovers(void) {
    DIR *d = opendir(command_folder);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));)
        if (strncmp(e->d_name, "bad", 3) == 0 || strstr(e->d_name, ".tmp-")) {
            print_message("left behind: %s\n", e->d_name);
            n++;
        }
    (void)closedir(d);
    return n;
}

static void test_table(void **state) {
    (void)state;
    run_cases(cases, sizeof cases / sizeof *cases, leftovers);
}

/* The program waits for more input when Ctrl-C comes: it ends with 130 and takes its temporary file away. */
static void test_stopped(void **state) {
    (void)state;
    char out[256], tokenizer[256];
    int to[2];
    (void)snprintf(out, sizeof out, "%s/bad.ids", command_folder);
    (void)snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer.json", command_folder);
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    const char *program = getenv("SIA");
    assert_non_null(program);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);
        if (dup2(to[0], STDIN_FILENO) >= 0 && dup2(null, STDERR_FILENO) >= 0)
            (void)execl(program ? program : "", "sia", "tokenizer", "encode", "--tokenizer", tokenizer,
                        "--out", out, (char *)NULL);
        _exit(127);
    }
    (void)close(to[0]);
    assert_int_equal(write(to[1], "the cat", 7), 7);
    /* It is at work when the temporary file is there. */
    for (int tries = 0; tries < 1000; tries++) {
        DIR *d = opendir(command_folder);
        bool there = false;
        for (struct dirent *e; d && (e = readdir(d));) there = there || strstr(e->d_name, "bad.ids.tmp-");
        if (d) (void)closedir(d);
        if (there) break;
        (void)usleep(10000);
    }
    (void)usleep(100000); /* and waits for input, not before its handler is set */
    assert_int_equal(kill(child, SIGINT), 0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    (void)close(to[1]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 130);
    assert_int_equal(leftovers(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_stopped)};
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, open_command_folder, close_command_folder);
}
