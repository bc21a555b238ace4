"""training, opt, learn, estimator, tpu: HParams and optimizers are ports, estimators are TensorFlow 2.15's."""

from __future__ import annotations

from whale_tf1.areas import PORTS, Area

_V1 = "tensorflow.compat.v1"
_ESTIMATOR = "tensorflow_estimator.python.estimator"

TRAINING = Area(
    "training",
    sources=(
        f"{PORTS}.hparams",
        f"{PORTS}.contrib_training",
        "tf_slim.training.training",
        "tf_slim.training.evaluation",
    ),
    symbols={"FeedingQueueRunner": f"{_ESTIMATOR}.inputs.queues.feeding_queue_runner:_FeedingQueueRunner"},
    modules={
        "python.training.hparam": f"{PORTS}.hparams",
        "python.training.training": "",
        "python.training.bucket_ops": "",
        "python.training.evaluation": "",
    },
    gone={
        name: "this class managed unrolled sequences in queues: feed the state between runs, or use tf.data"
        for name in ("batch_sequences_with_states", "SequenceQueueingStateSaver", "NextQueuedSequenceBatch")
    }
    | {
        "rejection_sample": "use tf.data.experimental.rejection_resample",
        "stratified_sample": "use tf.data.experimental.rejection_resample",
    },
)

OPT = Area(
    "opt",
    sources=(f"{PORTS}.opt_adaptive", f"{PORTS}.opt_wrappers"),
    modules={
        f"python.training.{name}": ""
        for name in (
            "adamax",
            "external_optimizer",
            "lazy_adam_optimizer",
            "moving_average_optimizer",
            "nadam_optimizer",
            "variable_clipping_optimizer",
            "weight_decay_optimizers",
        )
    },
)

_CANNED = ("DNNClassifier", "DNNRegressor", "LinearClassifier", "LinearRegressor", "DNNLinearCombinedClassifier")
_CANNED += ("DNNLinearCombinedRegressor",)

LEARN = Area(
    "learn",
    sources=(f"{PORTS}.contrib_learn",),
    symbols={
        "Estimator": f"{_V1}:estimator.Estimator",
        "RunConfig": f"{_V1}:estimator.RunConfig",
        **{name: f"{_V1}:estimator.{name}" for name in _CANNED},
        "NanLossDuringTrainingError": f"{_V1}:train.NanLossDuringTrainingError",
        "read_batch_record_features": f"{_V1}:data.experimental.make_batched_features_dataset",
        "preprocessing": f"{PORTS}.text_preprocessing:",
        "learn_runner": f"{PORTS}.contrib_learn:",
        "datasets": "tensorflow.contrib.learn.python.learn.datasets:",
    },
    modules={
        "datasets": f"{PORTS}.learn_datasets",
        "datasets.mnist": f"{PORTS}.mnist",
        "datasets.base": f"{PORTS}.learn_datasets",
        "preprocessing": f"{PORTS}.text_preprocessing",
        "learn_runner": f"{PORTS}.contrib_learn",
        "python.learn": "",
        "python.learn.datasets": f"{PORTS}.learn_datasets",
        "python.learn.datasets.mnist": f"{PORTS}.mnist",
        "python.learn.datasets.base": f"{PORTS}.learn_datasets",
        "python.learn.estimators.model_fn": f"{PORTS}.contrib_learn",
        "python.learn.learn_runner": f"{PORTS}.contrib_learn",
        "python.learn.preprocessing": f"{PORTS}.text_preprocessing",
        "python.learn.preprocessing.text": f"{PORTS}.text_preprocessing",
    },
    gone={
        "Experiment": "Experiment was replaced by tf.estimator.train_and_evaluate before TF 1.15: call that",
        "monitors": "monitors were replaced by tf.train.SessionRunHook before TF 1.15: use a hook",
    },
)

ESTIMATOR = Area(
    "estimator",
    sources=(f"{_ESTIMATOR}.early_stopping", f"{_ESTIMATOR}.extenders", f"{_ESTIMATOR}.hooks.hooks"),
    symbols={
        "multi_class_head": f"{_ESTIMATOR}.canned.head:_multi_class_head_with_softmax_cross_entropy_loss",
        "regression_head": f"{_ESTIMATOR}.canned.head:_regression_head",
        "binary_classification_head": f"{_ESTIMATOR}.canned.head:_binary_logistic_head_with_sigmoid_cross_entropy_loss",
        "make_stop_at_checkpoint_step_hook": f"{_V1}:estimator.experimental.make_stop_at_checkpoint_step_hook",
        "InMemoryEvaluatorHook": f"{_V1}:estimator.experimental.InMemoryEvaluatorHook",
        "call_logit_fn": f"{_V1}:estimator.experimental.call_logit_fn",
        "dnn_logit_fn_builder": f"{_V1}:estimator.experimental.dnn_logit_fn_builder",
        "linear_logit_fn_builder": f"{_V1}:estimator.experimental.linear_logit_fn_builder",
    },
    modules={"python.estimator.early_stopping": "", "python.estimator.extenders": "", "python.estimator.hooks": ""},
    gone={
        name: "towers per device are what Whale makes: remove replicate_model_fn and TowerOptimizer"
        for name in ("replicate_model_fn", "TowerOptimizer")
    },
)

TPU = Area(
    "tpu",
    symbols={
        **{
            name: f"{_V1}:estimator.tpu.{name}"
            for name in ("TPUEstimator", "TPUEstimatorSpec", "RunConfig", "TPUConfig", "InputPipelineConfig")
        },
        **{
            name: f"{_V1}:tpu.{name}"
            for name in ("CrossShardOptimizer", "batch_parallel", "bfloat16_scope", "core", "cross_replica_sum")
        },
        **{
            name: f"{_V1}:tpu.{name}"
            for name in ("initialize_system", "outside_compilation", "replicate", "rewrite", "shard", "shutdown_system")
        },
    },
    modules={
        f"python.tpu.{name}": ""
        for name in ("bfloat16", "tpu", "tpu_config", "tpu_estimator", "tpu_optimizer", "tpu_function")
    },
)

TRAINING_AREAS = (TRAINING, OPT, LEARN, ESTIMATOR, TPU)
