"""What `bench/scaling.py` measures, a file a part: each has `curves(setting)`, which gives its curves."""
