/* SPDX-License-Identifier: MIT
 *
 * The settings of models and of training as options, for every command that trains: rows for its table, and
 * the way from options to settings. An option that is not given leaves the preset's or the config file's
 * value alone, so none has a default of its own. */
#ifndef SIA_CLI_SETTINGS_H
#define SIA_CLI_SETTINGS_H

#include "cli/options.h"
#include "cli/progress.h"
#include "train/data.h"
#include "train/settings.h"

/* clang-format off */
#define CLI_MODEL_OPTIONS                                                                                                        \
    {"preset", CLI_TEXT, "tiny|small|medium|paper-162m|paper-304m", "tiny", "the size, and the recipe that goes with it", 0, 0}, \
    {"config", CLI_TEXT, "FILE", NULL, "settings from a JSON file, such as the config.json of a run", 0, 0},                     \
    CLI_SHAPE_OPTIONS

#define CLI_SHAPE_OPTIONS                                                                                               \
    {"layers", CLI_INT, "N", NULL, "blocks of the model [by the preset]", 1, 1024},                                     \
    {"width", CLI_INT, "N", NULL, "numbers of the residual stream [by the preset]", 8, 65536},                          \
    {"heads", CLI_INT, "N", NULL, "heads of attention [by the preset]", 1, 1024},                                       \
    {"kv-heads", CLI_INT, "N", NULL, "heads of keys and values [as many as heads]", 1, 1024},                           \
    {"head-dim", CLI_INT, "N", NULL, "numbers of a head [width / heads]", 8, 256},                                      \
    {"hidden", CLI_INT, "N", NULL, "numbers inside the MLP [4 times the width]", 8, 1048576},                           \
    {"vocabulary", CLI_INT, "N", NULL, "tokens; of a tokenizer that is trained, its size [by the preset]", 2, 1048576}, \
    {"train-len", CLI_INT, "N", NULL, "tokens of a training sequence [by the preset]", 1, 1073741824},                  \
    {"tau", CLI_REAL, "X", NULL, "si: the length scale [10]", 1e-9, 1e12},                                              \
    {"alpha", CLI_REAL, "X", NULL, "si: the paper's alpha [sqrt(e)]", 1e-9, 1e9},                                       \
    {"beta", CLI_REAL, "X", NULL, "si: the paper's beta [sqrt(e)]", 1e-9, 1e9},                                         \
    {"sharp", CLI_REAL, "X", NULL, "sharp: the factor on the logits [2]", 1e-9, 1e6},                                   \
    {"rotary-base", CLI_REAL, "X", NULL, "base of rope, ntk, yarn [10000 train-len / 4096]", 1e-9, 1e15},               \
    {"prope-base", CLI_REAL, "X", NULL, "base of prope [train-len / 4]", 1e-9, 1e15},                                   \
    {"prope-share", CLI_REAL, "X", NULL, "prope: the share of pairs that turn [0.5]", 1e-9, 1},                         \
    {"init", CLI_TEXT, "paper|narrow", NULL, "how block matrices start [paper, tiny narrow]", 0, 0},                    \
    {"seed", CLI_INT, "N", NULL, "of the initial weights [0]", 0, 9e15}

#define CLI_TRAINING_OPTIONS                                                                                                               \
    {"steps", CLI_INT, "N", NULL, "steps of training [2000, tiny 500, paper 4578, 10900]", 1, 1e9},                                        \
    {"batch", CLI_INT, "N", NULL, "sequences of a step [8, paper 128, 224]", 1, 1e6},                                                           \
    {"micro-batch", CLI_INT, "N", NULL, "of them in memory at a time [all, paper 1]", 1, 1e6},                                             \
    {"embedding-rate", CLI_REAL, "X", NULL, "Adam's rate for the embedding [0.3]", 0, 1e3},                                                \
    {"matrix-rate", CLI_REAL, "X", NULL, "Muon's rate for matrices [0.02, paper-304m 0.015]", 0, 1e3},                                     \
    {"unembedding-rate", CLI_REAL, "X", NULL, "Adam's rate for the unembedding [0.002, tiny 0.004]", 0, 1e3},                              \
    {"scalar-rate", CLI_REAL, "X", NULL, "Adam's rate for LogN's scales [0.002]", 0, 1e3},                                                 \
    {"beta1", CLI_REAL, "X", NULL, "decay of Adam's first moment [0.9]", 0, 0.9999999},                                                    \
    {"beta2", CLI_REAL, "X", NULL, "decay of Adam's second moment [0.95]", 0, 0.9999999},                                                  \
    {"epsilon", CLI_REAL, "X", NULL, "Adam's epsilon [1e-8]", 1e-30, 1},                                                                   \
    {"momentum", CLI_REAL, "X", NULL, "Muon's momentum [0.95]", 0, 0.9999999},                                                             \
    {"weight-decay", CLI_REAL, "X", NULL, "of all but scalars [0]", 0, 1e3},                                                               \
    {"clip", CLI_REAL, "X", NULL, "the largest norm of the gradient, 0: none [0]", 0, 1e12},                                               \
    {"schedule", CLI_TEXT, "constant|linear|cosine", NULL, "of the rates; linear: constant, then down [linear, paper-304m cosine]", 0, 0}, \
    {"warmup", CLI_INT, "N", NULL, "steps in which the rates rise [0]", 0, 1e9},                                                           \
    {"cooldown", CLI_REAL, "X", NULL, "linear: the share of steps in which they fall [0.3, paper 0.286]", 0, 1},                           \
    {"order", CLI_TEXT, "sequential|shuffled", NULL, "of the sequences [shuffled, paper sequential]", 0, 0},                               \
    {"data-seed", CLI_INT, "N", NULL, "of their order, and of generated text [0]", 0, 9e15},                                               \
    {"recompute", CLI_FLAG, NULL, NULL, "less memory, a third more work", 0, 0},                                                           \
    {"log-every", CLI_INT, "N", NULL, "steps from one line of metrics to the next [10]", 1, 1e9},                                          \
    {"eval-every", CLI_INT, "N", NULL, "steps from one validation to the next, 0: at the end [0, paper 125]", 0, 1e9},                     \
    {"save-every", CLI_INT, "N", NULL, "steps from one checkpoint to the next, 0: at the end [500, paper 125]", 0, 1e9},                   \
    {"keep", CLI_INT, "N", NULL, "checkpoints that are kept, 0: all [2]", 0, 1e6},                                                         \
    {"eval-windows", CLI_INT, "N", NULL, "windows of the longest length to validate on [32, paper 152]", 1, 1e6},                          \
    {"join", CLI_FLAG, NULL, NULL, "validation: windows may run from one document into the next [no, paper yes]", 0, 0},          \
    {"lengths", CLI_TEXT, "LIST", NULL, "of validation, in training lengths [1x,4x,16x]", 0, 0}

#define CLI_DATA_OPTIONS                                                         \
    {"val", CLI_TEXT, "PATH", NULL, "text or shards to validate on", 0, 0},      \
    {"val-fraction", CLI_REAL, "F", "0.05", "or this part of the text", 0, 0.5}, \
    {"tokenizer", CLI_TEXT, "PATH", NULL, "a tokenizer.json; else one is trained on the text", 0, 0}
/* clang-format on */

/* From `base` (a resumed run's) or, when it is NULL, from the preset; then the config file, then the options.
 * Fields of the settings that the command has no option for are left alone. Returns CLI_DONE or an exit code. */
int cli_settings(const cli_args *args, const sia_settings *base, sia_settings *settings);

/* Whether the option or the config file names the vocabulary: else it follows the tokenizer. */
bool cli_vocabulary_given(const cli_args *args);

/* Wrong usage where an option is given that makes no difference to any of the schemes; cli_settings asks it where a
 * command has one. */
int cli_refuse_unused(const cli_args *args, const char *const *schemes, int count);

/* A run is a folder, and a folder is text; but nobody wants to train on the JSON of a run. An exit code. */
int cli_refuse_runs(const cli_args *args);

/* The folder of a study, --out: it must be given, and hold no run. CLI_DONE or an exit code. */
int cli_study_folder(const cli_args *args, const char **out);

/* What a command with CLI_DATA_OPTIONS trains on: its operands and those options; what is prepared shows on the
 * line. */
sia_data_source cli_data_source(const cli_args *args, cli_phases *shown);
#define CLI_TWO_VALS "want --val or --val-fraction, not both"

/* Sets the fields of a table whose options were given; a field "micro_batch" is the option --micro-batch. Fields
 * that the command has no option for are left alone. */
sia_status cli_apply(const cli_args *args, const sia_field *fields, void *settings, sia_error *err);

#endif
