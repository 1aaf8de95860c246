//! Parses an ONNX file in place, within limits: nodes, constants, inputs and outputs.
//!
//! Everything that is not a plain list of nodes or refers to something outside the file is refused here: external data,
//! functions, nested graphs, sparse arrays, training. Documentation texts are skipped.

use std::collections::BTreeMap;

use super::tensor::Tensor;
use super::wire::{Found, Message};
use super::{ImportRefusal, refused};

/// Limits of a file.
const MOST_NODES: usize = 4_096;
const MOST_CONSTANTS: usize = 8_192;
const MOST_INPUTS: usize = 4_096;
const MOST_ATTRIBUTES: usize = 64;
const MOST_PROPERTIES: usize = 256;
/// The supported versions of the operator set.
const VERSIONS: std::ops::RangeInclusive<i64> = 13..=28;

/// The parsed parts of a file.
#[derive(Default)]
pub(super) struct File<'file> {
    /// The version of the operators.
    pub(super) version: i64,
    /// The metadata of the file, by name.
    pub(super) properties: BTreeMap<&'file str, &'file str>,
    pub(super) nodes: Vec<Node<'file>>,
    pub(super) constants: Vec<(&'file str, Tensor)>,
    pub(super) inputs: Vec<Declared<'file>>,
    pub(super) outputs: Vec<Declared<'file>>,
}

/// A node.
#[derive(Default)]
pub(super) struct Node<'file> {
    pub(super) operator: &'file str,
    pub(super) domain: &'file str,
    pub(super) inputs: Vec<&'file str>,
    pub(super) outputs: Vec<&'file str>,
    attributes: BTreeMap<&'file str, &'file [u8]>,
}

/// An input or output with what is declared about it.
#[derive(Default)]
pub(super) struct Declared<'file> {
    pub(super) name: &'file str,
    /// The number of its element type; `None` if it is not an array.
    pub(super) element: Option<i64>,
    /// Its dimensions, where they are numbers.
    pub(super) shape: Option<Vec<Option<i64>>>,
}

fn within<T>(list: &[T], most: usize, why: &'static str) -> Result<(), ImportRefusal> {
    if list.len() < most { Ok(()) } else { Err(refused(why)) }
}

/// Reads a file.
pub(super) fn read(bytes: &[u8]) -> Result<File<'_>, ImportRefusal> {
    let mut file = File::default();
    let mut graph = None;
    for field in Message::new(bytes) {
        match field? {
            (7, found) if graph.is_none() => graph = Some(found.bytes()?),
            (7, _) => return Err(refused("it has two graphs")),
            (8, found) => {
                let (domain, version) = operators(found.bytes()?)?;
                if domain.is_empty() || domain == "ai.onnx" {
                    file.version = version;
                }
            }
            (14, found) => {
                if file.properties.len() >= MOST_PROPERTIES {
                    return Err(refused("it has more than 256 properties"));
                }
                let (name, value) = pair(found.bytes()?)?;
                file.properties.insert(name, value);
            }
            (20, _) => return Err(refused("it describes training; export it for inference")),
            (25, _) => return Err(refused("it has functions of its own; inline them when it is exported")),
            _ => {}
        }
    }
    if !VERSIONS.contains(&file.version) {
        return Err(refused("its operators are of a version other than 13 to 28; export it with `opset 17`"));
    }
    fill(&mut file, graph.ok_or_else(|| refused("it has no graph; it is not an ONNX file"))?)?;
    Ok(file)
}

fn fill<'file>(file: &mut File<'file>, graph: &'file [u8]) -> Result<(), ImportRefusal> {
    for field in Message::new(graph) {
        match field? {
            (1, found) => {
                within(&file.nodes, MOST_NODES, "it has more than 4096 nodes; give a smaller model")?;
                file.nodes.push(node(found.bytes()?)?);
            }
            (5, found) => {
                within(&file.constants, MOST_CONSTANTS, "it has more than 8192 constants; give a smaller model")?;
                file.constants.push(Tensor::read(found.bytes()?)?);
            }
            (11, found) => {
                // Old files declare their constants as inputs too.
                within(&file.inputs, MOST_INPUTS + MOST_CONSTANTS, "it has more than 4096 inputs")?;
                file.inputs.push(declared(found.bytes()?)?);
            }
            (12, found) => {
                within(&file.outputs, MOST_INPUTS, "it has more than 4096 outputs")?;
                file.outputs.push(declared(found.bytes()?)?);
            }
            (15, _) => return Err(refused("it has sparse constants; make them dense")),
            _ => {}
        }
    }
    Ok(())
}

fn operators(bytes: &[u8]) -> Result<(&str, i64), ImportRefusal> {
    let (mut domain, mut version) = ("", 0);
    for field in Message::new(bytes) {
        match field? {
            (1, found) => domain = found.text()?,
            (2, found) => version = found.whole()?,
            _ => {}
        }
    }
    Ok((domain, version))
}

fn pair(bytes: &[u8]) -> Result<(&str, &str), ImportRefusal> {
    let (mut name, mut value) = ("", "");
    for field in Message::new(bytes) {
        match field? {
            (1, found) => name = found.text()?,
            // A longer value is not one of the known properties.
            (2, found) => value = std::str::from_utf8(found.bytes()?).unwrap_or_default(),
            _ => {}
        }
    }
    Ok((name, value))
}

fn node(bytes: &[u8]) -> Result<Node<'_>, ImportRefusal> {
    let mut node = Node::default();
    for field in Message::new(bytes) {
        match field? {
            (1, found) => {
                within(&node.inputs, MOST_INPUTS, "a node has more than 4096 inputs")?;
                node.inputs.push(found.text()?);
            }
            (2, found) => {
                within(&node.outputs, MOST_INPUTS, "a node has more than 4096 outputs")?;
                node.outputs.push(found.text()?);
            }
            (4, found) => node.operator = found.text()?,
            (5, found) => {
                let bytes = found.bytes()?;
                let name = attribute_name(bytes)?;
                if node.attributes.len() >= MOST_ATTRIBUTES || node.attributes.insert(name, bytes).is_some() {
                    return Err(refused("a node has an attribute twice, or more than 64"));
                }
            }
            (7, found) => node.domain = found.text()?,
            _ => {}
        }
    }
    Ok(node)
}

fn attribute_name(bytes: &[u8]) -> Result<&str, ImportRefusal> {
    let mut name = "";
    for field in Message::new(bytes) {
        match field? {
            (1, found) => name = found.text()?,
            (6 | 11, _) => {
                return Err(refused("a node has a graph within it, as Loop, If and Scan have; none is supported"));
            }
            (21, _) => return Err(refused("a node takes an attribute from a function")),
            _ => {}
        }
    }
    Ok(name)
}

fn declared(bytes: &[u8]) -> Result<Declared<'_>, ImportRefusal> {
    let mut declared = Declared::default();
    for field in Message::new(bytes) {
        match field? {
            (1, found) => declared.name = found.text()?,
            (2, found) => {
                for field in Message::new(found.bytes()?) {
                    if let (1, tensor) = field? {
                        array(&mut declared, tensor.bytes()?)?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(declared)
}

fn array(declared: &mut Declared<'_>, bytes: &[u8]) -> Result<(), ImportRefusal> {
    for field in Message::new(bytes) {
        match field? {
            (1, found) => declared.element = Some(found.whole()?),
            (2, found) => {
                let mut shape = Vec::new();
                for field in Message::new(found.bytes()?) {
                    if let (1, dimension) = field? {
                        within(&shape, 16, "an input has more than 16 dimensions")?;
                        let mut length = None;
                        for field in Message::new(dimension.bytes()?) {
                            if let (1, found) = field? {
                                length = Some(found.whole()?);
                            }
                        }
                        shape.push(length);
                    }
                }
                declared.shape = Some(shape);
            }
            _ => {}
        }
    }
    Ok(())
}

impl<'file> Node<'file> {
    /// All fields of an attribute with this number: a list may be split over several fields.
    fn attribute(&self, name: &str, number: u64) -> Result<Option<Vec<Found<'file>>>, ImportRefusal> {
        let Some(bytes) = self.attributes.get(name) else { return Ok(None) };
        let mut values = Vec::new();
        for field in Message::new(bytes) {
            let (found, value) = field?;
            if found == number {
                within(&values, 1 << 16, "a list of an attribute is too long")?;
                values.push(value);
            }
        }
        Ok(Some(values))
    }

    fn last(&self, name: &str, number: u64) -> Result<Option<Found<'file>>, ImportRefusal> {
        Ok(self.attribute(name, number)?.and_then(|values| values.last().copied()))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.attributes.contains_key(name)
    }

    /// An integer, or its default if it is absent.
    pub(super) fn whole(&self, name: &str, otherwise: i64) -> Result<i64, ImportRefusal> {
        match self.last(name, 3)? {
            Some(found) => found.whole(),
            // A writer may omit a zero value.
            None => Ok(if self.has(name) { 0 } else { otherwise }),
        }
    }

    /// A number, or its default if it is absent.
    pub(super) fn float(&self, name: &str, otherwise: f32) -> Result<f32, ImportRefusal> {
        match self.last(name, 2)? {
            Some(Found::Four(bytes)) => Ok(f32::from_le_bytes(bytes)),
            Some(_) => Err(refused("a field in it is of another type than ONNX has")),
            None => Ok(if self.has(name) { 0.0 } else { otherwise }),
        }
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&'file str>, ImportRefusal> {
        self.last(name, 4)?.map(Found::text).transpose()
    }

    pub(super) fn tensor(&self, name: &str) -> Result<Option<Tensor>, ImportRefusal> {
        let found = self.last(name, 5)?;
        found.map(|found| Tensor::read(found.bytes()?).map(|(_, tensor)| tensor)).transpose()
    }

    pub(super) fn floats(&self, name: &str) -> Result<Option<Vec<f32>>, ImportRefusal> {
        let Some(found) = self.attribute(name, 7)? else { return Ok(None) };
        let mut floats = Vec::new();
        found.into_iter().try_for_each(|found| found.floats(&mut floats))?;
        Ok(Some(floats))
    }

    pub(super) fn wholes(&self, name: &str) -> Result<Option<Vec<i64>>, ImportRefusal> {
        let Some(found) = self.attribute(name, 8)? else { return Ok(None) };
        let mut wholes = Vec::new();
        found.into_iter().try_for_each(|found| found.wholes(&mut wholes, 1 << 16))?;
        Ok(Some(wholes))
    }

    pub(super) fn texts(&self, name: &str) -> Result<Option<Vec<String>>, ImportRefusal> {
        let Some(found) = self.attribute(name, 9)? else { return Ok(None) };
        found.into_iter().map(|found| Ok(found.text()?.to_owned())).collect::<Result<_, _>>().map(Some)
    }
}
