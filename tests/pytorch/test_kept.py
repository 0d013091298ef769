"""Operators that the exporter translates wrongly, each against eager PyTorch, on both roads."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import hetpart
from hetpart.dynamo.backend import hetpart as backend
from hetpart.errors import InvalidFeedError, InvalidModelError
from tests.pytorch.models import Called, Piece, together

EMULATED = "emulated"
ROWS = torch.linspace(-4, 4, 32).reshape(4, 8)
LARGE = torch.tensor([-100.0, -20.0, 0.5, 100.0])
NAN = torch.tensor([[1.0, math.nan, math.inf], [2.0, 3.0, -1.0]])
WHOLE = torch.tensor([[2**53 + 1, 2], [5, 7]])
LABELS = torch.tensor([0.0, 1.0, 1.0, 0.0])


def mean_of_rows(x: Tensor) -> Tensor:
    places = torch.zeros(4, 8, dtype=torch.int64)
    return torch.ones(4, 8).scatter_reduce(0, places, x, "mean", include_self=False)


def trained_norm(x: Tensor) -> Tensor:
    return torch.native_batch_norm(x, x[0], x[1], torch.zeros(8), torch.ones(8), True, 0.5, 0.6)[0]


ALONE: dict[str, Piece] = {
    "margins of many labels, beside what goes in parts": (
        lambda x, y: (functional.multilabel_margin_loss(x, y), functional.cross_entropy(x, y[:, 0].clamp(min=0))),
        (ROWS, torch.tensor([[3, -1, 1, 1, 1, 1, 1, 1], [2, 5, 7, -1, 0, 1, 2, 3], [-1] * 8, [*range(8)]])),
    ),
    "numbers that whole ones are taken from": (
        lambda x, y: (1.0 - x, torch.rsub(x, 2.5, alpha=2), 7.5 // x, 7.5 // y, 7.5 % y, 5 // x, 1 - x),
        (torch.tensor([1, -2, 3, 7]), torch.tensor([0.1, -0.3, 2.0, 0.0])),
    ),
    "a clamp in the parts of another": (torch.cosine_similarity, (torch.full((2, 2), math.inf), torch.ones(2, 2))),
    "mish in float64": (lambda x: functional.mish(x.double()), (ROWS,)),
    "prelu in float64": (lambda x: functional.prelu(x.double(), x[0, :1].double()), (ROWS,)),
    "a branch with one that goes in parts": (
        lambda x: torch.cond(x.sum() < 0, torch.sin, lambda x: torch.logaddexp(x, x), (x,)),
        (LARGE,),
    ),
    "a branch in a branch with one that stays": (
        lambda x: torch.cond(
            x.sum() < 0,
            torch.sin,
            lambda x: torch.cond(x[0] < 0, lambda x: torch.logcumsumexp(x * 10, 0), torch.cos, (x,)),
            (x,),
        ),
        (LARGE,),
    ),
}
"""What would be treated otherwise beside another, or treat it so."""
CASES: dict[str, dict[str, Piece]] = {
    "whole or not at all": {
        "sums in half precision": (lambda x: (x.sum(), x.prod(0), x.cumsum(0)), (ROWS.half(),)),
        "complex results": (torch.fft.fft, (ROWS,)),
        "complex values": (lambda x: torch.view_as_real(torch.fft.rfft(x) * 2), (ROWS,)),
        "complex arguments": (lambda x: torch.view_as_real(x * 2).sum(-1), (torch.complex(ROWS, ROWS + 1),)),
        "scatter_reduce": (mean_of_rows, (ROWS,)),
        "attention to nothing": (
            lambda x, m: functional.scaled_dot_product_attention(x, x, x, attn_mask=m),
            (ROWS.reshape(1, 2, 2, -1), torch.tensor([[True, False], [False, False]])),
        ),
        "attention to what is infinitely small": (
            lambda x, m: functional.scaled_dot_product_attention(x, x, x, attn_mask=m, scale=0.3),
            (ROWS.reshape(1, 2, 2, -1), torch.tensor([[0.5, 0.0], [-torch.inf, -torch.inf]])),
        ),
        "attention of heads that share keys": (
            lambda q, k, m: functional.scaled_dot_product_attention(q, k, k, attn_mask=m, enable_gqa=True),
            (ROWS.reshape(1, 4, 2, -1), ROWS[:2].reshape(1, 2, 2, -1), torch.tensor([[False, False], [True, True]])),
        ),
        "logcumsumexp": (lambda x: torch.logcumsumexp(x * 10, 0), (LARGE,)),
        "avg_pool2d": (lambda x: functional.avg_pool2d(x, 2, divisor_override=3), (ROWS[None],)),
        "div": (lambda x: torch.div(x, 3, rounding_mode="trunc"), (torch.tensor([100000007, 2**31, -(2**55)]),)),
        "signbit": (torch.signbit, (torch.tensor([-0.0, 0.0, -1.0]),)),
        "copysign": (torch.copysign, (LARGE, torch.tensor([-0.0, 3.0, 0.0, -1.0]))),
        "add of booleans": (lambda x: x + x, (torch.tensor([True, False]),)),
        "embedding_bag": (
            lambda ids, table, starts: functional.embedding_bag(ids, table, starts, mode="mean"),
            (torch.tensor([0, 1, 2, 1, 0]), ROWS, torch.tensor([0, 2, 2])),
        ),
        "atan2": (torch.atan2, (torch.tensor([0.0, -0.0, math.nan, 1.0]), torch.tensor([-1.0, -1.0, 1.0, 0.0]))),
        "pow of integers": (lambda x: x**3, (torch.tensor([3000001, -7]),)),
        "prod and fmod of integers": (lambda x: (x.prod(), x.prod(0), x.fmod(3)), (torch.tensor([2**53 + 1, 2]),)),
        "antialias": (
            lambda x: functional.interpolate(x, size=(2, 3), mode="bilinear", antialias=True),
            (ROWS[None, None],),
        ),
        "the largest of a number": (lambda x: torch.max(x, 0), (torch.tensor(3.0),)),
        "the largest of NaN": (lambda x: (x.max(), x.amin(1), x.max(0), x.min(1, keepdim=True), x.argmax(1)), (NAN,)),
        "the place of the least": (lambda x: (x.argmin(), x.argmax(0, keepdim=True), torch.sign(x)), (NAN,)),
        "the largest of whole numbers": (lambda x: (x.max(), x.min(0), x.argmax(), x.amax((0, 1))), (WHOLE,)),
        "sort of NaN": (torch.sort, (NAN,)),
        "the topmost of NaN": (
            lambda x: (x.topk(2), x.topk(3, 0, largest=False), (x * 9).long().topk(2)),
            (torch.tensor([[1.0, math.nan, -2.0, 3.0], [math.inf, 2.0, 4.0, 5.0], [-1.0, 0.0, 7.0, math.nan]]),),
        ),
        "phases of spectra": (
            lambda x: (
                torch.fft.fft(x).angle(),
                torch.fft.rfft(x).angle(),
                torch.stft(x, 8, 4, window=torch.ones(8), center=False, return_complex=True).angle(),
                torch.complex(x * 0, -x * 0).angle(),
            ),
            (-ROWS[:, :6].repeat(1, 2),),
        ),
        "variances of too few": (lambda x: (x[:1].var(0), x.std(0, correction=7), torch.var_mean(x[:0])), (ROWS,)),
        "log_ndtr": (torch.special.log_ndtr, (LARGE,)),
        "a product of no columns": (lambda x: torch.addmm(x, x[:, :0], x[:0], beta=0.2), (ROWS,)),
        "replication that takes off": (lambda x: functional.pad(x, (-1, 2), mode="replicate"), (ROWS,)),
        "one that returns what it is given": (lambda x: (x.t(), x + 1), (ROWS[0],)),
    },
    "not at all, for what ONNX Runtime would not load": {
        "neg of bytes": (lambda x: -x, (torch.tensor([1, 200], dtype=torch.uint8),)),
        "max of int16": (torch.max, (torch.tensor([1, 2], dtype=torch.int16),)),
        "floor of integers": (torch.floor, (torch.tensor([1, -2]),)),
        "relu of integers": (torch.relu, (torch.tensor([1, -2]),)),
        "random numbers in half precision": (
            lambda x: (
                torch.randn(4, 8, dtype=torch.float16).isfinite()
                & torch.randn(4, 8, dtype=torch.bfloat16).isfinite()
                & x
            ),
            (ROWS > 0,),
        ),
        "the least of booleans": (
            lambda x: torch.ones(2, 2, dtype=torch.bool).scatter_reduce(
                0, torch.zeros(2, 2, dtype=torch.int64), x, "amin"
            ),
            (WHOLE > 2,),
        ),
        "isnan of whole numbers": (lambda x: (x.isnan(), x.isfinite()), (WHOLE,)),
        "truth values": (
            lambda x, y: (
                x + y,
                torch.add(x, y, alpha=0),
                torch.where(x, y, ~x),
                torch.where(y, x, True),
                torch.where(y, False, x),
                x.masked_fill(y, True),
                y.masked_fill(x, torch.tensor(False)),
                x.masked_fill(y, 0),
                x + True,
            ),
            (torch.tensor([[True, False, True, False]]), torch.tensor([[True, True, False, False], [False] * 4])),
        ),
    },
    "not at all, and in parts where it is compiled": {
        "group_norm under autocast": (
            lambda x, w: functional.group_norm(x.bfloat16(), 2, w, w),
            (ROWS.reshape(2, 4, 4), ROWS[0, :4]),
        ),
        "a loss in bfloat16": (
            lambda x, y: functional.nll_loss(x.bfloat16(), y).float(),
            (ROWS, torch.tensor([1, 2, 3, 0])),
        ),
    },
    "in parts": {
        "logsigmoid": (functional.logsigmoid, (LARGE,)),
        "binary_cross_entropy_with_logits": (functional.binary_cross_entropy_with_logits, (LARGE, LABELS)),
        "multilabel_soft_margin_loss": (functional.multilabel_soft_margin_loss, (LARGE[None], LABELS[None])),
        "soft_margin_loss": (functional.soft_margin_loss, (LARGE, LABELS * 2 - 1)),
        "logaddexp": (torch.logaddexp, (LARGE, LARGE)),
        "native_batch_norm": (trained_norm, (ROWS,)),
        "layer_norm under autocast": (lambda x, w: functional.layer_norm(x.bfloat16(), [8], w, w), (ROWS, ROWS[3])),
        "clamp": (
            lambda x: (x.clamp(min=-1), x.clamp(max=2), x.clamp(0, 6), torch.clamp_max(x.long(), 2.5)),
            (torch.tensor([-math.inf, math.inf, 0.5]),),
        ),
        "a transposed matrix by a vector": (
            lambda w, v: (torch.mv(w.t(), v), w.t() @ v, w.t() @ w, torch.stack([w, w]).mT @ v),
            (ROWS, LARGE),
        ),
        "diagonal_scatter": (torch.diagonal_scatter, (torch.zeros(4, 4), torch.ones(4))),
        "angle of NaN": (torch.angle, (NAN,)),
        "means of whole numbers": (
            lambda x: (
                x.mean(1, dtype=torch.float32),
                (x > 2).mean(0, dtype=torch.float32),
                x.half().mean(1, dtype=torch.float32),
            ),
            (torch.tensor([[1, 2], [3, 60000]]),),
        ),
        "logsumexp in bfloat16": (lambda x: torch.logsumexp(x.bfloat16(), 0), (LARGE,)),
        "norms of NaN": (lambda x: (torch.linalg.vector_norm(x, math.inf, 1), x[0].norm(keepdim=True)), (NAN,)),
        "sums of whole numbers": (
            lambda x: (
                x.sum(),
                x.sum(0),
                x.sum(1, keepdim=True),
                x.sum((0, 1)),
                x.sum(dtype=torch.float32),
                (x > 2).sum(),
            ),
            (WHOLE,),
        ),
        "what is to count for nothing": (
            lambda x: (
                torch.addmm(x[:, :4] * math.nan, x, x.T, beta=0, alpha=0.5),
                torch.baddbmm(x[None, :, :4] * math.inf, x[None], x.T[None], beta=0),
                torch.addbmm(x[:, :4] * math.nan, x[None], x.T[None], beta=0, alpha=2),
                torch.addmv(x[:, 0] * math.nan, x, x[0], beta=0),
                torch.addr(x[:, :4] * math.nan, x[:, 0], x[:, 1], beta=0, alpha=0.5),
                torch.baddbmm(x[None, :, :4], x[None], x.T[None], beta=0.5),
            ),
            (ROWS,),
        ),
        "quotients rounded down": (
            lambda x, y: (x // y, x % y, x % 0.1, x // 0.1, torch.div(x, y, rounding_mode="trunc")),
            (torch.tensor([1.0, 5.3, -7.7, 6.0, math.inf, 1.0]), torch.tensor([0.1, 0.1, 0.3, -0.2, 2.0, 0.0])),
        ),
        "clamp by tensors": (lambda x, y: (x.clamp(min=y), x.clamp(max=y)), (NAN, NAN[1])),
        "heaviside": (torch.heaviside, (NAN, torch.tensor(0.5))),
        "softmax in another type": (lambda x: functional.softmax(x.half(), -1, dtype=torch.float32), (ROWS,)),
        "dropout of all": (lambda x: functional.dropout(x, 1.0) + functional.dropout(x, 0.0), (ROWS,)),
    },
    "in parts, and in the parts of those": {
        "cross_entropy": (
            lambda x, y: functional.cross_entropy(x, y, label_smoothing=0.2),
            (ROWS, torch.tensor([1, 2, 3, 0])),
        ),
        "cross_entropy of one": (functional.cross_entropy, (ROWS[0], torch.tensor(2))),
        "diagonals": (
            lambda x: (
                x.diagonal(),
                x.diagonal(2),
                x.diagonal(-2),
                x[:, :4].trace(),
                x.view(2, 2, 8).diagonal(1, 0, 2),
            ),
            (torch.tensor([math.inf, -1.0]).repeat(16).view(4, 8),),
        ),
    },
    "in parts, of which some would not load": {
        "places added to in half precision": (
            lambda x: (
                x.half().scatter_add(0, torch.zeros(1, 8, dtype=torch.int64), x.half()),
                x.bfloat16().index_add(0, torch.tensor([1, 1, 2, 0]), x.bfloat16()),
                x.half().index_put((torch.tensor([2, 2]),), x[:2].half(), accumulate=True),
            ),
            (ROWS,),
        ),
        "a loss of one in bfloat16": (
            functional.linear_cross_entropy,
            (ROWS[0].bfloat16(), ROWS.bfloat16(), torch.tensor(2)),
        ),
    },
    "in parts in float64": {
        "log_softmax in another type": (lambda x: functional.log_softmax(x.half(), -1, dtype=torch.float64), (ROWS,)),
        "log_softmax of NaN": (
            lambda x: (x.double().log_softmax(1), functional.cross_entropy(x.double(), torch.tensor([0, 1]))),
            (NAN,),
        ),
        "means of a norm": (
            lambda x: (
                torch.native_layer_norm(x.double(), [8], None, None, 1e-5),
                torch.native_layer_norm(x.half(), [8], None, None, 1e-5),
            ),
            (ROWS,),
        ),
    },
    "without translation": {
        "one without translation of complex numbers": (lambda x: torch.fft.fftn(x, s=(5, 9)), (ROWS.sin(),)),
        "eigenvalues of nothing": (torch.linalg.eigvals, (ROWS[:0, :0],)),
        "lists in the parts of one": (lambda x: torch.histogramdd(x, [3, 4]), (ROWS[:, :2],)),
    },
    "as many results as a run says": {
        "unique of NaN": (torch.unique, (NAN[[0, 0]],)),
        "unique of booleans": (lambda x: (torch.unique(x), x.masked_select(x)), (WHOLE > 2,)),
        "as many as the mask says": (lambda x: (x.masked_select(x > 0), torch.unique_consecutive(x)), (ROWS,)),
    },
    **{name: {name: piece} for name, piece in ALONE.items()},
}
"""By how a program is treated that they are in."""


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("group", CASES)
def test_operators_do_as_eager_pytorch(group: str) -> None:
    code, given = together(CASES[group])
    torch._dynamo.reset()
    with torch.no_grad():
        wanted = code(*given)
        planned = hetpart.partition(Called(code), args=given, hardware=EMULATED)
        torch.testing.assert_close(planned.to_module(emulate=True)(*given), wanted, equal_nan=True)
        compiled = torch.compile(code, backend=backend, options={"hardware": EMULATED, "emulate": True})
        torch.testing.assert_close(compiled(*given), wanted, equal_nan=True)


class Held(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(ROWS.clone())
        self.t = self.w.data.t()[2:5]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x @ self.w.t(), self.t.sum(0)


def test_a_tensor_that_is_called_as_an_operator_is_keeps_its_content() -> None:
    planned = hetpart.partition(Held(), args=(ROWS,), hardware=EMULATED)
    torch.testing.assert_close(planned.to_module(emulate=True)(ROWS), Held()(ROWS))


def test_truth_values_are_added_and_chosen_where_a_size_tells() -> None:
    """In a branch that a size decides, ONNX Runtime runs all."""

    class Told(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return torch.cond(
                x.shape[0] > 3,
                lambda x, y: (x + y) | torch.where(x, y, x),
                lambda x, y: x.masked_fill(y, True) & x,
                (x, y),
            )

    given = torch.eye(4, dtype=torch.bool), torch.ones(4, 4, dtype=torch.bool).triu()
    sizes = {"x": {0: "rows"}, "y": {0: "rows"}}
    run = hetpart.partition(Told(), args=given, dynamic_shapes=sizes, hardware=EMULATED).to_module(emulate=True)
    torch.testing.assert_close(run(*given), Told()(*given))


def test_sparse_tensors_are_refused() -> None:
    with pytest.raises(InvalidModelError, match=r"given a tensor in the layout torch\.sparse_coo"):
        hetpart.partition(Called(lambda x: x * 2), args=(ROWS.to_sparse(),), hardware=EMULATED)


def test_arguments_by_name_are_those_by_position() -> None:
    class Pair(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x - 2 * y

    for args, kwargs in (((ROWS, ROWS), {}), ((ROWS,), {"y": ROWS})):
        run = hetpart.partition(Pair(), args=args, kwargs=kwargs, hardware=EMULATED).to_module(emulate=True)
        for given in (run(ROWS, ROWS + 1), run(ROWS, y=ROWS + 1), run(y=ROWS + 1, x=ROWS)):
            torch.testing.assert_close(given, ROWS - 2 * (ROWS + 1))
        with pytest.raises(InvalidFeedError):
            run(ROWS, ROWS, y=ROWS)


def test_what_checks_its_results_stays_whole() -> None:
    def inverted(x: Tensor) -> tuple[Tensor, ...]:
        return torch.linalg.inv(x), torch.linalg.cholesky(x @ x.T), torch.vmap(torch.linalg.det)(x[None])

    given = (ROWS[:, :4].cos() + 2 * torch.eye(4),)
    planned = hetpart.partition(Called(inverted), args=given, hardware=EMULATED)
    torch.testing.assert_close(planned.to_module(emulate=True)(*given), inverted(*given))


def test_other_calls_of_an_operator_stay_in_onnx() -> None:
    """Of two divisions one goes wrong, and PyTorch runs it alone."""

    def both(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return torch.div(x, 3, rounding_mode="trunc"), torch.div(y, 3, rounding_mode="trunc")

    given = torch.tensor([100000007]), torch.tensor([7.0])
    program = torch.export.export(Called(both), given)
    before = [str(node.target) for node in program.graph.nodes]
    planned = hetpart.partition(program, hardware=EMULATED)
    assert [str(node.target) for node in program.graph.nodes] == before
    left = [op.op_type for op in planned.graph.ops if op.domain == "hetpart.torch"]
    assert left == ["aten.div.Tensor_mode"]
    torch.testing.assert_close(planned.to_module(emulate=True)(*given), both(*given))
    torch.testing.assert_close(planned.to_fx({"cuda:0": "cpu"})(*given), both(*given))


def test_a_tensor_beside_the_module_that_is_changed_is_refused() -> None:
    beside = torch.zeros(4)
    with pytest.raises(InvalidModelError, match="changes a tensor that it holds as no buffer"):
        hetpart.partition(Called(lambda x: x + beside.add_(1)), args=(LARGE,), hardware=EMULATED)


def test_what_one_call_is_taken_apart_for_leaves_the_others_whole() -> None:
    """A model with a loss, or a norm under autocast, has its other norms as one operator."""

    def both(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        return functional.layer_norm(x, [8], w, w), functional.layer_norm(x.bfloat16(), [8], w, w)

    program = torch.export.export(Called(both), (ROWS, ROWS[0]))
    planned = hetpart.partition(program, hardware=EMULATED)
    assert sum(op.op_type == "LayerNormalization" for op in planned.graph.ops) == 1
    torch.testing.assert_close(planned.to_module(emulate=True)(ROWS, ROWS[0]), both(ROWS, ROWS[0]))


def test_random_calls_have_their_distribution() -> None:
    def drawn(x: Tensor) -> tuple[Tensor, ...]:
        kept = functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
        tries = torch.zeros(4000, dtype=torch.int64).geometric_(0.25)
        return torch.bernoulli(torch.full((4000,), 0.25)), kept, tries

    given = (torch.ones(1, 64, 8),)
    with torch.no_grad():
        planned = hetpart.partition(Called(drawn), args=given, hardware=EMULATED)
        ones, kept, tries = planned.to_module(emulate=True)(*given)
    assert 0.2 < ones.mean() < 0.3
    assert kept.std() > 0.01
    assert tries.dtype is torch.int64
    assert tries.min() == 1
    assert 3.5 < tries.float().mean() < 4.5
