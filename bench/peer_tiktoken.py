# SPDX-License-Identifier: MIT
"""tiktoken as a peer of 'sia bench text': for each line 'run' on stdin, one line 'seconds tokens' on stdout.

    sia bench text --tokenizer gpt2/ books.txt --peer 'python3 bench/peer_tiktoken.py gpt2/ books.txt'

gpt2/ holds encoder.json and vocab.bpe. One thread, as tiktoken encodes one text; the text is already a Python
string when the clock starts.
"""
import sys
import time

import tiktoken
from tiktoken.load import data_gym_to_mergeable_bpe_ranks

# GPT-2's pattern as tiktoken itself spells it for speed.
PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""


def main() -> None:
    folder, path = sys.argv[1:3]
    ranks = data_gym_to_mergeable_bpe_ranks(f"{folder}/vocab.bpe", f"{folder}/encoder.json")
    encoding = tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    for _ in sys.stdin:
        started = time.perf_counter()
        ids = encoding.encode_ordinary(text)
        print(time.perf_counter() - started, len(ids), flush=True)


if __name__ == "__main__":
    main()
