#!/usr/bin/env python3
"""The same by nested loops: every entity is a dict from coordinates to numbers."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from jsonl import Expected, compact


def mix(seed, value):
    for ch in compact(value):
        seed = (seed * 31 + ord(ch)) % 1000003
    return seed


A = list(range(7))
J = [2, 1, 0, 2, 1, 2, 2]                                   # extents of j, k, l, n
K = [2, 2, 1, 0, 1, 1, 2]


def L(i, j, k):
    return (i + j + 2 * k + 2) % 3


def N(i, j, k, l, m):
    return (i + j + k + l + m) % 3


ijk = [(i, j, k) for i in A for j in range(J[i]) for k in range(K[i])]
B = {(i, j): mix(7, [A, i, j]) for i in A for j in range(J[i])}
C = {(i, k): mix(11, [i, k]) for i in A for k in range(K[i])}
Bj = [[B[i, j] for j in range(J[i])] for i in A]
D = {(i, j, k, l): mix(13, [i, Bj, Bj[i], B[i, j], C[i, k], l])
     for i, j, k in ijk for l in range(L(i, j, k))}
Dl = {c: [D[c + (l,)] for l in range(L(*c))] for c in ijk}
everything = [[[Dl[i, j, k] for j in range(J[i])] for k in range(K[i])] for i in A]
E = {m: mix(17, [everything, m]) for m in range(2)}
F = {(i, m, j, k, l, n): mix(19, [E[m], [Dl[i, jj, k] for jj in range(J[i])], D[i, j, k, l], n])
     for i, j, k, l in D for m in E for n in range(N(i, j, k, l, m))}


def Fn(i, m, j, k, l):
    return [F[i, m, j, k, l, n] for n in range(N(i, j, k, l, m))]


G = {(i, m, j, k, l, n): mix(23, [Fn(i, m, j, k, l), [Fn(i, m, j, k, x) for x in range(L(i, j, k))],
                                  F[i, m, j, k, l, n], E[m], Dl[i, j, k], D[i, j, k, l]])
     for i, m, j, k, l, n in F}
H = {(i, m, j, k, l, n): mix(29, [G[i, m, j, k, l, n], F[i, m, j, k, l, n], E[m], D[i, j, k, l],
                                  C[i, k], B[i, j], i])
     for i, m, j, k, l, n in F}

with Expected(__file__) as e:
    for name, dims, values in (("A", "i", {(i,): i for i in A}), ("B", "ij", B), ("C", "ik", C), ("D", "ijkl", D),
                               ("E", "m", {(m,): x for m, x in E.items()}), ("F", "imjkln", F),
                               ("G", "imjkln", G), ("H", "imjkln", H)):
        e.entity(name, *dims)
        for coord, value in values.items():
            e.put(name, value, *coord)
