"""The laws: the promises every layer and model keeps, as functions that can be run on anything.

    from regard.laws import check_layer
    print(check_layer(MyLayer(16)).text())
"""

from regard.laws.check import Report, Verdict, check_class, check_layer, check_model, check_object
from regard.laws.law import Law, LawBroken, LawSkipped
from regard.laws.layer_laws import LAYER_LAWS
from regard.laws.model_laws import MODEL_LAWS
from regard.laws.objects import load_object
from regard.laws.reader import LayerReader, ModelReader

__all__ = [
    "LAYER_LAWS",
    "MODEL_LAWS",
    "Law",
    "LawBroken",
    "LawSkipped",
    "LayerReader",
    "ModelReader",
    "Report",
    "Verdict",
    "check_class",
    "check_layer",
    "check_model",
    "check_object",
    "load_object",
]
