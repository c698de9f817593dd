"""Settings: run.toml and `--set a.b=c` into small frozen dataclasses. The only parser of settings.

Each component keeps its own dataclass beside its code; a run composes them as tables. Here they are only
filled in, strictly: an unknown name or a value of the wrong type is an error that says what was meant.
"""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from regard.errors import SettingError, did_you_mean
from regard.plain_files import SMALL, read_plain

T = TypeVar("T")

LONGEST = 60                       # characters of a value that a message shows
PARTS = 32                         # of a dotted key: tomllib takes quadratic time and memory for them
_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
DEEP_KEY = re.compile(rf"(?:^|[\[{{,])[ \t]*{_PART}(?:[ \t]*\.[ \t]*{_PART}){{{PARTS}}}", re.M)


def fill(settings: type[T], values: Mapping[str, Any], table: str) -> T:
    """A `settings` dataclass from plain values; `table` is its name in messages."""
    kinds = typing.get_type_hints(settings)
    known = {each.name for each in dataclasses.fields(settings)}       # type: ignore[arg-type]
    retired = getattr(settings, "retired", {})                         # gone -> the one value that older runs may name
    filled = {}
    for name, value in values.items():
        if name in retired:
            if convert(value, type(retired[name]), f"{table}.{name}") != retired[name]:
                raise SettingError(f"{table}.{name} = {shown(value)}: this setting is gone, and only "
                                   f"{retired[name]} can be read of an older run; leave it out")
            continue
        if name not in known:
            raise SettingError(f"unknown setting {table}.{name}" + did_you_mean(name, known, f"{table}."))
        filled[name] = convert(value, kinds[name], f"{table}.{name}")
    try:
        return settings(**filled)
    except TypeError as error:
        raise SettingError(f"[{table}] is incomplete: {error}") from None


def change(settings: T, changes: Mapping[str, Any], table: str) -> T:
    """Return the settings with some changed, checked as strictly."""
    return fill(type(settings), {**as_values(settings), **changes}, table)


def convert(value: Any, kind: Any, name: str) -> Any:
    """`value` as the type a setting wants. Text from the command line is read as that type."""
    if isinstance(kind, types.UnionType):                             # X | None
        if value is None or value == "none":
            return None
        kind = next(option for option in kind.__args__ if option is not type(None))
    if typing.get_origin(kind) is tuple:
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, list | tuple):
            raise SettingError(f"{name} = {shown(value)}: expected a list")
        return tuple(convert(item, kind.__args__[0], name) for item in items)
    try:
        return _scalar(value, kind)
    except OverflowError:
        raise SettingError(f"{name} = {shown(value)}: expected {_plain(kind)} below 2^63") from None
    except (ValueError, TypeError):
        raise SettingError(f"{name} = {shown(value)}: expected {_plain(kind)}") from None


def _scalar(value: Any, kind: Any) -> Any:
    if kind is bool:
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if str(value).lower() not in words:
            raise ValueError
        return words[str(value).lower()]
    if kind is int:
        if isinstance(value, bool) or (isinstance(value, float) and value != int(value)):
            raise ValueError
        if not -(2**63) <= (whole := int(value)) < 2**63:
            raise OverflowError
        return whole
    if kind is float:
        if isinstance(value, bool):
            raise ValueError
        return float(value)
    if kind is str:
        if not isinstance(value, str):
            raise ValueError
        return value
    raise AssertionError(f"settings hold plain values, not {kind}")


def shown(value: Any) -> str:
    """Return a value as a message shows it: of an endless one the beginning."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):                              # Python spells no number of 4,300 digits
        return f"a {type(value).__name__} that is too long to be written"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _plain(kind: Any) -> str:
    return {int: "a whole number", float: "a number", bool: "true or false", str: "text"}.get(kind, str(kind))


# What settings classes ask of their own values, each refused in one line.


def at_least(table: str, settings: Any, least: float, *names: str, most: float = 2**63 - 1) -> None:
    for name in names:
        value = getattr(settings, name)
        if not value >= least:                                           # `not >=` refuses NaN too
            raise SettingError(f"{table}.{name} = {value}: must be at least {least}")
        if value > most:
            raise SettingError(f"{table}.{name} = {value}: must be at most {most}")


def shares(table: str, settings: Any, *names: str) -> None:
    for name in names:
        value = getattr(settings, name)
        if not 0 <= value < 1:
            raise SettingError(f"{table}.{name} = {value}: must be from 0 up to, but not including, 1")


def one_of(setting: str, value: str, choices: Iterable[str]) -> None:
    if value not in choices:
        raise SettingError(f"{setting} = {shown(value)}{did_you_mean(value, choices)}")


def as_values(settings: Any) -> dict[str, Any]:
    return {each.name: getattr(settings, each.name) for each in dataclasses.fields(settings)}


def parse_assignments(assignments: tuple[str, ...] | list[str]) -> dict[str, dict[str, str]]:
    """`("training.batch=8", "model.width=64")` as {"training": {"batch": "8"}, "model": {"width": "64"}}."""
    tables: dict[str, dict[str, str]] = {}
    for text in assignments:
        path, equals, value = text.partition("=")
        table, dot, name = path.strip().partition(".")
        if not (equals and dot and table and name):
            raise SettingError(f"--set {text}: write it as --set table.name=value, e.g. --set training.batch=8")
        tables.setdefault(table, {})[name] = value.strip()
    return tables


# ------------------------------------------------------------------------------------------------ toml


def read_toml(path: Path) -> dict[str, dict[str, Any]]:
    return parse_toml(read_plain(path, SMALL), path)


def parse_toml(raw: bytes, path: Path) -> dict[str, dict[str, Any]]:
    """The tables of a TOML file; `path` is its name in messages."""
    try:
        text = raw.decode("utf-8")
        if DEEP_KEY.search(text):
            raise ValueError(f"a key has more than {PARTS} parts")
        tables = tomllib.loads(text)
    except RecursionError:
        raise SettingError(f"{path} is not a TOML file: its values are nested too deeply") from None
    except ValueError as error:                                       # of TOML, of UTF-8, or a number without end
        raise SettingError(f"{path} is not a TOML file: {error}") from None
    for name, value in tables.items():
        if not isinstance(value, dict):
            raise SettingError(f"{path}: {name} stands outside a [table]")
    return tables


def write_toml(tables: Mapping[str, Mapping[str, Any]], heading: str = "") -> str:
    """Tables of plain values as TOML text; a setting that is None is left out."""
    lines = [f"# {heading}"] if heading else []
    for table, values in tables.items():
        lines.append(f"\n[{table}]" if lines else f"[{table}]")
        lines += [f"{name} = {_toml(value)}" for name, value in values.items() if value is not None]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, str):
        # JSON strings are TOML strings, but for DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    return repr(value)
