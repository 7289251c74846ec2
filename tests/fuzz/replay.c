/* SPDX-License-Identifier: MIT
 *
 * A fuzz target without libFuzzer, for compilers that have none: runs the target on the files that are named,
 * and on changed copies of them: bytes flipped, cut, doubled, spliced. Always the same changes.
 *
 *     replay ROUNDS FILES...          ROUNDS changed copies of each */
#include "fuzz.h"

#include "base/file.h"
#include "base/random.h"

enum { LIMIT = 1 << 20 };

/* One to four changes. The result is in a block of exactly its size, so that the sanitizers see a byte too
 * far. */
static uint8_t *change(const char *bytes, size_t size, uint64_t seed, size_t *result) {
    size_t room = 2 * size + 64, used = size;
    uint8_t *work = malloc(room);
    if (!work) abort();
    memcpy(work, bytes, size);
    uint64_t n = 0, changes = 1 + sia_random_below(seed, n++, 4);
    for (uint64_t i = 0; i < changes && used > 0; i++) {
        size_t at = sia_random_below(seed, n++, used), length = 1 + sia_random_below(seed, n++, 32);
        if (length > used - at) length = used - at;
        switch (sia_random_below(seed, n++, 5)) {
        case 0:
            work[at] ^= (uint8_t)(1u << sia_random_below(seed, n++, 8));
            break;
        case 1:
            work[at] = (uint8_t) "\"{}[],: 0\0\xff\n9-e"[sia_random_below(seed, n++, 16)];
            break;
        case 2:
            used = at;
            break;
        case 3:
            memmove(work + at, work + at + length, used - at - length);
            used -= length;
            break;
        default:
            if (used + length > room) break;
            memmove(work + at + length, work + at, used - at);
            used += length;
        }
    }
    uint8_t *exact = malloc(used ? used : 1);
    if (!exact) abort();
    memcpy(exact, work, used);
    free(work);
    *result = used;
    return exact;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    uint64_t rounds = strtoull(argv[1], NULL, 10), runs = 0;
    for (int i = 2; i < argc; i++) {
        char *bytes;
        size_t size, changed;
        sia_error err;
        if (sia_file_read(argv[i], LIMIT, &bytes, &size, &err)) {
            (void)fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        for (uint64_t round = 0; round < rounds; round++, runs++) {
            uint8_t *data = change(bytes, size, round, &changed);
            (void)LLVMFuzzerTestOneInput(data, changed);
            free(data);
        }
        (void)LLVMFuzzerTestOneInput((const uint8_t *)bytes, size);
        free(bytes);
    }
    printf("%llu inputs\n", (unsigned long long)runs);
    return 0;
}
