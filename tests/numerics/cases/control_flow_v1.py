"""Control flow v1: Switch, Merge, Enter, Exit (what a TF1 script gets by default)."""

from __future__ import annotations

import functools

from tests.numerics import conditional_models as models
from tests.numerics.case import Body, case


def _with_v1(body: Body) -> Body:
    @functools.wraps(body, assigned=("__name__", "__doc__"))
    def script(tf, record, workdir):
        body(tf, record, workdir)

    return script


while_loop = case()(_with_v1(models.while_loop))
while_until_the_batch_is_small = case()(_with_v1(models.while_until_the_batch_is_small))
nested_while = case()(_with_v1(models.nested_while))
cond = case()(_with_v1(models.cond))
cond_on_a_batch_statistic = case()(_with_v1(models.cond_on_a_batch_statistic))
case_of_three = case()(_with_v1(models.case_of_three))
switch_of_three = case()(_with_v1(models.switch_of_three))
penalty_through_a_branch = case()(_with_v1(models.penalty_through_a_branch))
draws_of_constant_shape = case()(_with_v1(models.draws_of_constant_shape))
map_fn = case()(_with_v1(models.map_fn))
map_fn_of_a_pair = case()(_with_v1(models.map_fn_of_a_pair))
scan = case()(_with_v1(models.scan))
foldl = case()(_with_v1(models.foldl))
loop_in_cond = case()(_with_v1(models.loop_in_cond))
assign_in_a_branch = case()(_with_v1(models.assign_in_a_branch))
conditional_in_a_conditional = case()(_with_v1(models.conditional_in_a_conditional))
growing_state = case()(_with_v1(models.growing_state))
dropout_that_evaluation_skips = case()(_with_v1(models.dropout_that_evaluation_skips))
batch_chosen_by_a_branch = case()(_with_v1(models.batch_chosen_by_a_branch))
