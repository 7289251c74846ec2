/* SPDX-License-Identifier: MIT */
#include "kernel/processor.h"

#include <stdatomic.h>
#include <stdbool.h>
#if defined(__x86_64__)
#    include <cpuid.h>
#endif

static _Atomic sia_processor found;

static sia_processor find(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    __builtin_cpu_init();
    if (__builtin_cpu_is("intel")) return SIA_PROCESSOR_INTEL;
    if (__builtin_cpu_is("amd") && __get_cpuid(1, &a, &b, &c, &d)) {
        unsigned family = (a >> 8 & 0xf) + (a >> 20 & 0xff), model = (a >> 4 & 0xf) + (a >> 12 & 0xf0);
        bool zen_4 = (model >= 0x10 && model < 0x20) || model >= 0x60; /* models of the same family */
        if (family == 0x19 && !zen_4) return SIA_PROCESSOR_ZEN_3;
        if (family == 0x1a) return SIA_PROCESSOR_ZEN_5;
    }
#endif
    return SIA_PROCESSOR_PLAIN;
}

sia_processor sia_processor_get(void) {
    sia_processor processor = atomic_load_explicit(&found, memory_order_relaxed);
    if (processor) return processor;
    processor = find();
    atomic_store_explicit(&found, processor, memory_order_relaxed);
    return processor;
}

void sia_processor_set(sia_processor processor) { atomic_store(&found, processor); }

/* Intel's own prefetching begins anew with every page of 4 KiB, and falls behind where a kernel pauses. */
int sia_read_ahead(void) { return sia_processor_get() == SIA_PROCESSOR_INTEL ? 4096 : 0; }

/* Zen 3 reads a quarter faster in two places than in one, and another twentieth in four; elsewhere two are best (on Zen 4
 * four are slower, of every type), and int8 is bound by its instructions. The sums of four rows leave no registers for a second
 * block: on Zen 3 it helps to ask, then. Zen 5 has instructions to spare, and waits for the memory unless it asks far
 * ahead: only the long reads of f32 and f16 in two places do without. */
sia_reading sia_reading_of_cache(sia_type type, int64_t rows) {
    bool few = rows < 4, bytes = type == SIA_I8;
    switch (sia_processor_get()) {
    case SIA_PROCESSOR_ZEN_3:
        return (sia_reading){.streams = rows == 1 ? 4 : few ? 2 : 1, .ahead = few ? 0 : 1024};
    case SIA_PROCESSOR_ZEN_5:
        return (sia_reading){.streams = few ? 2 : 1, .ahead = few && !bytes ? 0 : 8192};
    default:
        return (sia_reading){.streams = few && !bytes ? 2 : 1, .ahead = sia_read_ahead()};
    }
}
