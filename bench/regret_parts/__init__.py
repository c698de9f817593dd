"""The parts of bench/regret.py."""
