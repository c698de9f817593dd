"""Mutants: small faults planted in copies of the code, to see that a test fails with each.

    make mutants COUNT=300 SEED=7        # or: python -m mutants --count 300 --seed 7

operators   the kinds of fault, each a function from a syntax tree to changes of the source
draw        the parts of the code, and which mutants a seed draws from them
copies      copies of the checkout, one per worker: a fault is written there and nowhere else
measure     which test runs which lines, and for how long, in code without a fault
child       pytest in a forked process, with the tests chosen for one mutant
run         one mutant after the other: caught, survived, timed out, or not importable
report      the table, the survivors, and docs/mutants.md

Results are appended to build/mutants, one line per mutant, so that a run may be stopped and goes on.
"""
