"""Calculates."""


def add(a, b):
    return a + b


def sub(a, b):
    if a < b:
        return 0
    return a - b
