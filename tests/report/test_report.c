/* SPDX-License-Identifier: MIT
 *
 * Whole reports: from sample folders and from hostile ones. What the page says is checked against numbers
 * that were worked out by hand. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "../commands.h"
#include "base/file.h"
#include "markup.h"
#include "report/gather.h"
#include "report/html.h"
#include "report/report.h"
#include "sample.h"

/* ------------------------------------------------------------------------------------------------ support */

/* A folder in the test's folder, made when it is first named. */
static const char *in_folder(const char *name, char path[300]) {
    (void)snprintf(path, 300, "%s/%s", command_folder, name);
    (void)mkdir(path, 0777);
    return path;
}

static void put(const char *folder, const char *file, const char *text) {
    char path[600];
    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* The page of some folders, written to out; freed by the caller. */
static char *page_of_all(const char *const *folders, int count, const char *out) {
    sia_error err = {0};
    char *text = NULL;
    size_t size;
    markup m;
    if (sia_report_write(folders, count, out, &err)) fail_msg("%s", err.text);
    assert_int_equal(sia_file_read(out, 1 << 28, &text, &size, &err), SIA_OK);
    assert_int_equal(strlen(text), size);
    if (!markup_read(&m, text)) fail_msg("%s: %s", out, m.wrong);
    assert_null(markup_outside(text));
    return text;
}

static char *page_of(const char *folder) {
    char path[600];
    (void)snprintf(path, sizeof path, "%s/report.html", folder);
    return page_of_all(&folder, 1, path);
}

static void says(const char *page, const char *words) {
    if (!strstr(page, words)) fail_msg("the page does not say '%s'", words);
}

static void says_not(const char *page, const char *words) {
    if (strstr(page, words)) fail_msg("the page says '%s'", words);
}

/* ------------------------------------------------------------------------------------------------ samples */

static void sample_pages(void **state) {
    (void)state;
    for (int seeds = 1; seeds <= 3; seeds++) {
        char name[32], path[300];
        (void)snprintf(name, sizeof name, "sample%d", seeds);
        in_folder(name, path);
        assert_int_equal(sample_write(path, seeds), 0);
        char *page = page_of(path), *again = page_of(path);
        assert_string_equal(page, again); /* the same bytes from the same files */
        static const char *const words[] = {
            "Loss by length",
            "Loss against length",
            "Loss by position, at length 4096",
            "Training loss",
            "Validation loss at 4096 tokens",
            "By length and depth",
            "Entropy over the distances t to tD",
            "Are the logits Gaussian?",
            "The command:",
            "<span class=\"nowrap\">--steps</span> <span class=\"nowrap\">500</span>",
            "a sample processor",
            "optimiser.betas",
            "not learnt at this budget",
            "The paper\xe2\x80\x99s numbers",
            "12 schemes",
            "Loss against tau",
            "36 of 36 checks"};
        for (size_t i = 0; i < sizeof words / sizeof *words; i++) says(page, words[i]);
        (seeds == 1 ? says : says_not)(page, "one seed: no claim");
        (seeds == 1 ? says_not : says)(page, "Bars: one standard error over seeds");
        free(page);
        free(again);
    }
}

/* ------------------------------------------------------------------------------------------------ what it says */

/* Three seeds. At 100 tokens (1x): rope 3.0 to 3.2, prope .3 above it in every seed, alibi as rope but for one seed; in
 * the paper prope is below rope by .001, alibi above both. By the errors of the means prope would be above rope by 3.7
 * of them, too few for three seeds; by seed there is no doubt. */
static const char order_study[] =
    "{\"kind\":\"study\",\"train_len\":100}\n"
    "{\"kind\":\"result\",\"scheme\":\"rope\",\"seed\":0,\"loss\":{\"100\":3.0,\"400\":4}}\n"
    "{\"kind\":\"result\",\"scheme\":\"rope\",\"seed\":1,\"loss\":{\"100\":3.2,\"400\":4}}\n"
    "{\"kind\":\"result\",\"scheme\":\"rope\",\"seed\":2,\"loss\":{\"100\":3.1,\"400\":4}}\n"
    "{\"kind\":\"result\",\"scheme\":\"prope\",\"seed\":2,\"loss\":{\"100\":3.4,\"400\":5}}\n"
    "{\"kind\":\"result\",\"scheme\":\"prope\",\"seed\":0,\"loss\":{\"100\":3.3,\"400\":null}}\n"
    "{\"kind\":\"result\",\"scheme\":\"prope\",\"seed\":1,\"loss\":{\"100\":3.5,\"400\":5}}\n"
    "{\"kind\":\"result\",\"scheme\":\"alibi\",\"seed\":0,\"loss\":{\"100\":9.0,\"400\":3.5}}\n"
    "{\"kind\":\"result\",\"scheme\":\"alibi\",\"seed\":0,\"loss\":{\"100\":3.0,\"400\":3.5}}\n"
    "{\"kind\":\"result\",\"scheme\":\"alibi\",\"seed\":1,\"loss\":{\"100\":3.5,\"400\":3.7}}\n"
    "{\"kind\":\"result\",\"scheme\":\"alibi\",\"seed\":2,\"loss\":{\"100\":3.1,\"400\":3.6}}\n";

static void order_and_marks(void **state) {
    (void)state;
    char path[300];
    put(in_folder("order", path), "compare.jsonl", order_study);
    char *page = page_of(path);
    says(page, "3 schemes, 3 seeds each, trained at 100 tokens");
    /* The best, one that cannot be told from it, one that can, and a run that diverged. */
    says(page, "<td class=\"n best\">3.100 <small>\xc2\xb1 0.058</small><i>\xe2\x98\x85</i></td>");
    says(page, "<td class=\"n\">3.200 <small>\xc2\xb1 0.153</small><i>\xe2\x89\x88</i></td>");
    says(page, "<td class=\"n\">3.400 <small>\xc2\xb1 0.058</small><i></i></td>");
    says(page, "<td class=\"n\">\xe2\x80\x93<i></i></td>");
    says(page, "At 400 tokens (4\xc3\x97) <strong>alibi</strong> has the lowest loss, 3.600 \xc2\xb1 0.058; "
               "next is rope with 4.000 \xc2\xb1 0.000, a clear difference.");
    /* prope-rope swapped clearly, prope-alibi not. */
    says(page, "At 100 tokens (1\xc3\x97), the paper\xe2\x80\x99s 4k: of 3 pairs that the paper orders, 2 "
               "stand the other way round here, 1 of them clearly: prope above rope (3.400 against 3.100, "
               "in the paper 3.260 against 3.261).");
    says(page, "the paper\xe2\x80\x99s 16k: the one pair that the paper orders stands in its order");
    says_not(page, "the paper\xe2\x80\x99s 64k:");
    says_not(page, "sharpness");
    free(page);
}

/* At 100: prope 4, sharp 3.7, si 3.5: 60 % of .5. At 400 si does not lead. */
static void control(void **state) {
    (void)state;
    char path[300];
    put(in_folder("control", path), "compare.jsonl",
        "{\"kind\":\"result\",\"train_len\":100,\"scheme\":\"prope\",\"seed\":0,\"loss\":{\"100\":4.0,"
        "\"400\":4}}\n"
        "{\"kind\":\"result\",\"scheme\":\"sharp+prope\",\"seed\":0,\"loss\":{\"100\":3.7,\"400\":4}}\n"
        "{\"kind\":\"result\",\"scheme\":\"si+prope\",\"seed\":0,\"loss\":{\"100\":3.5,\"400\":4.25}}\n");
    char *page = page_of(path);
    says(page, "At 100 tokens (1\xc3\x97): si+prope is below prope by 0.500, sharp+prope by 0.300: the "
               "control closes "
               "<strong>60 %</strong> of the lead; one seed: no claim.");
    says(page, "At 400 tokens (4\xc3\x97): si+prope does not lead prope (0.250 above it)");
    says(page, "one seed: no claim");
    free(page);
}

#define RESULT(scheme, seed, loss) \
    "{\"kind\":\"result\",\"scheme\":\"" scheme "\",\"seed\":" #seed ",\"loss\":{" loss "}}\n"
#define VARIANT(variant, loss) \
    "{\"kind\":\"result\",\"scheme\":\"rope\",\"variant\":\"" variant "\",\"seed\":0,\"loss\":{" loss "}}\n"

/* Studies that are not even: what one sentence says of each, and what it does not say. */
static const struct {
    const char *lines, *words[4], *not ;
} uneven[] = {
    /* Nobody tells the training length. */
    {RESULT("rope", 0, "\"100\":3.0") RESULT("alibi", 0, "\"100\":2.9"),
     {"2 schemes, 1 seed each. At 100 tokens <strong>alibi</strong> has the lowest loss, 2.900; next is rope "
      "with "
      "3.000 (one seed: no claim)."},
     "100 tokens ("},
    /* prope has one seed, and no result at 400; in the paper it is below rope, 3.260 against 3.261. */
    {"{\"kind\":\"study\",\"train_len\":100}\n" RESULT("rope", 0, "\"100\":3.0,\"400\":4")
         RESULT("rope", 1, "\"100\":3.2,\"400\":4") RESULT("prope", 0, "\"100\":3.3"),
     {"2 schemes, 1 to 2 seeds each, trained at 100 tokens",
      "<th scope=\"row\">prope</th><td class=\"n\">3.300<i></i></td><td class=\"n\">\xe2\x80\x93<i></i></td>",
      "Where there is one seed there is no standard error, and no difference is claimed. Rows do not have "
      "the same "
      "number of seeds: a part of the difference between two such means is that of the seeds; whether it is "
      "clear is "
      "judged by the seeds that both have.",
      "the one pair that the paper orders stands the other way round here; 1 rests on one seed: no claim."},
     "none clearly"},
    /* Another name of a scheme of the paper. */
    {"{\"kind\":\"study\",\"train_len\":100}\n" RESULT("ntk", 0, "\"100\":3.05,\"400\":3.9")
         RESULT("rope", 0, "\"100\":3.05,\"400\":3.95"),
     {" ntk: the weights of rope, read in another way.",
      "RoPE+NTK<small>rope+ntk</small></th><td class=\"n\">3.261</td><td class=\"n\">3.703</td>"
      "<td class=\"n\">5.430</td><td class=\"n\">3.050</td><td class=\"n\">3.900</td>"},
     "3.900</td><td class=\"n\">3.900"},
    /* si leads prope by .1 and .3, which is not clear; sharp gains .5. At 400 si leads by .5, and sharp loses .25. */
    {"{\"kind\":\"study\",\"train_len\":100}\n" RESULT("prope", 0, "\"100\":4.0,\"400\":4") RESULT(
         "prope", 1, "\"100\":4.4,\"400\":4") RESULT("sharp+prope", 0, "\"100\":3.7,\"400\":4.25")
         RESULT("sharp+prope", 1, "\"100\":3.7,\"400\":4.25") RESULT("si+prope", 0, "\"100\":3.9,\"400\":3.5")
             RESULT("si+prope", 1, "\"100\":4.1,\"400\":3.5"),
     {"si+prope is below prope by 0.200 \xc2\xb1 0.100, sharp+prope by 0.500 \xc2\xb1 0.200: the lead "
      "is not clear, a share of it would mean little.",
      "si+prope is below prope by 0.500 \xc2\xb1 0.000, sharp+prope is above it by 0.250 \xc2\xb1 0.000: the "
      "control closes none of the lead."},
     "one seed"},
    /* rope+yarn is another way to read rope, which has no result here: its time is that of a training. */
    {"{\"kind\":\"result\",\"scheme\":\"rope+yarn\",\"seed\":0,\"train_seconds\":12,\"loss\":{\"100\":3}}\n"
     "{\"kind\":\"result\",\"scheme\":\"si+prope\",\"seed\":0,\"train_seconds\":11,\"loss\":{\"100\":3}}\n",
     {"Time to train, by scheme", "<td>rope+yarn</td><td class=\"n\">12</td>"},
     "<td>rope</td>"},
    {"{\"kind\":\"result\",\"scheme\":\"rope+yarn\",\"seed\":0,\"train_seconds\":12,\"loss\":{\"100\":3}}\n"
     "{\"kind\":\"result\",\"scheme\":\"rope\",\"seed\":0,\"train_seconds\":12,\"loss\":{\"100\":3}}\n"
     "{\"kind\":\"result\",\"scheme\":\"si+prope\",\"seed\":0,\"train_seconds\":11,\"loss\":{\"100\":3}}\n",
     {"Time to train, by scheme", "<td>rope</td><td class=\"n\">12</td>"},
     "<td>rope+yarn</td><td class=\"n\">12</td>"},
    /* Values of a sweep stand in their order. */
    {VARIANT("share=0.5", "\"100\":3.5,\"200\":3.5") VARIANT("share=0.25", "\"100\":3.75,\"200\":3.75"),
     {"<td class=\"n\">200</td><td class=\"n\">3.75</td></tr>\n<tr><td>rope, share=0.5</td>"},
     "seeds each"},
    /* Two sweeps in one file: the figure has the first, the table all. */
    {VARIANT("tau=1", "\"100\":3.5") VARIANT("tau=10", "\"100\":3.25") VARIANT("width=8", "\"100\":7.125"),
     {"3 variants, 1 seed each", "Loss against tau", "<th scope=\"row\">rope, width=8</th>"},
     "Loss against width"},
};

static void uneven_studies(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof uneven / sizeof *uneven; i++) {
        char path[300], name[32];
        (void)snprintf(name, sizeof name, "uneven%zu", i);
        put(in_folder(name, path), "compare.jsonl", uneven[i].lines);
        char *page = page_of(path);
        for (int w = 0; w < 4 && uneven[i].words[w]; w++) says(page, uneven[i].words[w]);
        says_not(page, uneven[i].not );
        const char *sweep = strstr(page, "Loss against tau");
        if (sweep) says_not(sweep, "7.125");
        free(page);
    }
}

/* All that the paper orders, in the reverse order, by seeds that agree: 38 pairs at 1x, of which five are said. */
static void reversed_order(void **state) {
    (void)state;
    static const struct {
        const char *scheme;
        double loss;
    } paper[] = {{"rope", 3.261},      {"prope", 3.260},     {"nope", 3.397},       {"rope+ntk", 3.261},
                 {"rope+yarn", 3.261}, {"logn+rope", 3.260}, {"logn+prope", 3.256}, {"logn+ntk", 3.261},
                 {"alibi", 3.281},     {"si+prope", 3.244}};
    char path[300], text[4096] = "{\"kind\":\"study\",\"train_len\":100}\n";
    for (int i = 0; i < 20; i++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used,
                       "{\"kind\":\"result\",\"scheme\":\"%s\",\"seed\":%d,\"loss\":{\"100\":%.3f}}\n",
                       paper[i / 2].scheme, i % 2, 8 - paper[i / 2].loss);
    }
    put(in_folder("reversed", path), "compare.jsonl", text);
    char *page = page_of(path);
    says(page, "of 38 pairs that the paper orders, 38 stand the other way round here, clearly: ");
    says(page, "; and 33 more, in the table below.</li>");
    free(page);
}

static void two_runs(void **state) {
    (void)state;
    char paths[2][300], out[400];
    const char *const folders[] = {in_folder("run-a", paths[0]), in_folder("run-b", paths[1])};
    put(folders[0], "metrics.jsonl", "{\"step\":1,\"loss\":5}\n{\"step\":2,\"loss\":4.5}\n");
    put(folders[1], "metrics.jsonl", "{\"step\":1,\"loss\":6}\n");
    (void)snprintf(out, sizeof out, "%s/two.html", command_folder);
    char *page = page_of_all(folders, 2, out);
    says(page, "<p>2 training runs.</p>");
    says_not(page, "stands at step");
    free(page);
    page = page_of(folders[0]);
    says(page, "The run <code>run-a</code> stands at step 2; the last batch in its log had a loss of 4.500.");
    free(page);
}

/* A configuration with more values than a page shows. */
static void large_setting(void **state) {
    (void)state;
    char path[300], *text = malloc(1 << 16);
    assert_non_null(text);
    size_t used = (size_t)snprintf(text, 1 << 16, "{\"kind\":\"study\",\"config\":{");
    for (int i = 1; i <= 301; i++)
        used += (size_t)snprintf(text + used, (1 << 16) - used, "%s\"value%d\":%d", i > 1 ? "," : "", i, i);
    (void)snprintf(text + used, (1 << 16) - used, "}}\n");
    put(in_folder("large", path), "compare.jsonl", text);
    free(text);
    char *page = page_of(path);
    says(page, "Configuration, 300 values");
    says(page, "value300");
    says_not(page, "value301");
    says(page, "The first 300 values.");
    free(page);
}

static void needles(void **state) {
    (void)state;
    char path[300];
    put(in_folder("needles", path), "needle.jsonl",
        "{\"kind\":\"needle\",\"scheme\":\"rope\",\"seed\":0,\"length\":100,\"count\":10,\"right\":9}\n"
        "{\"kind\":\"needle\",\"scheme\":\"rope\",\"seed\":0,\"length\":400,\"count\":10,\"right\":1}\n"
        "{\"kind\":\"needle\",\"scheme\":\"alibi\",\"seed\":0,\"length\":100,\"count\":10,\"right\":4}\n"
        "{\"kind\":\"needle\",\"scheme\":\"alibi\",\"seed\":0,\"length\":400,\"count\":10,\"right\":3}\n"
        "{\"kind\":\"needle\",\"scheme\":\"nope\",\"seed\":0,\"length\":400,\"count\":0,\"right\":0}\n"
        "{\"kind\":\"needle\",\"scheme\":\"prope\",\"seed\":0,\"length\":100,\"count\":null,"
        "\"right\":null,\"diverged\":\"step 2\"}\n");
    char *page = page_of(path);
    says(page, "Needles: 1 of 4 schemes learnt the task; at 400 tokens (4\xc3\x97) rope finds the most of "
               "them, 10.0 % (one "
               "seed: no claim)");
    says(page, "<tr class=\"muted\"><th scope=\"row\">alibi</th>");
    says(page, "not learnt at this budget");
    says(page, "not measured at 1\xc3\x97");
    says(page, "<td class=\"nowrap\">diverged</td>");
    says(page, "No line tells the training length");
    free(page);
}

/* Each run is judged at the length that it was trained at. */
static void needles_of_two_lengths(void **state) {
    (void)state;
    char path[300];
    put(in_folder("two-lengths", path), "needle.jsonl",
        "{\"kind\":\"needle\",\"run\":\"a\",\"scheme\":\"rope\",\"seed\":0,\"length\":64,\"train_len\":64,"
        "\"count\":10,\"right\":9}\n"
        "{\"kind\":\"needle\",\"run\":\"a\",\"scheme\":\"rope\",\"seed\":0,\"length\":256,\"train_len\":64,"
        "\"count\":10,\"right\":1}\n"
        "{\"kind\":\"needle\",\"run\":\"b\",\"scheme\":\"si+prope\",\"seed\":0,\"length\":128,\"train_len\":"
        "128,"
        "\"count\":10,\"right\":8}\n"
        "{\"kind\":\"needle\",\"run\":\"b\",\"scheme\":\"si+prope\",\"seed\":0,\"length\":256,\"train_len\":"
        "128,"
        "\"count\":10,\"right\":7}\n"
        "{\"kind\":\"needle\",\"run\":\"c\",\"scheme\":\"nope\",\"seed\":0,\"length\":128,\"train_len\":128,"
        "\"count\":10,\"right\":2}\n");
    char *page = page_of(path);
    says(page,
         "Needles: 2 of 3 schemes learnt the task; at 256 tokens si+prope finds the most of them, 70.0 %");
    says(page, "not learnt at this budget");
    says_not(page, "not measured at 1");
    says_not(page, "\xc3\x97<i>"); /* no column is a multiple for all */
    free(page);
}

/* A sweep of the training length, and one with a 0; two schemes of one training. */
static void sweeps(void **state) {
    (void)state;
    char path[300];
    put(in_folder("sweep-length", path), "compare.jsonl",
        "{\"kind\":\"study\",\"train_len\":32}\n"
        "{\"kind\":\"result\",\"scheme\":\"rope\",\"variant\":\"train_len=32\",\"seed\":0,\"train_len\":32,"
        "\"loss\":{\"32\":5,\"128\":6}}\n"
        "{\"kind\":\"position\",\"scheme\":\"rope\",\"variant\":\"train_len=128\",\"seed\":0,\"length\":128,"
        "\"bins\":[{\"from\":0,\"to\":8,\"loss\":5},{\"from\":8,\"to\":16,\"loss\":4}]}\n"
        "{\"kind\":\"result\",\"scheme\":\"rope\",\"variant\":\"train_len=128\",\"seed\":0,\"train_len\":128,"
        "\"loss\":{\"128\":4,\"512\":5}}\n");
    char *page = page_of(path);
    says(page, "trained at 32 or 128 tokens");
    says(page, "A sweep of one setting");
    says(page, "rope at 4\xc3\x97");
    says_not(page, "training length</th>");
    says_not(page, "Training ended at");
    says_not(page, "\xc3\x97</small>");
    says_not(page, "(4\xc3\x97)");
    says(page, "Loss against train_len");
    free(page);
    put(in_folder("sweep-zero", path), "compare.jsonl",
        "{\"kind\":\"result\",\"scheme\":\"rope\",\"variant\":\"decay=0\",\"seed\":0,\"loss\":{\"32\":5}}\n"
        "{\"kind\":\"result\",\"scheme\":\"rope\",\"variant\":\"decay=1\",\"seed\":0,\"loss\":{\"32\":4.875}}"
        "\n");
    page = page_of(path);
    says(page, "Loss against decay");
    says(page, "<td>rope at 32</td><td class=\"n\">0</td><td class=\"n\">5</td>");
    free(page);
    put(in_folder("tie", path), "compare.jsonl",
        "{\"kind\":\"study\",\"train_len\":32}\n"
        "{\"kind\":\"result\",\"scheme\":\"logn+rope\",\"seed\":0,\"loss\":{\"32\":5}}\n"
        "{\"kind\":\"result\",\"scheme\":\"logn+ntk\",\"seed\":0,\"loss\":{\"32\":5}}\n");
    page = page_of(path);
    says_not(page, "stands in its order");
    free(page);
}

/* Two models of one scheme and seed, and one scheme of two seeds, stay apart. */
static void probes(void **state) {
    (void)state;
    char path[300], text[2048] = "";
    for (int model = 0; model < 2; model++) {
        size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used,
                       "{\"kind\":\"probe-context\",\"scheme\":\"rope\",\"seed\":0,\"length\":64,\"entropy\":"
                       "%d.5,\"model\":"
                       "\"p%d\"}\n"
                       "{\"kind\":\"probe-logits\",\"scheme\":\"rope\",\"seed\":0,\"layer\":0,\"head\":0,"
                       "\"rotary\":true,"
                       "\"mean\":0,\"variance\":1,\"qq\":[[-1,%d],[1,2]],\"model\":\"p%d\"}\n",
                       model + 1, model, -model, model);
    }
    put(in_folder("probes", path), "probe.jsonl", text);
    char *page = page_of(path);
    says(page, "1.5");
    says(page, "2.5");
    says(page, "p0, layer 0");
    says(page, "p1, layer 0");
    free(page);
    put(in_folder("probe-seeds", path), "probe.jsonl",
        "{\"kind\":\"probe-logits\",\"scheme\":\"rope\",\"seed\":3,\"layer\":0,\"head\":0,\"rotary\":true,"
        "\"mean\":0,\"variance\":1,\"qq\":[[-1,-1],[1,1]],\"model\":\"a\"}\n"
        "{\"kind\":\"probe-logits\",\"scheme\":\"rope\",\"seed\":4,\"layer\":0,\"head\":0,\"rotary\":true,"
        "\"mean\":0,\"variance\":1,\"qq\":[[-1,-2],[1,2]],\"model\":\"b\"}\n");
    page = page_of(path);
    says(page, "rope, seed 3, layer 0");
    says(page, "rope, seed 4, layer 0");
    free(page);
}

static void means(void **state) {
    (void)state;
    sia_gather g = {0};
    sia_gather_add(&g, "b", 2, 0, 1);
    sia_gather_add(&g, "b", 1, 1, 9);
    sia_gather_add(&g, "b", 1, 1, 4); /* the later of two counts */
    sia_gather_add(&g, "b", 1, 0, 2);
    sia_gather_add(&g, "si+prope", 1, 0, NAN);
    sia_gather_add(&g, "si+prope", 1, 1, 1);
    sia_gather_add(&g, "si+prope", NAN, 1, 1);
    sia_gather_finish(&g);
    assert_int_equal(g.count, 2);
    assert_string_equal(g.groups[0].name, "si+prope");
    assert_int_equal(g.groups[0].count, 1);
    assert_true(isnan(g.groups[0].mean[0]));
    assert_int_equal(g.groups[1].count, 2);
    assert_true(g.groups[1].mean[0] == 3 && g.groups[1].error[0] == 1 && g.groups[1].seeds[0] == 2);
    assert_true(g.groups[1].mean[1] == 1 && isnan(g.groups[1].error[1]));
    sia_gather_free(&g, NULL);
}

/* ------------------------------------------------------------------------------------------------ hostile input */

static void hostile_names(void **state) {
    (void)state;
    char path[300];
    static const char evil[] = "</title><script src=https://x.example/a.js>'\\\"\\u0001\\u202e&amp;";
    char text[4096];
    in_folder("evil", path);
    (void)snprintf(
        text, sizeof text,
        "{\"kind\":\"study\",\"command\":\"%s\",\"data\":\"%s\",\"machine\":{\"%s\":\"%s\"},\"config\":"
        "{\"%s\":[{\"%s\":1e300}],\"x\":{\"%s\":null}},\"train_len\":1e300,\"lengths\":[1e308]}\n"
        "{\"kind\":\"result\",\"scheme\":\"%s\",\"variant\":\"%s=1\",\"seed\":1e300,\"loss\":{\"1\":1e308,"
        "\"2\":"
        "-1e308,\"1125899906842624\":null},\"params\":1e308}\n"
        "{\"kind\":\"position\",\"scheme\":\"%s\",\"seed\":0,\"length\":1e308,\"bins\":[{\"from\":-1e308,"
        "\"to\":1e308,\"loss\":1e308},{\"from\":0,\"to\":1e308,\"loss\":2}]}\n"
        "{\"kind\":\"%s\",\"scheme\":7}\n",
        evil, evil, evil, evil, evil, evil, evil, evil, evil, evil, evil);
    put(path, "compare.jsonl", text);
    char probe[4096];
    (void)snprintf(
        probe, sizeof probe,
        "{\"kind\":\"needle\",\"scheme\":\"%s\",\"seed\":0,\"length\":1e300,\"count\":1,\"right\":1}\n"
        "{\"kind\":\"needle-depth\",\"scheme\":\"%s\",\"seed\":0,\"length\":1e300,\"depth_from\":-1e300,"
        "\"depth_to\":7,\"count\":1,\"right\":1}\n",
        evil, evil);
    put(path, "needle.jsonl", probe);
    (void)snprintf(
        probe, sizeof probe,
        "{\"kind\":\"probe-mass\",\"scheme\":\"%s\",\"layer\":1e300,\"head\":-4,\"decade\":1e300,\"mass\":7}"
        "\n"
        "{\"kind\":\"probe-mass\",\"scheme\":\"%s\",\"layer\":1,\"head\":4,\"decade\":400,\"mass\":7}\n"
        "{\"kind\":\"probe-logits\",\"scheme\":\"%s\",\"layer\":1e300,\"head\":1e300,\"qq\":[[null,1],[1e308,"
        "-1e308]]}\n",
        evil, evil, evil);
    put(path, "probe.jsonl", probe);
    (void)snprintf(
        probe, sizeof probe,
        "{\"figure\":\"%s\",\"%s\":\"%s\",\"b\":true}\n{\"figure\":\"entropy-range\",\"scheme\":\"%s\",\"t\":"
        "-1,"
        "\"entropy\":1e308,\"error\":-1}\n{\"figure\":[1]}\n{\"figure\":\"context-range\",\"n\":null}\n",
        evil, evil, evil, evil);
    put(path, "theory.jsonl", probe);
    put(path, "metrics.jsonl",
        "{\"step\":null,\"loss\":1}\n{\"step\":1e308,\"loss\":null,\"validation\":{\"9\":1}}\n{}\n");
    sia_error err;
    char out[400], *page = NULL;
    size_t size;
    markup m;
    const char *folder = path;
    (void)snprintf(out, sizeof out, "%s/evil.html", command_folder);
    assert_int_equal(sia_report_write_titled(&folder, 1, out, "</title><script>\x01\xff", &err), SIA_OK);
    assert_int_equal(sia_file_read(out, 1 << 28, &page, &size, &err), SIA_OK);
    assert_int_equal(strlen(page), size);
    if (!markup_read(&m, page)) fail_msg("%s", m.wrong);
    /* The words are there, as text; no tag and no attribute came of them. */
    says(page, "&lt;/title&gt;&lt;script "
               "src=https://x.example/a.js&gt;&#39;&quot;\xef\xbf\xbd\xef\xbf\xbd&amp;amp;");
    free(page);
}

static const struct bad {
    const char *file, *text, *sentence;
} bad_files[] = {
    {"compare.jsonl", "{\"kind\":\"study\"}\n{\"kind\":", "compare.jsonl:2: not JSON: "},
    {"compare.jsonl", "\n\n[1]\n", "compare.jsonl:3: want a JSON object"},
    {"compare.jsonl", "{\"kind\":\"result\",\"seed\":0,\"loss\":{}}\n",
     "compare.jsonl:1: \"scheme\": want a text"},
    {"compare.jsonl", "{\"kind\":\"result\",\"scheme\":\"rope\",\"seed\":0,\"loss\":{\"x\":1}}\n",
     "compare.jsonl:1: \"loss\": want an object of lengths"},
    {"compare.jsonl", "{\"kind\":\"result\",\"scheme\":\"rope\",\"seed\":0,\"loss\":{\"-4\":1}}\n",
     "\"loss\": want"},
    {"compare.jsonl", "{\"kind\":\"result\",\"scheme\":\"rope\",\"seed\":0,\"loss\":{\"4\":1e999}}\n",
     ":1: not JSON: "},
    {"compare.jsonl", "{\"kind\":\"result\",\"scheme\":\"rope\",\"seed\":0,\"loss\":{\"4\":NaN}}\n",
     ":1: not JSON: "},
    {"compare.jsonl",
     "{\"kind\":\"position\",\"scheme\":\"a\",\"seed\":0,\"length\":4,\"bins\":[{\"from\":1}]}\n",
     "\"bins\": want an array of"},
    {"compare.jsonl", "{\"kind\":\"curve\",\"scheme\":\"a\",\"seed\":0,\"step\":\"1\",\"loss\":1}\n",
     "\"step\": want a number"},
    {"compare.jsonl", "{\"kind\":\"study\",\"lengths\":{}}\n", "\"lengths\": want an array of numbers"},
    {"needle.jsonl",
     "{\"kind\":\"needle\",\"scheme\":\"a\",\"seed\":0,\"length\":4,\"count\":true,\"right\":1}\n",
     "needle.jsonl:1: \"count\": want a number"},
    {"probe.jsonl", "{\"kind\":\"probe-logits\",\"scheme\":\"a\",\"layer\":0,\"head\":0,\"qq\":[[1]]}\n",
     "\"qq\": want an array of pairs"},
    {"metrics.jsonl", "{\"step\":1,\"validation\":[1]}\n", "metrics.jsonl:1: \"validation\": want"},
    {"compare.jsonl", "\x80\n", "compare.jsonl:1: not JSON: "},
    {"config.json", "{", "config.json: line 1: "},
    {"config.json", "[]", "config.json: want a JSON object"},
};

static void bad_input(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad_files / sizeof *bad_files; i++) {
        char path[300], name[32], out[400];
        (void)snprintf(name, sizeof name, "bad%zu", i);
        put(in_folder(name, path), bad_files[i].file, bad_files[i].text);
        if (!strcmp(bad_files[i].file, "config.json")) put(path, "metrics.jsonl", "{\"step\":1}\n");
        sia_error err = {0};
        const char *folder = path;
        assert_int_equal(sia_report_write(&folder, 1, NULL, &err), SIA_FORMAT);
        if (!strstr(err.text, bad_files[i].sentence))
            fail_msg("%s\nwant %s", err.text, bad_files[i].sentence);
        (void)snprintf(out, sizeof out, "%s/report.html", path);
        assert_int_not_equal(access(out, F_OK), 0);
    }
}

static void number_of_folders(void **state) {
    (void)state;
    sia_error err;
    assert_int_equal(sia_report_write(NULL, 1, NULL, &err), SIA_ARGUMENT);
    const char *none = NULL;
    assert_int_equal(sia_report_write(&none, 0, NULL, &err), SIA_ARGUMENT);
    assert_non_null(strstr(err.text, "0 folders: want 1 to "));
    assert_int_equal(sia_report_write(&none, SIA_REPORT_FOLDERS + 1, NULL, &err), SIA_ARGUMENT);
}

static void too_many_names(void **state) {
    (void)state;
    char path[300], text[16384] = "";
    for (int i = 0; i < 65; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text),
                       "{\"kind\":\"result\",\"scheme\":\"s%d\",\"seed\":0,\"loss\":{\"4\":1}}\n", i);
    put(in_folder("many", path), "compare.jsonl", text);
    sia_error err;
    const char *folder = path;
    assert_int_equal(sia_report_write(&folder, 1, NULL, &err), SIA_FORMAT);
    assert_non_null(strstr(err.text, "more than 64 schemes"));
}

/* ------------------------------------------------------------------------------------------------ the command */

static const command_case cases[] = {
    {"$SIA report sample2 && grep -c '<svg' sample2/report.html", 0, "sample2/report.html\n"},
    {"$SIA report --out - sample2 | cmp - sample2/report.html", 0, ""},
    {"$SIA report --quiet --out a.html --title 'A <b> title' sample2 sample1/run/ && grep '^<title>' a.html",
     0, "<title>A &lt;b&gt; title</title>"},
    {"$SIA report sample1/run && grep -o 'stands at step 500; the last batch in its log had a loss of 3.706' "
     "sample1/run/report.html",
     0, "3.706"},
    {"$SIA report sample1 sample2 --out b.html && grep -o 'Loss by length (sample2)' b.html", 0, "sample2"},
    {"mkdir -p only; printf '{\"kind\":\"study\",\"train_len\":4}\\n' > only/compare.jsonl; $SIA report only",
     0, "only/report.html"},
    /* Two runs of one scheme and seed are two rows. */
    {"mkdir -p twins; for run in tau-1 tau-10; do printf "
     "'{\"kind\":\"needle\",\"run\":\"%s\",\"scheme\":\"si+prope\",\"seed\":0,"
     "\"length\":64,\"train_len\":64,\"count\":10,\"right\":9}\\n' $run; done > twins/needle.jsonl; "
     "$SIA report --out - twins | grep -o '>tau-1<\\|>tau-10<' | sort -u | tr '\\n' ' '",
     0, ">tau-10< >tau-1<"},
    {"$SIA report --help", 0, "Examples:\n  sia report study"},
    {"$SIA report", 2, "sia report: want a folder of results"},
    {"$SIA report --out '' sample2", 2, "--out: want the name of a file"},
    {"$SIA report sample2 --titel x", 2, "did you mean --title?"},
    {"$SIA report nowhere", 1, "sia: nowhere: No such file or directory"},
    {"$SIA report sample2/compare.jsonl", 1, "compare.jsonl: want a folder"},
    {"mkdir -p none; $SIA report none", 1, "none: nothing to report: want compare.jsonl"},
    {"$SIA report sample2 none --out c.html; code=$?; test ! -e c.html && exit $code", 1,
     "none: nothing to report"},
    {"$SIA report sample2 --out missing/report.html", 1, "No such file or directory"},
    {"mkdir -p odd/compare.jsonl; $SIA report odd", 1, "odd/compare.jsonl: is a folder, want a file"},
};

static void commands(void **state) {
    (void)state;
    run_cases(cases, sizeof cases / sizeof *cases, NULL);
}

/* A table whose first value found no memory is empty, and must not pass for one that has no values. */
static void missing_values(void **state) {
    (void)state;
    sia_page page = {0};
    sia_html_pairs(&page, &(sia_data){.columns = 2});
    assert_false(page.failed);
    sia_html_pairs(&page, &(sia_data){.columns = 2, .failed = true});
    assert_true(page.failed);
    sia_page_free(&page);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sample_pages),
        cmocka_unit_test(order_and_marks),
        cmocka_unit_test(control),
        cmocka_unit_test(needles),
        cmocka_unit_test(needles_of_two_lengths),
        cmocka_unit_test(sweeps),
        cmocka_unit_test(probes),
        cmocka_unit_test(means),
        cmocka_unit_test(hostile_names),
        cmocka_unit_test(bad_input),
        cmocka_unit_test(number_of_folders),
        cmocka_unit_test(too_many_names),
        cmocka_unit_test(commands),
        cmocka_unit_test(missing_values),
        cmocka_unit_test(uneven_studies),
        cmocka_unit_test(reversed_order),
        cmocka_unit_test(two_runs),
        cmocka_unit_test(large_setting),
    };
    return cmocka_run_group_tests(tests, open_command_folder, close_command_folder);
}
