"""The families of the task `classify`: encoders of every kind, with a head over the labels of a text."""

from __future__ import annotations

from regard.families.family import Family
from regard.families.label_families import average_family, label_families
from regard.models.label_models import TextLabelModel

CLASSIFY: dict[str, Family] = label_families(TextLabelModel, average_family())
