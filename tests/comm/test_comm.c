/* SPDX-License-Identifier: MIT
 *
 * What ranks do together, on 1 to 8 of them: everybody gets what everybody should, sums have the same bits each time,
 * an error of one is the error of all, a rank that is gone is noticed in time, a transport's failures are handed on. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/random.h"
#include "comm/exchange.h"
#include "threads.h"

/* cmocka's assertions jump, which only its own thread may do: ranks count what is wrong. */
static _Atomic int wrong;
static sia_error said[MOST_RANKS];
#define WANT(what)                                                                          \
    do {                                                                                    \
        if (!(what)) {                                                                      \
            wrong++;                                                                        \
            print_error("%s:%d: rank %d of %d: %s\n", __FILE__, __LINE__, sia_comm_rank(c), \
                        sia_comm_size(c), #what);                                           \
        }                                                                                   \
    } while (0)

static void on_all_sizes(void (*work)(sia_comm *c, void *context), void *context) {
    wrong = 0;
    for (int size = 1; size <= MOST_RANKS; size++) run_ranks(size, 20, work, context);
    assert_int_equal(wrong, 0);
}

/* ------------------------------------------------------------------------------------------------ collectives */

static void together(sia_comm *c, void *context) {
    (void)context;
    int rank = sia_comm_rank(c), size = sia_comm_size(c);
    sia_error *err = &said[rank];
    for (int from = 0; from < size; from++) {
        int64_t number = rank == from ? 1000 + from : -1;
        WANT(sia_comm_broadcast(c, &number, sizeof number, from, err) == SIA_OK);
        WANT(number == 1000 + from);
    }
    double sums[3] = {1, rank, 0.5};
    WANT(sia_comm_sum(c, sums, 3, err) == SIA_OK);
    WANT(sums[0] == size && sums[1] == size * (size - 1) / 2.0 && sums[2] == 0.5 * size);
    char *text;
    WANT(sia_comm_share_text(c, rank ? NULL : "from rank 0", &text, err) == SIA_OK);
    WANT(text && strcmp(text, "from rank 0") == 0);
    free(text);
}

static void test_together(void **state) {
    (void)state;
    on_all_sizes(together, NULL);
}

static void none_is_one(void **state) {
    (void)state;
    double number = 3;
    sia_error err;
    assert_int_equal(sia_comm_rank(NULL), 0);
    assert_int_equal(sia_comm_size(NULL), 1);
    assert_int_equal(sia_comm_sum(NULL, &number, 1, &err), SIA_OK);
    assert_true(number == 3);
    assert_int_equal(sia_comm_broadcast(NULL, &number, sizeof number, 0, &err), SIA_OK);
    assert_int_equal(sia_comm_agree(NULL, SIA_FILE, &err), SIA_FILE);
    assert_int_equal(sia_comm_same(NULL, "build", "a", &err), SIA_OK);
    assert_true(sia_comm_agreed(NULL));
}

/* A transport that fails at the call that it is told to: in words, or with none. */
typedef struct failing {
    int at, calls;
    const char *text;
} failing;

static sia_status fails(failing *f, sia_error *err) {
    if (f->calls++ < f->at) return SIA_OK;
    if (f->text) (void)snprintf(err->text, sizeof err->text, "%s", f->text);
    return SIA_LOST;
}
static sia_status failing_send(void *context, int to, const void *data, size_t bytes, int tag,
                               sia_request *request, sia_error *err) {
    (void)to, (void)data, (void)bytes, (void)tag;
    *request = 0;
    return fails(context, err);
}
static sia_status failing_receive(void *context, int from, void *data, size_t bytes, int tag,
                                  sia_request *request, sia_error *err) {
    (void)from, (void)tag;
    memset(data, 0, bytes);
    *request = 0;
    return fails(context, err);
}
static sia_status failing_test(void *context, sia_request *request, int *done, sia_error *err) {
    (void)request;
    *done = 1;
    return fails(context, err);
}

#define FUNCTIONS .send = failing_send, .receive = failing_receive, .test = failing_test
static const struct {
    sia_transport transport;
    double timeout;
    const char *sentence;
} creations[] = {
    {{.size = 0, FUNCTIONS}, 1, "rank 0 of 0: want 0 or more, below the size"},
    {{.rank = 2, .size = 2, FUNCTIONS}, 1, "rank 2 of 2: want 0 or more, below the size"},
    {{.rank = -1, .size = 2, FUNCTIONS}, 1, "rank -1 of 2: want 0 or more, below the size"},
    {{.size = 2, .receive = failing_receive, .test = failing_test},
     1,
     "transport: send: NULL, want a function"},
    {{.size = 2, .send = failing_send, .test = failing_test}, 1, "transport: receive: NULL, want a function"},
    {{.size = 2, .send = failing_send, .receive = failing_receive},
     1,
     "transport: test: NULL, want a function"},
    {{.size = 2, FUNCTIONS}, 0, "timeout 0: want seconds, above 0"},
    {{.size = 2, FUNCTIONS}, -3, "timeout -3: want seconds, above 0"},
    {{.size = 2, FUNCTIONS}, NAN, "timeout nan: want seconds, above 0"},
};

static void refused(void **state) {
    (void)state;
    sia_error err;
    sia_comm *c;
    for (size_t i = 0; i < sizeof creations / sizeof *creations; i++) {
        c = (sia_comm *)&err;
        assert_int_equal(sia_comm_create(&c, &creations[i].transport, creations[i].timeout, &err),
                         SIA_ARGUMENT);
        assert_string_equal(err.text, creations[i].sentence);
        assert_null(c);
        assert_int_equal(sia_comm_create(&c, &creations[i].transport, creations[i].timeout, NULL),
                         SIA_ARGUMENT);
    }
    assert_int_equal(sia_comm_create(&c, NULL, 1, &err), SIA_ARGUMENT);
    assert_string_equal(err.text, "comm: want a transport and a place for the result, got NULL");
    assert_int_equal(sia_comm_create(NULL, &creations[0].transport, 1, &err), SIA_ARGUMENT);
    sia_comm_destroy(NULL);
}

/* Calls 0 to 3 of a sum on rank 0: receive, test, send, test. A caller without a place for the sentence is no
 * burden for the transport. */
static void transport_fails(void **state) {
    (void)state;
    static const char *const without[] = {
        "transport: receive failed, rank 1 (lost)", "transport: test failed, rank 1 (lost)",
        "transport: send failed, rank 1 (lost)", "transport: test failed, rank 1 (lost)"};
    for (int i = 0; i < 3 * 4; i++) {
        failing f = {.at = i % 4, .text = i < 4 ? NULL : "the cable is cut"};
        double number = 1;
        sia_error err;
        sia_comm *c;
        sia_transport transport = {.context = &f, .size = 2, FUNCTIONS};
        assert_int_equal(sia_comm_create(&c, &transport, 1, &err), SIA_OK);
        assert_int_equal(sia_comm_sum(c, &number, 1, i < 8 ? &err : NULL), SIA_LOST);
        if (i < 8) assert_string_equal(err.text, i < 4 ? without[i] : "rank 1: the cable is cut");
        if (i < 8) assert_int_equal(err.status, SIA_LOST);
        sia_comm_destroy(c);
    }
}

/* A rank that fails while another is gone gives its own reason; one that did not fail, that of the loss. */
static void fails_alone(void **state) {
    (void)state;
    for (int own = 0; own < 2; own++) {
        failing f = {.text = "the cable is cut"};
        sia_error err = {0};
        sia_comm *c;
        sia_transport transport = {.context = &f, .size = 2, FUNCTIONS};
        assert_int_equal(sia_comm_create(&c, &transport, 1, &err), SIA_OK);
        sia_status status = own ? sia_fail(&err, SIA_MEMORY, "no room") : SIA_OK;
        assert_int_equal(sia_comm_agree(c, status, &err), SIA_LOST);
        assert_int_equal(err.status, SIA_LOST);
        assert_string_equal(err.text, own ? "no room" : "rank 1: the cable is cut");
        sia_comm_destroy(c);
    }
}

/* Rank 0 gathers texts; rank 1 does not tell how long its own is, or is gone while it is waited for. */
static void gathering_fails(void **state) {
    (void)state;
    for (int at = 0; at < 2; at++) {
        failing f = {.at = at};
        sia_error err;
        sia_comm *c;
        char *texts[2] = {(char *)&f, (char *)&f};
        sia_transport transport = {.context = &f, .size = 2, FUNCTIONS};
        assert_int_equal(sia_comm_create(&c, &transport, 1, &err), SIA_OK);
        assert_int_equal(sia_comm_gather_texts(c, "mine", texts, &err), SIA_LOST);
        assert_true(!texts[0] && !texts[1]);
        sia_comm_destroy(c);
    }
}

/* Messages that cannot be: said before the transport hears of them. */
static const size_t too_large = SIA_MESSAGE_MOST * SIA_TRANSFER_PARTS + 1;
static const struct {
    int peer;
    bool large;
    const char *sentence;
} messages[] = {
    {-1, false, "a message from rank 1 to rank -1 of 3"},
    {1, false, "a message from rank 1 to rank 1 of 3"},
    {3, false, "a message from rank 1 to rank 3 of 3"},
    {0, true, NULL},
    {2, true, NULL},
};

static void refused_messages(void **state) {
    (void)state;
    failing f = {.at = 100};
    sia_error err;
    sia_comm *c;
    sia_transport transport = {.context = &f, .rank = 1, .size = 3, FUNCTIONS};
    char byte = 0, large[96];
    (void)snprintf(large, sizeof large, "a message of %zu bytes: want %zu at most", too_large, too_large - 1);
    assert_int_equal(sia_comm_create(&c, &transport, 1, &err), SIA_OK);
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        const char *sentence = messages[i].large ? large : messages[i].sentence;
        size_t bytes = messages[i].large ? too_large : 1;
        sia_transfer sent = {.count = 7}, got = {.count = 7};
        assert_int_equal(sia_comm_send(c, messages[i].peer, &byte, bytes, 1, &sent, &err), SIA_ARGUMENT);
        assert_string_equal(err.text, sentence);
        assert_int_equal(sia_comm_receive(c, messages[i].peer, &byte, bytes, 1, &got, &err), SIA_ARGUMENT);
        assert_string_equal(err.text, sentence);
        assert_int_equal(sent.count + got.count, 0);
    }
    assert_int_equal(f.calls, 0);
    assert_int_equal(sia_comm_sent(c), 0);
    sia_comm_destroy(c);
}

/* Bytes are counted where they are sent, those of a part by the whole. */
static void counted_bytes(void **state) {
    (void)state;
    failing f = {.at = 100};
    sia_error err;
    sia_comm *c, *part;
    sia_transport transport = {.context = &f, .rank = 1, .size = 3, FUNCTIONS};
    char bytes[24] = {0};
    sia_transfer t;
    assert_int_equal(sia_comm_sent(NULL), 0);
    assert_int_equal(sia_comm_create(&c, &transport, 1, &err), SIA_OK);
    assert_int_equal(sia_comm_part(&part, c, 1, 2, &err), SIA_OK);
    assert_int_equal(sia_comm_send(c, 0, bytes, 24, 1, &t, &err), SIA_OK);
    assert_int_equal(sia_comm_receive(c, 0, bytes, 24, 1, &t, &err), SIA_OK);
    assert_int_equal(sia_comm_send(part, 1, bytes, 5, 1, &t, &err), SIA_OK);
    assert_int_equal(sia_comm_sent(c), 29);
    assert_int_equal(sia_comm_sent(part), 29);
    sia_comm_destroy(part);
    sia_comm_destroy(c);
}

/* A part of the ranks has its own numbers, and does not hear the others. */
static void in_parts(sia_comm *c, void *context) {
    (void)context;
    int rank = sia_comm_rank(c), size = sia_comm_size(c);
    if (size % 2) return;
    sia_comm *part;
    int half = size / 2, first = rank / half * half;
    WANT(sia_comm_part(&part, c, first, half, &said[rank]) == SIA_OK);
    double sum = rank;
    WANT(sia_comm_rank(part) == rank - first && sia_comm_size(part) == half);
    WANT(sia_comm_sum(part, &sum, 1, &said[rank]) == SIA_OK);
    WANT(sum == half * first + half * (half - 1) / 2.0);
    sia_comm_destroy(part);
    WANT(sia_comm_part(&part, c, rank ? 0 : 1, rank ? rank : size - 1, &said[rank]) == SIA_ARGUMENT);
}

static void test_parts(void **state) {
    (void)state;
    on_all_sizes(in_parts, NULL);
}

/* ------------------------------------------------------------------------------------------------ agreement */

typedef struct verdicts {
    sia_status of[MOST_RANKS], wanted;
    const char *text;
} verdicts;

static void agreeing(sia_comm *c, void *context) {
    const verdicts *v = context;
    int rank = sia_comm_rank(c);
    sia_error *err = &said[rank];
    sia_status status = v->of[rank];
    if (status) status = sia_fail(err, status, "rank %d said so", rank);
    WANT(sia_comm_agree(c, status, err) == v->wanted);
    WANT(sia_comm_agreed(c) == (v->wanted != SIA_OK));
    if (v->wanted) WANT(strcmp(err->text, v->text) == 0);
    WANT(sia_comm_agree(c, SIA_OK, err) == SIA_OK); /* and the next one starts afresh */
}

static void test_agree(void **state) {
    (void)state;
    verdicts cases[] = {
        {{0}, SIA_OK, ""},
        {{SIA_FILE}, SIA_FILE, "rank 0 said so"},
        {{0, 0, 0, SIA_MEMORY}, SIA_MEMORY, "rank 3: rank 3 said so"},
        {{SIA_STOPPED, 0, SIA_NUMBER}, SIA_NUMBER, "rank 2: rank 2 said so"},
        {{0, SIA_FORMAT, SIA_NUMBER, SIA_FILE}, SIA_FORMAT, "rank 1: rank 1 said so"},
        {{0, 0, SIA_STOPPED}, SIA_STOPPED, "rank 2 said so"},
    };
    wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) run_ranks(4, 20, agreeing, &cases[i]);
    assert_int_equal(wrong, 0);
}

static void different(sia_comm *c, void *context) {
    (void)context;
    int rank = sia_comm_rank(c);
    sia_error *err = &said[rank];
    WANT(sia_comm_same(c, "build", "the same", err) == SIA_OK);
    WANT(sia_comm_same(c, "build", rank == 2 ? "another" : "the same", err) == SIA_ARGUMENT);
    WANT(strcmp(err->text, "rank 2: its build is not that of rank 0") == 0);
}

static void test_same(void **state) {
    (void)state;
    wrong = 0;
    run_ranks(5, 20, different, NULL);
    assert_int_equal(wrong, 0);
}

/* Rank 1 is gone: who waits for it says so after the time that was set, and not before. */
static void without_one(sia_comm *c, void *context) {
    (void)context;
    int rank = sia_comm_rank(c);
    double started = sia_seconds();
    if (rank == 1) return;
    WANT(sia_comm_sum(c, &(double){1}, 1, &said[rank]) == SIA_LOST);
    double waited = sia_seconds() - started;
    WANT(waited > 0.2 && waited < 30);
    WANT(!sia_comm_agreed(c));
    WANT(strstr(said[rank].text, "has not answered for"));
    WANT(sia_comm_agree(c, SIA_LOST, &said[rank]) == SIA_LOST);
}

static void test_lost(void **state) {
    (void)state;
    wrong = 0;
    run_ranks(3, 0.3, without_one, NULL);
    assert_int_equal(wrong, 0);
}

/* ------------------------------------------------------------------------------------------------ the exchange */

enum { ARRAYS = 5, LONGEST = (1 << 21) + 7 };
static const int64_t lengths[ARRAYS] = {1, 1000, LONGEST, 16384, 3};

static float number_of(int array, int rank, int64_t i) {
    return (float)sia_random_uniform((uint64_t)array * 100 + (uint64_t)rank, (uint64_t)i) - 0.5f;
}

/* Ranks compute for different times between their arrays, so that messages arrive in any order. */
static sia_status exchange_all(sia_comm *c, sia_exchange *x, float *data[ARRAYS], int round, sia_error *err) {
    sia_status status = SIA_OK;
    for (int a = 0; !status && a < ARRAYS; a++) {
        for (int spin = 0; spin < (sia_comm_rank(c) * 7 + round * 3) % 5; spin++)
            if (!status) status = sia_exchange_poll(x, err);
        if (!status) status = sia_exchange_add(x, data[a], lengths[a], a % sia_comm_size(c), err);
    }
    return status ? status : sia_exchange_finish(x, err);
}

static void check_sums(sia_comm *c, float *const data[ARRAYS]) {
    int rank = sia_comm_rank(c), size = sia_comm_size(c);
    for (int a = 0; a < ARRAYS; a++) {
        int64_t differ = 0, step = lengths[a] > 10000 ? 997 : 1;
        int owner = a % size;
        for (int64_t i = 0; i < lengths[a]; i += step) {
            /* The owner's own first, then the others in their order: exactly this sum. */
            float sum = number_of(a, rank, i);
            for (int r = 0; owner == rank && r < size; r++)
                if (r != rank) sum += number_of(a, r, i);
            differ += data[a][i] != sum;
        }
        WANT(differ == 0);
    }
}

static void exchanging(sia_comm *c, void *context) {
    (void)context;
    int rank = sia_comm_rank(c), size = sia_comm_size(c);
    sia_error *err = &said[rank];
    float *data[ARRAYS];
    sia_exchange *x;
    sia_share shares[ARRAYS];
    if (size != 1 && size != 2 && size != 5) return; /* enough, and quick */
    WANT(sia_exchange_create(&x, c, err) == SIA_OK);
    for (int a = 0; a < ARRAYS; a++) data[a] = malloc((size_t)lengths[a] * sizeof(float));
    for (int round = 0; round < 2; round++) {
        for (int a = 0; a < ARRAYS; a++)
            for (int64_t i = 0; i < lengths[a]; i++) data[a][i] = number_of(a, rank, i);
        WANT(exchange_all(c, x, data, round, err) == SIA_OK);
        check_sums(c, data);
    }
    for (int a = 0; a < ARRAYS; a++) shares[a] = (sia_share){data[a], lengths[a], a % size};
    WANT(sia_spread(c, shares, ARRAYS, err) == SIA_OK);
    for (int a = 0; a < ARRAYS; a++) {
        float sum = number_of(a, a % size, lengths[a] - 1);
        for (int r = 0; r < size; r++)
            if (r != a % size) sum += number_of(a, r, lengths[a] - 1);
        WANT(data[a][lengths[a] - 1] == sum);
        free(data[a]);
    }
    sia_exchange_destroy(x);
}

static void test_exchange(void **state) {
    (void)state;
    on_all_sizes(exchanging, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together),   cmocka_unit_test(none_is_one),
        cmocka_unit_test(test_parts),      cmocka_unit_test(test_agree),
        cmocka_unit_test(test_same),       cmocka_unit_test(test_lost),
        cmocka_unit_test(test_exchange),   cmocka_unit_test(refused),
        cmocka_unit_test(transport_fails), cmocka_unit_test(fails_alone),
        cmocka_unit_test(gathering_fails), cmocka_unit_test(refused_messages),
        cmocka_unit_test(counted_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
