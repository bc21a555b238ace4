"""Pre-trains BERT (see bert/) on Python's reference manual: masked words and next sentences.

A plain TF1 script for one device. Run it as it is, or on several devices without an edit:

    python examples/bert_pretrain.py
    whale run --devices 2 examples/bert_pretrain.py

`--layers 12 --hidden 768 --heads 12` is BERT-Base, `--layers 24 --hidden 1024 --heads 16` BERT-Large.
"""

from __future__ import annotations

import argparse

import bert
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

HELD_OUT_BATCHES = 10


def arguments() -> argparse.Namespace:
    """The flags; their defaults train within a minute on one CPU core."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--print-every", type=int, default=10)
    parser.add_argument("--batch", "--batch-size", type=int, default=16, help="sequences in a step")
    parser.add_argument("--length", "--sequence-length", type=int, default=64, help="tokens in a sequence")
    parser.add_argument("--masked", type=int, default=10, help="most masked words in a sequence")
    parser.add_argument("--vocabulary", "--vocab-size", type=int, default=2000)
    parser.add_argument("--characters", type=int, help="how much of the text to read; all by default")
    parser.add_argument("--optimizer", choices=("adam", "lamb"), default="adam")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint-dir", help="where to save the model, and to resume from")
    return parser.parse_args()


def main() -> None:
    """Train for ``--steps``, print both losses every ``--print-every`` steps, then the held-out accuracy."""
    args = arguments()
    corpus = bert.read_corpus(args.vocabulary, args.length, args.masked, args.seed, args.characters)
    tf.set_random_seed(args.seed)

    config = bert.BertConfig(len(corpus.vocabulary), args.hidden, args.layers, args.heads)
    masked_words, next_sentence = bert.pretraining_losses(bert.batches(corpus.training, args.batch, args.seed), config)

    global_step = tf.train.get_or_create_global_step()
    rate = bert.warmed_up_learning_rate(global_step, args.learning_rate, args.steps, args.steps // 10)
    optimizer = bert.AdamWeightDecay(rate) if args.optimizer == "adam" else bert.Lamb(rate)
    train_op = bert.train_op(masked_words + next_sentence, optimizer, global_step)
    with tf.control_dependencies([train_op]):
        steps_done = global_step.read_value()

    # The same variables once more, without dropout and on pages that training never sees.
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        evaluation = bert.masked_word_hits(bert.batches(corpus.held_out, args.batch, args.seed), config)

    with tf.train.MonitoredTrainingSession(checkpoint_dir=args.checkpoint_dir, log_step_count_steps=None) as sess:
        step, totals = sess.run(global_step), [0.0, 0.0]
        while step < args.steps:
            step, *losses = sess.run([steps_done, masked_words, next_sentence])
            totals = [total + loss for total, loss in zip(totals, losses)]
            if step % args.print_every == 0:
                words, sentences = (total / args.print_every for total in totals)
                print(f"step {step:4d}  masked words {words:.4f}  next sentence {sentences:.4f}", flush=True)
                totals = [0.0, 0.0]
        hits, words = (sum(batch) for batch in zip(*(sess.run(evaluation) for _ in range(HELD_OUT_BATCHES))))
    print(f"held-out masked-word accuracy: {hits / words:.4f}")


if __name__ == "__main__":
    main()
