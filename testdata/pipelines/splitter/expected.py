#!/usr/bin/env python3
"""Inputs, their words, the characters of these, and how often each character occurs."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from jsonl import Expected

with Expected(__file__) as e:
    e.entity("Input", "input_no")
    e.entity("Word", "input_no", "word_no")
    e.entity("Char", "input_no", "word_no", "char_no")
    e.entity("Tally")
    count = {}
    for i, text in enumerate(["Good morning", "Bonjour", "Buenos días"]):
        e.put("Input", text, i)
        for w, word in enumerate(text.split(" ")):
            e.put("Word", word, i, w)
            for c, char in enumerate(word):
                e.put("Char", char, i, w, c)
                count[char] = count.get(char, 0) + 1
    # sort -rn reverses the tie-break (the whole line, by code point) as well
    lines = sorted(((n, c) for c, n in count.items()), reverse=True)
    e.put("Tally", "\n".join(f"{n:7d} {c}" for n, c in lines))
