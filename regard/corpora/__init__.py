"""Corpora: texts, pairs and pictures, generated, the same every time. `data.embedded` knows them by name.

    stories, ab, sally       lines of text
    phrasebook, gists        pairs: French and English sentences; documents and their summaries
    tagged                   sentences, with the part of speech of each word
    shapes                   pictures, their captions, and where each word of one is
    origins                  a few words of a line, and which corpus it is of: labelled texts
    word_split               how a line is split into words
"""
