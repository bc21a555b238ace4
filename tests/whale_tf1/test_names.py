"""What ``import tensorflow`` and its submodules give to TF1 source."""

from __future__ import annotations

import importlib
import pathlib
import subprocess
import sys
import textwrap

import pytest
import tensorflow.compat.v1 as v1

from whale.errors import ContribError
from whale.installed import has_module, needs_legacy_keras, require_tensorflow
from whale_tf1.missing import ContribImportError
from whale_tf1.tables import AREAS, GONE_AREAS

needs_slim = pytest.mark.skipif(not has_module("tf_slim"), reason="tf-slim is not installed")
needs_estimator = pytest.mark.skipif(needs_legacy_keras(require_tensorflow()), reason="tf.estimator ended with TF 2.15")


def test_tensorflow_is_the_v1_surface_in_graph_mode() -> None:
    import tensorflow as tf

    assert tf.Session is v1.Session and tf.placeholder is v1.placeholder
    assert tf.compat.v1 is v1 and tf.__version__ == v1.__version__
    assert not tf.executing_eagerly() and not tf.control_flow_v2_enabled()
    assert tf.app.run and tf.flags.DEFINE_string and tf.logging.info and tf.gfile.Exists
    assert not hasattr(tf, "no_such_name")


def test_the_private_version_file_names_the_last_tensorflow_1() -> None:
    import tensorflow as tf
    from tensorflow.python.framework import versions
    from tensorflow.python.framework.versions import GRAPH_DEF_VERSION, VERSION, __version__

    assert (__version__, VERSION) == ("1.15.5", "1.15.5")
    assert GRAPH_DEF_VERSION == tf.GRAPH_DEF_VERSION
    assert versions.__version__ == tf.__version__ != __version__
    with tf.Graph().as_default():
        tf.constant(1)
        assert tf.train.export_meta_graph().meta_info_def.tensorflow_version == tf.__version__


@pytest.mark.parametrize(
    "statement",
    [
        "import tensorflow.compat.v1 as tf; tf.Session",
        "import tensorflow.keras as K; assert K.layers.Dense is v1.keras.layers.Dense",
        "from tensorflow.keras import layers; assert layers.Dense is v1.keras.layers.Dense",
        "from tensorflow.keras.layers import Dense, LSTM",
        "import tensorflow.keras.backend as K; K.clear_session",
        "from tensorflow.nn import softmax; assert softmax is v1.nn.softmax",
        "from tensorflow.train import AdamOptimizer",
        "import tensorflow.layers as layers; assert layers.dense is v1.layers.dense",
        "from tensorflow.python.framework import ops; ops.Tensor, ops.IndexedSlices",
        "from tensorflow.python.ops import array_ops, control_flow_ops; array_ops.stack, control_flow_ops.cond",
        "from tensorflow.python.ops import rnn_cell_impl; assert rnn_cell_impl.RNNCell is v1.nn.rnn_cell.RNNCell",
        "from tensorflow.python.ops.rnn_cell import _linear",
        "from tensorflow.python.layers.core import Dense; assert Dense is v1.layers.Dense",
        "from tensorflow.python.layers.normalization import BatchNormalization",
        "from tensorflow.python.util import nest; nest.is_sequence",
        "from tensorflow.python.platform import gfile, flags",
        "from tensorflow.python.client import device_lib",
        "from tensorflow.contrib import rnn; rnn.BasicLSTMCell, rnn.static_rnn, rnn.LSTMStateTuple",
        "from tensorflow.contrib.rnn.python.ops.core_rnn_cell import _linear",
        "from tensorflow.contrib.rnn.python.ops import rnn_cell; rnn_cell.UGRNNCell",
        "from tensorflow.contrib.seq2seq.python.ops import attention_wrapper; attention_wrapper.AttentionWrapper",
        "from tensorflow.contrib.training import HParams",
        "from tensorflow.contrib.learn import ModeKeys; assert ModeKeys.INFER == 'infer'",
        "from tensorflow.contrib.learn.python.learn.datasets import mnist; mnist.read_data_sets",
        "from tensorflow.examples.tutorials.mnist import input_data; input_data.read_data_sets",
        "from tensorflow.contrib.legacy_seq2seq.python.ops import seq2seq; seq2seq.rnn_decoder",
        "import numpy as np; np.int, np.float, np.bool; assert np.asscalar(np.array([2.5])) == 2.5",
        "import tensorflow as tf; assert tf.contrib.signal.stft is v1.signal.stft",
        "from tensorflow.contrib.signal import frame; from tensorflow.contrib.signal.python.ops import mfcc_ops",
        "import tensorflow as tf; assert tf.contrib.keras.layers.Dense is v1.keras.layers.Dense",
        "from tensorflow.contrib.keras import backend as K; K.clear_session",
        "from tensorflow.contrib.keras.python.keras.layers import Dense; assert Dense is v1.keras.layers.Dense",
        "from tensorflow.contrib.keras.api.keras.models import Sequential",
        "from tensorflow.contrib.linalg import LinearOperatorTriL; assert LinearOperatorTriL",
        "import tensorflow as tf; assert tf.contrib.summary.all_summary_ops is v1.summary.all_v2_summary_ops",
        "from tensorflow.contrib.framework.python.ops import audio_ops; audio_ops.decode_wav, audio_ops.mfcc",
        "import collections; collections.Mapping",
    ],
)
def test_import_forms_of_public_code(statement: str) -> None:
    exec(statement, {"v1": v1})


@pytest.mark.skipif(not has_module("tensorboard"), reason="tensorboard is not installed")
def test_the_projector_is_tensorboards() -> None:
    from tensorflow.contrib.tensorboard.plugins import projector

    assert projector.ProjectorConfig


@needs_slim
@pytest.mark.parametrize(
    "statement",
    [
        "import tensorflow.contrib.slim as slim; slim.conv2d, slim.arg_scope, slim.learning.train",
        "from tensorflow.contrib.slim.nets import resnet_v1; resnet_v1.resnet_v1_50",
        "from tensorflow.contrib.slim.python.slim.nets import vgg",
        "import tensorflow.contrib.layers as layers; layers.xavier_initializer, layers.batch_norm",
        "from tensorflow.contrib.layers.python.layers import initializers; initializers.variance_scaling_initializer",
        "from tensorflow.contrib.layers import *; fully_connected",
        "from tensorflow.contrib.framework.python.ops import arg_scope; arg_scope",
        "from tensorflow.contrib.framework import nest, get_variables",
        "from tensorflow.contrib.metrics import streaming_accuracy",
        "from tensorflow.contrib.losses import metric_learning; metric_learning.triplet_semihard_loss",
    ],
)
def test_import_forms_that_need_slim(statement: str) -> None:
    exec(statement, {})


@needs_slim
@needs_estimator
def test_every_symbol_of_the_tables_resolves_without_adding_an_op() -> None:
    with v1.Graph().as_default() as graph:
        for area in AREAS.values():
            for name in {*area.names(), *area.symbols}:
                assert area.resolve(name) is not None, (area.name, name)
            packages = {path: stand_in.partition(".")[0] for path, stand_in in area.modules.items() if stand_in}
            for path in [path for path in area.paths() if path not in packages or has_module(packages[path])]:
                importlib.import_module(f"tensorflow.contrib.{area.name}.{path}")
        assert not graph.get_operations()


@pytest.mark.parametrize(
    "symbol", ["gan", "layers.no_such_layer", "seq2seq.prepare_attention", "cudnn_rnn.CudnnRNNTanh"]
)
def test_a_removed_symbol_is_named_with_line_and_way_out(symbol: str) -> None:
    import tensorflow as tf

    with pytest.raises(ContribError) as caught:
        eval(f"tf.contrib.{symbol}")
    assert f"tf.contrib.{symbol}" in str(caught.value)
    assert caught.value.fix
    assert caught.value.site is not None and caught.value.site.path == "<string>"
    area, _, leaf = symbol.partition(".")
    assert not hasattr(getattr(tf.contrib, area, None), leaf or "none")


@pytest.mark.parametrize(
    "statement",
    [
        "import tensorflow.contrib.gan",
        "from tensorflow.contrib import quantize",
        "from tensorflow.contrib.graph_editor import sgv",
        "from tensorflow.contrib.layers import no_such_layer",
        "from tensorflow.contrib.seq2seq.python.ops import decoder_fn_lib",
        "import tensorflow.contrib.cudnn_rnn.python.kernels",
    ],
)
def test_a_removed_module_is_an_import_error_with_a_way_out(statement: str) -> None:
    with pytest.raises(ContribImportError, match="fix:") as caught:
        exec(statement, {})
    assert isinstance(caught.value, ImportError)
    exec(f"try:\n    {statement}\nexcept ImportError:\n    pass", {})


@pytest.mark.parametrize("name", ["MirroredStrategy", "CollectiveAllReduceStrategy", "ParameterServerStrategy"])
def test_strategies_of_tensorflow_give_way_to_whale(name: str) -> None:
    import tensorflow as tf

    with pytest.raises(ContribError, match=r"(?s)Whale is what distributes.*RunConfig.*whale run --devices N"):
        getattr(tf.contrib.distribute, name)


def test_distributions_are_tensorflows_and_those_of_the_package_that_continues_them(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorflow as tf

    assert tf.contrib.distributions.Normal is v1.distributions.Normal
    if not has_module("tensorflow_probability"):
        with pytest.raises(ContribError, match="pip install tensorflow-probability"):
            tf.contrib.distributions.LogitNormal  # noqa: B018
        with pytest.raises(ContribImportError, match="tensorflow_probability"):
            importlib.import_module("tensorflow.contrib.distributions.bijectors")
    package = tmp_path / "tensorflow_probability" / "python" / "distributions"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("class LogitNormal: pass\n")
    for folder in (package.parent, package.parent.parent):
        (folder / "__init__.py").write_text("")
    for module in [name for name in sys.modules if name.partition(".")[0] == "tensorflow_probability"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.syspath_prepend(tmp_path)
    assert tf.contrib.distributions.LogitNormal.__module__ == "tensorflow_probability.python.distributions"
    for module in [name for name in sys.modules if name.partition(".")[0] == "tensorflow_probability"]:
        del sys.modules[module]
    vars(tf.contrib.distributions).pop("LogitNormal")


def test_importing_the_graph_editor_does_no_harm_until_it_is_used() -> None:
    import tensorflow.contrib.graph_editor as editor

    with pytest.raises(ContribError, match=r"(?s)tf\.contrib\.graph_editor\.sgv.*import_graph_def"):
        editor.sgv  # noqa: B018


def test_gone_areas_do_not_shadow_areas_that_resolve() -> None:
    assert not set(GONE_AREAS) & set(AREAS)


def test_importing_adds_no_op_to_the_default_graph() -> None:
    with v1.Graph().as_default() as graph:
        exec("import tensorflow as tf; tf.contrib.rnn.BasicLSTMCell; tf.contrib.crf.crf_decode; tf.layers.dense", {})
        assert not graph.get_operations()


def test_closing_undoes_everything() -> None:
    # In its own process: this one's environment serves the other tests.
    script = """
        import collections, os, sys
        import numpy as np
        import tensorflow as before
        finders, environment = list(sys.meta_path), dict(os.environ)
        import whale_tf1
        with whale_tf1.install() as installation:
            import tensorflow as tf
            from tensorflow.contrib import rnn
            from tensorflow.keras.layers import Dense
            assert not tf.executing_eagerly() and tf is not before
            tf.placeholder(tf.float32)
        installation.close()
        import tensorflow as after
        assert after is before and after.executing_eagerly()
        assert after.constant(1.0).numpy() == 1.0
        assert sys.meta_path == finders and dict(os.environ) == environment
        assert not [name for name in sys.modules if name.startswith("tensorflow.contrib")]
        assert not hasattr(collections, "Mapping") and "float" not in vars(np)
        from tensorflow.python.framework import ops
        assert not hasattr(ops, "IndexedSlices")
        with whale_tf1.install():
            import tensorflow as tf
            assert tf.contrib.rnn.GRUCell
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)
