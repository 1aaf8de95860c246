//! Shapes and hyperparameters that work well, fixed before any row is read.

use sage_kernel::Rows;
use sage_learn::encode::Encoded;
use sage_learn::network::{Inputs, Loss, Network, Rates, Shape, Training, Work};

use crate::private::{beginning_at, network};

/// A network for rides: one hidden layer of 64, which initially predicts a quarter of an hour.
///
/// The clip is above most gradients once the network predicts roughly; a smaller one makes it predict medians.
/// A step samples about 4096 of the rows of a year. The rate and the divisor come from the number of rows, which a
/// stream would release with noise.
pub(crate) fn ride_network(epsilon: &str, rows: Encoded) -> Network {
    let shape = Shape::new(rows.layout(), Inputs::Direct, vec![64], Loss::Squared).expect("a shape");
    let count = rows.count() as f64;
    let work = Work { rows: count, batch: count / 164.0, steps: 2624, clip: 1.0 };
    let training = Training { rates: Rates::Cosine(0.2), momentum: 0.9, decay: 0.0, threads: 1 };
    network(beginning_at(Network::new(shape, 0), 5.0, 0.1), work, &training, epsilon, rows)
}

/// The shape and the settings of the paper for rides: 61 inputs, hidden layers of 5000 and 100, three passes in steps
/// of about 1024 rows. It has 606,201 weights, each of which gets noise, where the one above has about 1,400.
pub(crate) fn paper_network(epsilon: &str, rows: Encoded) -> Network {
    let shape = Shape::new(rows.layout(), Inputs::Direct, vec![5000, 100], Loss::Squared).expect("a shape");
    let count = rows.count() as f64;
    let work = Work { rows: count, batch: 1024.0, steps: (3.0 * count / 1024.0).ceil() as u32, clip: 1.0 };
    let training = Training { rates: Rates::Constant(0.01), momentum: 0.9, decay: 0.0, threads: 2 };
    network(Network::new(shape, 0), work, &training, epsilon, rows)
}

/// Logistic regression for flights, which initially predicts one late flight in five.
///
/// A gradient's norm is at most the root of the number of categorical fields plus one; a smaller clip would shorten
/// only the gradients of late flights, and the predicted probabilities would be far too low.
pub(crate) fn flight_model(epsilon: &str, rows: Encoded) -> Network {
    let shape = Shape::new(rows.layout(), Inputs::Direct, Vec::new(), Loss::Logistic).expect("a shape");
    let clip = f64::from(rows.layout().active + 1).sqrt();
    let count = rows.count() as f64;
    let work = Work { rows: count, batch: count / 275.0, steps: 1100, clip };
    let training = Training { rates: Rates::Cosine(0.4), momentum: 0.9, decay: 0.0, threads: 1 };
    network(beginning_at(Network::new(shape, 0), 1.0, -1.4), work, &training, epsilon, rows)
}
