"""A constant of a test module that is made at its first use, so that collecting the tests stays quick."""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any


class MadeLater:
    """What `make` returns, made once and only when somebody looks."""

    def __init__(self, make: Callable[[], Any]):
        self._make = make

    @cached_property
    def _value(self) -> Any:
        return self._make()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):                 # pytest asks every name of a module for such ones while it collects
            raise AttributeError(name)
        return getattr(self._value, name)

    def __getitem__(self, key: Any) -> Any:
        return self._value[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._value)

    def __contains__(self, item: Any) -> bool:
        return item in self._value

    def __len__(self) -> int:
        return len(self._value)

    def __add__(self, other: Any) -> list[Any]:
        return [*self, *other]
