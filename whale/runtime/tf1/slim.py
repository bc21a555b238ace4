"""Makes tf-slim 1.1.0 work on TensorFlow 2.15 to 2.21 without editing it.

tf-slim looks up names where TensorFlow 1.15 had them (``ops.Tensor``, ``control_flow_ops.cond``): those come back by
``whale.runtime.tf1.moved``. What is left is listed here.
"""

from __future__ import annotations

import contextlib
import importlib

from whale.runtime.tf1.undo import set_attribute


def repair_slim(stack: contextlib.ExitStack) -> bool:
    """Repairs the installed tf-slim; closing the stack takes the repair back.

    The names that moved must have been added before, as tf-slim reads some of them while it is imported.

    Returns:
        False when tf-slim is not installed.
    """
    try:
        layers = importlib.import_module("tf_slim.layers.layers")
    except ModuleNotFoundError:
        return False
    normalization = importlib.import_module("tensorflow.python.layers.normalization")
    # tf-slim keeps the module it imported; batch_norm reads BatchNormalization from it at each call.
    set_attribute(stack, layers, "normalization_layers", normalization)
    for name in ("tf_slim.nets", "tf_slim.training", "tf_slim.data", "tf_slim.losses", "tf_slim.metrics"):
        importlib.import_module(name)
    return True
