"""A second computation of the cost of mechanisms: from the published formulas, in floats, without the kernel.

The result is a lower bound, and a charge must not be below it. If only some of the mechanisms have a simple formula, the
bound covers those. The formulas are named in crates/sage-kernel/proofs. Losses are in units of 10^-12, probabilities of
10^-18, noise of 10^-9, rates of 10^-12, as in the log.
"""

import functools
import math
from typing import Callable, NamedTuple, Optional

from audit_log import LARGEST_LOSS, ORDERS, WIDE, Cost, Filter, Mechanism, Part

LOSS_UNITS, DELTA_UNITS, SIGMA_UNITS = 1e12, 1e18, 1e9
# The relative error of floats here, and how far above our number a charge may be and still count as equal.
SLACK, NEAR = 1e-9, 1e-6
# The index of sigma in a mechanism with Gaussian noise.
SIGMA_AT = {"gaussian": 1, "sampled": 2}


class Price(NamedTuple):
    """Components in the filter's units, and the names of the mechanisms that they do not include."""

    components: tuple[float, ...]
    missing: tuple[str, ...]


def conversion(order: float, delta: float) -> float:
    """The difference between epsilon at this delta and the Rényi divergence."""
    return math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


def share(order: float, difference: float) -> float:
    """The delta at which the conversion is `difference`: the conversion solved for delta."""
    return math.exp((order - 1) * (math.log1p(-1 / order) - difference) - math.log(order))


def concentrated(rho: float, delta: float) -> float:
    """The epsilon of a zero-concentrated loss: the least over orders, found by thirds because it has one valley."""
    if rho <= 0 or delta <= 0:
        return 0.0 if rho <= 0 else math.inf
    at = lambda x: rho * (1 + math.exp(x)) + conversion(1 + math.exp(x), delta)
    low, high = -20.0, 40.0
    for _ in range(200):
        third = (high - low) / 3
        low, high = (low, high - third) if at(low + third) < at(high - third) else (low + third, high)
    return max(0.0, at((low + high) / 2))


def pure(order: float, epsilon: float) -> float:
    """Randomised response. The moment less one is a product, so that small losses do not cancel."""
    rise, reach = (order - 1) * epsilon, order * epsilon
    if reach > 600:
        return epsilon - (math.log1p(math.exp(-epsilon)) - math.log1p(math.exp(epsilon - 2 * reach))) / (order - 1)
    return math.log1p(-math.expm1(-rise) * math.expm1(reach) / (1 + math.exp(epsilon))) / (order - 1)


def beyond_linear(x: float) -> float:
    """e^x - 1 - x."""
    if abs(x) > 0.5:
        return math.expm1(x) - x
    return math.fsum(x**power / math.factorial(power) for power in range(2, 20))


def laplace(order: float, epsilon: float) -> float:
    """Continuous Laplace noise, which discrete noise approaches from above as its grid gets finer."""
    rise, reach = (order - 1) * epsilon, order * epsilon
    if rise > 600:
        return epsilon + math.log(order / (2 * order - 1)) / (order - 1)
    excess = order * beyond_linear(rise) + (order - 1) * beyond_linear(-reach)
    return math.log1p(excess / (2 * order - 1)) / (order - 1)


@functools.lru_cache(maxsize=None)
def sampled_moment(order: int, rate: float, sigma: float) -> float:
    """The logarithm of the moment of a whole order: the binomial sum, less the terms that add up to one."""
    if order < 2:
        return 0.0
    logs = []
    for k in range(2, order + 1):
        power = k * (k - 1) / (2 * sigma * sigma)
        grown = power if power > 40 else math.log(math.expm1(power))
        ways = math.lgamma(order + 1) - math.lgamma(k + 1) - math.lgamma(order - k + 1)
        logs.append(ways + k * math.log(rate) + (order - k) * math.log1p(-rate) + grown)
    top = max(logs)
    excess = top + math.log(math.fsum(math.exp(each - top) for each in logs))
    return math.log1p(math.exp(excess)) if excess < 30 else excess


def sampled(order: float, rate: float, sigma: float) -> float:
    """A step of the sampled Gaussian; between whole orders the chord, which is above the moment."""
    if rate >= 1:
        return order / (2 * sigma * sigma)
    whole = math.floor(order)
    low = sampled_moment(whole, rate, sigma)
    high = sampled_moment(whole + 1, rate, sigma) if whole != order else low
    return (low + (order - whole) * (high - low)) / (order - 1)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The exact epsilon of a Gaussian that moves by mu deviations (Balle and Wang 2018), from below."""
    if delta <= 0:
        return math.inf
    normal = lambda x: math.erfc(-x / math.sqrt(2)) / 2

    def lost(epsilon: float) -> float:
        far = mu / 2 + epsilon / mu
        # Where the tail is no float any more, its usual upper bound: that makes less of the loss, never more.
        tail = math.log(normal(-far)) if far < 35 else -far * far / 2 - math.log(far * math.sqrt(2 * math.pi))
        return normal(mu / 2 - epsilon / mu) - math.exp(epsilon + tail)

    low, high = 0.0, mu * mu / 2 + mu * 40
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if lost(middle) > delta else (low, middle)
    return low


def deviation(cost: Cost, epsilon: int) -> float:
    """The delta, in units, that the distance of the drawn noise from the ideal noise costs (rounded_gaussian.md, 5)."""

    def one(each: Mechanism) -> float:
        mu = SIGMA_UNITS / each[SIGMA_AT[each[0]]]
        exponent = max(16.0, epsilon / LOSS_UNITS, mu * (12 + mu / 2))
        return each[-1] * each[-2] * 2.0**-100 * (1 + math.exp(min(exponent, 600.0)))

    return DELTA_UNITS * sum(one(each) for each in cost.mechanisms if each[0] in SIGMA_AT)


def own_delta(cost: Cost) -> int:
    return sum(each[-1] for each in cost.mechanisms if each[0] in ("box", "curve"))


def total(cost: Cost, one: Callable[[Mechanism], Optional[float]]) -> tuple[float, tuple[str, ...]]:
    """The sum of what can be priced, and the names of what cannot."""
    priced = [(each[0], one(each)) for each in cost.mechanisms]
    missing = tuple(name for name, value in priced if value is None)
    return sum(value for _, value in priced if value is not None), missing


def at_infinity(each: Mechanism) -> Optional[float]:
    """The bound on the loss itself, exact in units; infinite is what no cap reaches."""
    if each[0] in ("pure", "box"):
        return each[1]
    if each[0] == "laplace":
        return each[1] * each[2]
    if each[0] == "curve" and each[1][-1] is not None:
        return each[1][-1]
    return math.inf


def at_order(index: int, each: Mechanism) -> Optional[float]:
    name, first, order = each[0], each[1], ORDERS[index]
    if name == "curve":
        return math.inf if first[index] is None else first[index]
    if name in ("pure", "box"):
        return pure(order, first / LOSS_UNITS) * LOSS_UNITS
    if name == "laplace":
        return each[2] * laplace(order, first / LOSS_UNITS) * LOSS_UNITS
    if name == "gaussian":
        return each[3] * order / (2 * (first / SIGMA_UNITS) ** 2) * LOSS_UNITS
    if name == "sampled":
        return each[4] * sampled(order, first / LOSS_UNITS, each[2] / SIGMA_UNITS) * LOSS_UNITS
    return first * order


def as_rho(each: Mechanism) -> Optional[float]:
    name, first = each[0], each[1]
    if name in ("pure", "box", "laplace"):
        epsilon = first / LOSS_UNITS
        return epsilon * math.tanh(epsilon / 2) * LOSS_UNITS * (each[2] if name == "laplace" else 1)
    if name == "gaussian":
        return each[3] / (2 * (first / SIGMA_UNITS) ** 2) * LOSS_UNITS
    return first if name == "zcdp" else None


def as_epsilon(cost: Cost) -> tuple[float, tuple[str, ...]]:
    """Pure losses add up; Gaussians are one Gaussian, stated at the cost's delta."""
    stated, missing = 0.0, []
    wide = math.fsum(each[3] / (each[1] / SIGMA_UNITS) ** 2 for each in cost.mechanisms if each[0] == "gaussian")
    if wide:
        stated = gaussian_epsilon(math.sqrt(wide), cost.delta / DELTA_UNITS) * LOSS_UNITS
    whole = 0
    for each in cost.mechanisms:
        if each[0] in ("pure", "box", "laplace"):
            whole += int(at_infinity(each) or 0)
        elif each[0] != "gaussian":
            missing.append(each[0])
    return whole + stated if stated else whole, tuple(missing)


def stated_delta(cost: Cost, names: tuple[str, ...]) -> int:
    """The delta that the request gives to mechanisms which have no epsilon without one."""
    return own_delta(cost) + (cost.delta if any(each[0] in names for each in cost.mechanisms) else 0)


def component(part: Part, rule: str, epsilon: int, cost: Cost) -> tuple[float, tuple[str, ...]]:
    if part.name == "order":
        return total(cost, functools.partial(at_order, part.index))
    if part.name == "infinity":
        return total(cost, at_infinity)
    if part.name == "rho":
        return total(cost, as_rho)
    if part.name == "epsilon":
        return as_epsilon(cost)
    if rule == "basic":
        return stated_delta(cost, ("gaussian", "sampled")), ()
    return (stated_delta(cost, ("sampled",)) if rule == "strong" else own_delta(cost)) + deviation(cost, epsilon), ()


@functools.lru_cache(maxsize=100_000)
def price(found: Filter, cost: Cost) -> Price:
    """The least that a charge of this cost may come to under a filter that is not fixed."""
    priced = [component(part, found.rule, found.epsilon, cost) for part in found.parts]
    return Price(tuple(value for value, _ in priced), tuple(sorted({name for _, names in priced for name in names})))


def covers(amount: int, wanted: float) -> bool:
    """Whether a charged number is no less than ours. Numbers of the log end at 2^64 - 1, which stands for infinite."""
    if isinstance(wanted, int):
        return amount >= min(wanted, WIDE)
    return amount >= min(wanted * (1 - SLACK), float(WIDE)) or amount == WIDE


def agrees(amount: int, wanted: float, roundings: int) -> bool:
    """Whether a charge is at most our number, apart from rounding up."""
    return wanted >= LARGEST_LOSS or amount <= wanted * (1 + NEAR) + roundings


def promised(found: Filter) -> Optional[str]:
    """Why the caps do not keep the ceiling; None if they do. `listed` checks `fixed` lists."""
    epsilon, delta = found.epsilon / LOSS_UNITS, found.delta / DELTA_UNITS
    kept = {part.name: part.cap for part in found.parts}
    if found.rule == "strong" and kept["rho"]:
        reached = concentrated(kept["rho"] / LOSS_UNITS, delta - kept["delta"] / DELTA_UNITS)
        if reached > epsilon * (1 + SLACK):
            return f"its cap on rho allows epsilon {reached:.6g}"
    if found.rule == "renyi":
        orders = [(ORDERS[part.index], part.cap) for part in found.parts if part.name == "order" and part.cap]
        used = math.fsum(share(order, (found.epsilon - cap) / LOSS_UNITS) for order, cap in orders)
        if used + kept["delta"] / DELTA_UNITS > delta * (1 + SLACK):
            return f"the shares of its orders add up to delta {used + kept['delta'] / DELTA_UNITS:.6g}"
    return None


def listed(found: Filter) -> bool:
    """Whether a fixed list keeps its ceiling by basic composition; the kernel may use tighter bounds."""
    for lane in (0, 1):
        own = [each for each in found.declarations if each.lane == lane]
        for first in {start for each in own for start, _ in each.blocks}:
            met = [each for each in own if any(low <= first <= high for low, high in each.blocks)]
            priced = [(*as_epsilon(each.cost), each) for each in met]
            epsilon = sum(value * each.times for value, _, each in priced)
            delta = sum(stated_delta(each.cost, ("gaussian", "sampled")) * each.times for each in met)
            if any(missing for _, missing, _ in priced) or epsilon > found.epsilon or delta > found.delta:
                return False
    return True


def loss(found: Filter, sums: list[int]) -> Optional[float]:
    """The epsilon at the ceiling's delta for these sums; None if there is no simple formula."""
    delta = found.delta / DELTA_UNITS
    spent = list(zip(found.parts, sums))
    if found.rule == "basic":
        return sums[0] / LOSS_UNITS
    if found.rule == "strong":
        return concentrated(sums[0] / LOSS_UNITS, delta - found.parts[1].cap / DELTA_UNITS)
    if found.rule == "renyi":
        # The difference between the ceiling and an order's cap is the conversion at that order's share of delta.
        orders = [done + found.epsilon - part.cap for part, done in spent if part.name == "order" and part.cap]
        least = min([*orders, *(done for part, done in spent if part.name == "infinity")])
        return least / LOSS_UNITS if any(sums) else 0.0
    priced = [as_epsilon(each.cost) for each in found.declarations]
    if any(missing for _, missing in priced):
        return None
    return sum(value * times for (value, _), times in zip(priced, sums)) / LOSS_UNITS
