/* SPDX-License-Identifier: MIT
 *
 * What kernels are told of the processor beside its instruction set: how it likes to read what no cache holds. Every
 * rule here was measured (docs/speed.md); a processor that none is known for is a plain one. */
#ifndef SIA_KERNEL_PROCESSOR_H
#define SIA_KERNEL_PROCESSOR_H

#include <sia.h>

typedef enum sia_processor {
    SIA_PROCESSOR_PLAIN = 1, /* AMD's Zen 4 among them */
    SIA_PROCESSOR_INTEL,
    SIA_PROCESSOR_ZEN_3,
    SIA_PROCESSOR_ZEN_5,
} sia_processor;

/* Found once. */
sia_processor sia_processor_get(void);

/* For the tests: makes sia_processor_get return this one (0: look again). Not while other threads compute. */
void sia_processor_set(sia_processor processor);

typedef struct sia_reading {
    int streams; /* blocks of a cache that are read side by side: 1, 2 for up to three queries, or 4 for one */
    int ahead;   /* bytes that are asked for by hand before they are read, over all streams; 0: none */
} sia_reading;

/* A KV cache of this type, by so many rows of queries. */
sia_reading sia_reading_of_cache(sia_type type, int64_t rows);

/* Memory, from one end to the other: sia_reading.ahead. */
int sia_read_ahead(void);

#endif
