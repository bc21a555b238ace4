"""Areas of contrib that nothing in TensorFlow 2 or Whale replaces, each with its way out."""

from __future__ import annotations

from collections.abc import Mapping

_TFP = "TensorFlow Probability is its successor: pip install tensorflow-probability"
_TFGAN = "TF-GAN is its successor: pip install tensorflow-gan, and import tensorflow_gan"
_KERNELS = "its compiled kernels left TensorFlow with contrib: rewrite this part with tf.nn functions"
_TRT = "use tensorflow.python.compiler.tensorrt on a TensorFlow built with TensorRT"
_QUANTIZE = "use the tensorflow-model-optimization package"

GONE_AREAS: Mapping[str, str] = {
    "all_reduce": "gradients are reduced by Whale: leave hand-written all-reduce out",
    "bayesflow": _TFP,
    "boosted_trees": "use tf.estimator.BoostedTreesClassifier of TensorFlow 2.15",
    "checkpoint": "use tf.train.Checkpoint",
    "factorization": "its compiled kernels left TensorFlow with contrib: use scikit-learn",
    "ffmpeg": "use tf.audio.decode_wav or the tensorflow-io package",
    "gan": _TFGAN,
    "integrate": _TFP,
    "kafka": "use the tensorflow-io package",
    "linear_optimizer": "use tf.train.FtrlOptimizer",
    "memory_stats": "its compiled kernels left TensorFlow with contrib: read RunMetadata",
    "model_pruning": _QUANTIZE,
    "predictor": "load the model with tf.saved_model.loader.load in a session",
    "quantization": _QUANTIZE,
    "quantize": _QUANTIZE,
    "resampler": _KERNELS,
    "rpc": _KERNELS,
    "sparsemax": "write it with tf.nn.top_k and cumulative sums",
    "tensor_forest": "its compiled kernels left TensorFlow with contrib: use tensorflow-decision-forests",
    "tensorrt": _TRT,
    "tfprof": "use tf.profiler",
    "timeseries": _TFP,
}
"""Area to way out; areas not named here get a general answer."""
