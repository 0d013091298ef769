"""Seconds of a kernel's call in a run: where its operands lie when it begins decides between what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from math import exp, factorial

from hetpart.cost_model.caches import kept_share
from hetpart.cost_model.kernel_calls import BY_ELEMENTS, GROUPED, LONE, OVERWRITTEN, STREAMED
from hetpart.cost_model.moving_calls import COPY, FAR_LOOKUPS, GATHER_SHARED, KernelCall
from hetpart.cost_model.product_calls import BATCHED
from hetpart.graph.ir import DTYPE_BITS
from hetpart.rates import KernelRates, RateTable

ALONE = frozenset({"batch_normalization", "gather", "non_zero", "scatter", "top_k", *LONE})
"""Families that ONNX Runtime computes with one thread, however many there are."""
ELEMENT_BYTES = DTYPE_BITS["float32"] // 8
PRODUCTS = frozenset({"gemm"})
"""Families that read their weights once a call, and take as long as that where they have few rows."""
CONVOLUTIONS = frozenset({"pointwise", "convolution", "depthwise", "stem", *GROUPED})
"""Families that read their weights again and again, from the core's own caches at best."""
STREAMS, COMPUTING_ROWS = frozenset(BATCHED), 16
"""Families of many small calls: while one computes so many rows, the next one's operands are fetched."""
MOST_OPERANDS = 3
"""Values of the same size that a family by elements reads and writes."""
LEAST_LONGER = 0.01
"""Rates that differ by less are equal."""
WAYS = 8
"""Lines of a set of the core's own caches: those of 8 and of 16 differ by little in what a kernel leaves there."""
OVERWRITERS = frozenset({COPY, "exp", "sigmoid", "softmax", "tanh"})
"""Families of kernels that may write over their input."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a run does around a call, in bytes, which decides where its operands lie."""

    distance: int
    """That passed through the processor since the farthest operand began to be made."""
    touched: int
    """That the call itself reads and writes."""
    weights: int
    """Of all weights that a run of the model reads: whether they stay in a cache from run to run."""
    since: int = 0
    """That passed through since a kernel of this kind ran, whose code the core's own caches then held."""
    overwritten: int = 0
    """That it writes over what it reads, instead of elsewhere."""
    operands: int = 0
    """How many values it reads and makes, beyond those of the kernels in the tables."""
    constants: float = 0.0
    """How many constants it reads that were pushed out since a kernel read them."""
    lost: float = 0.0
    """The part of what a run uses once that it finds in no cache: ``lost_share``."""
    cooled: float = 0.0
    """The part of what a run uses once that it finds in none of the core's own."""
    filled: float = 0.0
    """The part of what the kernel before used that this one finds in none of the core's own."""
    unary: bool = True
    """Whether it runs the little code of a kernel of one operand, element by element, or none."""
    convolves: bool = False
    """Whether its table is of runs behind what filled the core's own caches, as that of convolutions is."""


def call_seconds(call: KernelCall, rates: KernelRates, around: Surroundings) -> float:
    """Seconds of ``call`` in a run."""
    if call.family in PRODUCTS:
        return _short_sums(call, _product_seconds(call, rates, around), rates)
    hot = 1.0 if around.distance <= rates.core_cache_bytes else 0.0
    if call.family in CONVOLUTIONS:
        hot = kept_share(around.weights, rates.core_cache_bytes)
    elif call.family in STREAMS and call.sizes[0] >= COMPUTING_ROWS and around.touched > rates.core_cache_bytes:
        hot = 1.0
    if call.family == GATHER_SHARED and around.distance > rates.cache_bytes:
        call, hot = replace(call, family=FAR_LOOKUPS), 0.0
    seconds = sum(
        share * _all_calls(call, tables, rates, around)
        for share, tables in ((hot, rates.warm_tables), (1 - hot, rates.tables))
        if share
    )
    return max(_least_seconds(call, rates, around), seconds)


def _all_calls(call: KernelCall, tables: Mapping[str, RateTable], rates: KernelRates, around: Surroundings) -> float:
    """Of a convolution, one kernel computes them all: what the smallest takes, it takes once."""
    seconds = _written(call, tables, rates, around)
    once = min(seconds, min(tables[call.family].seconds)) if call.family in CONVOLUTIONS else 0.0
    return once + (seconds - once) * call.calls


def _product_seconds(call: KernelCall, rates: KernelRates, around: Surroundings) -> float:
    """Between those of a product that is repeated and those of one whose weights come from main memory."""
    _, inner, columns = call.sizes
    own = ELEMENT_BYTES * inner * columns
    warm, streamed = rates.warm_tables[call.family], rates.tables[STREAMED].at(call.sizes)
    if own > rates.cache_bytes:
        return call.calls * streamed
    # The next point of the table may be of weights that no cache holds.
    kept = min(warm.at(call.sizes), warm.at_rate_below(call.sizes))
    anew = read_anew(around.weights, own, rates.weights_table)
    return call.calls * ((1 - anew) * kept + (anew * streamed if anew else 0.0))


def _short_sums(call: KernelCall, seconds: float, rates: KernelRates) -> float:
    """Of sums of fewer terms than were measured: writing the result, and their part of the rest.

    512 × K × 512 took 19, 23, 33, 50 and 90 µs for K of 1, 2, 4, 8 and 16.
    """
    rows, inner, columns = call.sizes
    least = rates.tables[call.family].axes[1][0]
    written = min(seconds, call.calls * rates.warm_tables[COPY].at((rows * columns,)))
    return written + (seconds - written) * min(1.0, inner / least)


def read_anew(weights: float, own: float, table: RateTable) -> float:
    """The part of a product's weights that come from main memory, beyond what do where it alone is repeated.

    Args:
        weights: Bytes that are read between one use of them and the next: of all weights of a run.
        own: Bytes that the product reads of them.
        table: ``KernelRates.weights_table``.
    """
    (sizes,) = table.axes
    least, found, most = (
        table.at((nbytes,)) / nbytes
        for nbytes in (min(max(size, sizes[0]), sizes[-1]) for size in (own, weights, sizes[-1]))
    )
    if most - least <= LEAST_LONGER * least:
        return 0.0
    return min(1.0, max(0.0, (found - least) / (most - least)))


def start_seconds(rates: KernelRates, around: Surroundings) -> float:
    """Of a node of a run, beyond what one takes that is repeated.

    A run that passes more than the caches hold finds in none what the session keeps of its nodes. Of a kernel's code,
    which other nodes use too, each byte since then pushed one out at random, as in ``kept_share``. What every node uses
    was used by the one before: only a kernel that reads and writes more than the core's own caches hold leaves none of
    it there. On a Xeon with 2 MB of them, a Reshape took 2 to 3 µs behind other small nodes and behind products that
    read 1 MB, 5 behind 2 MB, and 9 to 11 behind 4 MB and more. Tables
    of convolutions have that in them.
    """
    cool, cold = ((starts.unary if around.unary else starts.other) for starts in (rates.cool, rates.cold))
    near = rates.cool.node * around.cooled + cool * pushed_out(around.since, rates.core_cache_bytes)
    near = 0.0 if around.convolves else (1 - around.lost) * near + rates.filled_seconds * around.filled
    far = rates.cold.node + cold * pushed_out(around.since, rates.cache_bytes)
    far += rates.cold_operand_seconds * around.operands
    return around.lost * far + near


def pushed_out(nbytes: float, cache_bytes: float) -> float:
    """The part of what a run used that ``nbytes`` which passed since have pushed out of caches of ``cache_bytes``."""
    return 1 - exp(-nbytes / cache_bytes) if cache_bytes else 1.0


@cache
def filled_share(nbytes: float, cache_bytes: float) -> float:
    """The part of what was used right before that a kernel pushes out of caches of ``cache_bytes`` with ``nbytes``.

    The oldest line of a set goes first, and pages fall on sets at random: a line is gone once ``WAYS`` others came into
    its set, of which there are as many as a Poisson distribution says.
    """
    if not cache_bytes:
        return 1.0
    mean = WAYS * nbytes / cache_bytes
    return 1 - sum(exp(-mean) * mean**count / factorial(count) for count in range(WAYS))


def constants_seconds(rates: KernelRates, around: Surroundings) -> float:
    """Of reading what a kernel reads once a run, such as a scale or a shape, beyond what one takes that is repeated."""
    return around.constants * rates.constant_seconds * around.lost


def lost_share(whole: float, rates: KernelRates) -> float:
    """The part of what a run uses once that it finds in no cache, when it passes ``whole`` bytes."""
    return read_anew(whole, rates.cache_bytes, rates.weights_table)


def _written(call: KernelCall, tables: Mapping[str, RateTable], rates: KernelRates, around: Surroundings) -> float:
    """Seconds of one call by ``tables``: writing over what is read spares fetching what would be written instead."""
    seconds = _by_table(call, tables[call.family], rates)
    if not around.overwritten or call.family not in OVERWRITERS:
        return seconds
    elements = (around.overwritten / ELEMENT_BYTES,)
    elsewhere = tables[COPY].at(elements)
    over = min(elsewhere, tables[OVERWRITTEN].at(elements))
    return max(over, seconds - (elsewhere - over))


def _by_table(call: KernelCall, table: RateTable, rates: KernelRates) -> float:
    """Of fewer elements than were measured, the start and their part of the rest."""
    seconds, least = table.at(call.sizes), table.axes[0][0]
    if call.family not in BY_ELEMENTS or call.sizes[0] >= least:
        return seconds
    start = min(seconds, rates.launch_seconds)
    return start + (seconds - start) * call.sizes[0] / least


def _least_seconds(call: KernelCall, rates: KernelRates, around: Surroundings) -> float:
    """What moving the operands takes at least where they lie in no cache."""
    if call.family in CONVOLUTIONS or around.distance <= rates.cache_bytes:
        return 0.0
    bandwidth = rates.lone_bandwidth if call.family in ALONE else rates.bandwidth
    if call.family not in BY_ELEMENTS:
        return around.touched / bandwidth
    if around.overwritten and call.family in OVERWRITERS:
        return rates.tables[OVERWRITTEN].at_most((around.overwritten / ELEMENT_BYTES,))
    # What takes or changes a part of a tensor moves no more of it.
    moved = min(around.touched, MOST_OPERANDS * ELEMENT_BYTES * call.calls * call.sizes[0]) / bandwidth
    return max(moved, call.calls * rates.tables[call.family].at_most(call.sizes))
