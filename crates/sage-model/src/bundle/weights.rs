//! Weights as a safetensors file: `layer.0.weight` with an output in each row, `layer.0.bias`, `embedding.0`, and
//! `array.0` for models that are steps.

use std::collections::{BTreeMap, HashMap};

use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use super::graph::{Graph, Layer, Outline, Weights};

/// The bytes of the safetensors file.
pub(super) fn write(graph: &Graph) -> Option<Vec<u8>> {
    let weights = graph.weights();
    let bytes = |floats: &[f32]| -> Vec<u8> { floats.iter().flat_map(|float| float.to_le_bytes()).collect() };
    let mut arrays: BTreeMap<String, (Vec<usize>, Vec<u8>)> = BTreeMap::new();
    for (number, layer) in weights.layers.iter().enumerate() {
        let shape = vec![layer.bias.len(), layer.weights.len() / layer.bias.len()];
        arrays.insert(format!("layer.{number}.weight"), (shape, bytes(&layer.weights)));
        arrays.insert(format!("layer.{number}.bias"), (vec![layer.bias.len()], bytes(&layer.bias)));
    }
    for (number, (rows, (_, width))) in weights.embeddings.iter().zip(graph.outline().embeddings()).enumerate() {
        let shape = vec![rows.len() / width as usize, width as usize];
        arrays.insert(format!("embedding.{number}"), (shape, bytes(rows)));
    }
    for (number, numbers) in weights.arrays.iter().enumerate() {
        arrays.insert(format!("array.{number}"), (vec![numbers.len()], bytes(numbers)));
    }
    let views = arrays.iter().map(|(name, (shape, bytes))| {
        TensorView::new(Dtype::F32, shape.clone(), bytes).ok().map(|view| (name.as_str(), view))
    });
    let views = views.collect::<Option<Vec<_>>>()?;
    // Only one entry: the writer takes an unordered map, and the bytes must be reproducible.
    let metadata = HashMap::from([("sage.format".to_owned(), super::FORMAT.to_string())]);
    safetensors::serialize(views, Some(metadata)).ok()
}

/// The weights of an outline; `None` if the file is not a safetensors file or has other tensors.
pub(super) fn read(outline: &Outline, bytes: &[u8]) -> Option<Weights> {
    let file = SafeTensors::deserialize(bytes).ok()?;
    let array = |name: String, shape: &[u64]| -> Option<Vec<f32>> {
        let view = file.tensor(&name).ok()?;
        let same = view.shape().iter().map(|length| *length as u64).eq(shape.iter().copied());
        if !same || view.dtype() != Dtype::F32 {
            return None;
        }
        let chunks = view.data().chunks_exact(4);
        Some(chunks.map(|chunk| f32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]])).collect())
    };
    let mut weights = Weights { embeddings: Vec::new(), layers: Vec::new(), arrays: Vec::new() };
    for (number, (rows, width)) in outline.embeddings().enumerate() {
        weights.embeddings.push(array(format!("embedding.{number}"), &[rows, u64::from(width)])?);
    }
    for (number, (outputs, inputs)) in outline.sizes().into_iter().enumerate() {
        let rows = array(format!("layer.{number}.weight"), &[outputs, inputs])?;
        weights.layers.push(Layer { weights: rows, bias: array(format!("layer.{number}.bias"), &[outputs])? });
    }
    let sizes = if outline.steps.is_empty() { Vec::new() } else { outline.arrays().ok()? };
    for (number, size) in sizes.into_iter().enumerate() {
        weights.arrays.push(array(format!("array.{number}"), &[size])?);
    }
    let expected = weights.embeddings.len() + 2 * weights.layers.len() + weights.arrays.len();
    (file.len() == expected).then_some(weights)
}
