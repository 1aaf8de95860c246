//! Formulas and fields over columns equal the evaluation of single rows, to the last bit.

use sage_model::bundle::{
    Activation, CategoryIndex, Feature, Field, Graph, Layer, Link, Outline, Predictor, Scaled, Shape, Weights,
};
use sage_model::formula::{Cell, Formula, Missing, Schema};

use crate::draw::{self, Draw};
use crate::reference;

/// A graph whose prediction is one field. Every column is used, by features that no field reads.
fn graph_of(schema: &Schema, formula: Formula, field: Field) -> Graph {
    let mut features = vec![Feature { name: "f".to_owned(), formula }];
    for column in schema.columns() {
        let formula = Formula::IsNull(Box::new(Formula::Column(column.name.clone())));
        features.push(Feature { name: format!("is {} null", column.name), formula });
    }
    let layers = vec![Shape { outputs: 1, activation: Activation::Identity }];
    let outline = Outline {
        schema: schema.clone(),
        features,
        fields: vec![field],
        layers,
        link: Link::Identity,
        classes: Vec::new(),
        steps: vec![],
    };
    // The weight of an index is the index.
    let weights = match outline.inputs() {
        [1, 0, 0] => vec![1.0],
        [_, _, columns] => (0..columns).map(|index| index as f32).collect(),
    };
    let layer = Layer { weights, bias: vec![0.0] };
    Graph::new(outline, Weights { embeddings: Vec::new(), layers: vec![layer], arrays: Vec::new() }).unwrap()
}

fn check(seed: u64, graph: &Graph, rows: &[Vec<Cell>]) {
    let found = Predictor::new(graph).unwrap().rows(rows).unwrap();
    for (row, found) in rows.iter().zip(found) {
        let plain = reference::predict(graph, row)[0];
        // The product with the weight may drop the sign of a zero.
        let same = found == plain || found.is_nan() && plain.is_nan();
        assert!(same, "seed {seed}: {found} instead of {plain} for {row:?}\n{}", graph.outline().features[0].formula);
    }
}

fn rows(seed: u64, count: usize, schema: &Schema) -> Vec<Vec<Cell>> {
    let draw = &mut Draw(seed ^ 0xC0_1D5E);
    (0..count).map(|_| draw::row(draw, schema)).collect()
}

#[test]
fn numbers_are_those_of_a_single_row() {
    let schema = draw::schema();
    for seed in 0..400 {
        let draw = &mut Draw(seed);
        let depth = 1 + draw.below(5);
        let formula = match draw.below(3) {
            0 => draw::truth(draw, depth),
            1 => draw::number(draw, depth),
            _ => draw::smooth(draw, depth - 1),
        };
        let missing = if draw.below(2) == 0 { Some(-7.25) } else { None };
        let scaled = Scaled { feature: "f".to_owned(), low: -1e30, high: 1e30, shift: 0.0, factor: 1.0, missing };
        check(seed, &graph_of(&schema, formula, Field::Number(scaled)), &rows(seed, 48, &schema));
    }
}

#[test]
fn indices_are_those_of_a_single_row() {
    let schema = draw::schema();
    for seed in 0..300 {
        let draw = &mut Draw(seed);
        let text = draw.below(4) == 0;
        let depth = 1 + draw.below(4);
        let formula = if text { draw::column(draw, "text") } else { draw::number(draw, depth) };
        let feature = "f".to_owned();
        let many = || (0..50).map(|edge| f64::from(edge) * 0.5 - 3.0).collect();
        let category = match draw.below(4) {
            _ if text => {
                let categories = draw::texts(&["blue", "", "red", "violet"]);
                CategoryIndex::Category { feature, categories, otherwise: draw.below(5) as u32 }
            }
            // Starting at 0: with another start the difference of a number very close to an integer rounds to an index.
            0 => CategoryIndex::Index { feature, first: 0, count: 10, otherwise: draw.below(11) as u32 },
            1 => CategoryIndex::Hash { feature, seed, count: 13, otherwise: draw.below(14) as u32 },
            2 => CategoryIndex::Bucket { feature, edges: vec![-1.0, 0.0, 0.5], otherwise: draw.below(5) as u32 },
            _ => CategoryIndex::Bucket { feature, edges: many(), otherwise: draw.below(52) as u32 },
        };
        let category = match draw.below(3) {
            0 => CategoryIndex::Cross(vec![category.clone(), category]),
            1 => CategoryIndex::Folded { of: Box::new(category), seed: seed + 1, count: 5 },
            _ => category,
        };
        check(seed, &graph_of(&schema, formula, Field::OneHot(category)), &rows(seed, 48, &schema));
    }
}

/// More rows than one block, and one row more than two blocks.
#[test]
fn rows_of_every_block_are_those_of_a_single_row() {
    for seed in 0..3 {
        let graph = draw::graph(seed);
        let predictor = Predictor::new(&graph).unwrap();
        let rows = rows(seed, 1_025, &graph.outline().schema);
        let together = predictor.rows(&rows).unwrap();
        let alone: Vec<f32> = rows.iter().flat_map(|row| predictor.rows(std::slice::from_ref(row)).unwrap()).collect();
        assert_eq!(together, alone, "seed {seed}");
    }
}

/// The empty text is null in a column with nulls, even if a list contains it.
#[test]
fn the_empty_text_is_null_only_where_there_can_be_null() {
    let schema = draw::schema();
    for column in schema.columns().iter().filter(|column| column.name.starts_with("text")) {
        let formula = Formula::Column(column.name.clone());
        let categories = draw::texts(&["red", ""]);
        let category = CategoryIndex::Category { feature: "f".to_owned(), categories, otherwise: 2 };
        let graph = graph_of(&schema, formula, Field::OneHot(category));
        let mut row = rows(0, 1, &schema).remove(0);
        let (index, _) = schema.columns().iter().enumerate().find(|(_, other)| other.name == column.name).unwrap();
        row[index] = Cell::Text(String::new());
        let expected = if column.missing == Missing::Possible { 2.0 } else { 1.0 };
        assert_eq!(Predictor::new(&graph).unwrap().rows(&[row]).unwrap(), [expected], "{}", column.name);
    }
}
