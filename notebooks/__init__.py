"""The notebooks of the five lectures, written from `regard/course/lectures`; `python -m notebooks.run` runs them."""
