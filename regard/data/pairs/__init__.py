"""Sentence pairs: from aligned files, tables, TMX or gettext catalogs to clean pairs and token shards."""
