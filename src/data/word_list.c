/* SPDX-License-Identifier: MIT
 *
 * Interns words: each distinct one gets a number in the order of its first appearance. */
#include "data/word_list.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"

/* Longer ones are cut: a file without spaces must not make one word of gigabytes. */
enum { LONGEST_WORD = 256 };

static bool is_letter(unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80;
}

static sia_status no_memory(const sia_word_list *w, sia_error *err) {
    return sia_fail_memory(err, ((size_t)w->count + 1) * sizeof *w->symbols + w->text_length, "words");
}

SIA_WRAPS static uint64_t hash(const char *word, size_t length) {
    uint64_t h = length;
    for (size_t i = 0; i < length; i++) h = (h ^ (unsigned char)word[i]) * 0x100000001b3u;
    return sia_mix(h);
}

const char *sia_word_list_text(const sia_word_list *w, uint32_t type, size_t *length) {
    *length = w->places[type + 1] - w->places[type];
    return w->text + w->places[type];
}

static uint64_t find_slot(const sia_word_list *w, const char *word, size_t length) {
    uint64_t at = hash(word, length) & (w->slot_count - 1);
    for (;; at = (at + 1) & (w->slot_count - 1)) {
        if (!w->slots[at]) return at;
        size_t known;
        const char *text = sia_word_list_text(w, w->slots[at] - 1, &known);
        if (known == length && memcmp(text, word, length) == 0) return at;
    }
}

/* Keeps the table at most half full. */
static sia_status rehash(sia_word_list *w, sia_error *err) {
    if ((uint64_t)w->types * 2 < w->slot_count) return SIA_OK;
    uint64_t wanted = w->slot_count ? w->slot_count * 2 : 4096;
    uint32_t *slots = calloc(wanted, sizeof *slots);
    if (!slots) return sia_fail_memory(err, wanted * sizeof *slots, "words");
    free(w->slots);
    w->slots = slots;
    w->slot_count = wanted;
    for (uint32_t type = 0; type < w->types; type++) {
        size_t length;
        const char *text = sia_word_list_text(w, type, &length);
        w->slots[find_slot(w, text, length)] = type + 1;
    }
    return SIA_OK;
}

static sia_status new_type(sia_word_list *w, uint64_t slot, const char *word, size_t length, sia_error *err) {
    if (!sia_grow(&w->places, &w->type_room, (size_t)w->types + 2, sizeof *w->places) ||
        !sia_grow(&w->text, &w->text_room, w->text_length + length, 1))
        return no_memory(w, err);
    w->places[w->types] = w->text_length;
    memcpy(w->text + w->text_length, word, length);
    w->text_length += length;
    w->slots[slot] = ++w->types;
    w->places[w->types] = w->text_length;
    return SIA_OK;
}

static bool is_full(const sia_word_list *w) { return w->limited && w->count >= w->most; }

static sia_status add_word(sia_word_list *w, const char *word, size_t length, sia_error *err) {
    w->words++;
    if (is_full(w)) return SIA_OK;
    sia_status status = rehash(w, err);
    if (status) return status;
    uint64_t slot = find_slot(w, word, length);
    if (!w->slots[slot] && (status = new_type(w, slot, word, length, err))) return status;
    if (!sia_grow(&w->symbols, &w->room, (size_t)w->count + 1, sizeof *w->symbols)) return no_memory(w, err);
    w->symbols[w->count++] = w->slots[slot] - 1;
    return SIA_OK;
}

sia_status sia_word_list_add(sia_word_list *w, const char *text, size_t bytes, sia_error *err) {
    bool kept = !is_full(w);
    sia_status status = SIA_OK;
    if (kept && !sia_grow(&w->starts, &w->document_room, (size_t)w->documents + 2, sizeof *w->starts))
        return no_memory(w, err);
    if (kept) w->starts[w->documents] = w->count;
    w->texts++;
    char word[LONGEST_WORD];
    size_t length = 0;
    for (size_t i = 0; i <= bytes; i++) {
        unsigned char c = i < bytes ? (unsigned char)text[i] : ' ';
        bool inside =
            is_letter(c) || (c == '\'' && length && i + 1 < bytes && is_letter((unsigned char)text[i + 1]));
        if (inside && length < LONGEST_WORD) {
            word[length++] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
        } else if (!inside && length) {
            if ((status = add_word(w, word, length, err))) return status;
            length = 0;
        }
    }
    if (kept) w->starts[++w->documents] = w->count;
    return SIA_OK;
}

sia_sequence sia_word_list_sequence(const sia_word_list *w) {
    return (sia_sequence){w->symbols, w->count, w->starts, w->documents};
}

void sia_word_list_free(sia_word_list *w) {
    free(w->symbols);
    free(w->starts);
    free(w->text);
    free(w->places);
    free(w->slots);
    *w = (sia_word_list){0};
}
