"""Cleaning of large files of pairs and of labelled texts, in segments, by several processes.

    cuts              where files may be cut, so that the parts hold the pairs of the whole
    clean_worker      a process that cleans one segment
    in_segments       the orders, and the parts put together without duplicates
"""
