"""Data: from files to batches. Nothing here knows a model.

    reading/     files into documents and token shards, with every line counted; the cache
    tokens/      text into ids: characters, words, subwords
    pairs/       files into sentence pairs; TMX and gettext catalogs
    pictures/    captioned pictures, none of them trusted
    batching/    which tokens are read at which step
    embedded     the corpora that come with Regard, by name
"""
