/* SPDX-License-Identifier: MIT
 *
 * The commands, each in a file of its own, in the order in which 'sia --help' lists them. A new one is named here, and
 * nowhere else. */
#ifndef SIA_CLI_COMMANDS_H
#define SIA_CLI_COMMANDS_H

#include "cli/options.h"

#define CLI_COMMANDS(X) \
    X(compare)          \
    X(train)            \
    X(eval)             \
    X(generate)         \
    X(needle)           \
    X(tokenizer_train)  \
    X(tokenizer_encode) \
    X(tokenizer_decode) \
    X(tokenizer_info)   \
    X(data_pack)        \
    X(data_info)        \
    X(data_generate)    \
    X(theory)           \
    X(probe)            \
    X(report)           \
    X(bench_attention)  \
    X(bench_train)      \
    X(bench_decode)     \
    X(bench_text)       \
    X(info)             \
    X(completion)       \
    X(man)

#define CLI_DECLARE(name) extern const cli_command command_##name;
CLI_COMMANDS(CLI_DECLARE)

#endif
