"""The example BERT: its arithmetic in NumPy, its names, its text, and how its pipeline is cut."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import itertools
import math
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def bert() -> Iterator[ModuleType]:
    """The package that the example scripts find beside them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
        yield importlib.import_module("bert")
        for name in [name for name in sys.modules if name.split(".")[0] == "bert"]:
            patch.delitem(sys.modules, name)


def features_of(bert: ModuleType, sequences: int, length: int, words: int, masked: int) -> dict[str, np.ndarray]:
    """Random features; the last two tokens of every sequence are padding, and its last masked word does not count."""
    rng = np.random.RandomState(0)
    weights = np.ones([sequences, masked], np.float32)
    weights[:, -1] = 0.0
    return {
        "token_ids": rng.randint(words, size=[sequences, length]).astype(np.int32),
        "type_ids": rng.randint(2, size=[sequences, length]).astype(np.int32),
        "input_mask": np.repeat([[1] * (length - 2) + [0] * 2], sequences, axis=0).astype(np.int32),
        "masked_positions": rng.randint(length - 2, size=[sequences, masked]).astype(np.int32),
        "masked_labels": rng.randint(words, size=[sequences, masked]).astype(np.int32),
        "masked_weights": weights,
        "is_next": (np.arange(sequences) % 2).astype(np.int32),
    }


# -- the model against NumPy -----------------------------------------------------------------------------------


def gelu(x: np.ndarray) -> np.ndarray:
    return x * 0.5 * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def cross_entropy(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return -np.log(np.take_along_axis(softmax(logits), labels[..., np.newaxis], axis=-1)[..., 0])


class NumpyBert:
    """The published model over arrays by the names of the published checkpoint."""

    def __init__(self, arrays: dict[str, np.ndarray], layers: int, heads: int) -> None:
        self.arrays = {name: array.astype(np.float64) for name, array in arrays.items()}
        self.layers, self.heads = layers, heads

    def dense(self, x: np.ndarray, name: str) -> np.ndarray:
        return x @ self.arrays[f"{name}/kernel"] + self.arrays[f"{name}/bias"]

    def norm(self, x: np.ndarray, name: str) -> np.ndarray:
        centred = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-12)
        return centred * self.arrays[f"{name}/LayerNorm/gamma"] + self.arrays[f"{name}/LayerNorm/beta"]

    def rows(self, x: np.ndarray, name: str) -> np.ndarray:
        return x @ self.arrays[f"{name}output_weights"].T + self.arrays[f"{name}output_bias"]

    def sequence(self, features: dict[str, np.ndarray]) -> np.ndarray:
        where = "bert/embeddings"
        x = self.arrays[f"{where}/word_embeddings"][features["token_ids"]]
        x = x + self.arrays[f"{where}/token_type_embeddings"][features["type_ids"]]
        x = self.norm(x + self.arrays[f"{where}/position_embeddings"][: x.shape[1]], where)
        for layer in range(self.layers):
            x = self.layer(x, features["input_mask"], f"bert/encoder/layer_{layer}")
        return x

    def layer(self, x: np.ndarray, mask: np.ndarray, name: str) -> np.ndarray:
        def heads(part: str) -> list[np.ndarray]:
            return np.split(self.dense(x, f"{name}/attention/self/{part}"), self.heads, axis=-1)

        context = [
            softmax(q @ k.swapaxes(1, 2) / math.sqrt(q.shape[-1]) - 10000.0 * (1 - mask[:, np.newaxis])) @ v
            for q, k, v in zip(heads("query"), heads("key"), heads("value"))
        ]
        output = f"{name}/attention/output"
        x = self.norm(x + self.dense(np.concatenate(context, axis=-1), f"{output}/dense"), output)
        wide = gelu(self.dense(x, f"{name}/intermediate/dense"))
        return self.norm(x + self.dense(wide, f"{name}/output/dense"), f"{name}/output")

    def pooled(self, sequence: np.ndarray) -> np.ndarray:
        return np.tanh(self.dense(sequence[:, 0], "bert/pooler/dense"))

    def masked_logits(self, sequence: np.ndarray, positions: np.ndarray) -> np.ndarray:
        masked = np.take_along_axis(sequence, positions[..., np.newaxis], axis=1)
        masked = self.norm(gelu(self.dense(masked, "cls/predictions/transform/dense")), "cls/predictions/transform")
        return masked @ self.arrays["bert/embeddings/word_embeddings"].T + self.arrays["cls/predictions/output_bias"]


def test_the_losses_are_those_of_the_published_model(bert: ModuleType) -> None:
    # Large weights, so that a wrong term shows.
    config = bert.BertConfig(11, 8, num_layers=2, num_heads=2, max_positions=9, initializer_range=0.5)
    features = features_of(bert, sequences=3, length=6, words=11, masked=2)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        losses = bert.pretraining_losses(features_in_graph(features), config, training=False)
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            hits = bert.masked_word_hits(features_in_graph(features), config)
        spread_biases(session)
        actual, counts = session.run([losses, hits])
        model = NumpyBert({v.op.name: session.run(v) for v in tf.trainable_variables()}, layers=2, heads=2)

    sequence = model.sequence(features)
    logits, weights = model.masked_logits(sequence, features["masked_positions"]), features["masked_weights"]
    masked = np.average(cross_entropy(logits, features["masked_labels"]), weights=weights)
    follows = cross_entropy(model.rows(model.pooled(sequence), "cls/seq_relationship/"), 1 - features["is_next"])
    np.testing.assert_allclose(actual, [masked, follows.mean()], rtol=1e-4)
    right = logits.argmax(axis=-1) == features["masked_labels"]
    np.testing.assert_allclose(counts, [(weights * right).sum(), weights.sum()])


def test_the_heads_for_fine_tuning_are_those_of_the_published_model(bert: ModuleType) -> None:
    config = bert.BertConfig(11, 8, num_layers=1, num_heads=2, max_positions=6, initializer_range=0.5)
    features = features_of(bert, sequences=3, length=6, words=11, masked=2)
    starts, ends, classes = np.array([0, 1, 3]), np.array([2, 1, 5]), np.array([3, 0, 1])
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        inputs = features_in_graph(features)
        sequence, _ = bert.sequence_output(
            *(inputs[name] for name in ("token_ids", "type_ids", "input_mask")), config, training=False
        )
        span = bert.span_loss(*bert.span_logits(sequence, config), tf.constant(starts), tf.constant(ends))
        logits = bert.classification_logits(sequence, 4, config, training=False)
        spread_biases(session)
        actual = session.run([span, bert.classification_loss(logits, tf.constant(classes))])
        model = NumpyBert({v.op.name: session.run(v) for v in tf.trainable_variables()}, layers=1, heads=2)

    expected = model.sequence(features)
    spans = model.rows(expected, "cls/squad/")
    both = np.concatenate([cross_entropy(spans[..., 0], starts), cross_entropy(spans[..., 1], ends)])
    chosen = cross_entropy(model.rows(model.pooled(expected), ""), classes)
    np.testing.assert_allclose(actual, [both.mean(), chosen.mean()], rtol=1e-4)


def features_in_graph(features: dict[str, np.ndarray]) -> dict[str, tf.Tensor]:
    return {name: tf.constant(array) for name, array in features.items()}


def spread_biases(session: tf.Session) -> None:
    """Move every variable off its first value: biases start at 0, where a missing one would not show."""
    session.run(tf.global_variables_initializer())
    rng = np.random.RandomState(2)
    for variable in tf.trainable_variables():
        session.run(tf.assign_add(variable, 0.3 * rng.randn(*variable.shape.as_list())))


def test_variables_are_named_as_in_published_checkpoints(bert: ModuleType) -> None:
    layer = [
        f"{part}/{kind}"
        for part in (
            *(f"attention/self/{name}" for name in ("query", "key", "value")),
            "attention/output/dense",
            "intermediate/dense",
            "output/dense",
        )
        for kind in ("kernel", "bias")
    ] + [f"{part}/LayerNorm/{kind}" for part in ("attention/output", "output") for kind in ("beta", "gamma")]
    expected = {
        *(f"bert/embeddings/{kind}_embeddings" for kind in ("word", "token_type", "position")),
        *(f"bert/embeddings/LayerNorm/{kind}" for kind in ("beta", "gamma")),
        *(f"bert/encoder/layer_{number}/{name}" for number in range(2) for name in layer),
        *(f"bert/pooler/dense/{kind}" for kind in ("kernel", "bias")),
        "cls/predictions/output_bias",
        *(f"cls/predictions/transform/dense/{kind}" for kind in ("kernel", "bias")),
        *(f"cls/predictions/transform/LayerNorm/{kind}" for kind in ("beta", "gamma")),
        *(f"cls/seq_relationship/output_{kind}" for kind in ("weights", "bias")),
    }
    features = features_of(bert, sequences=3, length=6, words=11, masked=2)
    with tf.Graph().as_default():
        loss = tf.add_n(bert.pretraining_losses(features_in_graph(features), bert.sized("tiny", 11)))
        assert {variable.op.name for variable in tf.trainable_variables()} == expected
        step = tf.train.get_or_create_global_step()
        bert.train_op(loss, bert.AdamWeightDecay(tf.constant(0.1)), step)
        slots = {f"{name}/{slot}" for name in expected for slot in ("adam_m", "adam_v")}
        assert {v.op.name for v in tf.global_variables()} == {*expected, *slots, "global_step"}


def test_padding_and_dropout_do_not_change_an_evaluation(bert: ModuleType) -> None:
    config = bert.BertConfig(vocab_size=11, hidden_size=8, num_layers=2, num_heads=2, max_positions=8)
    features = features_of(bert, sequences=3, length=6, words=11, masked=2)
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        inputs = features_in_graph(features)
        inputs["token_ids"] = tf.placeholder_with_default(features["token_ids"], [3, 6])
        evaluated = bert.pretraining_losses(inputs, config, training=False)
        assert not [op for op in tf.get_default_graph().get_operations() if "dropout" in op.name]
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            trained = bert.pretraining_losses(inputs, config)
        session.run(tf.global_variables_initializer())
        once, dropped = session.run([evaluated, trained])
        other = np.concatenate([features["token_ids"][:, :4], 10 - features["token_ids"][:, 4:]], axis=1)
        padded = session.run(evaluated, {inputs["token_ids"]: other})
    np.testing.assert_allclose(once, padded, rtol=1e-6)
    assert once[0] == pytest.approx(math.log(11), rel=0.1)
    assert once[1] == pytest.approx(math.log(2), rel=0.1)
    assert abs(once[0] - dropped[0]) > 1e-5


def test_heads_must_share_out_the_hidden_size(bert: ModuleType) -> None:
    with pytest.raises(ValueError, match="3 heads cannot share a hidden size of 8"):
        bert.BertConfig(11, 8, num_layers=1, num_heads=3)


# -- training --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["AdamWeightDecay", "Lamb"])
def test_optimizers_follow_their_papers(bert: ModuleType, name: str) -> None:
    start = np.array([[1.0, -2.0], [0.5, 3.0]], dtype=np.float32)
    with tf.Graph().as_default():
        weights = tf.get_variable("weights", initializer=start)
        step = tf.train.get_or_create_global_step()
        loss = 0.5 * tf.reduce_sum(tf.square(weights))
        optimizer = getattr(bert, name)(tf.constant(0.1), weight_decay=0.01)
        train = bert.train_op(loss, optimizer, step, clip_norm=1.0)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(3):
                session.run(train)
            actual, steps = session.run([weights, step])

    expected, m, v = start.astype(np.float64), 0.0, 0.0
    for _ in range(3):
        gradient = expected / max(1.0, np.linalg.norm(expected))
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        update = m / (np.sqrt(v) + 1e-6) + 0.01 * expected
        rate = 0.1 * (np.linalg.norm(expected) / np.linalg.norm(update) if name == "Lamb" else 1.0)
        expected = expected - rate * update
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    assert steps == 3


def test_a_table_that_is_only_looked_up_is_trained(bert: ModuleType) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        table = tf.get_variable("table", initializer=np.ones([4, 2], np.float32))
        loss = tf.reduce_sum(tf.nn.embedding_lookup(table, [1, 3, 1]))
        train = bert.train_op(loss, bert.AdamWeightDecay(tf.constant(0.1), weight_decay=0.0), None)
        session.run(tf.global_variables_initializer())
        session.run(train)
        values = session.run(table)
    np.testing.assert_array_equal(values[[0, 2]], np.ones([2, 2]))
    assert (values[[1, 3]] < 1.0).all()


def test_learning_rate_rises_then_falls(bert: ModuleType) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.placeholder(tf.int64, [])
        rate = bert.warmed_up_learning_rate(step, peak=1.0, total_steps=100, warmup_steps=10)
        rates = [session.run(rate, {step: at}) for at in (0, 5, 10, 55, 100)]
    np.testing.assert_allclose(rates, [0.0, 0.5, 0.9, 0.45, 0.0], atol=1e-6)


def test_pretraining_learns_word_frequencies() -> None:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0"}
    sizes = "--layers=2 --hidden=32 --heads=2 --batch=8 --length=32 --vocabulary=300 --characters=30000"
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "bert_pretrain.py"), *sizes.split(), "--steps=40", "--learning-rate=0.02"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    *steps, last = done.stdout.splitlines()
    losses = [float(re.fullmatch(r"step +\d+  masked words (\S+)  next sentence \S+", line)[1]) for line in steps]
    assert len(losses) == 4
    assert math.log(300) + 0.5 > losses[0] > losses[-1] + 0.3
    accuracy = float(re.fullmatch(r"held-out masked-word accuracy: (\S+)", last)[1])
    # Ten times better than a guess.
    assert 10 / 300 < accuracy < 0.5


# -- text ------------------------------------------------------------------------------------------------------


def test_the_vocabulary_spells_what_it_does_not_hold(bert: ModuleType) -> None:
    vocabulary = bert.Vocabulary(["tree", "tree", "tree", "trees", "ear", "ear", "9"], size=18)
    assert vocabulary.pieces[:5] == ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    assert vocabulary.pieces[5:] == (
        *("9", "a", "e", "r", "s", "t"),
        *("##a", "##e", "##r", "##s", "##t"),
        *("tree", "ear"),
    )

    def spelled(word: str) -> list[str]:
        return [vocabulary.pieces[piece] for piece in vocabulary.encode(word)]

    assert spelled("tree") == ["tree"]
    assert spelled("trees") == ["tree", "##s"]
    assert spelled("star") == ["s", "##t", "##a", "##r"]
    assert spelled("sea?") == ["s", "##e", "##a", "[UNK]"]


@pytest.fixture(scope="module")
def corpus(bert: ModuleType) -> SimpleNamespace:
    return bert.read_corpus(1000, length=32, masked=6, seed=1)


def test_a_seed_gives_the_same_examples_again(bert: ModuleType, corpus: SimpleNamespace) -> None:
    again = bert.read_corpus(1000, length=32, masked=6, seed=1)
    other = bert.read_corpus(1000, length=32, masked=6, seed=2)
    assert corpus.vocabulary.pieces == again.vocabulary.pieces == other.vocabulary.pieces
    for name, array in corpus.training.items():
        np.testing.assert_array_equal(array, again.training[name])
    assert (corpus.training["token_ids"] != other.training["token_ids"]).any()


def test_examples_are_pairs_with_the_hidden_words_beside_them(bert: ModuleType, corpus: SimpleNamespace) -> None:
    features, pieces = corpus.training, corpus.vocabulary.pieces
    tokens, used, counts = features["token_ids"], features["input_mask"] > 0, features["masked_weights"] > 0
    special = {name: pieces.index(name) for name in ("[PAD]", "[CLS]", "[SEP]", "[MASK]")}
    assert (tokens[:, 0] == special["[CLS]"]).all() and ((tokens == special["[PAD]"]) == ~used).all()
    # Two parts end in [SEP], and the second begins after the first's.
    ends = tokens == special["[SEP]"]
    assert (ends.sum(axis=1) == 2).all()
    first_end = ends.argmax(axis=1)
    np.testing.assert_array_equal(features["type_ids"], (np.arange(32) > first_end[:, np.newaxis]).astype(int) * used)
    assert 0.4 < features["is_next"].mean() < 0.6

    at = np.take_along_axis(tokens, features["masked_positions"], axis=1)
    words = used.sum(axis=1) - 3
    np.testing.assert_array_equal(counts.sum(axis=1), np.clip(np.round(0.15 * words), 1, 6))
    assert ((tokens == special["[MASK]"]).sum(axis=1) == (counts & (at == special["[MASK]"])).sum(axis=1)).all()
    shares = (at == special["[MASK]"])[counts].mean(), (at == features["masked_labels"])[counts].mean()
    assert shares == pytest.approx((0.8, 0.1), abs=0.02)


def test_held_out_pages_are_not_in_the_training_text(corpus: SimpleNamespace) -> None:
    def firsts(features: dict[str, np.ndarray]) -> set[bytes]:
        """The longer first parts, before words were hidden."""
        tokens = features["token_ids"].copy()
        for row, (positions, labels, weights) in enumerate(
            zip(features["masked_positions"], features["masked_labels"], features["masked_weights"])
        ):
            tokens[row, positions[weights > 0]] = labels[weights > 0]
        parts = (row[types == 0] for row, types in zip(tokens, features["type_ids"]))
        return {part[: np.count_nonzero(part)].tobytes() for part in parts if np.count_nonzero(part) > 12}

    held_out = firsts(corpus.held_out)
    assert len(held_out) > 100
    assert len(held_out & firsts(corpus.training)) < 0.03 * len(held_out)


def test_batches_are_shuffled_and_come_again_with_the_same_seed(bert: ModuleType, corpus: SimpleNamespace) -> None:
    def first_batches(seed: int) -> np.ndarray:
        with tf.Graph().as_default(), tf.Session() as session:
            tokens = bert.batches(corpus.training, 4, seed)["token_ids"]
            assert tokens.shape == [4, 32]
            return np.stack([session.run(tokens) for _ in range(3)])

    np.testing.assert_array_equal(first_batches(1), first_batches(1))
    assert (first_batches(1) != first_batches(2)).any()


# -- the pipeline ----------------------------------------------------------------------------------------------


class Scopes:
    """Stands in for Whale in the script, so that no devices are needed, and notes which stage made which op."""

    def __init__(self) -> None:
        self.stage_of: dict[tf.Operation, int] = {}
        self.micro_batches = 0
        self._stages = itertools.count()

    def replica(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def pipeline(self, num_micro_batch: int) -> contextlib.AbstractContextManager[None]:
        self.micro_batches = num_micro_batch
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        before = len(tf.get_default_graph().get_operations())
        yield
        self.stage_of.update(dict.fromkeys(tf.get_default_graph().get_operations()[before:], next(self._stages)))


@pytest.fixture
def pipeline(bert: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[ModuleType, SimpleNamespace]]:
    """A function from the script's arguments to its module and what it parsed."""

    def load(*arguments: str) -> tuple[ModuleType, SimpleNamespace]:
        # The script's own choice of behaviour must not become that of all tests.
        monkeypatch.setattr(tf, "disable_v2_behavior", lambda: None)
        monkeypatch.setattr(sys, "argv", ["bert_pipeline.py", *arguments])
        spec = importlib.util.spec_from_file_location("bert_pipeline_example", EXAMPLES / "bert_pipeline.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module, module.arguments()

    return load


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_neighbouring_stages_share_one_tensor(
    bert: ModuleType,
    pipeline: Callable[..., tuple[ModuleType, SimpleNamespace]],
    stages: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script, args = pipeline(f"--stages={stages}", "--layers=5", "--micro-batches=3")
    config = bert.BertConfig(11, 8, num_layers=5, num_heads=2, max_positions=8, dropout=0.0, initializer_range=0.5)
    features = features_of(bert, sequences=3, length=6, words=11, masked=2)
    scopes = Scopes()
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.set_random_seed(1)
        inputs = features_in_graph(features)
        monkeypatch.setattr(script, "wh", scopes)
        monkeypatch.setattr(bert, "batches", lambda *_: inputs)
        losses = script.pipelined_losses(SimpleNamespace(training={}), config, args)
        crossing: dict[tuple[int, int], set[tf.Tensor]] = {}
        for op, stage in scopes.stage_of.items():
            for tensor in op.inputs:
                made_in = scopes.stage_of.get(tensor.op, stage)
                is_mask = tensor.shape.rank == 4 and tensor.shape.as_list()[1:3] == [1, 1]
                is_table = tensor.op.name.startswith("bert/embeddings/word_embeddings")
                if made_in != stage and not is_mask and not is_table:
                    crossing.setdefault((made_in, stage), set()).add(tensor)
        assert set(crossing) == {(stage, stage + 1) for stage in range(stages - 1)}
        assert all([tensor.shape.as_list() for tensor in tensors] == [[3, 6, 8]] for tensors in crossing.values())

        # Every stage has layers of its own, and cutting leaves the model what it is.
        layers_of: dict[int, set[str]] = {}
        for op, stage in scopes.stage_of.items():
            layers_of.setdefault(stage, set()).update(re.findall(r"^bert/encoder/(layer_\d)/attention/self", op.name))
        assert sorted(len(layers) for layers in layers_of.values()) == sorted(
            len(range(s * 5 // stages, (s + 1) * 5 // stages)) for s in range(stages)
        )
        assert sum(map(len, layers_of.values())) == len(set().union(*layers_of.values())) == 5
        assert scopes.micro_batches == 3
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            whole = bert.pretraining_losses(inputs, config)
        assert len([op for op in graph.get_operations() if op.name.endswith("word_embeddings")]) == 1
        session.run(tf.global_variables_initializer())
        actual, expected = session.run([losses, whole])
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_more_stages_than_layers_are_refused(
    pipeline: Callable[..., tuple[ModuleType, SimpleNamespace]], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        pipeline("--stages=5", "--layers=4")
    assert "4 layers cannot be shared out over 5 stages" in capsys.readouterr().err
