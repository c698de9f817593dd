"""Puts the faked platform in place as Python starts, in this process and in those that it starts."""

from tests.other_platform import fake

fake.install()
