"""Results of the library as answers: their dataclasses are the JSON on the wire, and the description of it."""

import json
import math
from dataclasses import dataclass, field

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="serving needs the extra `web`")

from regard.serve.app import make_app
from regard.serve.registry import Registry
from regard.serve.result_json import as_json, schema_of, send

# The page and other clients read these names: they change with no dataclass.
BEAM_TREE = {"columns", "finished", "source", "text", "how", "force", "notes"}
NODE = {"id", "parent", "token", "piece", "adds", "length", "log_prob", "total", "covered", "score", "kept", "why",
        "margin", "ended"}
FINISHED = {"node", "text", "tokens", "length", "log_prob", "score", "finished"}
SEARCH = {"width", "length", "n_best", "no_repeat", "coverage"}
ARITHMETIC = {"kind", "about", "names", "column", "quantities", "steps", "next", "channels", "channel", "edited"}
QUANTITY = {"name", "symbol", "about", "over", "op", "of", "how", "shape", "dtype", "values", "checked", "exact"}
STEP = {"title", "formula", "about", "shows"}
NEXT = {"row", "after", "in_place", "tokens", "rest", "moved"}


@dataclass
class Leaf:
    name: str
    values: np.ndarray
    score: float


@dataclass
class Tree:
    """A tree."""

    leaves: dict[str, Leaf]
    pair: tuple[int, str]
    many: tuple[float, ...] = ()
    names: dict[str, list[str]] = field(default_factory=dict)
    best: Leaf | None = None


TREE = Tree({"a": Leaf("a", np.array([1, 2], ">f4"), -math.inf)}, (1, "x"), (0.5, math.nan), {"columns": ["b"]})


def test_a_result_is_sent_by_its_fields():
    sent = {"leaves": [{"name": "a", "values": "AACAPwAAAEA=", "score": None}], "pair": [1, "x"], "many": [0.5, None],
            "names": {"columns": ["b"]}, "best": None}
    assert as_json(TREE) == sent == json.loads(send(TREE).body)
    assert as_json([np.float32(0.5), np.int64(3), np.float64(math.inf)]) == [0.5, 3, None]


def test_a_type_has_the_schema_of_what_is_sent():
    schemas = {}
    assert schema_of(Tree, schemas) == {"$ref": "#/components/schemas/Tree"}
    number = {"type": ["number", "null"]}
    leaf = {"$ref": "#/components/schemas/Leaf"}
    assert schemas["Tree"]["description"] == "A tree." and schemas["Tree"]["required"] == list(vars(TREE))
    assert schemas["Tree"]["properties"] == {
        "leaves": {"type": "array", "items": leaf},
        "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}],
                 "minItems": 2, "maxItems": 2},
        "many": {"type": "array", "items": number},
        "names": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
        "best": {"anyOf": [leaf, {"type": "null"}]}}


def described(path, method="post"):
    """The schema of an answer and a function that follows the references in it."""
    schema = make_app(Registry([])).openapi()

    def follow(node):
        node = next((each for each in node.get("anyOf", ()) if "$ref" in each), node)
        if "items" in node:
            return follow(node["items"])
        return schema["components"]["schemas"][node["$ref"].rpartition("/")[2]]

    return follow(schema["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"]), follow


def test_a_search_has_the_fields_that_clients_read():
    tree, follow = described("/api/beam")
    assert set(tree["properties"]) == BEAM_TREE
    for name, names in (("columns", NODE), ("finished", FINISHED), ("how", SEARCH)):
        assert set(follow(tree["properties"][name])["properties"]) == names


@pytest.mark.parametrize(("path", "method"), [("/api/compute", "post"), ("/api/presets/{name}", "get")])
def test_arithmetic_has_the_fields_that_clients_read(path, method):
    sheet, follow = described(path, method)
    assert set(sheet["properties"]) == ARITHMETIC
    for name, names in (("quantities", QUANTITY), ("steps", STEP), ("next", NEXT)):
        assert set(follow(sheet["properties"][name])["properties"]) == names
    shown = follow(sheet["properties"]["next"])
    assert set(follow(shown["properties"]["tokens"])["properties"]) == {"id", "piece", "before", "after"}
    assert set(follow(shown["properties"]["rest"])["properties"]) == {"before", "after"}
