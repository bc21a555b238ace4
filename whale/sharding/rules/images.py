"""Parts of images by boxes, and images moved by transforms: each image on its own, or picked by its number."""

from __future__ import annotations

from collections.abc import Callable

from whale.ir.placement import PARTIAL, REPLICATED, Sharded
from whale.sharding.call import Call
from whale.sharding.facts import Decision, Decline, Local, Want

Rule = Callable[[Call], Decision]


def crop_and_resize(call: Call) -> Decision:
    """CropAndResize: boxes pick from whole images; one box for each sample, in order, from pieces."""
    images, boxes, numbers, _ = call.ins
    if images.sharded and _counts(call, images.sharded, 2):
        cut = images.sharded
        wants: list[Want] = [None, call.piece(1, cut), cut, REPLICATED]
        return call.decide(wants, call.fact(cut), recipe="rebased", index=2)
    lead = boxes.sharded or numbers.sharded
    if lead is not None:
        return call.decide([REPLICATED, call.piece(1, lead), call.piece(2, lead), REPLICATED], call.fact(lead))
    if images.sharded:
        raise Decline("picks samples of the batch by index")
    return call.whole()


def crop_gradient(call: Call) -> Decision:
    """CropAndResizeGradImage: a sum over boxes; one box for each sample gives each image its own."""
    lead = call.ins[0].sharded
    if lead is None:
        return call.whole()
    if lead.dim:
        raise Decline("the batch is not its first dim")
    rows: list[Want] = [None, call.piece(1, lead), call.piece(2, lead)]
    if _counts(call, lead, 2):
        return call.decide([*rows, Local(lead.batch, (0,))], call.fact(lead), recipe="rebased", index=2)
    return call.decide([*rows, REPLICATED], call.fact(PARTIAL))


def crop_gradient_of_boxes(call: Call) -> Decision:
    """CropAndResizeGradBoxes: each box on its own."""
    lead = call.ins[0].sharded
    if lead is None:
        return call.whole()
    if lead.dim:
        raise Decline("the batch is not its first dim")
    rows = [call.piece(2, lead), call.piece(3, lead)]
    if call.ins[1].sharded and _counts(call, lead, 3):
        return call.decide([None, call.piece(1, lead), rows[0], lead], call.fact(lead), recipe="rebased", index=3)
    return call.decide([None, REPLICATED, *rows], call.fact(lead))


def _counts(call: Call, cut: Sharded, index: int) -> bool:
    """Whether an input numbers the samples of a cut, in order."""
    iota = call.ins[index].iota
    return iota is not None and cut.dim == 0 and cut.plain and call.batches.meet(iota, cut.batch)


def transform(call: Call) -> Decision:
    """ImageProjectiveTransform: a transform for each image, or one for all."""
    images = call.ins[0]
    cut = images.sharded
    if cut is None:
        return call.whole()
    if cut.dim:
        raise Decline("the batch is not its first dim")
    rest: list[Want] = [REPLICATED] * (len(call.ins) - 2)
    single = call.dims(1)[0] == 1
    return call.decide([None, REPLICATED if single else call.piece(1, cut), *rest], call.fact(cut))


RULES: dict[str, Rule] = {
    "CropAndResize": crop_and_resize,
    "CropAndResizeGradImage": crop_gradient,
    "CropAndResizeGradBoxes": crop_gradient_of_boxes,
    "ImageProjectiveTransformV2": transform,
    "ImageProjectiveTransformV3": transform,
}
