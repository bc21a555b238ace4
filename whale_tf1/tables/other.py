"""Small areas: util, summary, eager, distribute, cluster_resolver, nn, tensorboard and their like."""

from __future__ import annotations

from whale_tf1.areas import PORTS, Area

_V1 = "tensorflow.compat.v1"

UTIL = Area(
    "util",
    symbols={
        "constant_value": "tensorflow.python.framework.tensor_util:constant_value",
        "make_tensor_proto": f"{_V1}:make_tensor_proto",
        "make_ndarray": f"{_V1}:make_ndarray",
        "stripped_op_list_for_graph": "tensorflow.python.framework.meta_graph:stripped_op_list_for_graph",
        "ops_used_by_graph_def": "tensorflow.python.framework.meta_graph:ops_used_by_graph_def",
    },
)

SUMMARY = Area(
    "summary",
    sources=("tensorflow.python.ops.summary_ops_v2",),
    symbols={"all_summary_ops": f"{_V1}:summary.all_v2_summary_ops"},
    modules={"summary": ""},
)

SIGNAL = Area(
    "signal",
    sources=(f"{_V1}.signal",),
    modules={f"python.ops.{name}_ops": "" for name in ("mel", "mfcc", "reconstruction", "shape", "spectral", "window")},
)

_KERAS = ("activations", "applications", "backend", "callbacks", "constraints", "datasets", "initializers", "layers")
_KERAS += ("losses", "metrics", "models", "optimizers", "preprocessing", "regularizers", "utils")

KERAS = Area(
    "keras",
    symbols={name: f"{_V1}:keras.{name}" for name in (*_KERAS, "Input", "Model", "Sequential")},
    modules={
        **{name: f"tensorflow.keras.{name}" for name in _KERAS},
        **{f"api.keras.{name}": f"tensorflow.keras.{name}" for name in _KERAS},
        **{f"python.keras.{name}": f"tensorflow.keras.{name}" for name in _KERAS},
    },
)

_OPERATORS = (
    "BlockDiag",
    "Circulant",
    "Circulant2D",
    "Circulant3D",
    "Composition",
    "Diag",
    "FullMatrix",
    "Householder",
)
_OPERATORS += ("Identity", "Kronecker", "LowRankUpdate", "LowerTriangular", "ScaledIdentity", "Toeplitz", "Zeros")

LINALG = Area(
    "linalg",
    symbols={
        **{f"LinearOperator{name}": f"{_V1}:linalg.LinearOperator{name}" for name in ("", *_OPERATORS)},
        "LinearOperatorTriL": f"{_V1}:linalg.LinearOperatorLowerTriangular",
        "LinearOperatorUDVHUpdate": f"{_V1}:linalg.LinearOperatorLowRankUpdate",
    },
    modules={"python.ops.linear_operator": "", "python.ops.linear_operator_addition": ""},
)

EAGER = Area(
    "eager",
    symbols={
        "Variable": f"{_V1}:Variable",
        "defun": "tensorflow.compat.v1:function",
        "enable_eager_execution": f"{_V1}:enable_eager_execution",
        "executing_eagerly": f"{_V1}:executing_eagerly",
        "py_func": f"{_V1}:py_function",
        "custom_gradient": f"{_V1}:custom_gradient",
        "GradientTape": f"{_V1}:GradientTape",
    },
    modules={"python.tfe": ""},
)

DISTRIBUTE = Area(
    "distribute",
    symbols={
        name: f"{_V1}:distribute.{name}"
        for name in ("ReduceOp", "Strategy", "StrategyExtended", "get_replica_context", "get_strategy", "has_strategy")
    },
    way_out="Whale is what distributes: leave the strategy out, with `train_distribute` and `eval_distribute` of a "
    "RunConfig, and start the script with `whale run --devices N`",
)

CLUSTER_RESOLVER = Area(
    "cluster_resolver",
    symbols={
        name: f"{_V1}:distribute.cluster_resolver.{name}"
        for name in (
            "ClusterResolver",
            "GCEClusterResolver",
            "KubernetesClusterResolver",
            "SimpleClusterResolver",
            "SlurmClusterResolver",
            "TFConfigClusterResolver",
            "TPUClusterResolver",
        )
    }
    | {"UnionClusterResolver": f"{_V1}:distribute.cluster_resolver.UnionResolver"},
    modules={"python.training": "", "python.training.tpu_cluster_resolver": ""},
)

NN = Area(
    "nn",
    sources=(f"{PORTS}.contrib_nn",),
    modules={"python.ops.alpha_dropout": "", "python.ops.sampling_ops": "", "python.ops.cross_entropy": ""},
)

COMPILER = Area(
    "compiler",
    symbols={"jit": f"{_V1}:xla.experimental", "xla": f"{_V1}:xla.experimental"},
)

TENSORBOARD = Area(
    "tensorboard",
    symbols={"plugins": "tensorboard.plugins:"},
    modules={"plugins": "tensorboard.plugins", "plugins.projector": "tensorboard.plugins.projector"},
)

SAVED_MODEL = Area("saved_model", symbols={"simple_save": f"{_V1}:saved_model.simple_save"})

STATELESS = Area(
    "stateless",
    symbols={
        name: f"{_V1}:random.{name}"
        for name in (
            "stateless_multinomial",
            "stateless_truncated_normal",
            "stateless_categorical",
        )
    }
    | {
        "stateless_random_normal": f"{_V1}:random.stateless_normal",
        "stateless_random_uniform": f"{_V1}:random.stateless_uniform",
    },
)

STAGING = Area("staging", symbols={"StagingArea": "tensorflow.python.ops.data_flow_ops:StagingArea"})

DISTRIBUTIONS = Area(
    "distributions",
    symbols={
        name: f"{_V1}:distributions.{name}"
        for name in (
            "Bernoulli",
            "Beta",
            "Categorical",
            "Dirichlet",
            "DirichletMultinomial",
            "Distribution",
            "Exponential",
            "Gamma",
            "Laplace",
            "Multinomial",
            "Normal",
            "RegisterKL",
            "ReparameterizationType",
            "StudentT",
            "Uniform",
            "kl_divergence",
            "FULLY_REPARAMETERIZED",
            "NOT_REPARAMETERIZED",
        )
    },
    sources=("tensorflow_probability.python.distributions",),
    modules={"python.ops": "", "bijectors": "tensorflow_probability.python.bijectors"},
    way_out="the distributions that tf.distributions lacks live on in TensorFlow Probability: install the release that "
    "goes with this TensorFlow (pip install tensorflow-probability==0.23 with TensorFlow 2.15)",
)

MIXED_PRECISION = Area(
    "mixed_precision",
    symbols={
        name: f"{_V1}:train.experimental.{name}"
        for name in ("FixedLossScale", "DynamicLossScale", "LossScale", "MixedPrecisionLossScaleOptimizer")
    },
)

# Much public code imports it for memory-saving gradients that are off by default: the import must do no harm.
GRAPH_EDITOR = Area("graph_editor", way_out="edit a GraphDef and import it with tf.import_graph_def")

OTHER_AREAS = (
    UTIL,
    SUMMARY,
    EAGER,
    DISTRIBUTE,
    KERAS,
    LINALG,
    SIGNAL,
    CLUSTER_RESOLVER,
    NN,
    COMPILER,
    TENSORBOARD,
    SAVED_MODEL,
    STATELESS,
    STAGING,
    DISTRIBUTIONS,
    MIXED_PRECISION,
    GRAPH_EDITOR,
)
