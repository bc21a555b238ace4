"""Pre-trains BERT (see bert.py) on the docstrings of Python's own library: masked words and next sentences.

python examples/bert_pretrain.py
whale run --devices 2 examples/bert_pretrain.py --size base --steps 20
"""

from __future__ import annotations

import argparse
import ast
import collections
import pathlib
import re
import sysconfig
from collections.abc import Iterator

import bert
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD, UNKNOWN, CLASS, SEPARATOR, MASK = range(len(SPECIAL))

Document = list[list[int]]
Example = dict[str, np.ndarray]


def docstrings(characters: int) -> Iterator[str]:
    """About ``characters`` of docstrings of the standard library's top-level modules, in the order of their names."""
    definitions = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for path in sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("[a-z]*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8", errors="replace"))):
            text = ast.get_docstring(node) if isinstance(node, definitions) else None
            if text:
                yield text
                characters -= len(text)
        if characters <= 0:
            return


def tokenize(text: str) -> list[list[str]]:
    """Sentences of ``text`` as lists of lower-case words and punctuation marks."""
    sentences = re.split(r"(?<=[.!?:])\s+|\n\s*\n", text.lower())
    words = [re.findall(r"[a-z_]+|[0-9]+|[^\sa-z_0-9]", sentence) for sentence in sentences]
    return [sentence for sentence in words if len(sentence) > 2]


def read_documents(characters: int, vocab_size: int) -> tuple[list[Document], int]:
    """Documents of two sentences or more, as word ids, and the number of ids in use."""
    texts = [sentences for sentences in map(tokenize, docstrings(characters)) if len(sentences) > 1]
    counts = collections.Counter(word for sentences in texts for sentence in sentences for word in sentence)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))[: vocab_size - len(SPECIAL)]
    index = {word: i for i, word in enumerate(ranked, start=len(SPECIAL))}
    documents = [[[index.get(word, UNKNOWN) for word in sentence] for sentence in text] for text in texts]
    return documents, len(SPECIAL) + len(ranked)


def make_example(
    first: list[int],
    second: list[int],
    is_next: bool,
    length: int,
    masked: int,
    vocab_size: int,
    rng: np.random.Generator,
) -> Example:
    """Two sentences as one row of ``length`` tokens, some 15 % of the words (``masked`` at most) hidden."""
    second = second[: length // 2 - 2]
    first = first[: length - 3 - len(second)]
    tokens = np.array([CLASS, *first, SEPARATOR, *second, SEPARATOR], dtype=np.int32)
    words = np.flatnonzero((tokens != CLASS) & (tokens != SEPARATOR))
    count = min(masked, max(1, round(0.15 * len(words))))
    positions = np.sort(rng.choice(words, size=count, replace=False))
    labels = tokens[positions]
    # Of ten hidden words, eight become [MASK], one another word, one stays: as in the paper.
    dice = rng.random(count)
    replaced = np.where(dice < 0.8, MASK, np.where(dice < 0.9, rng.integers(len(SPECIAL), vocab_size, count), labels))
    tokens[positions] = replaced

    def padded(values: np.ndarray, size: int, dtype: type) -> np.ndarray:
        return np.pad(values.astype(dtype), (0, size - len(values)))

    return {
        "token_ids": padded(tokens, length, np.int32),
        "type_ids": padded(np.repeat([0, 1], [len(first) + 2, len(second) + 1]), length, np.int32),
        "input_mask": padded(np.ones(len(tokens)), length, np.int32),
        "masked_positions": padded(positions, masked, np.int32),
        "masked_labels": padded(labels, masked, np.int32),
        "masked_weights": padded(np.ones(count), masked, np.float32),
        "is_next": np.int32(is_next),
    }


def examples(documents: list[Document], vocab_size: int, length: int, masked: int, seed: int) -> Iterator[Example]:
    """Endless examples: half of them are neighbours in a document, half take the second sentence elsewhere."""
    rng = np.random.default_rng(seed)
    while True:
        document = documents[rng.integers(len(documents))]
        where = int(rng.integers(len(document) - 1))
        is_next = bool(rng.random() < 0.5)
        other = document if is_next else documents[rng.integers(len(documents))]
        second = other[where + 1] if is_next else other[rng.integers(len(other))]
        yield make_example(document[where], second, is_next, length, masked, vocab_size, rng)


def main() -> None:
    """Train for ``--steps`` and print both losses every ``--print-every`` steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=("tiny", "base", "large"), default="tiny")
    parser.add_argument("--optimizer", choices=("adam", "lamb"), default="adam")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--print-every", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--sequence-length", type=int, default=64)
    parser.add_argument("--masked-words", type=int, default=10)
    parser.add_argument("--vocab-size", type=int, default=4000)
    parser.add_argument("--characters", type=int, default=1_000_000)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint-dir", help="where to save the model, and to resume from")
    args = parser.parse_args()

    documents, vocab_size = read_documents(args.characters, args.vocab_size)
    print(f"{len(documents)} documents, {vocab_size} words", flush=True)
    tf.set_random_seed(args.seed)

    example = next(examples(documents, vocab_size, args.sequence_length, args.masked_words, args.seed))
    dataset = tf.data.Dataset.from_generator(
        lambda: examples(documents, vocab_size, args.sequence_length, args.masked_words, args.seed),
        output_types={name: tf.as_dtype(value.dtype) for name, value in example.items()},
        output_shapes={name: value.shape for name, value in example.items()},
    )
    features = dataset.batch(args.batch_size, drop_remainder=True).prefetch(2).make_one_shot_iterator().get_next()

    global_step = tf.train.get_or_create_global_step()
    mlm, nsp = bert.pretraining_losses(features, bert.sized(args.size, vocab_size))
    rate = bert.warmed_up_learning_rate(global_step, args.learning_rate, args.steps, args.steps // 10)
    optimizer = bert.AdamWeightDecay(rate) if args.optimizer == "adam" else bert.Lamb(rate)
    train_op = bert.train_op(mlm + nsp, optimizer, global_step)

    with tf.control_dependencies([train_op]):
        steps_done = global_step.read_value()

    totals = np.zeros(2)
    hooks = [tf.train.StopAtStepHook(last_step=args.steps)]
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=args.checkpoint_dir, hooks=hooks, log_step_count_steps=None
    ) as sess:
        while not sess.should_stop():
            step, *losses = sess.run([steps_done, mlm, nsp])
            totals += losses
            if step % args.print_every == 0:
                words, sentences = totals / args.print_every
                print(f"step {step:5d}  masked words {words:.4f}  next sentence {sentences:.4f}", flush=True)
                totals[:] = 0.0


if __name__ == "__main__":
    main()
