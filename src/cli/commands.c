/* SPDX-License-Identifier: MIT
 *
 * The commands in the order in which 'sia --help' lists them. */
#include "cli/commands.h"

const cli_command *const cli_commands[] = {
    &command_compare,
    &command_train,
    &command_eval,
    &command_generate,
    &command_needle,
    &command_tokenizer_train,
    &command_tokenizer_encode,
    &command_tokenizer_decode,
    &command_tokenizer_info,
    &command_data_pack,
    &command_data_info,
    &command_data_generate,
    &command_theory,
    &command_probe,
    &command_report,
    &command_bench_attention,
    &command_bench_train,
    &command_bench_decode,
    &command_bench_text,
    &command_info,
    &command_completion,
    &command_man,
    NULL,
};
