"""The numbers that the design promises, each measured against a limit or a peer in the same run.

A bench is a module of this package with a value `BENCH`; `python -m bench --list` finds it by that. Its `run` returns
`Measurement`s: what was measured, the limit, the value. Everything else in this package serves the benches.
"""
