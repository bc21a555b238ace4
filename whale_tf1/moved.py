"""Names of ``tensorflow.python`` that moved between TensorFlow 1.15 and 2.15.

Public code and tf-slim import them from where 1.15 had them. A row is added only where the name is missing, so the
table is harmless on a TensorFlow that still has it.
"""

from __future__ import annotations

import contextlib
import importlib
import types
from collections.abc import Mapping
from typing import Any

from whale_tf1.undo import set_attribute

_ROOT = "tensorflow.python."

# (module, names) -> module that has them now.
MOVED_NAMES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("framework.ops", ("Tensor", "enable_tensor_equality", "disable_tensor_equality"), "framework.tensor"),
    (
        "framework.ops",
        (
            "IndexedSlices",
            "IndexedSlicesValue",
            "convert_n_to_tensor_or_indexed_slices",
            "convert_to_tensor_or_indexed_slices",
            "internal_convert_n_to_tensor_or_indexed_slices",
            "internal_convert_to_tensor_or_indexed_slices",
        ),
        "framework.indexed_slices",
    ),
    ("framework.ops", ("register_tensor_conversion_function",), "framework.tensor_conversion_registry"),
    ("framework.ops", ("convert_to_tensor", "convert_to_tensor_v2"), "framework.tensor_conversion"),
    ("framework.ops", ("default_session",), "framework.stack"),
    ("framework.graph_util_impl", ("convert_variables_to_constants",), "framework.convert_to_constants"),
    ("framework.tensor_util", ("maybe_set_static_shape", "shape_tensor"), "ops.shape_util"),
    ("framework.common_shapes", ("unknown_shape",), "framework.tensor_shape"),
    ("ops.array_ops", ("stack", "unstack"), "ops.array_ops_stack"),
    ("ops.control_flow_ops", ("Assert",), "ops.control_flow_assert"),
    ("ops.control_flow_ops", ("cond", "cond_for_tf_v2"), "ops.cond"),
    ("ops.control_flow_ops", ("while_loop", "while_loop_v2"), "ops.while_loop"),
    ("ops.control_flow_ops", ("case", "case_v2"), "ops.control_flow_case"),
    ("ops.control_flow_ops", ("switch_case",), "ops.control_flow_switch_case"),
    ("ops.functional_ops", ("map_fn",), "ops.map_fn"),
    ("ops.nn_impl", ("compute_average_loss", "scale_regularization_loss"), "ops.nn_impl_distribute"),
    ("ops.random_ops", ("random_crop",), "ops.random_crop_ops"),
    ("ops.variable_scope", ("default_variable_creator",), "ops.ref_variable"),
    ("ops.variables", ("RefVariable", "default_variable_creator"), "ops.ref_variable"),
    ("ops.variables", ("VariableV1", "is_variable_initialized"), "ops.variable_v1"),
    ("ops.math_ops", ("bincount_v1",), "ops.bincount_ops"),
)

# (module, name) -> module and the new name there.
RENAMED: Mapping[tuple[str, str], str] = {
    ("framework.ops", "internal_convert_to_tensor"): "framework.ops:convert_to_tensor",
    ("util.nest", "is_sequence"): "util.nest:is_nested",
    ("util.nest", "is_sequence_or_composite"): "util.nest:is_nested_or_composite",
    ("ops.rnn", "_transpose_batch_time"): "ops.rnn:_transpose_batch_time",
    ("ops.rnn_cell_impl", "_linear"): "whale_tf1.ports.rnn_linear:linear",
    ("ops.rnn_cell_impl", "_Linear"): "whale_tf1.ports.rnn_linear:Linear",
    ("ops.rnn_cell", "_linear"): "whale_tf1.ports.rnn_linear:linear",
    ("ops.rnn_cell", "_Linear"): "whale_tf1.ports.rnn_linear:Linear",
}

# Modules that are gone as a whole, to what stands for them.
MOVED_MODULES: Mapping[str, str] = {
    "tensorflow.python.estimator": "tensorflow_estimator.python.estimator",
    "tensorflow.python.estimator.estimator": "tensorflow_estimator.python.estimator.estimator",
    "tensorflow.python.estimator.inputs": "tensorflow_estimator.python.estimator.inputs.inputs",
    "tensorflow.python.estimator.model_fn": "tensorflow_estimator.python.estimator.model_fn",
    "tensorflow.python.estimator.run_config": "tensorflow_estimator.python.estimator.run_config",
    "tensorflow.python.estimator.training": "tensorflow_estimator.python.estimator.training",
    "tensorflow.python.training.distribution_strategy_context": "tensorflow.python.distribute.distribute_lib",
    "tensorflow.python.training.tracking": "tensorflow.python.trackable",
    "tensorflow.python.training.tracking.base": "tensorflow.python.trackable.base",
    "tensorflow.python.training.tracking.data_structures": "tensorflow.python.trackable.data_structures",
    "tensorflow.python.training.tracking.tracking": "tensorflow.python.trackable.autotrackable",
    "tensorflow.python.training.tracking.util": "tensorflow.python.checkpoint.checkpoint",
    "tensorflow.python.ops.losses.loss_reduction": "tensorflow.python.ops.losses.losses_impl",
}

_LAYER_CLASSES = {
    "layers.base": ("Layer", "InputSpec"),
    "layers.core": ("Dense", "dense", "Dropout", "dropout", "Flatten", "flatten"),
    "layers.normalization": ("BatchNormalization", "batch_normalization"),
    "layers.convolutional": (
        *("Conv1D", "conv1d", "Conv2D", "conv2d", "Conv3D", "conv3d", "SeparableConv1D", "separable_conv1d"),
        *("SeparableConv2D", "separable_conv2d", "Conv2DTranspose", "conv2d_transpose", "Conv3DTranspose"),
        "conv3d_transpose",
    ),
    "layers.pooling": tuple(
        name
        for dims in ("1d", "2d", "3d")
        for kind in ("Average", "Max")
        for name in (f"{kind}Pooling{dims.upper()}", f"{kind.lower()}_pooling{dims}")
    ),
}

_CELL_CLASSES = ("BasicLSTMCell", "BasicRNNCell", "DeviceWrapper", "DropoutWrapper", "GRUCell", "LSTMCell")
_CELL_CLASSES += ("LSTMStateTuple", "MultiRNNCell", "ResidualWrapper", "RNNCell")


def add_moved_names(stack: contextlib.ExitStack) -> None:
    """Puts every name of the tables back where 1.15 had it; closing the stack takes them away."""
    for module_name, names, source_name in MOVED_NAMES:
        for name in names:
            _add(stack, module_name, name, f"{_ROOT}{source_name}", name)
    for (module_name, name), target in RENAMED.items():
        source_name, _, attribute = target.partition(":")
        source_name = source_name if source_name.startswith("whale_tf1.") else f"{_ROOT}{source_name}"
        _add(stack, module_name, name, source_name, attribute)


def unify_layers(stack: contextlib.ExitStack, v1: types.ModuleType) -> None:
    """Makes ``tensorflow.python.layers`` and ``rnn_cell_impl`` the classes of ``tf.layers`` and ``tf.nn.rnn_cell``.

    TensorFlow 2 carries two copies of them. TF1 source mixes both names, tests instances of one against the other,
    and the batch normalization of one copy needs a package that may be absent.
    """
    for module_name, names in _LAYER_CLASSES.items():
        module = importlib.import_module(_ROOT + module_name)
        everything = importlib.import_module(_ROOT + "layers.layers")
        for name in names:
            value = getattr(v1.layers, name, None)
            if value is None:
                continue
            set_attribute(stack, module, name, value)
            if name in vars(everything):
                set_attribute(stack, everything, name, value)
    legacy = importlib.import_module(v1.nn.rnn_cell.RNNCell.__module__)
    for module_name in ("ops.rnn_cell_impl", "ops.rnn_cell"):
        module = importlib.import_module(_ROOT + module_name)
        for name in _CELL_CLASSES:
            set_attribute(stack, module, name, getattr(v1.nn.rnn_cell, name))
        set_attribute(stack, module, "LayerRNNCell", legacy.LayerRNNCell)


def _add(stack: contextlib.ExitStack, module_name: str, name: str, source_name: str, attribute: str) -> None:
    module = _import(_ROOT + module_name)
    source = _import(source_name)
    value: Any = getattr(source, attribute, None)
    if module is not None and value is not None and not hasattr(module, name):
        set_attribute(stack, module, name, value)


def _import(name: str) -> types.ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return None
