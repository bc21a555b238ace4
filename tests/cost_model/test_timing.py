"""Seconds of kernels."""

from __future__ import annotations

import pytest

from tests.cost_model.models import block, coefficients
from whale.cost_model import BlockTimes, Curve, Pass, Recompute, Share, Work, WorkClass, packaged_coefficients, runtime
from whale.errors import ClusterError
from whale.ir.program import Phase


def times(precision: str = "fp32", **changed: float) -> BlockTimes:
    return BlockTimes(runtime("tensorflow"), precision, coefficients=coefficients(**changed))  # type: ignore[arg-type]


def test_a_product_is_bound_by_arithmetic_and_a_copy_by_memory() -> None:
    product = Work(WorkClass.MATMUL, Phase.FORWARD, Curve((0.0, 15.7e12)), Curve((0.0, 1.0)))
    copy = Work(WorkClass.MEMORY, Phase.FORWARD, Curve(), Curve((0.0, 225e9)))
    assert times().kernel_seconds(product, "V100", Share(2.0)) == pytest.approx(2.0)
    assert times().kernel_seconds(copy, "V100", Share(2.0)) == pytest.approx(2.0)


def test_small_kernels_take_their_fill_time() -> None:
    nothing = Work(WorkClass.MATMUL, Phase.FORWARD, Curve((1.0,)), Curve())
    assert times(fill_seconds=1e-5).kernel_seconds(nothing, "V100", Share(1.0)) == pytest.approx(1e-5, rel=1e-3)


def test_products_of_activations_are_slower() -> None:
    work = Work(WorkClass.BATCH_MATMUL, Phase.FORWARD, Curve((15.7e12,)), Curve())
    assert times().kernel_seconds(work, "V100", Share(1.0)) == pytest.approx(2.0)


def test_only_what_is_split_is_divided() -> None:
    whole = Work(WorkClass.MATMUL, Phase.FORWARD, Curve((15.7e12,)), Curve())
    assert times().kernel_seconds(whole, "V100", Share(1.0, 4)) == pytest.approx(1.0)
    assert times().kernel_seconds(whole, "V100", Share(1.0, 4, True)) == pytest.approx(0.25)
    assert times().block_pass(block(), Phase.FORWARD, "V100", Share(15.7, 4)) == Pass(pytest.approx(0.25), 1)


def test_sixteen_bits_halve_activations_but_not_the_update() -> None:
    copy = Work(WorkClass.MEMORY, Phase.FORWARD, Curve(), Curve((225e9,)))
    update = Work(WorkClass.MEMORY, Phase.UPDATE, Curve(), Curve((225e9,)))
    mixed = times("fp16")
    assert mixed.kernel_seconds(copy, "V100", Share(1.0)) == pytest.approx(0.5)
    assert mixed.kernel_seconds(update, "V100", Share(1.0)) == pytest.approx(1.0)


def test_part_of_element_wise_work_may_stay_at_32_bits() -> None:
    copy = Work(WorkClass.MEMORY, Phase.FORWARD, Curve(), Curve((225e9,)))
    half = times("fp16", runtime__tensorflow__wide=0.5)
    assert half.kernel_seconds(copy, "V100", Share(1.0)) == pytest.approx(0.75)


def test_a_device_without_a_format_uses_the_next() -> None:
    assert times("tf32").rates("V100").flops[WorkClass.MATMUL] == 15.7e12


def test_a_pass_waits_for_its_kernels_or_for_the_runtime() -> None:
    slow = times(runtime__tensorflow__dispatch=1.0)
    assert slow.bound(Pass(1e-3, 5)) == pytest.approx(5.0)
    assert slow.bound(Pass(100.0, 5)) == pytest.approx(100.0, rel=1e-3)
    assert 5.0 < slow.bound(Pass(5.0, 5)) < 6.5


def test_the_backward_pass_holds_what_is_run_again() -> None:
    once = times().backward_pass(block(), "V100", Share(1.0), Recompute.NONE)
    again = times().backward_pass(block(), "V100", Share(1.0), Recompute.FULL)
    assert again.seconds == pytest.approx(1.5 * once.seconds)


def test_a_device_that_was_never_fitted_has_the_mean_of_the_others() -> None:
    found = BlockTimes(runtime("tensorflow"), "fp16", coefficients=packaged_coefficients())
    assert 0 < found.rates("B200").flops[WorkClass.MATMUL] < 2250e12


def test_an_unknown_device_names_the_nearest() -> None:
    with pytest.raises(ClusterError, match="did you mean 'V100'"):
        times().rates("V10")


def test_a_device_of_which_only_the_kind_is_known_has_no_speed() -> None:
    with pytest.raises(ClusterError, match="nothing is known of the speed of the device model 'GPU'"):
        times().rates("GPU")


def test_a_card_reaches_what_its_chip_reaches() -> None:
    known = {"rate/V100/fp32/matmul": 0.5, "memory/V100": 0.5, "rate/P100/fp32/matmul": 1.0, "memory/P100": 1.0}
    found = BlockTimes(runtime("tensorflow"), "fp32", coefficients=coefficients().replaced(known, "test"))
    card = found.rates("V100-PCIe")
    assert card.flops[WorkClass.MATMUL] == pytest.approx(0.5 * 14e12)
    assert card.bytes_per_second == pytest.approx(0.5 * 900e9)
