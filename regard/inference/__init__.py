"""Inference over files: many inputs answered in order, by several processes or GPUs.

    answer_files      the one call: from files or folders to an output each
    parts             finished pieces on disk, by which an interrupted job goes on
    placement         which worker gets which GPU and how many threads
    answer_worker     a process that loads the model once and answers pieces
"""
