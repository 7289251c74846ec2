/* SPDX-License-Identifier: MIT
 *
 * make_sample FOLDER SEEDS: sample input for the report, to look at (tests/outside/report_browser.py). */
#include <stdio.h>
#include <stdlib.h>

#include "sample.h"

int main(int argc, char **argv) {
    if (argc != 3 || sample_write(argv[1], atoi(argv[2]))) {
        fputs("make_sample FOLDER SEEDS\n", stderr);
        return 1;
    }
    return 0;
}
