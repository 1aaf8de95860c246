"""Runs a third-party file and the bundle translated from it with onnxruntime, on the same rows."""

import json
import sys
from pathlib import Path

import numpy
import onnx
import onnxruntime


def run(path, feed):
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    kinds = {"tensor(float)": numpy.float32, "tensor(double)": numpy.float64, "tensor(int64)": numpy.int64}
    shaped = {}
    for needed in session.get_inputs():
        values = numpy.array(feed[needed.name], dtype=kinds.get(needed.type, object))
        shaped[needed.name] = values.reshape([-1] + [1] * (len(needed.shape) - 1))
    return session.run(None, shaped)[0].reshape(-1)


def main():
    folder = Path(sys.argv[1])
    case = json.loads((folder / "case.json").read_text())
    known = lambda value: float("nan") if value is None else value
    feed = {name: [known(value) for value in values] for name, values in case["columns"].items()}
    expected = numpy.array(case["expected"], dtype=numpy.float32)
    assert expected.std() > 0.01, "rows differ"
    for name in ["original.onnx", "model.onnx"]:
        found = run(folder / name, feed)
        far = numpy.abs(found - expected).max()
        assert far < 1e-4, f"{name}: farthest {far}"
        print(f"{name} agrees, the farthest by {far:.1e}")


main()
