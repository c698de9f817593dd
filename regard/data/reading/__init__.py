"""Reading: from the names of files to token shards, a tokenizer and a split.

    readers, lines, records, tally     files into documents, with every line counted
    corpus, split, shards              documents into token files, ready to train on
    cache, seals                       what is stored between runs, and used only while its hash matches
    sentences                          a text cut into sentences
"""
