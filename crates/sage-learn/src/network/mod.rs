//! Logistic regression and multilayer networks by DP-SGD.
//!
//! A network is trained by steps of the kernel's sampled sum: the kernel draws which rows take part, bounds
//! each row's gradient over all layers together and adds noise to the sum; here are the passes forward and
//! back that give it the factors of those gradients, and what is done with the noisy sums afterwards. What
//! the passes compute for a row depends on that row and on the public weights alone, to the last bit: the
//! kernel's proof rests on it. The divisor of a step is the expected size of a sample, which is public;
//! nothing here knows how many rows there are.

mod pass;
mod plan;
mod product;
mod relu_sparse;
mod shape;
mod train;
mod weights;

pub use pass::{OneHotSum, logistic, relu};
pub use product::Initial;
pub use relu_sparse::{LeftSide, PackedWeights};

pub use plan::{Plan, PlanError, Work};
pub use shape::{Inputs, Loss, Shape, ShapeError};
pub use train::{Diverged, Rates, TrainError, Training, train, train_while};
pub use weights::{Network, OneByOne};
