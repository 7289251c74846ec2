/* SPDX-License-Identifier: MIT
 *
 * safetensors files: what is written, against a reader of the test's own that knows only the specification;
 * what must be refused, and with which sentence; what comes back. */
#include <jansson.h>

#include "base/file.h"
#include "base/random.h"
#include "base/safetensors.h"
#include "support.h"

/* ---------------------------------------------------------------------------- what is written, byte by byte */

static const struct {
    const char *name;
    sia_dtype dtype;
    int dims;
    int64_t shape[8];
} declared[] = {
    {"double", SIA_DTYPE_F64, 1, {3}},
    {"embed.weight", SIA_DTYPE_F32, 2, {5, 7}},
    {"scalar", SIA_DTYPE_F32, 0, {0}},
    {"nothing", SIA_DTYPE_I32, 3, {4, 0, 2}},
    {"\xc3\xa9 \"quoted\"\\", SIA_DTYPE_BF16, 8, {1, 1, 2, 1, 1, 3, 1, 1}},
    {"flags", SIA_DTYPE_BOOL, 1, {9}},
};
enum { DECLARED = sizeof declared / sizeof *declared };

/* Sizes from the specification, not from the library. */
static size_t bits_of(const char *dtype) {
    const char *digits = dtype + strcspn(dtype, "0123456789");
    return *digits ? (size_t)atoi(digits) / 8 : 1;
}

static size_t bytes_of(int t) {
    size_t bytes = bits_of(sia_dtype_name(declared[t].dtype));
    for (int i = 0; i < declared[t].dims; i++) bytes *= (size_t)declared[t].shape[i];
    return bytes;
}

static unsigned char byte_of(int t, size_t i) { return (unsigned char)sia_random_u64((uint64_t)t + 1, i); }

static void write_declared(const char *path, size_t piece) {
    sia_safetensors_writer *w;
    unsigned char bytes[256];
    OK(sia_safetensors_create(&w, path, &said));
    OK(sia_safetensors_describe(w, "step", "500", &said));
    for (int t = 0; t < DECLARED; t++)
        OK(sia_safetensors_declare(w, declared[t].name, declared[t].dtype, declared[t].dims,
                                   declared[t].shape, &said));
    OK(sia_safetensors_describe(w, "config", "{\"layers\": 2}", &said));
    for (int t = 0; t < DECLARED; t++) {
        size_t size = bytes_of(t);
        for (size_t i = 0; i < size; i++) bytes[i] = byte_of(t, i);
        for (size_t i = 0; i < size; i += piece)
            OK(sia_safetensors_write(w, declared[t].name, bytes + i, size - i < piece ? size - i : piece,
                                     &said));
    }
    assert_false(exists(path));
    OK(sia_safetensors_finish(w, &said));
}

static void test_specification(void **state) {
    (void)state;
    char *path = in_scratch("spec.safetensors"), *bytes;
    size_t size, at = 0;
    write_declared(path, 256);
    OK(sia_file_read(path, 1 << 20, &bytes, &size, &said));
    uint64_t length = 0;
    for (int i = 0; i < 8; i++) length |= (uint64_t)(unsigned char)bytes[i] << (8 * i);
    assert_true(8 + length <= size);
    assert_int_equal((8 + length) % 64, 0);
    assert_int_equal(bytes[8], '{');
    size_t text = (size_t)length;
    while (bytes[8 + text - 1] == ' ') text--;
    assert_int_equal(bytes[8 + text - 1], '}');
    assert_true(length - text < 64);
    json_t *header = json_loadb(bytes + 8, (size_t)length, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(header);
    assert_int_equal(json_object_size(header), DECLARED + 1);
    json_t *metadata = json_object_get(header, "__metadata__");
    assert_int_equal(json_object_size(metadata), 2);
    assert_string_equal(json_string_value(json_object_get(metadata, "step")), "500");
    assert_string_equal(json_string_value(json_object_get(metadata, "config")), "{\"layers\": 2}");
    for (int t = 0; t < DECLARED; t++) {
        json_t *tensor = json_object_get(header, declared[t].name);
        const char *dtype = json_string_value(json_object_get(tensor, "dtype"));
        json_t *shape = json_object_get(tensor, "shape"), *offsets = json_object_get(tensor, "data_offsets");
        assert_string_equal(dtype, sia_dtype_name(declared[t].dtype));
        assert_int_equal(json_array_size(shape), declared[t].dims);
        size_t wanted = bits_of(dtype);
        for (int i = 0; i < declared[t].dims; i++) {
            assert_int_equal(json_integer_value(json_array_get(shape, (size_t)i)), declared[t].shape[i]);
            wanted *= (size_t)declared[t].shape[i];
        }
        assert_int_equal(json_integer_value(json_array_get(offsets, 0)), at);
        assert_int_equal(json_integer_value(json_array_get(offsets, 1)), at + wanted);
        assert_int_equal(at % bits_of(dtype), 0);
        for (size_t i = 0; i < wanted; i++)
            assert_int_equal((unsigned char)bytes[8 + length + at + i], byte_of(t, i));
        at += wanted;
    }
    assert_int_equal(8 + length + at, size);
    json_decref(header);
    free(bytes);
}

static void test_same_bytes(void **state) {
    (void)state;
    char *first, *second;
    size_t size, again;
    write_declared(in_scratch("one.safetensors"), 256);
    write_declared(in_scratch("two.safetensors"), 3);
    OK(sia_file_read(in_scratch("one.safetensors"), 1 << 20, &first, &size, &said));
    OK(sia_file_read(in_scratch("two.safetensors"), 1 << 20, &second, &again, &said));
    assert_int_equal(size, again);
    assert_memory_equal(first, second, size);
    free(first);
    free(second);
}

static void test_round_trip(void **state) {
    (void)state;
    char *path = in_scratch("trip.safetensors");
    sia_safetensors *file;
    write_declared(path, 5);
    OK(sia_safetensors_open(&file, path, &said));
    assert_int_equal(sia_safetensors_count(file), DECLARED);
    assert_null(sia_safetensors_at(file, DECLARED));
    assert_null(sia_safetensors_at(file, -1));
    assert_null(sia_safetensors_find(file, "__metadata__"));
    assert_null(sia_safetensors_find(file, ""));
    for (int t = 0; t < DECLARED; t++) {
        const sia_stored_tensor *tensor = sia_safetensors_find(file, declared[t].name);
        assert_non_null(tensor);
        assert_ptr_equal(tensor, sia_safetensors_at(file, t));
        assert_int_equal(tensor->dtype, declared[t].dtype);
        assert_int_equal(tensor->dims, declared[t].dims);
        assert_memory_equal(tensor->shape, declared[t].shape, sizeof tensor->shape);
        assert_int_equal(tensor->bytes, bytes_of(t));
        for (size_t i = 0; i < tensor->bytes; i++)
            assert_int_equal(((const unsigned char *)tensor->data)[i], byte_of(t, i));
    }
    assert_int_equal(sia_safetensors_metadata_count(file), 2);
    assert_string_equal(sia_safetensors_metadata_key(file, 0), "step");
    assert_string_equal(sia_safetensors_metadata_key(file, 1), "config");
    assert_null(sia_safetensors_metadata_key(file, 2));
    assert_string_equal(sia_safetensors_metadata(file, "step"), "500");
    assert_null(sia_safetensors_metadata(file, "steps"));
    sia_safetensors_close(file);
}

static void test_empty(void **state) {
    (void)state;
    sia_safetensors_writer *w;
    sia_safetensors *file;
    char *path = in_scratch("empty.safetensors");
    OK(sia_safetensors_create(&w, path, &said));
    OK(sia_safetensors_finish(w, &said));
    OK(sia_safetensors_open(&file, path, &said));
    assert_int_equal(sia_safetensors_count(file), 0);
    assert_int_equal(sia_safetensors_metadata_count(file), 0);
    assert_null(sia_safetensors_metadata(file, "step"));
    sia_safetensors_close(file);
}

/* ----------------------------------------------------------------------------------------- what is refused */

#define ONE "\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]"
#define A(rest) "{\"a\":{" rest "}}"
#define TYPED(dtype) A("\"dtype\":" dtype ",\"shape\":[2],\"data_offsets\":[0,8]")
#define SHAPED(shape) A("\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[0,8]")
#define PLACED(offsets) A("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":" offsets)
#define TWO(offsets) "{\"a\":{" ONE "},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" offsets "}}"

static const struct {
    const char *header;
    size_t data;          /* bytes behind it */
    int64_t claimed;      /* the length that the file claims, 0: that of the header */
    const char *sentence; /* NULL: taken */
} files[] = {
    {A(ONE), 8, 0, NULL},
    {A(ONE) "  ", 8, 0, NULL},
    {TWO("[8,12]"), 12, 0, NULL},
    {"{\"b\":{" ONE "},\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[8,8]}}", 8, 0, NULL},
    {"{\"b\":{" ONE "},\"a\":{\"dtype\":\"U8\",\"shape\":[9,0],\"data_offsets\":[0,0]}}", 8, 0, NULL},
    {"{}", 0, 0, NULL},
    {"{\"__metadata__\":{}}", 0, 0, NULL},
    /* the length */
    {"{}", 0, -1,
     "x: not a safetensors file: its first 8 bytes, the length of the header, say 18446744073709551615"},
    {"{}", 0, INT64_MIN,
     "x: not a safetensors file: its first 8 bytes, the length of the header, say 9223372036854775808"},
    {"{}", 0, 100000001,
     "x: not a safetensors file: its first 8 bytes, the length of the header, say 100000001"},
    {"{}", 0, 100000000, "x: header of 100000000 bytes: the file has 2 behind its length"},
    {"{}", 0, 3, "x: header of 3 bytes: the file has 2 behind its length"},
    {"{}", 0, 1, "x: header, byte 1: string or '}' expected"},
    {"", 0, 0, "x: the header does not start with {"},
    {"", 8, 0, "x: the header does not start with {"},
    /* the JSON */
    {" {}", 0, 0, "x: the header does not start with {"},
    {"[]", 0, 0, "x: the header does not start with {"},
    {"{} {}", 0, 0, "x: header, byte 4: end of file expected near '{'"},
    {"{\"a\":", 0, 0, "x: header, byte 5: unexpected token near end of file"},
    {"{\"a\":{" ONE "},\"a\":{" ONE "}}", 8, 0, "duplicate object key near '\"a\"'"},
    {A(ONE ",\"dtype\":\"F32\""), 8, 0, "duplicate object key near '\"dtype\"'"},
    {"{\"\\u0000\":{" ONE "}}", 8, 0, "x: header, byte 9: NUL byte in object key"},
    {"{\"\xff\":{" ONE "}}", 8, 0, "x: header, byte 2: unable to decode byte 0xff"},
    /* the metadata */
    {"{\"__metadata__\":[]}", 0, 0, "x: \"__metadata__\": want an object"},
    {"{\"__metadata__\":{\"step\":5}}", 0, 0, "x: \"__metadata__\": \"step\": want a text"},
    {"{\"__metadata__\":{\"a\":\"b\",\"c\":null}}", 0, 0, "x: \"__metadata__\": \"c\": want a text"},
    /* a tensor */
    {"{\"a\":[]}", 0, 0, "x: tensor \"a\": want an object"},
    {"{\"\\u001b[31m\":[]}", 0, 0, "x: tensor \"?[31m\": want an object"},
    {A("\"dtype\":\"F32\",\"shape\":[0]"), 0, 0,
     "x: tensor \"a\": 2 keys: want \"dtype\", \"shape\" and \"data_offsets\""},
    {A(ONE ",\"packed\":true"), 8, 0,
     "x: tensor \"a\": 4 keys: want \"dtype\", \"shape\" and \"data_offsets\""},
    {A("\"dtype\":\"F32\",\"shape\":[2],\"offsets\":[0,8]"), 8, 0,
     "x: tensor \"a\": \"data_offsets\": want two whole numbers"},
    {TYPED("5"), 8, 0, "x: tensor \"a\": \"dtype\": want a text"},
    {TYPED("\"f32\""), 8, 0,
     "x: tensor \"a\": dtype \"f32\": want F64, F32, F16, BF16, I64 to I8, U64 to U8 or BOOL"},
    {TYPED("\"F8_E4M3\""), 8, 0, "x: tensor \"a\": dtype \"F8_E4M3\": want F64"},
    /* its shape */
    {SHAPED("2"), 8, 0, "x: tensor \"a\": \"shape\": want an array"},
    {SHAPED("[-2]"), 8, 0, "x: tensor \"a\": dimension 0: want a whole number from 0 on"},
    {SHAPED("[2.0]"), 8, 0, "x: tensor \"a\": dimension 0: want a whole number from 0 on"},
    {SHAPED("[2,\"1\"]"), 8, 0, "x: tensor \"a\": dimension 1: want a whole number from 0 on"},
    {SHAPED("[-2,-1]"), 8, 0, "x: tensor \"a\": dimension 0: want a whole number from 0 on"},
    {SHAPED("[9223372036854775808]"), 8, 0, "too big integer"},
    {SHAPED("[1,1,1,1,1,1,1,1,2]"), 8, 0, "x: tensor \"a\": 9 dimensions: want at most 8"},
    {SHAPED("[2305843009213693952]"), 8, 0,
     "x: tensor \"a\": F32 [2305843009213693952] does not fit into memory"},
    {SHAPED("[4294967296,4294967296]"), 8, 0,
     "x: tensor \"a\": F32 [4294967296, 4294967296] does not fit into memory"},
    {SHAPED("[4294967296,4294967296,0]"), 8, 0, "does not fit into memory"},
    {SHAPED("[0,4294967296,4294967296]"), 8, 0, "does not fit into memory"},
    {SHAPED("[1152921504606846976]"), 8, 0,
     "x: tensor \"a\": data_offsets [0, 8] are 8 bytes, F32 [1152921504606846976] needs 4611686018427387904"},
    {SHAPED("[3]"), 8, 0, "x: tensor \"a\": data_offsets [0, 8] are 8 bytes, F32 [3] needs 12"},
    {SHAPED("[]"), 8, 0, "x: tensor \"a\": data_offsets [0, 8] are 8 bytes, F32 [] needs 4"},
    {SHAPED("[0]"), 8, 0, "x: tensor \"a\": data_offsets [0, 8] are 8 bytes, F32 [0] needs 0"},
    /* its place */
    {PLACED("[0]"), 8, 0, "x: tensor \"a\": \"data_offsets\": want two whole numbers"},
    {PLACED("[0,8,8]"), 8, 0, "x: tensor \"a\": \"data_offsets\": want two whole numbers"},
    {PLACED("[0,8.0]"), 8, 0, "x: tensor \"a\": \"data_offsets\": want two whole numbers"},
    {PLACED("{}"), 8, 0, "x: tensor \"a\": \"data_offsets\": want two whole numbers"},
    {PLACED("[8,0]"), 8, 0, "x: tensor \"a\": data_offsets [8, 0]: the data has 8 bytes"},
    {PLACED("[-8,0]"), 8, 0, "x: tensor \"a\": data_offsets [-8, 0]: the data has 8 bytes"},
    {PLACED("[1,9]"), 8, 0, "x: tensor \"a\": data_offsets [1, 9]: the data has 8 bytes"},
    {PLACED("[9223372036854775800,9223372036854775807]"), 8, 0, "the data has 8 bytes"},
    {PLACED("[-9223372036854775808,9223372036854775807]"), 8, 0, "the data has 8 bytes"},
    {A(ONE), 7, 0, "x: tensor \"a\": data_offsets [0, 8]: the data has 7 bytes"},
    {A(ONE), 9, 0, "x: the tensors end at byte 8 of the data, the file has 9"},
    {"{}", 1, 0, "x: the tensors end at byte 0 of the data, the file has 1"},
    {PLACED("[1,9]"), 9, 0, "x: tensor \"a\": data starts at 1, the data before it ends at 0: want no gap"},
    {TWO("[9,13]"), 13, 0, "x: tensor \"b\": data starts at 9, the data before it ends at 8: want no gap"},
    {TWO("[4,8]"), 8, 0, "x: tensor \"b\": data starts at 4, the data before it ends at 8: want no overlap"},
    {TWO("[0,4]"), 8, 0, "x: tensor \"a\": data starts at 0, the data before it ends at 4: want no overlap"},
};

static void test_files(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t length = strlen(files[i].header), size = 8 + length + files[i].data;
        uint64_t claimed = files[i].claimed ? (uint64_t)files[i].claimed : length;
        char *bytes = calloc(1, size); /* of exactly its size, so that the sanitizers see a byte too far */
        assert_non_null(bytes);
        memcpy(bytes, &claimed, 8);
        memcpy(bytes + 8, files[i].header, length);
        sia_safetensors *file;
        sia_error err = {0};
        sia_status status = sia_safetensors_parse(&file, bytes, size, "x", &err);
        print_message("  %s\n", status ? err.text : "taken");
        if (files[i].sentence) {
            assert_int_equal(status, SIA_FORMAT);
            assert_null(file);
            assert_sentence(&err, files[i].sentence);
        } else {
            assert_int_equal(status, SIA_OK);
        }
        sia_safetensors_close(file);
        free(bytes);
    }
}

/* Every cut of a whole file is refused; so is a byte more. */
static void test_cuts(void **state) {
    (void)state;
    char *path = in_scratch("cuts.safetensors"), *bytes;
    size_t size;
    sia_safetensors *file;
    sia_error err;
    write_declared(path, 256);
    OK(sia_file_read(path, 1 << 20, &bytes, &size, &said)); /* ends in a 0 behind its size */
    for (size_t cut = 0; cut <= size + 1; cut++) {
        if (cut == size) continue;
        assert_int_equal(sia_safetensors_parse(&file, bytes, cut, "x", &err), SIA_FORMAT);
    }
    assert_int_equal(sia_safetensors_parse(&file, bytes, 7, "x", &err), SIA_FORMAT);
    assert_sentence(&err, "x: 7 bytes: want a safetensors file, which starts with 8");
    free(bytes);
    OK(sia_file_replace(path, "", 0, &said));
    assert_int_equal(sia_safetensors_open(&file, path, &err), SIA_FORMAT);
    assert_sentence(&err, "cuts.safetensors: 0 bytes");
    assert_int_equal(sia_safetensors_open(&file, in_scratch("absent"), &err), SIA_FILE);
    assert_int_equal(sia_safetensors_open(&file, scratch, &err), SIA_FILE);
}

/* A tensor that is there, and another one is wanted. */
static void test_wants(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int dims;
        int64_t shape[3];
        const char *sentence;
    } wants[] = {
        {"embed.weight", 2, {5, 7}, NULL},
        {"scalar", 0, {0}, NULL},
        {"embed.weights", 2, {5, 7}, "tensor \"embed.weights\": not there, want F32 [5, 7]"},
        {"embed.weight", 2, {7, 5}, "tensor \"embed.weight\": F32 [5, 7], want F32 [7, 5]"},
        {"embed.weight", 1, {35}, "tensor \"embed.weight\": F32 [5, 7], want F32 [35]"},
        {"embed.weight", 3, {5, 7, 1}, "tensor \"embed.weight\": F32 [5, 7], want F32 [5, 7, 1]"},
        {"double", 1, {3}, "tensor \"double\": F64 [3], want F32 [3]"},
        {"embed.weight", 9, {0}, "tensor \"embed.weight\": 9 dimensions: want 0 to 8"},
    };
    char *path = in_scratch("wants.safetensors");
    sia_safetensors *file;
    write_declared(path, 256);
    OK(sia_safetensors_open(&file, path, &said));
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        const sia_stored_tensor *tensor = NULL;
        sia_error err = {0};
        sia_status status = sia_safetensors_want(file, wants[i].name, SIA_DTYPE_F32, wants[i].dims,
                                                 wants[i].shape, &tensor, &err);
        assert_int_equal(status != SIA_OK, wants[i].sentence != NULL);
        assert_ptr_equal(tensor, sia_safetensors_find(file, wants[i].name));
        if (wants[i].sentence) assert_sentence(&err, wants[i].sentence);
    }
    sia_safetensors_close(file);
}

/* A float at an odd byte is legal, and can be copied out of memory; what has no bytes leaves all as it is. */
static void test_unaligned(void **state) {
    (void)state;
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                 "\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[1,5]},"
                                 "\"c\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[5,5]}} ";
    _Alignas(64) char bytes[256] = {0};
    uint64_t length = sizeof header - 1;
    float value = 1.5f, back;
    while ((8 + length) % 4) length++;
    memset(bytes + 8, ' ', (size_t)length);
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, sizeof header - 1);
    memcpy(bytes + 8 + length + 1, &value, sizeof value);
    sia_safetensors *file;
    const sia_stored_tensor *tensor;
    OK(sia_safetensors_parse(&file, bytes, 8 + (size_t)length + 5, "x", &said));
    OK(sia_safetensors_want(file, "b", SIA_DTYPE_F32, 0, NULL, &tensor, &said));
    OK(sia_safetensors_copy(file, tensor, &back, &said));
    assert_true(back == value);
    OK(sia_safetensors_want(file, "c", SIA_DTYPE_F32, 1, (int64_t[]){0}, &tensor, &said));
    OK(sia_safetensors_copy(file, tensor, &back, &said));
    assert_true(back == value);
    sia_safetensors_close(file);
}

/* ------------------------------------------------------------------------------------ the writer's mistakes */

static void test_writer(void **state) {
    (void)state;
    char *path = in_scratch("writer.safetensors");
    sia_safetensors_writer *w;
    sia_error err;
    int64_t two[] = {2}, huge[] = {INT64_MAX / 4, 2}, less[] = {-1};
#define REFUSED(call, sentence)               \
    do {                                      \
        assert_int_equal(call, SIA_ARGUMENT); \
        assert_sentence(&err, sentence);      \
    } while (0)
    OK(sia_safetensors_create(&w, path, &said));
    OK(sia_safetensors_declare(w, "a", SIA_DTYPE_F32, 1, two, &said));
    REFUSED(sia_safetensors_declare(w, "a", SIA_DTYPE_F32, 1, two, &err), "\"a\" is there twice");
    REFUSED(sia_safetensors_declare(w, "__metadata__", SIA_DTYPE_F32, 1, two, &err), "is there twice");
    REFUSED(sia_safetensors_declare(w, "\xff", SIA_DTYPE_F32, 1, two, &err), "want UTF-8");
    REFUSED(sia_safetensors_declare(w, "b", SIA_DTYPE_F32, 9, two, &err), "\"b\": 9 dimensions: want 0 to 8");
    REFUSED(sia_safetensors_declare(w, "b", SIA_DTYPE_F32, 2, huge, &err), "is not a size for a tensor");
    REFUSED(sia_safetensors_declare(w, "b", SIA_DTYPE_F32, 1, less, &err),
            "F32 [-1] is not a size for a tensor");
    OK(sia_safetensors_describe(w, "k", "v", &said));
    REFUSED(sia_safetensors_describe(w, "k", "v", &err), "\"k\" is there twice");
    REFUSED(sia_safetensors_describe(w, "l", "\xc3", &err), "\"l\": want UTF-8");
    OK(sia_safetensors_declare(w, "c", SIA_DTYPE_U8, 0, NULL, &said));
    REFUSED(sia_safetensors_declare(w, "d", SIA_DTYPE_I16, 0, NULL, &err),
            "\"d\": I16 [] would start at byte 9: declare wider types first");
    REFUSED(sia_safetensors_write(w, "c", "x", 1, &err), "data of \"c\" where that of \"a\" was due");
    OK(sia_safetensors_write(w, "a", "1234567", 7, &said));
    REFUSED(sia_safetensors_declare(w, "e", SIA_DTYPE_U8, 0, NULL, &err), "\"e\" comes after the data");
    REFUSED(sia_safetensors_write(w, "a", "89", 2, &err), "tensor \"a\": 2 bytes, 1 were left");
    OK(sia_safetensors_write(w, "a", "8", 1, &said));
    REFUSED(sia_safetensors_write(w, "a", "9", 1, &err), "data of \"a\" where that of \"c\" was due");
    REFUSED(sia_safetensors_finish(w, &err), "tensor \"c\": 1 bytes are missing");
    assert_false(exists(path));

    OK(sia_safetensors_create(&w, path, &said));
    OK(sia_safetensors_declare(w, "c", SIA_DTYPE_U8, 0, NULL, &said));
    OK(sia_safetensors_write(w, "c", "x", 1, &said));
    REFUSED(sia_safetensors_write(w, "c", "x", 1, &err), "data of \"c\" where that of \"the end\" was due");
    sia_safetensors_abandon(w);
    assert_false(exists(path));
}

/* 20000 tensors: looking one up does not walk them. */
static void test_many(void **state) {
    (void)state;
    enum { MANY = 20000 };
    char *path = in_scratch("many.safetensors"), name[32];
    sia_safetensors_writer *w;
    sia_safetensors *file;
    OK(sia_safetensors_create(&w, path, &said));
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof name, "layer.%d", i);
        OK(sia_safetensors_declare(w, name, SIA_DTYPE_I32, 0, NULL, &said));
    }
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof name, "layer.%d", i);
        OK(sia_safetensors_write(w, name, &i, sizeof i, &said));
    }
    OK(sia_safetensors_finish(w, &said));
    OK(sia_safetensors_open(&file, path, &said));
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof name, "layer.%d", i);
        const sia_stored_tensor *tensor = sia_safetensors_find(file, name);
        assert_non_null(tensor);
        assert_memory_equal(tensor->data, &i, sizeof i);
    }
    sia_safetensors_close(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_specification), cmocka_unit_test(test_same_bytes),
        cmocka_unit_test(test_round_trip),    cmocka_unit_test(test_empty),
        cmocka_unit_test(test_files),         cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_wants),         cmocka_unit_test(test_unaligned),
        cmocka_unit_test(test_writer),        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests_name("safetensors", tests, scratch_create, scratch_destroy);
}
