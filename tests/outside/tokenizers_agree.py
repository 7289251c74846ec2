# SPDX-License-Identifier: MIT
"""Do other implementations give the same ids? A check outside 'make test': it needs tokenizers and tiktoken.

    python3 tests/outside/tokenizers_agree.py build/release/sia DATA

DATA holds books-train.txt, books-val.txt and gpt2-tokenizer/ (encoder.json, vocab.bpe). Three comparisons:
  1. a tokenizer trained by sia on books-train.txt, read by Hugging Face's tokenizers: all of books-val.txt;
  2. GPT-2's files read by sia, against tiktoken: all of both books;
  3. every character of Unicode in a short context, by sia and by tiktoken: how many give other ids.
"""
import subprocess
import sys
import tempfile

import numpy
import tiktoken
import tokenizers
from tiktoken.load import data_gym_to_mergeable_bpe_ranks

PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""


def read(path: str) -> str:
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def sia_ids(sia: str, tokenizer: str, text: str) -> numpy.ndarray:
    command = [sia, "tokenizer", "encode", "--tokenizer", tokenizer, "--format", "u32", "--quiet"]
    done = subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE, check=True)
    return numpy.frombuffer(done.stdout, dtype="<u4")


def compare(what: str, ours: numpy.ndarray, theirs) -> bool:
    same = numpy.array_equal(ours, numpy.array(theirs, dtype=numpy.uint32))
    print(f"{what}: {len(ours)} ids, {'the same' if same else 'DIFFERENT'}", flush=True)
    return same


def main() -> int:
    sia, data = sys.argv[1:3]
    good = True
    validation = read(f"{data}/books-val.txt")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/tokenizer.json"
        subprocess.run([sia, "tokenizer", "train", "--quiet", "--size", "4096", "--out", path, f"{data}/books-train.txt"], check=True)
        peer = tokenizers.Tokenizer.from_file(path)
        good &= compare(f"trained here, tokenizers {tokenizers.__version__}, books-val.txt", sia_ids(sia, path, validation), peer.encode(validation).ids)

    gpt2 = f"{data}/gpt2-tokenizer"
    ranks = data_gym_to_mergeable_bpe_ranks(f"{gpt2}/vocab.bpe", f"{gpt2}/encoder.json")
    encoding = tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})
    for name, text in (("books-val.txt", validation), ("books-train.txt", read(f"{data}/books-train.txt"))):
        good &= compare(f"GPT-2, tiktoken {tiktoken.__version__}, {name}", sia_ids(sia, gpt2, text), encoding.encode_ordinary(text))

    differing = []
    for page in range(0, 0x110000, 0x400):
        codes = [c for c in range(page, page + 0x400) if c and not 0xD800 <= c < 0xE000]
        # A newline stands between the contexts; no piece goes over it.
        contexts = [f"a{chr(c)}1 {chr(c)}{chr(c)} x\n" for c in codes]
        ours = sia_ids(sia, gpt2, "".join(contexts))
        if numpy.array_equal(ours, numpy.array(encoding.encode_ordinary("".join(contexts)), dtype=numpy.uint32)):
            continue
        differing += [c for c, t in zip(codes, contexts) if list(sia_ids(sia, gpt2, t)) != encoding.encode_ordinary(t)]
    print(f"characters whose ids differ from those of tiktoken: {len(differing)} of 1112063"
          + (f", first U+{differing[0]:04X}, last U+{differing[-1]:04X}" if differing else ""))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
