//! The supported operators, and the refusals of others.

use super::file::Node;
use super::translate::{Known, Translation};
use super::{ImportRefusal, learned, numbers, refused, shapes};
use crate::bundle::steps::{Map, Rule};

type Translate = fn(&mut Translation<'_>, &Node<'_>) -> Result<Known, ImportRefusal>;

/// The supported operators.
const SUPPORTED: &[(&str, Translate)] = &[
    ("Abs", |all, node| numbers::map(all, node, Map::Abs)),
    ("Add", |all, node| numbers::pair(all, node, Rule::Add)),
    ("BatchNormalization", numbers::normalized),
    ("Cast", shapes::cast),
    ("Clip", numbers::clip),
    ("Concat", shapes::concat),
    ("Constant", shapes::constant),
    ("Div", |all, node| numbers::pair(all, node, Rule::Divide)),
    ("Erf", |all, node| numbers::map(all, node, Map::Erf)),
    ("Exp", |all, node| numbers::map(all, node, Map::Exp)),
    ("Flatten", shapes::flatten),
    ("Gather", shapes::gather),
    ("Gemm", numbers::gemm),
    ("Identity", shapes::identity),
    ("IsNaN", numbers::is_missing),
    ("LeakyRelu", numbers::leaky),
    ("Log", |all, node| numbers::map(all, node, Map::Ln)),
    ("MatMul", numbers::product),
    ("Max", |all, node| numbers::pair(all, node, Rule::Greatest)),
    ("Min", |all, node| numbers::pair(all, node, Rule::Least)),
    ("Mul", |all, node| numbers::pair(all, node, Rule::Multiply)),
    ("Neg", |all, node| numbers::map(all, node, Map::Negative)),
    ("Reciprocal", numbers::reciprocal),
    ("ReduceMean", numbers::mean),
    ("ReduceSum", numbers::sum),
    ("Relu", |all, node| numbers::map(all, node, Map::Relu)),
    ("Reshape", shapes::reshape),
    ("Sigmoid", |all, node| numbers::map(all, node, Map::Sigmoid)),
    ("Softmax", numbers::softmax),
    ("Sqrt", |all, node| numbers::map(all, node, Map::Sqrt)),
    ("Squeeze", shapes::squeeze),
    ("Sub", |all, node| numbers::pair(all, node, Rule::Subtract)),
    ("Tanh", |all, node| numbers::map(all, node, Map::Tanh)),
    ("Transpose", shapes::transpose),
    ("Unsqueeze", shapes::unsqueeze),
    ("Where", numbers::chosen),
];

/// The supported operators of the `ai.onnx.ml` domain.
const SUPPORTED_ML: &[(&str, Translate)] = &[
    ("ArrayFeatureExtractor", learned::extract),
    ("Imputer", learned::impute),
    ("LinearRegressor", learned::linear),
    ("OneHotEncoder", learned::one_hot),
    ("Scaler", learned::scale),
];

/// Common operators that are not supported.
const REFUSED: &[(&[&str], &str)] = &[
    (&["Loop", "If", "Scan"], "it has a graph within it; unroll it when it is exported"),
    (
        &["RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"],
        "it draws at random, and a prediction must depend on its row alone",
    ),
    (
        &["Shape", "Size", "Expand", "Tile", "NonZero", "ConstantOfShape", "Range"],
        "it works with the number of rows; fold constants when it is exported, or write the numbers out",
    ),
    (
        &["CumSum", "Sort", "TopK", "Unique", "ReduceMax", "ReduceMin", "ArgMax", "ArgMin", "LSTM", "GRU", "RNN"],
        "it can move values from one row to another",
    ),
    (&["Dropout"], "it is for training; export it for inference"),
    (
        &["ZipMap", "LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"],
        "it gives classes; give one number for each row, such as a probability",
    ),
    (&["TreeEnsembleRegressor", "TreeEnsemble", "SVMRegressor"], "trees and kernels are not supported"),
];

/// Translates a node; a refusal names the operator if it is known.
pub(super) fn translate(all: &mut Translation<'_>, node: &Node<'_>, number: usize) -> Result<Known, ImportRefusal> {
    let table = match node.domain {
        "" | "ai.onnx" => SUPPORTED,
        "ai.onnx.ml" => SUPPORTED_ML,
        _ => &[],
    };
    let at = |operator, refusal: ImportRefusal| ImportRefusal { node: Some((number, operator)), why: refusal.why };
    if let Some((name, translate)) = table.iter().find(|(name, _)| *name == node.operator) {
        return translate(all, node).map_err(|refusal| at(Some(name), refusal));
    }
    if !matches!(node.domain, "" | "ai.onnx" | "ai.onnx.ml") {
        return Err(at(
            None,
            refused("its operator is of a domain of its own; only the operators of ONNX are supported"),
        ));
    }
    let known = REFUSED.iter().find_map(|(names, why)| {
        let name = names.iter().find(|name| **name == node.operator)?;
        Some(at(Some(name), refused(why)))
    });
    Err(known.unwrap_or_else(|| at(None, refused("its operator is not supported"))))
}

/// The names of the supported operators.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    SUPPORTED.iter().chain(SUPPORTED_ML).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    /// The documentation page lists the supported operators; it is compared with this table.
    #[test]
    fn the_page_names_every_operator() {
        let page = include_str!("../../../../../docs/reference/own-code.md");
        let line = page.lines().find(|line| line.starts_with("- **Operators**")).expect("the page lists them");
        let words: std::collections::BTreeSet<&str> = line.split(|c: char| !c.is_ascii_alphanumeric()).collect();
        for name in super::names() {
            assert!(words.contains(name), "{name} is supported but not on the page");
        }
        for (names, _) in super::REFUSED {
            assert!(names.iter().all(|name| !words.contains(name)), "{names:?} is on the page but not supported");
        }
    }
}
