/* SPDX-License-Identifier: MIT
 *
 * sia eval, sia generate and sia bench decode as a person calls them, on a run that is made here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../commands.h"
#include "small_run.h"

#define QUICK "--lengths 16,64 --windows 2 --threads 1"

static const command_case cases[] = {
    /* sia eval: what works. */
    {"$SIA eval --help", 0, "Usage: sia eval [options] MODEL"},
    {"printf 'some words and more of them %s\\n' $(seq 400) > text", 0, ""},
    {"printf 'one document\\n\\f\\n' > short; for i in 1 2 3 4 5 6 7 8 9; do cat short; done > many", 0, ""},
    {"$SIA eval run --data text " QUICK, 0, "run, rope, step 7: 2 windows of 64 tokens"},
    {"$SIA eval run --data text " QUICK, 0, "at most "},
    {"$SIA eval run/step-000007 --data text " QUICK, 0, "perplexity"},
    {"$SIA eval run/step-000007/model.safetensors --data - " QUICK " < text", 0, "perplexity"},
    {"$SIA eval run --data text --positions " QUICK, 0, "   position, in tokens      nats\n"},
    {"$SIA eval run --data text --scheme ntk " QUICK, 0, "run, rope+ntk, step 7"},
    {"$SIA eval run --data text --lengths 1x,4x --windows 1", 0, "        64 "},
    {"$SIA eval run --data many --join " QUICK, 0, "1 window of 64 tokens"},
    {"$SIA eval run --data text --json " QUICK " 2>/dev/null | grep -c '^{.*\"loss\"'", 0, "2\n"},
    {"a=$($SIA eval run --data text --json --threads 1 --lengths 64 | grep -o '\"loss\": [0-9.]*'); "
     "b=$($SIA eval run --data text --json --threads 2 --lengths 64 | grep -o '\"loss\": [0-9.]*'); "
     "test \"$a\" = \"$b\" && echo same",
     0, "same"},
    {"for c in f16 int8; do $SIA eval run --data text --cache $c " QUICK " || exit 1; done", 0, "16 "},
    {"$SIA eval run --data text --record --positions " QUICK " && grep -c . run/eval.jsonl", 0, "4\n"},
    /* One that failed has recorded nothing: called again, it is not there twice. */
    {"$SIA eval run --data text --record " QUICK " >/dev/full", 1, "stdout: No space left on device"},
    {"grep -c . run/eval.jsonl", 0, "4\n"},
    {"grep -c '\"data\": \"text\"' run/eval.jsonl", 0, "2\n"}, /* losses of other texts are other losses */
    {"$SIA eval run --data text --record --quiet " QUICK " && grep -c . run/eval.jsonl", 0, "6\n"},
    {"$SIA data pack --tokenizer run/tokenizer.json --out packed --val many text", 0, "val"},
    {"$SIA eval run --data packed --join " QUICK, 0, "perplexity"},
    {"$SIA eval run --data 'packed/train_*.bin' " QUICK, 0, "perplexity"},
    /* sia eval: what does not. */
    {"$SIA eval", 2, "want one MODEL"},
    {"$SIA eval run run", 2, "want one MODEL"},
    {"$SIA eval missing --data text", 1, "missing: No such file or directory"},
    {"$SIA eval run", 2, "no run is there"},
    {"$SIA eval run --data missing.txt", 1, "missing.txt: No such file or directory"},
    {": > empty; $SIA eval run --data empty", 1, "empty"},
    {"echo > blank; $SIA eval run --data blank", 1, "blank: nothing but white space"},
    {"$SIA eval run --data many --lengths 64", 2, "no document of 65 tokens: the longest has 14"},
    {"$SIA eval run --data many --join --lengths 100000", 2, "all documents together have 126 tokens"},
    {"$SIA eval run --data text --lengths 3x,4x", 2, "48 does not divide 64"},
    {"$SIA eval run --data text --lengths ten", 2, "lengths 'ten': want multiples"},
    {"$SIA eval run --data text --scheme si+prope", 2, "the model was trained with 'rope'"},
    {"$SIA eval run --data text --cache f64", 2, "--cache f64: want"},
    {"$SIA eval run/step-000007 --data text --record", 2,
     "--record: run/step-000007 is not the folder of a run"},
    {"cp -r run bad; truncate -s -100 bad/step-000007/model.safetensors; $SIA eval bad --data text", 1,
     "model.safetensors"},
    {"cp -r run other; echo '{' > other/tokenizer.json; $SIA eval other --data text", 1, "tokenizer.json"},
    {"seq 1 3000 > numbers; $SIA tokenizer train --size 300 --out large.json numbers && "
     "cp -r run alien && rm alien/tokenizer.json && $SIA eval alien --tokenizer large.json --data text",
     2, "the tokenizer has 300 tokens, the model's vocabulary ends at 264"},
    {"mkdir bare; cp run/step-000007/model.safetensors bare; $SIA eval bare/model.safetensors --data text", 2,
     "no tokenizer.json beside it"},
    {"$SIA data pack --tokenizer large.json --out wide text && "
     "$SIA eval bare/model.safetensors --data wide",
     2, "the text has a vocabulary of 300, the model's ends at 264"},
    {"$SIA eval run --data text " QUICK " --json > /dev/full", 1, "stdout"},
    /* A run that was trained as rope+yarn: what training says of longer texts is what sia eval says, and its text is
     * that of the scheme, which is not that of rope. */
    {"$SIA train --out yarn text --val text --vocabulary 300 --scheme rope+yarn --layers 1 --width 16 "
     "--heads 1 "
     "--train-len 16 --batch 1 --steps 2 --lengths 1x,16x --eval-windows 2 --embedding-rate 5 --matrix-rate "
     "5 --quiet",
     0, ""},
    {"loss_of() { sed -n 's/.*\"loss\": \\([0-9]*\\.[0-9]\\{3\\}\\).*/\\1/p'; }; "
     "a=$(sed -n 's/.*\"validation\":.*\"256\":\\([0-9]*\\.[0-9]\\{3\\}\\).*/\\1/p' yarn/metrics.jsonl); "
     "b=$($SIA eval yarn --lengths 256 --windows 2 --json --quiet | loss_of); "
     "c=$($SIA eval yarn --lengths 256 --windows 2 --json --quiet --scheme rope | loss_of); "
     "echo \"$a $b $c\"; test \"$a\" = \"$b\" && test \"$b\" != \"$c\" && echo told apart",
     0, "told apart"},
    {"for s in '' '--scheme rope+yarn' '--scheme rope'; do $SIA generate yarn --tokens 300 --ignore-end "
     "--quiet $s | "
     "cksum; done | uniq | wc -l",
     0, "2\n"},
    {"$SIA generate yarn --tokens 0", 2, "rope+yarn is fitted to the length of the text"},
    /* sia generate: what works. */
    {"$SIA generate --help", 0, "Usage: sia generate [options] MODEL"},
    {"$SIA generate run --tokens 30 --ignore-end 2>&1 >/dev/null", 0, "prompt 1 token, "},
    {"$SIA generate run --prompt hello --tokens 30 --ignore-end 2>&1 >/dev/null", 0, "prompt 5 tokens, "},
    {"printf hello | $SIA generate run --prompt-file - --tokens 30 --ignore-end 2>&1 >/dev/null", 0,
     "text 30 tokens"},
    {"$SIA generate run --tokens 50 --threads 1 --quiet > one; $SIA generate run --tokens 50 --threads 2 "
     "--quiet > two; cmp one two && echo same",
     0, "same"},
    {"$SIA generate run --tokens 50 --seed 1 --quiet --ignore-end > three; "
     "$SIA generate run --tokens 50 --seed 2 --quiet --ignore-end | cmp -s - three || echo differ",
     0, "differ"},
    {"$SIA generate run --tokens 50 --quiet | iconv -f utf-8 -t utf-8 > /dev/null && echo valid", 0, "valid"},
    {"$SIA generate run --json --tokens 7 --ignore-end", 0, "\"tokens\": 7, \"end\": \"tokens\""},
    {"$SIA generate run --temperature 0 --top-k 3 --top-p 0.5 --tokens 5 --json --cache int8", 0,
     "\"text\": "},
    {"$SIA generate run --scheme ntk --tokens 5 --json", 0, "\"text\": "},
    {"sh -c '$SIA generate run --tokens 0 --ignore-end; echo code $? >&2' | head -c 10 > /dev/null", 0,
     "code 0\n"},
    /* sia generate: what does not. */
    {"$SIA generate", 2, "want one MODEL"},
    {"$SIA generate missing", 1, "missing: No such file or directory"},
    {"$SIA generate run --prompt a --prompt-file text", 2, "want --prompt or --prompt-file, not both"},
    {"$SIA generate run --prompt-file missing.txt", 1, "missing.txt: No such file or directory"},
    {"$SIA generate bare/model.safetensors", 2, "no tokenizer.json beside the model: want --tokenizer PATH"},
    {"$SIA generate run --tokenizer large.json", 2, "large.json: another tokenizer than run/tokenizer.json"},
    {"$SIA generate bare/model.safetensors --tokenizer large.json", 2, "the tokenizer has 300 tokens"},
    {"$SIA generate bad", 1, "model.safetensors"},
    {"$SIA generate run --temperature -1", 2, "--temperature -1: want 0 to 1000"},
    {"$SIA generate run --top-p 2", 2, "--top-p 2: want 1e-6 to 1"},
    {"$SIA generate run --scheme alibi", 2, "the model was trained with 'rope'"},
    {"$SIA generate run --tokens 5 --ignore-end --quiet --seed 3 > /dev/full", 1, "No space left on device"},
    /* sia bench decode. */
    {"$SIA bench decode --preset tiny --context 600 --rounds 1 --threads 1", 0, "of bound\nf32 "},
    {"$SIA bench decode --preset tiny --context 600 --rounds 1 --threads 1 --json | grep -c of_bound", 0,
     "3\n"},
    {"$SIA bench decode --preset none", 2, "preset 'none': want tiny"},
    {"$SIA bench decode --cache f32,f64", 2, "cache 'f64': want f32, f16 or int8"},
    {"$SIA bench decode --scheme si+si", 2, "sia bench decode: "},
    {"$SIA bench decode --threads 1024", 2, "this process may use"},
};

static int make_run(void **state) {
    if (open_command_folder(state) != 0) return -1;
    sia_error err;
    sia_tokenizer *t;
    sia_model *m;
    char path[128];
    sia_text text = {"some text", 9};
    sia_model_config config = {
        .layers = 2, .width = 32, .heads = 2, .vocabulary = 264, .train_len = 16, .scheme = "rope"};
    (void)snprintf(path, sizeof path, "%s/run", command_folder);
    if (sia_tokenizer_train(&t, &(sia_tokenizer_training){.size = 257, .threads = 1}, &text, 1, &err) ||
        sia_model_create(&m, &config, 1, &err)) {
        print_error("%s\n", err.text);
        return -1;
    }
    draw_weights(m, 0.3f);
    sia_status status = save_run(path, m, t, &err);
    if (status) print_error("%s\n", err.text);
    sia_model_destroy(m);
    sia_tokenizer_close(t);
    return status ? -1 : 0;
}

static void test_commands(void **state) {
    (void)state;
    run_cases(cases, sizeof cases / sizeof *cases, NULL);
}

/* A shell without job control starts what runs in the background with SIGINT ignored: SIGTERM then. */
static void test_stop(void **state) {
    (void)state;
    char output[4096];
    int code =
        run_command("$SIA generate run --tokens 0 --ignore-end > said & p=$!; sleep 0.5; kill -TERM $p; "
                    "wait $p; code=$?; test -s said; echo code $code, text $?",
                    output, sizeof output);
    assert_int_equal(code, 0);
    if (!strstr(output, "code 130, text 0")) fail_msg("%s", output);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_commands), cmocka_unit_test(test_stop)};
    return cmocka_run_group_tests(tests, make_run, close_command_folder);
}
