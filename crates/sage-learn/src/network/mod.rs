//! Logistic and softmax regression and multilayer networks by DP-SGD.
//!
//! A network is trained by steps of the kernel's sampled sum: the kernel samples the rows, clips each row's gradient
//! over all layers together and adds noise to the sum. Here are the forward and backward pass, which give the kernel
//! the factors of those gradients, and the optimizer that applies the noisy sums. What the passes compute for a row
//! depends on that row and on the public weights alone, to the last bit: the kernel's proof relies on it. The divisor
//! of a step is the expected size of a sample, which is public; nothing here knows the number of rows.

mod calibrate;
mod classes;
mod derive;
mod duration;
mod initial;
mod pass;
mod plan;
mod product;
mod relu_sparse;
mod shape;
mod train;
mod weights;

pub use pass::{OneHotSum, logistic, relu, softmax};
pub use product::Initial;
pub use relu_sparse::{LeftSide, PackedWeights};

pub use calibrate::{LabelMoments, Scale, calibrate};
pub use classes::{ClassShares, calibrate_classes};
pub use derive::{
    CalibrationNoise, ChargedSteps, DerivedSettings, Hyperparameters, LabelSummary, RateSchedule, StepPlan,
};
pub use duration::SignalAndNoise;
pub use plan::{Plan, PlanError, Work};
pub use shape::{Inputs, Loss, Shape, ShapeError};
pub use train::{Diverged, Rates, TrainError, Training, train, train_while};
pub use weights::{Network, RowPredictor};
