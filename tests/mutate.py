#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Do the tests notice when the code is wrong? One small change at a time: a sign, an offset, a bound, a constant.

    python3 tests/mutate.py --build build/release              200 mutants of all files, drawn by the seed
    python3 tests/mutate.py --build ... --only src/eval        of the files whose path contains this
    python3 tests/mutate.py --build ... --try 17               one of them again, with the output of the tests
    SIA_TEST_ISA=avx512 python3 tests/mutate.py ...            kernels of another instruction set than AVX2

The source tree is not touched: a changed copy lies in a folder that the compiler looks into first. Only the one
file is compiled (-O1, one instruction set; of a kernel's header, a table that takes the functions of that header
from the copy and all others from the library), put before the library in the link of a test, and of the program
where the test runs it, and the tests that know that file run until one fails; where none does, they run once more
with the address sanitizer in the changed file. A mutant that does not compile, or compiles to the same instructions
as the original, is replaced by the next, and so is <= for < in the smaller or larger of two, and one that changes
nothing a test could see: those are listed, with the reason, in tests/mutants.txt, and reported by name and number.

TARGETS has every file of the library but those of src/base and src/report: where a silent error would spoil results.
"""
import argparse, contextlib, hashlib, json, os, random, re, resource, shlex, shutil, signal, subprocess, sys, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ISA = os.environ.get("SIA_TEST_ISA", "avx2")
KERNEL_UNIT = f"src/kernel/isa_{ISA}.c"

# The functions of the kernels' table that a header holds; what all are made of is not here: all are taken.
KERNEL_FUNCTIONS = {
    "pack.h": "pack_columns pack_keys unpack turn row_dots",
    "forward.h": "largest_magnitude block_floats ready_block softmax_floats softmax_begin softmax_keys softmax_end",
    "backward.h": "gradient_floats gradient_begin gradient_weights gradient_q gradient_kv gradient_end",
    "decode.h": "cache_block_bytes cache_write cache_read decode",
    "multiply.h": "panels_from_rows panels_from_columns strips_from_rows multiply mirror",
    "rows.h": "norm_rows norm_rows_back relu_square relu_square_back cross_entropy",
    "update.h": "sum_squares scale update_adam update_momentum",
}

# What takes their place with AMX. The names in the table are those without "amx_".
AMX_FUNCTIONS = {
    "forward_amx.h": "amx_block_floats amx_ready_block amx_softmax_floats amx_softmax_begin amx_softmax_keys",
    "backward_amx.h": "amx_gradient_floats amx_gradient_begin amx_gradient_weights amx_gradient_q amx_gradient_kv "
                      "amx_gradient_end",
    "multiply_amx.h": "amx_multiply",
}
if ISA == "amx":
    KERNEL_FUNCTIONS.update(AMX_FUNCTIONS)

# File, the unit that it is compiled in, the tests that know it; quick ones first.
ATTENTION = ["attention/test_invariants", "attention/test_extremes", "attention/test_schemes", "attention/test_cache"]
CACHE = ["attention/test_extremes", "attention/test_cache"]
MODEL = ["model/test_weights", "model/test_gradient", "model/test_session"]
RANKS = ["comm/test_comm", "comm/test_trainer"]
TARGETS = {
    "src/kernel/vector.h": (KERNEL_UNIT, ["kernel/test_numbers", *ATTENTION]),
    "src/kernel/tile.h": (KERNEL_UNIT, ["kernel/test_multiply", *ATTENTION]),
    "src/kernel/pack.h": (KERNEL_UNIT, ["kernel/test_multiply", *ATTENTION]),
    "src/kernel/forward.h": (KERNEL_UNIT, ["kernel/test_numbers", *ATTENTION]),
    "src/kernel/backward.h": (KERNEL_UNIT, ATTENTION[:3]),
    "src/kernel/decode.h": (KERNEL_UNIT, CACHE),
    "src/kernel/multiply.h": (KERNEL_UNIT, ["kernel/test_multiply", "kernel/test_numbers"]),
    "src/kernel/rows.h": (KERNEL_UNIT, ["kernel/test_numbers"]),
    "src/kernel/update.h": (KERNEL_UNIT, ["kernel/test_numbers", "optim/test_optimizer"]),
    **({f"src/kernel/{name}.h": (KERNEL_UNIT, ["attention/test_tiles", *ATTENTION[:3]])
        for name in ("amx", "forward_amx", "backward_amx")} if ISA == "amx" else {}),
    **({"src/kernel/multiply_amx.h": (KERNEL_UNIT, ["kernel/test_multiply", "kernel/test_numbers"])}
       if ISA == "amx" else {}),
    "src/kernel/matrix.c": (None, ["kernel/test_multiply"]),
    "src/attention/attention.c": (None, ["attention/test_errors", "attention/test_tables", *ATTENTION]),
    "src/attention/forward.c": (None, ["attention/test_errors", *ATTENTION[:3]]),
    "src/attention/backward.c": (None, ["attention/test_errors", *ATTENTION[:3]]),
    "src/attention/cache.c": (None, ["attention/test_errors", *CACHE]),
    "src/attention/ring.c": (None, ["comm/test_ring", "comm/test_trainer"]),
    "src/comm/comm.c": (None, [*RANKS, "comm/test_ring"]),
    "src/comm/exchange.c": (None, RANKS),
    "src/text/encode.c": (None, ["text/test_encode", "text/test_split", "text/test_train"]),
    "src/text/merge.c": (None, ["text/test_encode", "text/test_train"]),
    "src/text/pieces.c": (None, ["text/test_train", "text/test_encode"]),
    "src/text/read.c": (None, ["text/test_read", "text/test_file"]),
    "src/text/split.c": (None, ["text/test_split", "text/test_encode", "text/test_train"]),
    "src/text/train.c": (None, ["text/test_train"]),
    "src/text/vocabulary.c": (None, ["text/test_read", "text/test_encode", "text/test_train"]),
    "src/text/write.c": (None, ["text/test_read", "text/test_train", "text/test_file"]),
    "src/data/batch.c": (None, ["data/test_batch"]),
    "src/data/corpus.c": (None, ["data/test_batch", "data/test_shard", "data/test_haystack", "data/test_pack", "data/test_source"]),
    "src/data/haystack.c": (None, ["data/test_haystack", "eval/test_retrieval"]),
    "src/data/inputs.c": (None, ["data/test_pack", "data/test_source"]),
    "src/data/lexicon.c": (None, ["data/test_source"]),
    "src/data/manifest.c": (None, ["data/test_shard", "cli/test_wrong_uses", "data/test_pack"]),
    "src/data/pack.c": (None, ["data/test_pack"]),
    "src/data/shard.c": (None, ["data/test_shard", "data/test_pack"]),
    "src/data/source.c": (None, ["data/test_source"]),
    "src/data/statistics.c": (None, ["data/test_statistics"]),
    "src/data/word_list.c": (None, ["data/test_statistics", "data/test_source"]),
    "src/position/scheme.c": (None, ["attention/test_tables", "attention/test_errors", *ATTENTION[:3], "comm/test_ring"]),
    "src/position/table.c": (None, ["attention/test_tables", *ATTENTION]),
    "src/model/config.c": (None, [*MODEL, "train/test_settings"]),
    "src/model/generate.c": (None, ["eval/test_generate"]),
    "src/model/loss.c": (None, ["model/test_gradient", "model/test_weights"]),
    "src/model/model.c": (None, MODEL),
    "src/model/parameters.c": (None, MODEL),
    "src/model/sample.c": (None, ["model/test_session", "eval/test_generate"]),
    "src/model/session.c": (None, ["model/test_session", "eval/test_generate", "eval/test_loss"]),
    "src/model/tap.c": (None, ["model/test_session", "eval/test_probe"]),
    "src/model/training.c": (None, [*MODEL, "comm/test_trainer"]),
    "src/model/validation.c": (None, ["model/test_session", "eval/test_loss", "comm/test_trainer"]),
    "src/optim/muon.c": (None, ["kernel/test_numbers", "optim/test_optimizer"]),
    "src/optim/optimizer.c": (None, ["optim/test_optimizer", "comm/test_trainer"]),
    "src/optim/schedule.c": (None, ["optim/test_schedule"]),
    "src/train/checkpoint.c": (None, ["train/test_checkpoint", "comm/test_trainer"]),
    "src/train/data.c": (None, ["train/test_settings", "cli/test_wrong_uses", "train/test_train"]),
    "src/train/gather.c": (None, ["comm/test_trainer"]),
    "src/train/model_file.c": (None, ["train/test_checkpoint", "train/test_train"]),
    "src/train/run.c": (None, ["train/test_run", "train/test_train"]),
    "src/train/settings.c": (None, ["train/test_settings", "train/test_train"]),
    "src/train/train.c": (None, ["train/test_settings", "comm/test_trainer", "train/test_train"]),
    "src/train/trainer.c": (None, ["train/test_trainer", "comm/test_trainer"]),
    "src/eval/distance_sum.c": (None, ["eval/test_rows", "eval/test_theory"]),
    "src/eval/loss.c": (None, ["eval/test_loss"]),
    "src/eval/probe.c": (None, ["eval/test_probe"]),
    "src/eval/property.c": (None, ["eval/test_theory"]),
    "src/eval/quantile.c": (None, ["eval/test_probe"]),
    "src/eval/retrieval.c": (None, ["eval/test_retrieval", "study/test_needle"]),
    "src/eval/rows.c": (None, ["eval/test_rows", "eval/test_theory"]),
    "src/eval/text.c": (None, ["eval/test_loss"]),
    "src/eval/theory.c": (None, ["eval/test_theory", "eval/test_command"]),
    "src/eval/thin.c": (None, ["eval/test_rows", "eval/test_theory"]),
    "src/study/compare.c": (None, ["comm/test_study", "study/test_compare"]),
    "src/study/compare_lines.c": (None, ["comm/test_study", "study/test_compare"]),
    "src/study/compare_plan.c": (None, ["comm/test_study", "study/test_compare"]),
    "src/study/needle.c": (None, ["comm/test_study", "study/test_needle", "study/test_needle_command"]),
    "src/study/needle_lines.c": (None, ["comm/test_study", "study/test_needle", "study/test_needle_command"]),
}

# Hints to the processor: they change the speed alone.
HINTS = re.compile(r"__builtin_prefetch|__builtin_cpu_is|prefetch_row|prefetch_bytes|read_ahead|\bahead\b|_AHEAD|AHEAD_|enum \{ LINES")

# ---------------------------------------------------------------------------------------------------- mutants

def blank(text):
    """Comments, strings, characters and preprocessor lines as spaces, so that places stay what they are; and numbers
    that nobody sees: the bytes that there was no memory for, the room of an array."""
    def spaces(m):
        return re.sub(r"[^\n]", " ", m.group())
    text = re.sub(r"/\*.*?\*/|//[^\n]*", spaces, text, flags=re.S)
    text = re.sub(r'"(\\.|[^"\\\n])*"|' r"'(\\.|[^'\\\n])+'", spaces, text)
    text = re.sub(r"^[ \t]*#(\\\n|[^\n])*", spaces, text, flags=re.M)
    text = re.sub(r"\bsia_fail_memory\([^;]*;|\b(char|float|double) \w+\[\d+\]", spaces, text)
    return re.sub(r"_Static_assert[^;]*;|\b(assert|static)\([^;]*;", spaces, text)

OPERATORS = {
    "<=": ["<"], ">=": [">"], "<": ["<=", ">"], ">": [">=", "<"], "==": ["!="], "!=": ["=="],
    "&&": ["||"], "||": ["&&"], "+=": ["-="], "-=": ["+="], "+": ["-"], "-": ["+"],
}
TOKEN = re.compile(r"0x[0-9a-fA-F.]+(?:p[-+]?\d+)?[fuUlL]*|\d+\.?\d*(?:e[-+]?\d+)?[fuUlL]*|[A-Za-z_]\w*|"
                   r"<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||\+=|-=|\*=|/=|[-+*/<>=!&|%^~?:;,.(){}\[\]]")

def changed_number(token):
    """An integer one larger, a real a thousandth larger: the smallest slips of a pen."""
    if re.fullmatch(r"\d+", token):
        return str(int(token) + 1)
    if re.fullmatch(r"\d+\.\d*(e[-+]?\d+)?f?", token) and float(token.rstrip("f")) != 0:
        return repr(float(token.rstrip("f")) * 1.001) + ("f" if token.endswith("f") else "")
    return None

def mutants_of(path):
    with open(os.path.join(ROOT, path)) as f:
        text = f.read()
    bare, found = blank(text), []
    tokens = [(m.start(), m.group()) for m in TOKEN.finditer(bare)]
    for i, (at, token) in enumerate(tokens):
        start = text.rfind("\n", 0, at) + 1
        line = text[start:text.find("\n", at)]
        if HINTS.search(line):
            continue
        before = tokens[i - 1][1] if i else ""
        binary = re.fullmatch(r"[\w.]+|\)|\]", before) and before not in ("return", "case", "else", "sizeof")
        new = []
        if token in OPERATORS:
            if token not in "+-" or binary:
                new = OPERATORS[token]
            elif token == "-":
                new = [""]
        elif changed_number(token) and before not in ("->", "."):
            new = [changed_number(token)]
        for to in new:
            number = text.count("\n", 0, at) + 1
            found.append({"file": path, "line": number, "at": at, "from": token, "to": to, "text": line.strip(),
                          "column": at - start + 1, "nth": text.count(token, start, at)})
    return found

def name_of(m):
    return f'{m["file"]}:{m["line"]}:{m["column"]}: {m["from"]} to {m["to"] or "nothing"}: {m["text"]}'

def operand(bare, at, step, stops):
    """The text from `at` on, in the direction of step, up to one of stops outside of brackets."""
    depth, i, opening, closing = 0, at, "([" if step > 0 else ")]", ")]" if step > 0 else "(["
    while 0 <= i < len(bare):
        c = bare[i]
        if depth == 0 and (c in stops or c in closing):
            break
        depth += (c in opening) - (c in closing)
        i += step
    text = bare[at:i] if step > 0 else bare[i + 1:at + 1]
    return re.sub(r"\s+", " ", text).strip(), i

def is_smaller_or_larger(m):
    """a < b ? a : b is the same number with <=, and so are its kin, and if (a < b) a = b: no mutant."""
    if m["to"] not in (m["from"] + "=", m["from"][0]) or m["to"] == m["from"]:
        return False
    with open(os.path.join(ROOT, m["file"])) as f:
        bare = blank(f.read()).replace("->", "..").replace("return ", "      ;")
    left, _ = operand(bare, m["at"] - 1, -1, "=;,?:{}&|<>")
    right, end = operand(bare, m["at"] + len(m["from"]), 1, "?;,{}&|<>=")
    assignment = re.match(r"\)\s*([^=;]*[^=;\s]) = ([^=;]+);", bare[end:])
    if assignment:
        return {left, right} == set(assignment.groups())
    if end >= len(bare) or bare[end] != "?":
        return False
    yes, end = operand(bare, end + 1, 1, ":;,{}")
    no, _ = operand(bare, end + 1, 1, ";,?{}:")
    return {left, right} == {yes, no}

# The place of a line may move; its text, the change and which of its kind it is on the line do not.
def key_of(m):
    return f'{m["file"]} | {m["text"]} | {m["from"]} -> {m["to"] or "nothing"} #{m["nth"]}'

def identity(m):
    with open(os.path.join(ROOT, m["file"]), "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()[:16] + f' {m["file"]} {m["at"]} {m["from"]} {m["to"]}'

def read_results(path):
    if not path or not os.path.exists(path):
        return {}
    with open(path) as f:
        return {r["mutant"]: r["result"] for r in map(json.loads, f)}

def read_equivalent():
    """tests/mutants.txt: a line with the key, then the reason, indented."""
    reasons, key = {}, None
    path = os.path.join(ROOT, "tests/mutants.txt")
    for line in open(path) if os.path.exists(path) else []:
        if line.startswith("#") or not line.strip():
            continue
        if line[0].isspace():
            reasons[key] = (reasons[key] + " " + line.strip()).strip()
        else:
            key = line.strip()
            reasons[key] = ""
    return reasons

def check_lists(everything, equivalent):
    """What is written down here and in tests/mutants.txt must be there: a list that no longer fits hides something."""
    with open(os.path.join(ROOT, "src/kernel/body.h")) as f:
        table = set(re.findall(r"^    \.(\w+) = (?:\1|TILED\(\1\)),$", f.read(), re.M))
    with open(os.path.join(ROOT, "src/kernel/measure.h")) as f:
        measure = f.read()
    known = {name.removeprefix("amx_") for name in " ".join(KERNEL_FUNCTIONS.values()).split()}
    wrong = [f"{name}: in no entry of KERNEL_FUNCTIONS" for name in sorted(table - known - {"supported"})
             if f" {name}(" not in measure]
    wrong += [f"{name}: not in the table of body.h" for name in sorted(known - table)]
    keys = {key_of(m) for m in everything}
    wrong += [f"tests/mutants.txt: no such mutant: {key}" for key in equivalent if key not in keys]
    if wrong:
        sys.exit("\n".join(wrong))

# ---------------------------------------------------------------------------------------------------- building

class Builder:
    def __init__(self, build):
        self.build = os.path.abspath(build)
        self.work = os.path.join(self.build, "mutants")
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(self.work)
        with open(os.path.join(self.build, "compile_commands.json")) as f:
            self.commands = {os.path.relpath(c["file"], ROOT): c for c in json.load(f)}
        with open(os.path.join(self.build, "build.ninja")) as f:
            self.ninja = f.read()
        self.originals, self.seconds = {}, {}

    def compile(self, path, unit, text, more=()):
        """The object of the unit with this text in place of the file; None where it does not compile."""
        overlay = os.path.join(self.work, "overlay")
        shutil.rmtree(overlay, ignore_errors=True)
        copy = os.path.join(overlay, os.path.relpath(path, "src"))
        os.makedirs(os.path.dirname(copy))
        with open(copy, "w") as f:
            f.write(text)
        source = unit or path
        command = self.commands[source]
        if unit:
            copy = self.kernel_unit(os.path.basename(path))
        words = [w for w in shlex.split(command["command"]) if w not in ("-g", "-Werror")]
        out = os.path.join(self.work, "mutant.o")
        words[words.index("-o") + 1] = out
        words[words.index("-c") + 1] = copy
        words[1:1] = ["-I" + overlay]
        words += ["-O1", "-w", "-fno-ident", *more]
        if subprocess.run(words, cwd=command["directory"], capture_output=True).returncode:
            return None
        # The path of the copy is in the symbol table of a .c file; instructions and data are what counts.
        subprocess.run(["objcopy", "-O", "binary", "--only-section=.text*", "--only-section=.rodata*",
                        "--only-section=.data*", out, out + ".bin"], capture_output=True)
        relocations = subprocess.run(["objdump", "-dr", "--no-show-raw-insn", out], capture_output=True).stdout
        with open(out + ".bin", "rb") as f:
            data = f.read()
        return hashlib.sha256(data + relocations.split(b"\n", 3)[-1]).hexdigest()

    def limit_of(self, test):
        """Seconds that a mutant gets: some times what the test takes without a change, which it must pass."""
        if test not in self.seconds:
            before = cpu_seconds()
            if not run(os.path.join(self.build, "tests", test), os.path.join(self.build, "sia")):
                sys.exit(f"{test} fails without a change")
            self.seconds[test] = int(4 * (cpu_seconds() - before) + 3)
        return self.seconds[test]

    def kernel_unit(self, header):
        """A table of kernels: the library's, but for the functions of the header and of what it is made of."""
        with open(os.path.join(ROOT, KERNEL_UNIT)) as f:
            defines = re.findall(r"#define (?:VW|MR|NV) \d+", f.read())
        # tile.h is part of every loop of a product, vector.h of everything.
        headers = {"tile.h": ["pack.h", "forward.h", "backward.h", "multiply.h"],
                   "amx.h": list(AMX_FUNCTIONS), "vector.h": list(KERNEL_FUNCTIONS)}.get(header, [header])
        lines = defines + [f'#include "kernel/{h}"' for h in headers]
        lines += ["extern const sia_kernel sia_kernel_original;", f"sia_kernel sia_kernel_{ISA};",
                  "__attribute__((constructor)) static void take(void) {", f"    sia_kernel *k = &sia_kernel_{ISA};",
                  "    *k = sia_kernel_original;"]
        lines += [f"    k->{name.removeprefix('amx_')} = {name};" for h in headers for name in KERNEL_FUNCTIONS[h].split()]
        path = os.path.join(self.work, "unit.c")
        with open(path, "w") as f:
            f.write("\n".join(lines + ["}", ""]))
        return path

    def original_kernel(self):
        """The library's own kernels under another name."""
        out = os.path.join(self.work, "original.o")
        if not os.path.exists(out):
            subprocess.run(["objcopy", "--redefine-sym", f"sia_kernel_{ISA}=sia_kernel_original",
                            f"CMakeFiles/sia_objects.dir/{KERNEL_UNIT}.o", out], cwd=self.build, check=True)
        return out

    def link(self, target, more):
        """A program with the mutant before the library, whose own object is then not taken; and whether it runs sia."""
        block = re.search(r"^build %s: (.*?(\S+\.c\.o) .*?)\n(.*?)\n\n" % target, self.ninja, re.S | re.M)
        libraries = re.search(r"LINK_LIBRARIES = (.*)", block.group(3)).group(1)
        wrapped = re.findall(r"-Wl,--wrap=\S+", block.group(3))
        out = os.path.join(self.work, os.path.basename(target))
        words = ["cc", *more, *wrapped, "-o", out, block.group(2), os.path.join(self.work, "mutant.o"), self.original_kernel(),
                 *shlex.split(libraries)]
        result = subprocess.run(words, cwd=self.build, capture_output=True, text=True)
        if result.returncode:
            sys.exit(f"link of {target}: {result.stderr}")
        return out, block.group(1).endswith(" sia")

    def passes(self, test, show, times=1, more=()):
        program, runs_sia = self.link("tests/" + test, more)
        sia = self.link("sia", more)[0] if runs_sia else None
        return run(program, sia, show, times * self.limit_of(test))

def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

def run(program, sia=None, show=False, seconds=600):
    """Whether it passes, in so many seconds of the processor: a loop without an end is noticed, too."""
    def limits():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The first failure ends a test at once: a crash that cmocka caught would leave other threads waiting for ever.
    environment = dict(os.environ, SIA_ISA=ISA, SIA_TEST_ISA=ISA, SIA_TEST_HASTE="1", CMOCKA_TEST_ABORT="1", SIA=sia or "")
    where = None if show else subprocess.DEVNULL
    with subprocess.Popen([program], env=environment, stdout=where, stderr=where, preexec_fn=limits,
                          start_new_session=True) as process:
        try:
            return process.wait(20 * seconds) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            # What a test began may go on when it has failed.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

# ---------------------------------------------------------------------------------------------------- the check

def attempt(builder, m, show=False):
    """'broken' (does not compile), 'same' (the same instructions), a test that failed, or None: it lives."""
    unit, tests = TARGETS[m["file"]]
    with open(os.path.join(ROOT, m["file"])) as f:
        text = f.read()
    if m["file"] not in builder.originals:
        builder.originals[m["file"]] = builder.compile(m["file"], unit, text)
    changed = text[:m["at"]] + m["to"] + text[m["at"] + len(m["from"]):]
    found = builder.compile(m["file"], unit, changed)
    if found is None:
        return "broken"
    if found == builder.originals[m["file"]]:
        return "same"
    for test in tests:
        if not builder.passes(test, show):
            return test
    # What a step outside of an array does may be seen by nobody but the sanitizer, which the tests also run with.
    sanitizer = ["-fsanitize=address"]
    builder.compile(m["file"], unit, changed, sanitizer)
    for test in tests:
        if not builder.passes(test, show, 4, sanitizer):
            return test + " with the address sanitizer"
    return None

def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", help="a release build with its tests")
    parser.add_argument("--check", action="store_true", help="only whether what is listed is still there")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="files whose path contains this")
    parser.add_argument("--keep", help="a file of results: what was caught before, in unchanged files, stays so")
    parser.add_argument("--try", dest="one", type=int, help="one mutant, by its number, with the tests' output")
    parser.add_argument("--least", type=float, default=95, help="percent that must be caught")
    options = parser.parse_args()

    everything = [m for path in TARGETS for m in mutants_of(path)]
    equivalent = read_equivalent()
    check_lists(everything, equivalent)
    if options.check:
        print(f"{len(everything)} mutants, {len(equivalent)} of them listed as equivalent")
        return 0
    if not options.build:
        parser.error("--build: want a release build with its tests")
    everything = [m for m in everything if options.only in m["file"]]
    random.Random(options.seed).shuffle(everything)
    builder = Builder(options.build)
    if options.one is not None:
        m = everything[options.one]
        print(name_of(m), flush=True)
        print(attempt(builder, m, show=True) or "it lives")
        return 0
    tally = {"broken": 0, "same": 0, "caught": 0, "sanitizer": 0, "lives": 0, "equivalent": 0}
    start, tried, known = time.time(), 0, read_results(options.keep)
    for number, m in enumerate(everything):
        if tried == options.count:
            break
        if is_smaller_or_larger(m):
            continue
        if key_of(m) in equivalent:
            result = "equivalent"
        else:
            result = known.get(identity(m)) or attempt(builder, m)
            if options.keep and result and identity(m) not in known:
                with open(options.keep, "a") as f:
                    f.write(json.dumps({"mutant": identity(m), "result": result, "name": name_of(m)}) + "\n")
            tally["sanitizer"] += "sanitizer" in (result or "")
            result = result if result in ("broken", "same") else "caught" if result else "lives"
        tally[result] += 1
        if result == "equivalent":
            print(f"{number:5} equivalent  {name_of(m)}\n            {equivalent[key_of(m)]}", flush=True)
        if result not in ("caught", "lives"):
            continue
        tried += 1
        if result == "lives":
            print(f"{number:5} LIVES       {name_of(m)}\n            key: {key_of(m)}", flush=True)
        if tried % 20 == 0:
            print(f"{tried:5} tried, {tally['caught']} caught, {time.time() - start:.0f} s", flush=True)
    percent = 100 * tally["caught"] / tried if tried else 0
    print(f"{tried} mutants of {len(everything)} possible, seed {options.seed}: {tally['caught']} caught ({tally['sanitizer']} "
          f"by the address sanitizer alone), {tally['lives']} live, {percent:.1f}%; replaced by the next: {tally['equivalent']} that change "
          f"nothing (listed above), {tally['same']} that compiled to the same instructions, {tally['broken']} that did not compile; "
          f"{time.time() - start:.0f} s")
    return 0 if percent >= options.least else 1

if __name__ == "__main__":
    sys.exit(main())
