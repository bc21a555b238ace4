"""Runs the benchmarks and prints their table: ``python -m benchmarks.run``. Takes some twenty minutes on two cores."""

from __future__ import annotations

import argparse
import os
import pathlib
import platform

NAMES = ("data-parallel", "bert", "overhead")


def main() -> None:
    """Measure what the command line asks for, print the table, write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=NAMES, action="append", help="may be repeated; default: all")
    parser.add_argument("--rounds", type=int, default=9, help="alternating rounds")
    parser.add_argument("--overhead-rounds", type=int, default=25, help="the same for overhead, whose rounds are short")
    parser.add_argument("--bert-rounds", type=int, default=3, help="fresh processes for each number of replicas")
    parser.add_argument("--width", type=int, default=64, help="hidden size of BERT-Large; 1024 is the real one's")
    parser.add_argument("--plain", action="store_true", help="leave Whale out: the baselines alone")
    parser.add_argument("--json", type=pathlib.Path, default=pathlib.Path("bench.json"))
    args = parser.parse_args()

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # oneDNN picks kernels by batch size: with it, half a batch is not half the same work.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    from benchmarks import bert_bind, data_parallel, measure, overhead

    chosen = args.only or NAMES
    rows: list[measure.Row] = []
    if "data-parallel" in chosen:
        variants = [name for name in data_parallel.VARIANTS if not (args.plain and name == "whale")]
        rows += data_parallel.rows(args.rounds, variants=variants)
    if "bert" in chosen:
        rows += bert_bind.rows(args.bert_rounds, args.width, replicas=(0,) if args.plain else bert_bind.REPLICAS)
    if "overhead" in chosen:
        # Last, for it loads TensorFlow into this process.
        rows += overhead.rows(args.overhead_rounds, with_whale=not args.plain)

    machine = {"platform": platform.platform(), "python": platform.python_version(), "cpus": os.cpu_count() or 1}
    measure.print_table(rows)
    measure.write_json(rows, machine, args.json)


if __name__ == "__main__":
    main()
