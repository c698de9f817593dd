"""Folders as Hugging Face `datasets` saves them, made by pyarrow alone."""

import json

import pyarrow as pa
import pyarrow.parquet as parquet

LABELS = {"_type": "ClassLabel", "names": ["neg", "pos"]}


def schema_of(table, **features):
    """The schema of a table with the features that `datasets` would write into it."""
    return table.schema.with_metadata({"huggingface": json.dumps({"info": {"features": features}})})


def save_dataset(folder, columns, shards=1, **features):
    """One dataset: an Arrow stream a shard, and the files beside them."""
    folder.mkdir(parents=True)
    table = pa.table(columns)
    table = table.cast(schema_of(table, **features))
    names = [f"data-{number:05d}-of-{shards:05d}.arrow" for number in range(shards)]
    size = -(-len(table) // shards)
    for number, name in enumerate(names):
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.slice(number * size, size), max_chunksize=1000)
    (folder / "state.json").write_text(json.dumps({
        "_data_files": [{"filename": name} for name in names], "_fingerprint": "0", "_format_columns": None,
        "_format_kwargs": {}, "_format_type": None, "_output_all_columns": False, "_split": None}))
    (folder / "dataset_info.json").write_text(json.dumps({"features": features}))
    return folder


def save_splits(folder, features=None, **splits):
    """A dataset with splits."""
    for name, columns in splits.items():
        save_dataset(folder / name, columns, **(features or {}))
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": list(splits)}))
    return folder


def save_parquet(path, columns, **features):
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns)
    parquet.write_table(table.cast(schema_of(table, **features)), path)
    return path
