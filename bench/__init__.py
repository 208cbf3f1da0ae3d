"""Measure the numbers that the design promises, each against a limit or against a baseline in the same run.

A bench is a module of this package with a value `BENCH`, by which `python -m bench --list` finds it. Its `run` returns
`Measurement`s: what was measured, the value, the limit. All other modules support the benches.
"""
