"""Control flow v2: If and While ops with their bodies as functions (after tf.enable_control_flow_v2())."""

from __future__ import annotations

import functools

from tests.numerics import conditional_models as models
from tests.numerics.case import Body, case


def _with_v2(body: Body) -> Body:
    @functools.wraps(body, assigned=("__name__", "__doc__"))
    def script(tf, record, workdir):
        tf.enable_control_flow_v2()
        body(tf, record, workdir)

    return script


while_loop = case()(_with_v2(models.while_loop))
while_until_the_batch_is_small = case()(_with_v2(models.while_until_the_batch_is_small))
nested_while = case()(_with_v2(models.nested_while))
cond = case()(_with_v2(models.cond))
cond_on_a_batch_statistic = case()(_with_v2(models.cond_on_a_batch_statistic))
case_of_three = case()(_with_v2(models.case_of_three))
map_fn = case()(_with_v2(models.map_fn))
map_fn_of_a_pair = case()(_with_v2(models.map_fn_of_a_pair))
scan = case()(_with_v2(models.scan))
foldl = case()(_with_v2(models.foldl))
loop_in_cond = case()(_with_v2(models.loop_in_cond))
assign_in_a_branch = case()(_with_v2(models.assign_in_a_branch))
conditional_in_a_conditional = case()(_with_v2(models.conditional_in_a_conditional))
growing_state = case()(_with_v2(models.growing_state))
dropout_that_evaluation_skips = case()(_with_v2(models.dropout_that_evaluation_skips))
batch_chosen_by_a_branch = case()(_with_v2(models.batch_chosen_by_a_branch))
