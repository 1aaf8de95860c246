//! How does the cost of privacy depend on the number of rows?
//!
//! The three tasks of the learners' quality tests on real rows, with the same settings: linear regression and a
//! network on taxi rides, logistic regression on flights. Training uses every n-th row of the first 90 % of the time;
//! the loss is measured on the last 10 %. There is no non-private trainer of networks, so ε = 30 stands for it. Noise
//! is secure, so runs differ. Prints one JSON object per line.
//! `SAGE_DATA=<folder> cargo run --release --manifest-path experiments/Cargo.toml --bin quality [runs]`.

#[path = "../../../crates/sage-learn/tests/quality/flights.rs"]
mod flights;
#[path = "../../../crates/sage-learn/tests/quality/plain.rs"]
mod plain;
#[path = "../../../crates/sage-learn/tests/quality/private.rs"]
mod private;
#[path = "../../../crates/sage-learn/tests/quality/settings.rs"]
mod settings;
#[path = "../../../crates/sage-learn/tests/quality/table.rs"]
mod table;
#[path = "../../../crates/sage-learn/tests/quality/taxi.rs"]
mod taxi;

use flights::Flights;
use sage_kernel::Rows;
use sage_learn::encode::{Encoded, Encoding};
use sage_learn::linear::Ridge;
use table::Table;
use taxi::Rides;

/// The strides between training rows.
const EVERY: [usize; 5] = [16, 8, 4, 2, 1];
const EPSILONS: [&str; 2] = ["1", "0.05"];
/// Stands for no privacy where there is no non-private trainer.
const LOOSE: &str = "30";

/// Rows of one encoding, with the names that a run prints.
struct Task<'rows> {
    name: &'static str,
    loss: &'static str,
    table: &'rows Table,
    training: usize,
    encoding: Encoding,
    held_out: Encoded,
    runs: usize,
}

impl<'rows> Task<'rows> {
    fn new(
        name: &'static str, loss: &'static str, table: &'rows Table, training: usize, encoding: Encoding, runs: usize,
    ) -> Self {
        let held_out = table.encode(&encoding, training..table.rows());
        Self { name, loss, table, training, encoding, held_out, runs }
    }

    fn rows(&self, every: usize) -> Encoded {
        self.table.encode(&self.encoding, (0..self.training).step_by(every))
    }

    fn print(&self, model: &str, every: usize, losses: &[f64]) {
        let mean = losses.iter().sum::<f64>() / losses.len() as f64;
        let worst = losses.iter().fold(f64::NEG_INFINITY, |worst, &loss| worst.max(loss));
        let (task, loss) = (self.name, self.loss);
        let (rows, runs) = (self.training.div_ceil(every), losses.len());
        print!("{{\"task\":\"{task}\",\"model\":\"{model}\",\"rows\":{rows},\"loss\":\"{loss}\",");
        println!("\"runs\":{runs},\"mean\":{mean:.6},\"worst\":{worst:.6}}}");
    }

    fn repeat(&self, model: &str, every: usize, loss: impl Fn(Encoded) -> f64) {
        let losses: Vec<f64> = (0..self.runs).map(|_| loss(self.rows(every))).collect();
        self.print(model, every, &losses);
    }
}

fn lines(rides: &Rides, runs: usize) {
    let task = Task::new("taxi line", "squared", &rides.table, rides.training, rides.for_lines(), runs);
    let of_mean = vec![plain::mean(&task.rows(1)); task.held_out.count()];
    task.print("mean", 1, &[plain::squared(&of_mean, &task.held_out)]);
    for every in EVERY {
        let plain = plain::ridge(&task.rows(every));
        task.print("without privacy", every, &[plain::squared(&plain::line(&plain, &task.held_out), &task.held_out)]);
        for epsilon in EPSILONS {
            let plan = private::linear_plan(task.encoding.layout(), epsilon, Ridge::Fixed);
            task.repeat(&format!("epsilon {epsilon}"), every, |rows| {
                let model = private::linear(&plan, epsilon, rows);
                plain::squared(&plain::line(&model, &task.held_out), &task.held_out)
            });
        }
    }
}

fn networks(rides: &Rides, runs: usize) {
    let task = Task::new("taxi network", "squared", &rides.table, rides.training, rides.for_networks(), runs);
    let best = Task::new("taxi best line", "squared", &rides.table, rides.training, rides.for_the_best_line(), runs);
    for every in EVERY {
        let plain = plain::ridge(&best.rows(every));
        best.print("without privacy", every, &[plain::squared(&plain::line(&plain, &best.held_out), &best.held_out)]);
        for epsilon in [LOOSE, EPSILONS[0], EPSILONS[1]] {
            task.repeat(&format!("epsilon {epsilon}"), every, |rows| {
                let network = settings::ride_network(epsilon, rows);
                plain::squared(&plain::predictions(&network, &task.held_out), &task.held_out)
            });
        }
    }
    let paper = Task::new("taxi paper", "squared", &rides.table, rides.training, rides.for_the_paper(), runs);
    for epsilon in [LOOSE, EPSILONS[0]] {
        paper.repeat(&format!("epsilon {epsilon}"), 1, |rows| {
            let network = settings::paper_network(epsilon, rows);
            plain::squared(&plain::predictions(&network, &paper.held_out), &paper.held_out)
        });
    }
}

fn logistic(flights: &Flights, runs: usize) {
    let task = Task::new("flights", "logarithmic", &flights.table, flights.training, flights.encoding(), runs);
    let of_base = vec![plain::mean(&task.rows(1)); task.held_out.count()];
    task.print("base rate", 1, &[plain::log_loss(&of_base, &task.held_out)]);
    for every in EVERY {
        let weights = plain::logistic(&task.rows(every));
        task.print(
            "without privacy",
            every,
            &[plain::log_loss(&plain::chances(&weights, &task.held_out), &task.held_out)],
        );
        for epsilon in EPSILONS {
            task.repeat(&format!("epsilon {epsilon}"), every, |rows| {
                let model = settings::flight_model(epsilon, rows);
                plain::log_loss(&plain::predictions(&model, &task.held_out), &task.held_out)
            });
        }
    }
}

fn main() {
    let runs = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(3);
    if let Some(rides) = Rides::read() {
        lines(&rides, runs);
        networks(&rides, runs);
    }
    if let Some(flights) = Flights::read() {
        logistic(&flights, runs);
    }
}
