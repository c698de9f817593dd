"""Captioned pictures: from a folder to decoded pixels and token shards."""
