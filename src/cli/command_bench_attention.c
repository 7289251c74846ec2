#include "cli/commands.h"
static const cli_option options[] = {{0}};
static int run(const cli_args *args) {
    (void)args;
    return 0;
}
const cli_command command_bench_attention = {
    .name = "bench attention", .summary = "", .examples = "", .options = options, .run = run};
