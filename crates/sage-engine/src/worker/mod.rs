//! The worker: takes a run that the scheduler chose through charge, attempt, verdict and release.
//!
//! - `run_loop`: evaluates runs, picks the next one and charges it, which makes it a [`Job`];
//! - `charge`, `grant`: prices an attempt, charges it, and opens a session under the grant;
//! - `attempt`: trains, tests and releases; `baseline` reads the released model that a run is compared with;
//! - `rehearsal`: runs an attempt on synthetic rows when a pipeline is planned or submitted;
//! - `own_code`, `code`, `flight`, `printed`: programs of pipelines, their files, their rows and their output;
//! - `progress`, `hold`, `crash`: reports progress, delays results to disclosure intervals, and counts crashes.
//!
//! Every step is an event of the log before it has an effect. Nothing here decides about a budget or draws noise.

mod attempt;
mod baseline;
pub(crate) mod charge;
pub(crate) mod code;
pub(crate) mod crash;
mod disclosure;
#[cfg(target_os = "linux")]
mod flight;
#[cfg(not(target_os = "linux"))]
#[path = "no_flight.rs"]
mod flight;
pub(crate) mod grant;
pub(crate) mod own_code;
mod program_output;
pub(crate) mod progress;
mod rehearsal;
pub(crate) mod run_loop;

pub use grant::{ChargeRequest, Granted};
pub use progress::ProgressView;
pub use run_loop::Job;
