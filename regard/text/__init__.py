"""Text: read, cut into tokens, kept on disk, and dealt out in batches. Stands alone: nothing here knows a model.

    readers, lines, records, tally     files into documents, with every line accounted for
    pairs, pair_readers, aligned       files into sentence pairs; tmx and catalogs read those formats
    pictures, picture_files            captioned pictures, each distrusted; picture_shards and picture_corpus keep them
    tokenizers, vocabulary             text into ids: characters, words, subwords
    corpus, split, cache, shards       from file names to token files, ready to train on
    batches, pair_batches, shuffle     which tokens are read at which step
    word_index                         the ids of all words of a text at once
    embedded                           the corpora that come with Regard, by name:
      stories, ab, sally                 lines of text
      phrasebook, gists                  pairs: French and English sentences; documents and their summaries
      shapes                             pictures, their captions, and where each word of one is
"""
