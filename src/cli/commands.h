/* SPDX-License-Identifier: MIT
 *
 * The commands, each in a file of its own. A new one is declared here and listed in commands.c. */
#ifndef SIA_CLI_COMMANDS_H
#define SIA_CLI_COMMANDS_H

#include "cli/options.h"

extern const cli_command command_compare;
extern const cli_command command_train;
extern const cli_command command_eval;
extern const cli_command command_generate;
extern const cli_command command_needle;
extern const cli_command command_tokenizer_train;
extern const cli_command command_tokenizer_encode;
extern const cli_command command_tokenizer_decode;
extern const cli_command command_tokenizer_info;
extern const cli_command command_data_pack;
extern const cli_command command_data_info;
extern const cli_command command_data_generate;
extern const cli_command command_theory;
extern const cli_command command_probe;
extern const cli_command command_report;
extern const cli_command command_bench_attention;
extern const cli_command command_bench_train;
extern const cli_command command_bench_decode;
extern const cli_command command_bench_text;
extern const cli_command command_info;
extern const cli_command command_completion;
extern const cli_command command_man;

#endif
