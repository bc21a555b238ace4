"""data, lookup, image: input pipelines, tables and image warps."""

from __future__ import annotations

from whale_tf1.areas import PORTS, Area

_EXPERIMENTAL = "tensorflow.compat.v1.data.experimental"

_RENAMED_NOWHERE = (
    "AUTOTUNE",
    "CheckpointInputPipelineHook",
    "Counter",
    "CsvDataset",
    "RandomDataset",
    "Reducer",
    "SqlDataset",
    "TFRecordWriter",
    "bucket_by_sequence_length",
    "choose_from_datasets",
    "copy_to_device",
    "dense_to_sparse_batch",
    "enumerate_dataset",
    "get_next_as_optional",
    "get_single_element",
    "group_by_reducer",
    "group_by_window",
    "ignore_errors",
    "make_batched_features_dataset",
    "make_csv_dataset",
    "make_saveable_from_iterator",
    "map_and_batch",
    "parallel_interleave",
    "parse_example_dataset",
    "prefetch_to_device",
    "rejection_resample",
    "sample_from_datasets",
    "scan",
    "shuffle_and_repeat",
    "unbatch",
    "unique",
)

DATA = Area(
    "data",
    sources=(f"{PORTS}.contrib_data",),
    symbols={
        **{name: f"{_EXPERIMENTAL}:{name}" for name in _RENAMED_NOWHERE},
        **{
            name: f"tensorflow.compat.v1.data:{name}"
            for name in ("Dataset", "FixedLengthRecordDataset", "Iterator", "TFRecordDataset", "TextLineDataset")
        },
        "Optional": f"{_EXPERIMENTAL}:Optional",
    },
    modules={
        f"python.ops.{name}": ""
        for name in (
            "batching",
            "counter",
            "dataset_ops",
            "enumerate_ops",
            "error_ops",
            "get_single_element",
            "grouping",
            "interleave_ops",
            "iterator_ops",
            "parsing_ops",
            "prefetching_ops",
            "random_ops",
            "readers",
            "resampling",
            "scan_ops",
            "shuffle_ops",
            "sliding",
            "threadpool",
            "unique",
            "writers",
        )
    },
)

_TABLES = "tensorflow.python.ops.lookup_ops"

LOOKUP = Area(
    "lookup",
    sources=(f"{PORTS}.contrib_lookup",),
    symbols={
        "index_table_from_file": f"{_TABLES}:index_table_from_file",
        "index_table_from_tensor": f"{_TABLES}:index_table_from_tensor",
        "index_to_string_table_from_file": f"{_TABLES}:index_to_string_table_from_file",
        "index_to_string_table_from_tensor": f"{_TABLES}:index_to_string_table_from_tensor",
        "LookupInterface": f"{_TABLES}:LookupInterface",
        "InitializableLookupTableBase": f"{_TABLES}:InitializableLookupTableBase",
        "IdTableWithHashBuckets": f"{_TABLES}:IdTableWithHashBuckets",
        "HashTable": f"{_TABLES}:StaticHashTableV1",
        "MutableHashTable": f"{_TABLES}:MutableHashTable",
        "MutableDenseHashTable": f"{_TABLES}:DenseHashTable",
        "TableInitializerBase": f"{_TABLES}:TableInitializerBase",
        "KeyValueTensorInitializer": f"{_TABLES}:KeyValueTensorInitializer",
        "TextFileIndex": f"{_TABLES}:TextFileIndex",
        "TextFileInitializer": f"{_TABLES}:TextFileInitializer",
        "TextFileIdTableInitializer": f"{_TABLES}:TextFileIdTableInitializer",
        "TextFileStringTableInitializer": f"{_TABLES}:TextFileStringTableInitializer",
        "HasherSpec": f"{_TABLES}:HasherSpec",
        "StrongHashSpec": f"{_TABLES}:StrongHashSpec",
        "FastHashSpec": f"{_TABLES}:FastHashSpec",
    },
    modules={"lookup_ops": "", "python.lookup.lookup_ops": ""},
)

IMAGE = Area(
    "image",
    sources=(f"{PORTS}.contrib_image",),
    modules={"python.ops.image_ops": "", "python.ops": ""},
)

DATA_AREAS = (DATA, LOOKUP, IMAGE)
