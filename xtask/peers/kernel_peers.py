"""The peers of `cargo xtask bench kernel`.

Times, on this machine and in this run, the tools a user would take instead of the kernel: OpenDP's
samplers and privacy filter, and dp-accounting's Renyi and privacy-loss-distribution accountants.
Prints one JSON object a line, `name`, `peer` (the tool's number), `unit`, and where the measurement
computes something worth comparing also `value`. Each number is the best of several runs.

Run without arguments for all measurements, or with the names of some of them.
"""

import json
import sys
import time

import dp_accounting
import opendp.prelude as dp
from dp_accounting import dp_event
from dp_accounting.pld import pld_privacy_accountant
from dp_accounting.rdp import rdp_privacy_accountant

dp.enable_features("contrib")

# The setting in which the accountants are compared: DP-SGD on five million rows.
SAMPLING = 1024 / 5e6
SIGMA = 1.0
STEPS = 15_000
DELTA = 1e-6
TARGET_EPSILON = 1.0
GRID = 1e-4

# The scales the kernel's fixed point uses: 2^20 grid points to a unit.
LAPLACE_SCALE = float(2**20)
GAUSSIAN_SCALE = 5.0 * 2**20
DRAWS = 100_000

# Every decision is slower than the last, so the history stays short, and is cut where a machine is slow.
HISTORY_SIZES = (10, 100, 1_000, 3_000)
HISTORY_SECONDS = 15.0
HISTORY_RUNS = 9


def emit(name, peer, unit, value=None):
    line = {"name": name, "peer": peer, "unit": unit}
    if value is not None:
        line["value"] = value
    print(json.dumps(line), flush=True)


def best_of(runs, work):
    """The shortest of `runs` timings of `work`, in seconds, with what it returned last."""
    best, value = float("inf"), None
    for _ in range(runs):
        start = time.perf_counter()
        value = work()
        best = min(best, time.perf_counter() - start)
    return best, value


# Samplers.


def draw_time(measurement):
    zeros = [0] * DRAWS
    seconds, _ = best_of(5, lambda: measurement(zeros))
    return seconds / DRAWS * 1e9


def discrete_laplace():
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    measurement = dp.m.make_laplace(*space, scale=LAPLACE_SCALE)
    emit("discrete_laplace", draw_time(measurement), "ns/draw")


def discrete_gaussian():
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="i64")
    measurement = dp.m.make_gaussian(*space, scale=GAUSSIAN_SCALE)
    emit("discrete_gaussian", draw_time(measurement), "ns/draw")


# The privacy filter. The query is the cheapest there is (noise on one integer), and the ceiling is
# never reached, so what grows with the history is the decision.


def opendp_history():
    space = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")
    query = dp.m.make_laplace(*space, scale=1e6)
    odometer = dp.c.make_fully_adaptive_composition(*space, dp.max_divergence())
    queryable = dp.c.make_privacy_filter(odometer, d_in=1, d_out=1e9)(0)
    deadline = time.perf_counter() + HISTORY_SECONDS
    charges = 0
    for size in HISTORY_SIZES:
        while charges < size:
            queryable(query)
            charges += 1
            if time.perf_counter() > deadline:
                return
        # These lengthen the history too; the next size is counted with them.
        seconds, _ = best_of(HISTORY_RUNS, lambda: queryable(query))
        charges += HISTORY_RUNS
        emit(f"opendp_history_{size}", seconds * 1e9, "ns/charge")


# Accountants.


def pld_accountant():
    return pld_privacy_accountant.PLDAccountant(value_discretization_interval=GRID)


def rdp_accountant():
    return rdp_privacy_accountant.RdpAccountant()


def sampled_gaussian(sigma):
    step = dp_event.PoissonSampledDpEvent(SAMPLING, dp_event.GaussianDpEvent(sigma))
    return dp_event.SelfComposedDpEvent(step, STEPS)


def heterogeneous(i):
    """The i-th of a thousand mechanisms, each run once: half DP-SGD steps, a quarter Gaussian, a
    quarter Laplace, all of sensitivity 1."""
    if i % 4 < 2:
        gaussian = dp_event.GaussianDpEvent(1 + 0.01 * (i % 50))
        return dp_event.PoissonSampledDpEvent(0.001 * (1 + i % 7), gaussian)
    if i % 4 == 2:
        return dp_event.GaussianDpEvent(40 + i % 20)
    return dp_event.LaplaceDpEvent(60 + i % 30)


def epsilon_of(make_accountant, events):
    accountant = make_accountant()
    for event in events:
        accountant.compose(event)
    return accountant.get_epsilon(DELTA)


def epsilon(name, make_accountant, events, runs):
    seconds, value = best_of(runs, lambda: epsilon_of(make_accountant, events))
    emit(name, seconds, "s", value)


def pld_calibrate():
    seconds, sigma = best_of(
        2,
        lambda: dp_accounting.calibrate_dp_mechanism(
            pld_accountant, sampled_gaussian, TARGET_EPSILON, DELTA
        ),
    )
    emit("pld_calibrate", seconds, "s", sigma)


SETTING = [sampled_gaussian(SIGMA)]
MIXTURE = [heterogeneous(i) for i in range(1_000)]

MEASUREMENTS = {
    "discrete_laplace": discrete_laplace,
    "discrete_gaussian": discrete_gaussian,
    "opendp_history": opendp_history,
    "pld_epsilon": lambda: epsilon("pld_epsilon", pld_accountant, SETTING, 5),
    "pld_calibrate": pld_calibrate,
    "pld_hetero": lambda: epsilon("pld_hetero", pld_accountant, MIXTURE, 1),
    "rdp_epsilon": lambda: epsilon("rdp_epsilon", rdp_accountant, SETTING, 10),
    "rdp_hetero": lambda: epsilon("rdp_hetero", rdp_accountant, MIXTURE, 2),
}


def main(names):
    unknown = [name for name in names if name not in MEASUREMENTS]
    if unknown:
        sys.exit(f"unknown measurement {unknown[0]}; there are {', '.join(MEASUREMENTS)}")
    for name in names or MEASUREMENTS:
        MEASUREMENTS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
