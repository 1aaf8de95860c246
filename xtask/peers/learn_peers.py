"""The peers of `cargo xtask bench learn`.

Times, on this machine and in this run, one step of training in the tools a user would take instead: PyTorch
without any privacy, Opacus with ghost clipping, and Opacus as it comes. The networks, the batches and the
kinds of rows are those of `crates/sage-learn/benches/learn.rs`. A peer's step begins with a batch that is
ready in memory; drawing it is left out, which favours the peer. Prints one JSON object a line, `name`, `peer`
(rows a second, the best of several steps) and `unit`.

The allocator is set to keep memory, without which the system's page faults take most of the time that
gradients of single rows need. Run without arguments for all measurements, or with the names of some.
"""

import json
import os
import sys
import time
import warnings

KEEP = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "8589934592", "MALLOC_TOP_PAD_": "268435456"}
if os.environ.get("MALLOC_TRIM_THRESHOLD_") != KEEP["MALLOC_TRIM_THRESHOLD_"]:
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEP})

warnings.filterwarnings("ignore")

import torch  # noqa: E402
from opacus import PrivacyEngine  # noqa: E402
from torch import nn  # noqa: E402

# With `--arch` the environment limits PyTorch to an instruction set; a version that ignores it would be compared with
# ours on another one.
ALLOWED = os.environ.get("ATEN_CPU_CAPABILITY")
if ALLOWED and torch.backends.cpu.get_cpu_capability().lower() != ALLOWED:
    sys.exit(f"PyTorch uses {torch.backends.cpu.get_cpu_capability()}, not {ALLOWED}")

LEAST_STEPS = 6
SECONDS = 4.0
FIELDS = 26
CATEGORIES = 1000


class Criteo(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(CATEGORIES, 8) for _ in range(FIELDS)])
        self.layers = nn.Sequential(
            nn.Linear(13 + 8 * FIELDS, 1024), nn.ReLU(), nn.Linear(1024, 32), nn.ReLU(), nn.Linear(32, 1)
        )

    def forward(self, numbers, categories):
        embedded = [table(categories[:, field]) for field, table in enumerate(self.tables)]
        return self.layers(torch.cat([numbers, *embedded], 1))


class Logistic(nn.Module):
    """The categories as indices, the fastest form in either tool."""

    def __init__(self):
        super().__init__()
        self.numbers = nn.Linear(13, 1)
        self.embedding = nn.Embedding(FIELDS * CATEGORIES, 1)

    def forward(self, numbers, categories):
        return self.numbers(numbers) + self.embedding(categories).sum(1)


class DenseLogistic(nn.Module):
    """The categories as one-hot rows."""

    def __init__(self):
        super().__init__()
        self.all = nn.Linear(13 + FIELDS * CATEGORIES, 1)

    def forward(self, inputs):
        return self.all(inputs)


def taxi():
    layers = nn.Sequential(nn.Linear(61, 5000), nn.ReLU(), nn.Linear(5000, 100), nn.ReLU(), nn.Linear(100, 1))
    inputs = torch.zeros(1024, 61)
    start = 0
    for width in (24, 7, 12, 8, 10):
        inputs[torch.arange(1024), start + torch.randint(0, width, (1024,))] = 1.0
        start += width
    return layers, (inputs,), torch.rand(1024, 1), nn.MSELoss


def criteo():
    categories = torch.randint(0, CATEGORIES, (1024, FIELDS))
    return Criteo(), (torch.rand(1024, 13), categories), torch.randint(0, 2, (1024, 1)).float(), nn.BCEWithLogitsLoss


def logistic():
    categories = torch.randint(0, CATEGORIES, (512, FIELDS)) + CATEGORIES * torch.arange(FIELDS)
    return Logistic(), (torch.rand(512, 13), categories), torch.randint(0, 2, (512, 1)).float(), nn.BCEWithLogitsLoss


def dense_logistic():
    _, (numbers, categories), labels, loss = logistic()
    ones = torch.zeros(512, FIELDS * CATEGORIES).scatter_(1, categories, 1.0)
    return DenseLogistic(), (torch.cat([numbers, ones], 1),), labels, loss


def rows_each_second(step, rows):
    step()
    best, spent, steps = float("inf"), 0.0, 0
    while steps < LEAST_STEPS or spent < SECONDS:
        start = time.perf_counter()
        step()
        seconds = time.perf_counter() - start
        best, spent, steps = min(best, seconds), spent + seconds, steps + 1
    return rows / best


def pytorch(task):
    model, inputs, labels, loss = task()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    criterion = loss()

    def step():
        optimiser.zero_grad()
        criterion(model(*inputs), labels).backward()
        optimiser.step()

    return rows_each_second(step, len(labels))


def opacus(task, mode):
    model, inputs, labels, loss = task()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    rows = torch.utils.data.TensorDataset(*inputs, labels)
    loader = torch.utils.data.DataLoader(rows, batch_size=len(labels))
    private = PrivacyEngine(accountant="rdp").make_private(
        module=model, optimizer=optimiser, data_loader=loader, criterion=loss(), noise_multiplier=1.0,
        max_grad_norm=1.0, poisson_sampling=False, grad_sample_mode=mode,
    )
    if mode == "ghost":
        model, optimiser, criterion, _ = private
    else:
        (model, optimiser, _), criterion = private[:3], loss()

    def step():
        optimiser.zero_grad()
        criterion(model(*inputs), labels).backward()
        optimiser.step()

    return rows_each_second(step, len(labels))


def faster(measure):
    return max(measure(logistic), measure(dense_logistic))


MEASUREMENTS = {
    "taxi_vs_pytorch": lambda: pytorch(taxi),
    "taxi_vs_opacus_ghost": lambda: opacus(taxi, "ghost"),
    "taxi_vs_opacus": lambda: opacus(taxi, "hooks"),
    "criteo_vs_pytorch": lambda: pytorch(criteo),
    "criteo_vs_opacus_ghost": lambda: opacus(criteo, "ghost"),
    "logistic_hashed_vs_pytorch": lambda: faster(pytorch),
    "logistic_hashed_vs_opacus_ghost": lambda: faster(lambda task: opacus(task, "ghost")),
}


def main():
    requested = sys.argv[1:]
    for threads, behind in ((1, ""), (2, "_2")):
        torch.set_num_threads(threads)
        for name, measure in MEASUREMENTS.items():
            if not requested or name + behind in requested:
                print(json.dumps({"name": name + behind, "peer": measure(), "unit": "rows/s"}), flush=True)


main()
