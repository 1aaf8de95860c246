//! The shape of a network: public numbers, fixed before anything is charged.

use sage_kernel::{Bias, LayerShape};

use crate::encode::Layout;

/// The loss of a network, and with it what it predicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Half the squared error of a number.
    Squared,
    /// The logistic loss of the probability of class one.
    Logistic,
    /// The cross-entropy of the probabilities of several classes, by softmax. A row's label is the index of its class.
    Softmax {
        /// The number of classes.
        classes: u32,
    },
}

impl Loss {
    /// The number of outputs of the last layer.
    pub const fn outputs(self) -> u32 {
        match self {
            Self::Squared | Self::Logistic => 1,
            Self::Softmax { classes } => classes,
        }
    }
}

/// How one-hot indices enter the first layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// As one-hot inputs, after the numbers.
    Direct,
    /// Through an embedding table for each field; after the numbers, in the order of the fields.
    Embedded {
        /// The number of categories of each field, in order.
        fields: Vec<u32>,
        /// The width of an embedding.
        width: u32,
    },
}

/// Layers from the encoded row to the outputs of the loss. Without hidden layers it is linear or logistic regression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    layout: Layout,
    inputs: Inputs,
    hidden: Vec<u32>,
    loss: Loss,
}

/// Why layers do not form a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapeError {
    /// There are no inputs.
    NoInputs,
    /// A hidden layer or an embedding of width zero.
    Empty,
    /// The embedded fields are not those of the rows.
    Fields,
    /// A softmax over fewer than two classes.
    Classes,
    /// More parameters than a step may release.
    TooLarge,
}

impl std::fmt::Display for ShapeError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::NoInputs => "a network needs at least one input",
            Self::Empty => "hidden layers and embeddings need at least one number",
            Self::Fields => {
                "the embedded fields must be the categorical fields of the rows, with the same numbers of categories"
            }
            Self::Classes => "a softmax needs at least two classes",
            Self::TooLarge => "a network has at most 2^31 - 1 parameters",
        })
    }
}

impl std::error::Error for ShapeError {}

impl Shape {
    /// A network on rows of that layout.
    ///
    /// # Errors
    /// When the sizes do not fit each other.
    pub fn new(layout: Layout, inputs: Inputs, hidden: Vec<u32>, loss: Loss) -> Result<Self, ShapeError> {
        if layout.numbers == 0 && layout.active == 0 {
            return Err(ShapeError::NoInputs);
        }
        if hidden.contains(&0) {
            return Err(ShapeError::Empty);
        }
        if matches!(loss, Loss::Softmax { classes: 0 | 1 }) {
            return Err(ShapeError::Classes);
        }
        if let Inputs::Embedded { fields, width } = &inputs {
            let columns = fields.iter().map(|&categories| u64::from(categories)).sum::<u64>();
            if fields.len() != layout.active as usize || columns != u64::from(layout.columns) || fields.contains(&0) {
                return Err(ShapeError::Fields);
            }
            if *width == 0 {
                return Err(ShapeError::Empty);
            }
        }
        let shape = Self { layout, inputs, hidden, loss };
        let embedded = shape.first_numbers();
        let parameters = shape.layers().iter().map(|layer| layer.parameters()).sum::<u128>();
        if embedded > u64::from(u32::MAX) || parameters > i32::MAX as u128 {
            return Err(ShapeError::TooLarge);
        }
        Ok(shape)
    }

    /// The layout of the rows.
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// How one-hot indices enter the first layer.
    pub const fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// The widths of the hidden layers.
    pub fn hidden(&self) -> &[u32] {
        &self.hidden
    }

    /// The loss, which determines what is predicted.
    pub const fn loss(&self) -> Loss {
        self.loss
    }

    /// The number of numeric inputs of the first dense layer.
    fn first_numbers(&self) -> u64 {
        let embedded = match &self.inputs {
            Inputs::Direct => 0,
            Inputs::Embedded { fields, width } => fields.len() as u64 * u64::from(*width),
        };
        u64::from(self.layout.numbers) + embedded
    }

    /// The layers as the kernel sees them: embeddings field by field, then the dense ones in order.
    pub fn layers(&self) -> Vec<LayerShape> {
        let mut layers = Vec::new();
        let mut first = LayerShape::dense(u32::try_from(self.first_numbers()).unwrap_or(u32::MAX), 0);
        match &self.inputs {
            Inputs::Direct => (first.active, first.columns) = (self.layout.active, self.layout.columns),
            Inputs::Embedded { fields, width } => {
                layers.extend(fields.iter().map(|&categories| LayerShape::embedding(categories, *width)));
            }
        }
        for &outputs in self.hidden.iter().chain(&[self.loss.outputs()]) {
            layers.push(LayerShape { outputs, ..first });
            first = LayerShape::dense(outputs, 0);
        }
        layers
    }

    /// How many of the layers are embeddings.
    pub(super) fn embeddings(&self) -> usize {
        self.layers().iter().filter(|layer| layer.bias == Bias::Absent).count()
    }

    /// The number of parameters, all of which a step releases.
    pub fn parameters(&self) -> u32 {
        u32::try_from(self.layers().iter().map(|layer| layer.parameters()).sum::<u128>()).unwrap_or(u32::MAX)
    }
}
