"""Runs every bundle in a folder with onnxruntime and MLflow and holds it against the predictions beside it."""

import json
import sys
import warnings
from pathlib import Path

import mlflow.onnx
import mlflow.pyfunc
import numpy
import onnx
import onnxruntime
import pandas
import pyarrow.parquet
import safetensors.numpy

TOLERANCE = 1e-5


def column(kind, values):
    if kind == "object":
        texts = ["" if value == "nan" else value["text"] for value in values]
        return numpy.array(texts, dtype=object)
    if kind == "bool":
        return numpy.array(values, dtype=bool)
    if kind == "int64":
        return numpy.array([int(value) for value in values], dtype=numpy.int64)
    return numpy.array([float(value) for value in values], dtype=numpy.float64)


def check_close(found, expected, what):
    assert found.shape == expected.shape, f"{what}: {found.shape} instead of {expected.shape}"
    far = numpy.abs(found - expected) > TOLERANCE * numpy.maximum(1.0, numpy.abs(expected))
    far |= ~numpy.isfinite(found)
    assert not far.any(), f"{what}: row {numpy.argwhere(far)[0]}: {found[far][0]} instead of {expected[far][0]}"
    return float(numpy.abs(found - expected).max())


def check_bundle(folder):
    case = json.loads((folder / "case.json").read_text())
    columns = {name: column(**values) for name, values in case["columns"].items()}
    expected = numpy.array(case["expected"], dtype=numpy.float32)
    onnx.checker.check_model(str(folder / "model.onnx"), full_check=True)

    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    feed = {name: values.reshape(-1, 1) if len(columns) == 1 else values for name, values in columns.items()}
    classes = json.loads((folder / "graph.json").read_text())["outline"].get("classes")
    names = ["label", "probabilities"] if classes else ["prediction"]
    assert [output.name for output in session.get_outputs()] == names
    found = session.run(None, feed)
    worst = check_close(found[-1], expected, f"{folder.name}: onnxruntime")
    first = {name: values[:1] for name, values in feed.items()}
    check_close(session.run(None, first)[-1], expected[:1], f"{folder.name}: one row")

    if classes:
        assert list(found[0]) == [classes[row.argmax()] for row in found[1]]
        onnx.checker.check_model(mlflow.onnx.load_model(str(folder)))
    else:
        model = mlflow.pyfunc.load_model(str(folder))
        # As objects: the texts of newer pandas are no arrays of numpy, and MLflow hands them on as they are.
        table = {name: pandas.Series(values, dtype=values.dtype) for name, values in columns.items()}
        found = model.predict(pandas.DataFrame(table))
        found = numpy.asarray(found["prediction"], dtype=numpy.float32).reshape(expected.shape)
        check_close(found, expected, f"{folder.name}: MLflow")

    weights = safetensors.numpy.load_file(folder / "weights.safetensors")
    assert weights["layer.0.weight"].dtype == numpy.float32 and weights["layer.0.weight"].ndim == 2
    for table in case["tables"]:
        word = "".join(c.lower() if c.isascii() and (c.isalnum() or c == "-") else "_" for c in table["name"])
        read = pyarrow.parquet.read_table(folder / "features" / f"{word}.parquet").to_pydict()
        for values in table["columns"]:
            assert read[values["name"]] == values["values"], table["name"]
        keys = table["keys"]
        if "from" in keys:
            keys = list(range(keys["from"]["first"], keys["from"]["first"] + keys["from"]["count"]))
        else:
            keys = keys["texts"]
        assert read[table["key"]] == keys, table["name"]
    return worst


def main():
    warnings.simplefilter("ignore")
    onnxruntime.set_default_logger_severity(3)
    folders = sorted(path.parent for path in Path(sys.argv[1]).glob("*/model.onnx"))
    worst = max(check_bundle(folder) for folder in folders)
    print(f"{len(folders)} bundles agree in onnxruntime and MLflow, the farthest by {worst:.1e}")


main()
