/* SPDX-License-Identifier: MIT
 *
 * From options to settings: preset or resumed run, then config file, then options. */
#include "cli/settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/folder.h"
#include "base/json.h"
#include "cli/show.h"
#include "position/scheme.h"

static sia_status load_config(const char *path, json_t **json, sia_error *err) {
    sia_error wrong;
    sia_status status = sia_json_read(json, path, 1 << 20, &wrong);
    if (status == SIA_FORMAT)
        return sia_fail(err, SIA_FORMAT, "%s; want settings in JSON, such as the config.json of a run",
                        wrong.text);
    if (status && err) *err = wrong;
    return status;
}

static sia_status read_config(const char *path, sia_settings *settings, sia_error *err) {
    json_t *json;
    sia_status status = load_config(path, &json, err);
    if (status) return status;
    status = sia_settings_read(settings, json, path, err);
    json_decref(json);
    return status;
}

bool cli_vocabulary_given(const cli_args *args) {
    json_t *json;
    if (cli_given(args, "vocabulary")) return true;
    if (!cli_given(args, "config") || load_config(cli_text(args, "config"), &json, NULL)) return false;
    bool named = json_object_get(json_object_get(json, "model"), "vocabulary") != NULL;
    json_decref(json);
    return named;
}

/* "micro_batch" is --micro-batch. */
static const char *option_of(const char *field, char name[64]) {
    size_t i = 0;
    for (; i < 63 && field[i]; i++) name[i] = field[i];
    name[i] = 0;
    for (char *c = name; *c; c++)
        if (*c == '_') *c = '-';
    return name;
}

sia_status cli_apply(const cli_args *args, const sia_field *fields, void *settings, sia_error *err) {
    for (; fields->name; fields++) {
        char name[64];
        if (!cli_has(args, option_of(fields->name, name)) || !cli_given(args, name)) continue;
        sia_status status = SIA_OK;
        switch (fields->kind) {
        case SIA_FIELD_BOOL:
            sia_field_set(settings, fields, cli_flag(args, name));
            break;
        case SIA_FIELD_CHOICE:
            status = sia_field_choose(settings, fields, cli_text(args, name), err);
            break;
        case SIA_FIELD_REAL:
            sia_field_set(settings, fields, cli_real(args, name));
            break;
        default:
            sia_field_set(settings, fields, (double)cli_int(args, name));
        }
        if (status) return status;
    }
    return SIA_OK;
}

static int refuse_unused(const cli_args *args, const sia_field *field, const char *const *schemes,
                         int count) {
    for (; field->name; field++) {
        char name[64];
        bool used = false;
        if (!cli_has(args, option_of(field->name, name)) || !cli_given(args, name)) continue;
        for (int i = 0; i < count && !used; i++) {
            sia_scheme scheme;
            sia_error err;
            if (sia_scheme_parse(schemes[i], &scheme, &err)) return cli_fail(&err);
            used = sia_scheme_uses(scheme, field->name);
        }
        if (!used && count == 1)
            return cli_usage(args, "--%s: the scheme %s does not use it", name, cli_shown(schemes[0]));
        if (!used) return cli_usage(args, "--%s: none of the schemes uses it", name);
    }
    return CLI_DONE;
}

int cli_refuse_unused(const cli_args *args, const char *const *schemes, int count) {
    int code = refuse_unused(args, sia_model_fields, schemes, count);
    return code ? code : refuse_unused(args, sia_training_fields, schemes, count);
}

int cli_settings(const cli_args *args, const sia_settings *base, sia_settings *settings) {
    sia_error err;
    sia_status status = SIA_OK;
    if (base)
        *settings = *base;
    else
        status = sia_settings_preset(settings, cli_text(args, "preset"), &err);
    if (!status && cli_has(args, "config") && cli_given(args, "config"))
        status = read_config(cli_text(args, "config"), settings, &err);
    /* The config of a run has every number; those that follow from a length or a width follow the options. */
    if (!status && !base) sia_settings_forget(settings);
    if (!status) status = cli_apply(args, sia_model_fields, &settings->model, &err);
    if (!status) status = cli_apply(args, sia_training_fields, &settings->training, &err);
    if (!status && cli_has(args, "scheme") && cli_given(args, "scheme")) {
        sia_scheme scheme;
        status = sia_scheme_parse(cli_text(args, "scheme"), &scheme, &err);
        if (!status) (void)sia_scheme_name(scheme, settings->model.scheme);
    }
    if (!status && cli_has(args, "lengths") && cli_given(args, "lengths"))
        status = sia_multiples_parse(cli_text(args, "lengths"), settings->training.multiples, &err);
    if (status) return cli_fail(&err);
    /* With one scheme: what is wrong with the others of its settings, its user is told later. */
    sia_model_config model = settings->model;
    const char *scheme = model.scheme;
    bool known = cli_has(args, "scheme") && !sia_model_config_complete(&model, NULL);
    return known ? cli_refuse_unused(args, &scheme, 1) : CLI_DONE;
}

int cli_refuse_runs(const cli_args *args) {
    char **paths;
    int count = cli_operands(args, &paths);
    for (int i = 0; i < count; i++) {
        bool config, tokenizer;
        sia_error err;
        if (sia_folder_look(paths[i], "config.json", &config, &err) ||
            sia_folder_look(paths[i], "tokenizer.json", &tokenizer, &err))
            return cli_fail(&err);
        if (config && tokenizer)
            return cli_usage(args,
                             "%s: is a run, want text; its own tokens, if it was given text, are in %s/data",
                             paths[i], paths[i]);
    }
    return CLI_DONE;
}

int cli_study_folder(const cli_args *args, const char **out) {
    sia_error err;
    bool holds_run;
    *out = cli_text(args, "out");
    if (!*out) return cli_usage(args, "want --out FOLDER, the folder of the study");
    if (sia_folder_look(*out, "config.json", &holds_run, &err)) return cli_fail(&err);
    return holds_run ? cli_usage(args, "--out %s: holds a run: a study needs a folder of its own", *out)
                     : CLI_DONE;
}

sia_data_source cli_data_source(const cli_args *args, cli_phases *shown) {
    char **paths;
    int count = cli_operands(args, &paths);
    return (sia_data_source){.paths = paths,
                             .count = count,
                             .val = cli_text(args, "val"),
                             .tokenizer = cli_text(args, "tokenizer"),
                             .val_fraction = cli_real(args, "val-fraction"),
                             .fraction_given = cli_given(args, "val-fraction"),
                             .vocabulary_given = cli_vocabulary_given(args),
                             .stopped = cli_stopped,
                             .progress = cli_phases_show,
                             .progress_context = shown,
                             .threads = (int)cli_int(args, "threads")};
}
