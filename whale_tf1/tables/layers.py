"""slim, layers, framework, losses, metrics: mostly tf-slim, the successor of these areas."""

from __future__ import annotations

from whale_tf1.areas import PORTS, Area

_NETS = ("alexnet", "inception", "inception_v1", "inception_v2", "inception_v3", "overfeat")
_NETS += ("resnet_utils", "resnet_v1", "resnet_v2", "vgg")
_SLIM_DATA = ("data_decoder", "data_provider", "dataset", "dataset_data_provider", "parallel_reader")
_SLIM_DATA += ("prefetch_queue", "tfexample_decoder")
_SLIM_FILES = ("evaluation", "learning", "model_analyzer", "queues", "summaries")

SLIM = Area(
    "slim",
    sources=("tf_slim", "tf_slim.layers", "tf_slim.ops.variables", "tf_slim.ops.arg_scope"),
    symbols={"nets": "tf_slim.nets:", "data": "tf_slim.data:"},
    modules={
        "nets": "tf_slim.nets",
        "python.slim.nets": "tf_slim.nets",
        "python.slim.data": "tf_slim.data",
        **{f"nets.{name}": f"tf_slim.nets.{name}" for name in _NETS},
        **{f"python.slim.nets.{name}": f"tf_slim.nets.{name}" for name in _NETS},
        **{f"python.slim.data.{name}": f"tf_slim.data.{name}" for name in _SLIM_DATA},
        **{f"python.slim.{name}": f"tf_slim.{name}" for name in _SLIM_FILES},
        **{name: f"tf_slim.{name}" for name in _SLIM_FILES},
    },
    gone={
        name: f"{name} is not part of tf-slim: take it from the tensorflow/models repository (research/slim/nets)"
        for name in ("inception_v4", "inception_resnet_v2", "mobilenet_v1", "nasnet", "lenet", "cifarnet", "pnasnet")
    },
)

_FEATURE_COLUMNS = (
    "bucketized_column",
    "crossed_column",
    "embedding_column",
    "one_hot_column",
    "real_valued_column",
    "sparse_column_with_hash_bucket",
    "sparse_column_with_integerized_feature",
    "sparse_column_with_keys",
    "sparse_column_with_vocabulary_file",
    "weighted_sparse_column",
)

_LAYER_FILES = ("initializers", "layers", "normalization", "optimizers", "regularizers", "summaries")

LAYERS = Area(
    "layers",
    sources=(
        "tf_slim.layers.layers",
        "tf_slim.layers.initializers",
        "tf_slim.layers.regularizers",
        "tf_slim.layers.normalization",
        "tf_slim.layers.optimizers",
        "tf_slim.layers.summaries",
        "tf_slim.layers.rev_block_lib",
        f"{PORTS}.contrib_layers",
    ),
    symbols={
        "bucketize": "tf_slim.layers.bucketization_op:bucketize",
        "parse_feature_columns_from_examples": f"{PORTS}.feature_columns:parse_feature_columns_from_examples",
        "create_feature_spec_for_parsing": "tensorflow.compat.v1:feature_column.make_parse_example_spec",
        "input_from_feature_columns": f"{PORTS}.feature_columns:input_from_feature_columns",
        "feature_column": f"{PORTS}.feature_columns:",
        **{name: f"{PORTS}.feature_columns:{name}" for name in _FEATURE_COLUMNS},
    },
    modules={
        **{f"python.layers.{name}": "" for name in (*_LAYER_FILES, "embedding_ops", "encoders", "rev_block_lib")},
        "python.layers.utils": "tf_slim.layers.utils",
        "python.layers.feature_column": f"{PORTS}.feature_columns",
        "python.layers.feature_column_ops": f"{PORTS}.feature_columns",
        "python.ops.bucketization_op": "tf_slim.layers.bucketization_op",
        "python.ops.sparse_ops": "tf_slim.layers.sparse_ops",
        "python.ops": "",
    },
)

_V1 = "tensorflow.compat.v1"
_NEST = "tensorflow.python.util.nest"

FRAMEWORK = Area(
    "framework",
    sources=(
        "tf_slim.ops.arg_scope",
        "tf_slim.ops.variables",
        "tf_slim.ops.framework_ops",
        f"{PORTS}.contrib_framework",
    ),
    symbols={
        "nest": f"{_NEST}:",
        "is_tensor": f"{_V1}:is_tensor",
        "sort": f"{_V1}:sort",
        "argsort": f"{_V1}:argsort",
        "py_func": f"{_V1}:py_func",
        "TensorSpec": f"{_V1}:TensorSpec",
        "BoundedTensorSpec": "tensorflow.python.framework.tensor_spec:BoundedTensorSpec",
        "RecordInput": "tensorflow.python.ops.data_flow_ops:RecordInput",
        "smart_cond": "tensorflow.python.framework.smart_cond:smart_cond",
        "smart_case": "tensorflow.python.framework.smart_cond:smart_case",
        "smart_constant_value": "tensorflow.python.framework.smart_cond:smart_constant_value",
        "assert_scalar": f"{_V1}:assert_scalar",
        "assert_same_float_dtype": f"{_V1}.debugging:assert_same_float_dtype",
        "is_non_decreasing": f"{_V1}:is_non_decreasing",
        "is_strictly_increasing": f"{_V1}:is_strictly_increasing",
        "is_numeric_tensor": f"{_V1}:is_numeric_tensor",
        "convert_to_tensor_or_sparse_tensor": f"{_V1}:convert_to_tensor_or_sparse_tensor",
        "remove_squeezable_dimensions": "tensorflow.python.ops.confusion_matrix:remove_squeezable_dimensions",
        "get_graph_from_inputs": "tensorflow.python.framework.ops:_get_graph_from_inputs",
        "prepend_name_scope": "tensorflow.python.framework.ops:prepend_name_scope",
        "strip_name_scope": "tensorflow.python.framework.ops:strip_name_scope",
        "deprecated": "tensorflow.python.util.deprecation:deprecated",
        "deprecated_args": "tensorflow.python.util.deprecation:deprecated_args",
        "deprecated_arg_values": "tensorflow.python.util.deprecation:deprecated_arg_values",
        "load_checkpoint": f"{_V1}.train:load_checkpoint",
        "list_variables": f"{_V1}.train:list_variables",
        "load_variable": f"{_V1}.train:load_variable",
        "init_from_checkpoint": f"{_V1}.train:init_from_checkpoint",
        "convolutional_delta_orthogonal": "tensorflow.python.ops.init_ops:convolutional_delta_orthogonal",
        "convolutional_orthogonal_1d": "tensorflow.python.ops.init_ops:convolutional_orthogonal_1d",
        "convolutional_orthogonal_2d": "tensorflow.python.ops.init_ops:convolutional_orthogonal_2d",
        "convolutional_orthogonal_3d": "tensorflow.python.ops.init_ops:convolutional_orthogonal_3d",
        # Before these were functions of tf.train, contrib had them.
        "get_global_step": f"{_V1}.train:get_global_step",
        "get_or_create_global_step": f"{_V1}.train:get_or_create_global_step",
        "create_global_step": f"{_V1}.train:create_global_step",
        "assert_global_step": f"{_V1}.train:assert_global_step",
    },
    modules={
        "nest": _NEST,
        "python.ops.arg_scope": "",
        "python.ops.variables": "",
        "python.ops.ops": "",
        "python.ops.sort_ops": "",
        "python.ops.script_ops": "",
        "python.ops.audio_ops": "tensorflow.python.ops.gen_audio_ops",
        "python.framework.tensor_util": "",
        "python.framework.checkpoint_utils": "",
        "python.framework.graph_util": "",
    },
)

LOSSES = Area(
    "losses",
    sources=("tf_slim.losses.loss_ops",),
    symbols={"metric_learning": "tf_slim.losses.metric_learning:"},
    modules={
        "metric_learning": "tf_slim.losses.metric_learning",
        "python.losses.loss_ops": "",
        "python.metric_learning.metric_loss_ops": "tf_slim.losses.metric_learning",
    },
)

METRICS = Area(
    "metrics",
    sources=(
        "tf_slim.metrics.metric_ops",
        "tf_slim.metrics.classification",
        "tf_slim.metrics.histogram_ops",
        f"{PORTS}.contrib_metrics",
    ),
    symbols={
        "confusion_matrix": f"{_V1}:confusion_matrix",
        "set_difference": f"{_V1}.sets:difference",
        "set_intersection": f"{_V1}.sets:intersection",
        "set_size": f"{_V1}.sets:size",
        "set_union": f"{_V1}.sets:union",
    },
    modules={
        "python.ops.metric_ops": "",
        "python.ops.confusion_matrix_ops": "",
        "python.ops.histogram_ops": "",
        "python.ops.set_ops": "",
        "python.metrics.classification": "",
    },
)

LAYER_AREAS = (SLIM, LAYERS, FRAMEWORK, LOSSES, METRICS)
