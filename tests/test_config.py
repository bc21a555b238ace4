"""Configuration keys: how they are given, checked, explained and written down."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whale.config import Config, Env, from_environment, reference_page
from whale.config.keys import CATEGORIES, SETTINGS
from whale.config.kinds import (
    DEVICE_LIST,
    LOSS_SCALE,
    NOT_NEGATIVE,
    OPTIONAL_SWITCH,
    POSITIVE,
    SWITCH,
    Kind,
    choice,
    integer,
)
from whale.errors import ConfigError, SetupError

ROOT = Path(__file__).parent.parent

# The keys and defaults that existing scripts rely on, written out so that an edit of the table cannot move them.
DEFAULTS: dict[str, Any] = {
    "auto.auto_parallel": False,
    "io.slicing": False,
    "io.unbalanced_io_slicing": False,
    "io.drop_last_files": False,
    "communication.sparse_as_dense": False,
    "communication.max_splits": 5,
    "communication.num_communicators": 2,
    "communication.fp16": False,
    "communication.fp16_scale": 128,
    "communication.clip_after_allreduce": False,
    "communication.gradients_reduce_method": "mean",
    "communication.hierarchical_all_reduce": False,
    "communication.backend": "tf",
    "pipeline.num_micro_batch": 1,
    "pipeline.num_stages": -1,
    "pipeline.strategy": "PreferBackward",
    "gradient_checkpoint.type": "",
    "gradient_checkpoint.end_taskgraph": -1,
    "gradient_checkpoint.check_gradients": False,
    "zero.level": "",
    "offload.level": "",
    "amp.level": "",
    "amp.debug_log": False,
    "amp.loss_scale": "dynamic",
    "cluster.device_place_prefer_intra_node": True,
    "cluster.run_visible_devices": "",
    "cluster.colocate_split_and_replicate": False,
    "optimizer.num_apply_group": 1,
    "batch.mode": "",
    "batch.sync": None,
    "random.mode": "",
    "check.mode": "auto",
    "hang.seconds": 300,
}

# One value per key that differs from the default. Every key is here exactly once, in one dict or the other.
AVAILABLE: dict[str, Any] = {
    "auto.auto_parallel": True,
    "communication.max_splits": 1,
    "communication.num_communicators": 7,
    "cluster.device_place_prefer_intra_node": False,
    "cluster.run_visible_devices": "0,2",
    "batch.mode": "local",
    "batch.sync": False,
    "random.mode": "exact",
    "check.mode": "on",
    "pipeline.num_micro_batch": 4,
    "pipeline.strategy": "PreferForward",
    "communication.sparse_as_dense": True,
    "hang.seconds": 2.5,
}
NOT_YET: dict[str, Any] = {
    "io.slicing": True,
    "io.unbalanced_io_slicing": True,
    "io.drop_last_files": True,
    "communication.fp16": True,
    "communication.fp16_scale": 64,
    "communication.clip_after_allreduce": True,
    "communication.gradients_reduce_method": "sum",
    "communication.hierarchical_all_reduce": True,
    "communication.backend": "horovod",
    "pipeline.num_stages": 2,
    "gradient_checkpoint.type": "auto",
    "gradient_checkpoint.end_taskgraph": 3,
    "gradient_checkpoint.check_gradients": True,
    "zero.level": "v1",
    "offload.level": "v0",
    "amp.level": "O1",
    "amp.debug_log": True,
    "amp.loss_scale": 64.0,
    "cluster.colocate_split_and_replicate": True,
    "optimizer.num_apply_group": 2,
}


def read(config: Config, key: str) -> Any:
    """The value of a key by attribute access, as scripts read it."""
    category, name = key.split(".")
    return getattr(getattr(config, category), name)


# ---- the table


def test_keys_and_defaults_are_those_scripts_rely_on() -> None:
    assert Config().as_dict() == DEFAULTS
    assert {key: read(Config(), key) for key in DEFAULTS} == DEFAULTS


def test_every_key_is_tested_as_available_or_not() -> None:
    assert sorted([*AVAILABLE, *NOT_YET]) == sorted(DEFAULTS)


@pytest.mark.parametrize("key", DEFAULTS)
def test_a_default_passes_its_own_check_and_is_described(key: str) -> None:
    setting = SETTINGS[key]
    assert setting.check(setting.default) == setting.default
    assert setting.about.endswith(".")


def test_the_reference_page_is_what_the_table_says(golden: Callable[..., None]) -> None:
    golden(reference_page(), path=ROOT / "docs" / "configuration.md")


# ---- giving values


@pytest.mark.parametrize(("key", "value"), AVAILABLE.items())
def test_an_available_key_is_set_in_every_form(key: str, value: Any) -> None:
    category, name = key.split(".")
    assigned = Config()
    setattr(getattr(assigned, category), name, value)
    for config in (Config({key: value}), Config({category: {name: value}}), assigned):
        assert read(config, key) == value
        assert config.given() == {key: value}
        assert config.as_dict() == {**DEFAULTS, key: value}


@pytest.mark.parametrize(("key", "value"), NOT_YET.items())
def test_a_key_without_its_feature_says_what_works_instead(key: str, value: Any) -> None:
    category, name = key.split(".")
    config = Config()
    for give in (lambda: Config({key: value}), lambda: setattr(getattr(config, category), name, value)):
        with pytest.raises(ConfigError, match="not available in this version") as error:
            give()
        assert error.value.what.startswith(f"{key} = ")
        assert SETTINGS[key].instead in error.value.fix
        assert error.value.site is not None and error.value.site.path == __file__
    assert config == Config()


def test_a_key_about_a_missing_feature_names_that_feature() -> None:
    with pytest.raises(ConfigError, match=r"about wh\.split, which is not available in this version") as error:
        Config({"cluster.colocate_split_and_replicate": True})
    assert "leave it" not in error.value.fix and "wh.replica()" in error.value.fix


@pytest.mark.parametrize("key", NOT_YET)
def test_a_key_without_its_feature_accepts_its_default(key: str) -> None:
    assert Config({key: DEFAULTS[key]}) == Config()


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    """Flat settings of available keys."""
    values = {
        "auto.auto_parallel": st.booleans(),
        "communication.max_splits": st.integers(1, 10**6),
        "communication.num_communicators": st.integers(1, 10**6),
        "cluster.device_place_prefer_intra_node": st.booleans(),
        "cluster.run_visible_devices": st.lists(st.integers(0, 99), unique=True).map(
            lambda numbers: ",".join(map(str, numbers))
        ),
        "batch.mode": st.sampled_from(["", "global", "local"]),
        "batch.sync": st.sampled_from([True, False, None]),
        "random.mode": st.sampled_from(["", "exact", "independent"]),
        "check.mode": st.sampled_from(["auto", "on", "off"]),
        "pipeline.num_micro_batch": st.integers(1, 10**6),
        "pipeline.strategy": st.sampled_from(
            ["PreferBackward", "PreferForward", "PreferBackwardOptimizer", "Interleaved"]
        ),
        "communication.sparse_as_dense": st.booleans(),
        "hang.seconds": st.floats(0, 10**6),
    }
    assert values.keys() == AVAILABLE.keys()
    return draw(st.fixed_dictionaries({}, optional=values))


@given(configurations())
def test_values_come_back_from_every_form(settings: dict[str, Any]) -> None:
    config = Config(settings)
    nested: dict[str, dict[str, Any]] = {}
    for key, value in settings.items():
        category, name = key.split(".")
        nested.setdefault(category, {})[name] = value
    assert config.given() == settings
    assert Config(nested) == Config(config.given()) == Config(config.as_dict()) == config
    assert eval(repr(config), {"Config": Config}) == config
    assert copy.deepcopy(config) == pickle.loads(pickle.dumps(config)) == config


@given(configurations())
def test_environment_variables_say_the_same_as_the_dict(settings: dict[str, Any]) -> None:
    environ = {f"WHALE_{key.replace('.', '_').upper()}": str(value) for key, value in settings.items()}
    expected = {key: value for key, value in settings.items() if value != ""}  # an empty variable is not set
    assert from_environment(environ) == expected
    config = Config()
    config.fall_back_on(from_environment(environ))
    assert config == Config(settings)


def test_a_copy_is_independent() -> None:
    first = Config({"batch.mode": "local"})
    second = copy.deepcopy(first)
    second.batch.mode = "global"
    assert (first.batch.mode, second.batch.mode) == ("local", "global")
    assert first != second


def test_check_alone_means_its_mode() -> None:
    assigned = Config()
    assigned.check = "off"  # pyright: ignore[reportAttributeAccessIssue] - the shorthand scripts write
    for config in (assigned, Config({"check": "off"}), Config({"check": {"mode": "off"}})):
        assert config.check.mode == "off"


def test_num_splits_is_max_splits() -> None:
    for config in (Config({"communication.num_splits": 3}), Config({"communication": {"num_splits": 3}})):
        assert config.communication.max_splits == config.communication.num_splits == 3
        config.communication.num_splits = 4
        assert config.given() == {"communication.max_splits": 4}


def test_words_ignore_case_and_numpy_integers_count() -> None:
    config = Config({"batch.mode": "GLOBAL", "pipeline.strategy": "preferbackward"})
    assert config.given() == {"batch.mode": "global", "pipeline.strategy": "PreferBackward"}
    config.communication.max_splits = np.int64(3)  # pyright: ignore[reportAttributeAccessIssue] - __index__ counts
    assert type(config.communication.max_splits) is int


def test_a_config_is_not_hashable_because_it_can_change() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Config())


def test_repr_of_a_category_shows_each_value_once() -> None:
    assert repr(Config({"batch.mode": "local"}).batch) == "Batch(mode='local', sync=None)"


# ---- refusing values


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (SWITCH, [(True, True), (False, False)], [1, 0, "True", None]),
        (OPTIONAL_SWITCH, [(None, None), (True, True)], [1, "None"]),
        (choice("", "v0"), [("", ""), ("V0", "v0")], ["v1", " v0", None, 0]),
        (integer(1), [(1, 1), (np.int32(5), 5)], [0, -1, True, 2.0, "2", None, np.zeros(2)]),
        (POSITIVE, [(1, 1), (0.5, 0.5)], [0, -1, True, float("inf"), float("nan"), "1", None]),
        (NOT_NEGATIVE, [(0, 0), (0.5, 0.5), (300, 300)], [-0.5, True, False, float("inf"), float("nan"), "1", None]),
        (LOSS_SCALE, [("Dynamic", "dynamic"), ("128", 128.0), (2, 2)], ["fast", "0", "nan", 0, True, None]),
        (DEVICE_LIST, [("", ""), (" ", ""), ("0, 2", "0,2")], ["0,,1", "0,0", "-1", "gpu:0", "²", 0, None]),
    ],
)
def test_kinds_of_value(kind: Kind[Any], good: list[tuple[Any, Any]], bad: list[Any]) -> None:
    for value, checked in good:
        assert kind.check(value) == checked
    for value in bad:
        with pytest.raises(ValueError):
            kind.check(value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch.mode": "globl"}, "batch.mode cannot be 'globl'.*did you mean 'global'.*allowed: \"\" or \"global\""),
        ({"batch": {"mode": 3}}, "batch.mode cannot be 3.*allowed"),
        ({"batch.mod": "global"}, "'batch.mod' is not a configuration key.*did you mean 'batch.mode'"),
        ({"num_micro_batch": 4}, "'num_micro_batch' is not.*did you mean 'pipeline.num_micro_batch'"),
        ({"pipelin": {"num_stages": 2}}, "'pipelin' is not"),
        ({"pipeline": 4}, "category 'pipeline' cannot be 4.*a dict of its settings"),
        ({"xyz.abc": 1}, "'xyz.abc' is not"),
        ({3: 1}, "'3' is not a configuration key.*the keys are auto.auto_parallel"),
        ({"batch.mode": "local", "batch": {"mode": "local"}}, "'batch.mode' is given twice"),
        ({"communication": {"max_splits": 2, "num_splits": 2}}, "twice.*keep one of .*max_splits.* or .*num_splits"),
        ({"check": "off", "check.mode": "on"}, "'check.mode' is given twice"),
        ({"check": "maybe"}, "check.mode cannot be 'maybe'"),
        ("batch.mode=local", "the configuration cannot be 'batch.mode=local'.*a dict"),
        (["batch.mode"], "the configuration cannot be"),
    ],
)
def test_a_wrong_dict_is_refused(settings: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){message}") as error:
        Config(settings)
    assert error.value.site is not None and error.value.site.path == __file__


def test_no_settings_at_all_is_the_default() -> None:
    assert Config({}) == Config(None) == Config({"batch": {}})


def test_a_wrong_assignment_is_refused_and_changes_nothing() -> None:
    config = Config({"batch.mode": "local"})
    wrong: list[tuple[Any, str, Any, str]] = [
        (config, "batches", 1, "did you mean 'batch'"),
        (config, "batch", {"mode": "global"}, "cannot be replaced.*batch.mode, batch.sync"),
        (config, "_given", {}, "'_given' is not"),
        (config.batch, "modes", "global", "did you mean 'batch.mode'"),
        (config.batch, "mode", "other", "batch.mode cannot be 'other'"),
        (config, "check", "perhaps", "check.mode cannot be 'perhaps'"),
    ]
    for holder, name, value, message in wrong:
        with pytest.raises(ConfigError, match=f"(?s){message}") as error:
            setattr(holder, name, value)
        assert error.value.site is not None and error.value.site.path == __file__
    assert config == Config({"batch.mode": "local"})


# ---- environment variables


@pytest.mark.parametrize(
    ("variable", "text", "key", "value"),
    [
        ("WHALE_AUTO_AUTO_PARALLEL", "True", "auto.auto_parallel", True),
        ("WHALE_AUTO_AUTO_PARALLEL", "1", "auto.auto_parallel", True),
        ("EPL_AUTO_AUTO_PARALLEL", "true", "auto.auto_parallel", True),
        ("EPL_CLUSTER_DEVICE_PLACE_PREFER_INTRA_NODE", "0", "cluster.device_place_prefer_intra_node", False),
        ("EPL_COMMUNICATION_NUM_SPLITS", "9", "communication.max_splits", 9),
        ("WHALE_BATCH_SYNC", "None", "batch.sync", None),
        ("WHALE_CHECK", "off", "check.mode", "off"),
        ("WHALE_CHECK_MODE", "OFF", "check.mode", "off"),
        ("EPL_AMP_LOSS_SCALE", "dynamic", "amp.loss_scale", "dynamic"),
        ("EPL_COMMUNICATION_FP16_SCALE", "128", "communication.fp16_scale", 128),
        ("EPL_GRADIENT_CHECKPOINT_END_TASKGRAPH", "-1", "gradient_checkpoint.end_taskgraph", -1),
    ],
)
def test_a_variable_sets_its_key(variable: str, text: str, key: str, value: Any) -> None:
    assert from_environment({variable: text}) == {key: value}


def test_variables_that_are_not_configuration_are_left_alone() -> None:
    assert from_environment({"WHALE": "1", "WHALE_BATCHES": "1", "EPLORE_BATCH_MODE": "x", "BATCH_MODE": "x"}) == {}


def test_the_two_prefixes_may_agree_but_not_contradict() -> None:
    assert from_environment({"WHALE_BATCH_MODE": "local", "EPL_BATCH_MODE": "local"}) == {"batch.mode": "local"}
    with pytest.raises(ConfigError, match="EPL_BATCH_MODE and WHALE_BATCH_MODE contradict"):
        from_environment({"WHALE_BATCH_MODE": "local", "EPL_BATCH_MODE": "global"})


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("WHALE_BATCH_MODO", "local", "WHALE_BATCH_MODO is not a configuration key.*did you mean 'WHALE_BATCH_MODE'"),
        ("EPL_PIPELINE_NUM_MICRO_BATCHES", "4", "did you mean 'EPL_PIPELINE_NUM_MICRO_BATCH'"),
        ("WHALE_BATCH_MODE", "both", r"WHALE_BATCH_MODE \(batch.mode\) cannot be 'both'"),
        ("WHALE_AUTO_AUTO_PARALLEL", "yes", "cannot be 'yes'.*allowed: True or False"),
        ("WHALE_COMMUNICATION_MAX_SPLITS", "many", "cannot be 'many'.*at least 1"),
        ("EPL_ZERO_LEVEL", "v1", r"EPL_ZERO_LEVEL \(zero.level\) = 'v1': this feature is not available"),
    ],
)
def test_a_wrong_variable_is_named(variable: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){message}") as error:
        from_environment({variable: text})
    assert error.value.site is None


def test_what_the_script_sets_wins_over_the_environment() -> None:
    config = Config({"batch.mode": "local"})
    config.fall_back_on({"batch.mode": "global", "random.mode": "exact"})
    assert (config.batch.mode, config.random.mode) == ("local", "exact")
    assert config.given() == {"batch.mode": "local"}
    config.random.mode = "independent"
    assert config.random.mode == "independent"
    config.fall_back_on({})
    assert config.as_dict() == {**DEFAULTS, "batch.mode": "local", "random.mode": "independent"}


# ---- Env


class TwoDevices:
    """As much of a cluster as scripts ask for."""

    total_gpu_num = 2
    worker_num = 1


@pytest.fixture
def no_env() -> Iterator[None]:
    Env.set(None)
    yield
    Env.set(None)


@pytest.mark.usefixtures("no_env")
def test_env_holds_what_init_set_up() -> None:
    with pytest.raises(SetupError, match=r"call whale.init\(\) first"):
        Env.get()
    config = Config()
    Env.set(Env(TwoDevices(), config))
    assert Env.get().cluster.total_gpu_num == 2
    assert Env.get().config is config


def test_categories_and_config_name_the_same_groups() -> None:
    assert {category.category: category for category in CATEGORIES} == {
        name: type(getattr(Config(), name)) for name in Config.__annotations__ if not name.startswith("_")
    }
