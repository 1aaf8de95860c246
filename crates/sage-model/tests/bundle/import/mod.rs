//! ONNX files of other tools: imported, run on synthetic rows, written as a bundle and read back, or refused.

mod hostile;
pub mod made;

use made::{DOUBLE, FLOAT, TEXT, WHOLE, everything, file, list, whole};
use sage_model::bundle::{Bundle, Predictor, import_onnx, synthetic_rows};
use sage_model::formula::Cell;
use tract_onnx::prelude::{
    Framework as _, InferenceModelExt as _, IntoRunnable as _, IntoTValue as _, Tensor, tensor1,
};

use crate::exported::{self, try_out};
use crate::files;

/// The predictions of tract, which reads the file itself: an independent check of the translation.
fn by_tract(bytes: &[u8], inputs: Vec<Tensor>) -> Vec<f32> {
    let model = tract_onnx::onnx().with_ignore_output_shapes(true).model_for_read(&mut &bytes[..]).unwrap();
    let plan = model.into_optimized().unwrap().into_runnable().unwrap();
    let inputs = inputs.into_iter().map(|input| input.into_tvalue()).collect();
    let found = plan.run(inputs).unwrap();
    found[0].try_as_plain_ram().unwrap().as_slice::<f32>().unwrap().to_vec()
}

fn close(one: f32, other: f32) -> bool {
    (one - other).abs() <= 1e-5 * other.abs().max(1.0)
}

#[test]
fn imported_models_predict_like_their_files() {
    let made = file()
        .column("x")
        .input("z", DOUBLE, &[None])
        .wholes("one", &[1], &[1])
        .floats("w", &[2, 3], &[0.5, -1.0, 2.0, 0.25, 1.0, -0.5])
        .floats("b", &[3], &[0.1, 0.2, -0.3])
        .floats("v", &[1, 3], &[1.0, -2.0, 0.5])
        .node("Cast", &["z"], "z1", vec![whole("to", 1)])
        .node("Unsqueeze", &["z1", "one"], "z2", vec![])
        .node("Concat", &["x", "z2"], "both", vec![whole("axis", 1)])
        .node("Gemm", &["both", "w", "b"], "hidden", vec![])
        .node("Tanh", &["hidden"], "activated", vec![])
        .node("Gemm", &["activated", "v"], "out", vec![whole("transB", 1)]);
    let graph = import_onnx(&made.bytes(), &made::columns()).unwrap();
    let predictor = try_out(&graph).unwrap();
    let rows = synthetic_rows(&graph.outline().schema, 50);
    let found = predictor.rows(&rows).unwrap();
    let number = |row: &Vec<Cell>, index: usize| match row[index] {
        Cell::Number(number) => number,
        _ => panic!("a number"),
    };
    let x: Vec<f32> = rows.iter().map(|row| number(row, 0) as f32).collect();
    let z: Vec<f64> = rows.iter().map(|row| number(row, 1)).collect();
    let x = tensor1(&x).into_shape(&[50, 1]).unwrap();
    let expected = by_tract(&made.bytes(), vec![x, tensor1(&z)]);
    assert!(found.iter().zip(&expected).all(|(one, other)| close(*one, *other)), "{found:?} {expected:?}");
    assert!(found.iter().any(|number| (number - found[0]).abs() > 0.1), "they are not all the same");
}

#[test]
fn every_supported_operator_is_tried_released_and_read_back() {
    let graph = import_onnx(&everything().bytes(), &made::columns()).unwrap();
    let predictor = try_out(&graph).unwrap();
    let names: Vec<&str> = predictor.columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["x", "z", "gap", "count", "color"]);
    let rows = synthetic_rows(&graph.outline().schema, 300);
    let expected = predictor.rows(&rows).unwrap();
    assert!(rows.iter().any(|row| row[2] == Cell::Null), "nulls are among them");
    let alone: Vec<f32> = rows.iter().flat_map(|row| predictor.rows(std::slice::from_ref(row)).unwrap()).collect();
    assert_eq!(alone, expected, "a row's prediction is its own");
    let bundle = Bundle::write(graph, &files::card(), b"{}").unwrap();
    let read = Bundle::read_vouched(files::files(&bundle), &bundle.digest()).unwrap();
    assert_eq!(read, bundle);
    assert_eq!(Predictor::new(read.graph()).unwrap().rows(&rows).unwrap(), expected);
    let exported = exported::predict(read.graph(), &rows).unwrap();
    assert!(exported.iter().zip(&expected).all(|(one, other)| close(*one, *other)));
    for (name, seed) in [("graph.json", 3_usize), ("weights.safetensors", 5), ("model.onnx", 7)] {
        let mut changed = files::files(&bundle);
        let (_, bytes) = changed.iter_mut().find(|(file, _)| file == name).unwrap();
        let index = bytes.len() * seed / 11;
        bytes[index] ^= 1;
        assert!(Bundle::read_vouched(changed, &bundle.digest()).is_err(), "{name} was changed at {index}");
    }
}

#[test]
fn one_input_may_be_several_columns_if_it_says_which() {
    let made = file()
        .input("X", FLOAT, &[None, Some(3)])
        .node_of(
            "ai.onnx.ml",
            "LinearRegressor",
            &["X"],
            "out",
            vec![list("coefficients", &[1.0, 10.0, 0.001]), list("intercepts", &[0.5])],
        )
        .property("columns", "z, x, at");
    let predictor = try_out(&import_onnx(&made.bytes(), &made::columns()).unwrap()).unwrap();
    let row = vec![Cell::Number(2.0), Cell::Number(0.25), Cell::Whole(1000)];
    assert_eq!(predictor.rows(&[row]).unwrap(), [6.0]);
    let plain = file().input("X", FLOAT, &[None, Some(3)]).node("Identity", &["X"], "out", vec![]);
    let refused = import_onnx(&plain.bytes(), &made::columns()).unwrap_err().to_string();
    assert!(refused.contains("property `columns`"), "{refused}");
}

#[test]
fn null_is_passed_as_nan_and_must_be_filled() {
    let unfilled = file().column("gap").node("Relu", &["gap"], "out", vec![]);
    let graph = import_onnx(&unfilled.bytes(), &made::columns()).unwrap();
    let refused = try_out(&graph).err().unwrap().to_string();
    assert!(refused.contains("not finite"), "{refused}");
    let imputer = vec![list("imputed_value_floats", &[0.25]), made::float("replaced_value_float", f32::NAN)];
    let filled = file().column("gap").node_of("ai.onnx.ml", "Imputer", &["gap"], "out", imputer);
    let predictor = try_out(&import_onnx(&filled.bytes(), &made::columns()).unwrap()).unwrap();
    assert_eq!(predictor.rows(&[vec![Cell::Null], vec![Cell::Number(1.0)]]).unwrap(), [0.25, 1.0]);
}

#[test]
fn categories_that_are_not_listed_are_zeros() {
    let hot = vec![made::texts("cats_strings", &["green", "red"])];
    let made = file()
        .input("color", TEXT, &[None])
        .input("count", WHOLE, &[None, Some(1)])
        .floats("w", &[2], &[1.0, 2.0])
        .node_of("ai.onnx.ml", "OneHotEncoder", &["color"], "hot", hot)
        .node("Cast", &["count"], "counted", vec![whole("to", 1)])
        .node("Mul", &["hot", "counted"], "some", vec![])
        .node("MatMul", &["some", "w"], "out", vec![]);
    let predictor = try_out(&import_onnx(&made.bytes(), &made::columns()).unwrap()).unwrap();
    let names: Vec<&str> = predictor.columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["count", "color"], "texts come behind numbers");
    let row = |color: &str| vec![Cell::Whole(3), Cell::Text(color.to_owned())];
    assert_eq!(predictor.rows(&[row("red"), row("blue"), row("green")]).unwrap(), [6.0, 0.0, 3.0]);
}
