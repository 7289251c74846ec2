/* SPDX-License-Identifier: MIT */
#include "cli/deliver.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/path.h"
#include "cli/show.h"

sia_status cli_deliver(const cli_lines *l, sia_error *err) {
    if (l->on_stdout && fwrite(l->lines, 1, l->size, stdout) != l->size)
        return sia_fail(err, SIA_FILE, "stdout: %s", strerror(errno));
    if (!l->folder) return SIA_OK;
    char *path = sia_path_join(l->folder, l->file);
    sia_status status =
        path ? sia_link_refuse(l->folder, l->file, err) : sia_fail_memory(err, strlen(l->folder), "path");
    if (!status) status = sia_file_replace(path, l->lines, l->size, err);
    if (!status && l->tell) fprintf(stderr, "%s: written\n", cli_shown(path));
    free(path);
    return status;
}
