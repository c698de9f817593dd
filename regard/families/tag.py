"""The families of the task `tag`: encoders that read in both directions, with a head over the tags at each token."""

from __future__ import annotations

from regard.families.family import Family
from regard.families.label_families import label_families
from regard.models.label_models import TokenLabelModel

TAG: dict[str, Family] = label_families(TokenLabelModel)
