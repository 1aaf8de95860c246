//! `sage account`: what a set of mechanisms costs.

mod mechanism;
mod report;

use sage_engine::account::{self, AccountError, Release};
use sage_engine::{Ceiling, Delta, Epsilon, Sigma};
use sage_server::format::quoted;

use self::mechanism::MechanismSet;
use crate::cli::AccountArgs;
use crate::failure::Failure;
use crate::fields::{DELTA_CEILING, LOSS_CEILING, STATED_DELTA};
use crate::output::{print, print_json};

/// The noise found for a target.
pub(crate) struct Calibrated {
    pub(crate) target: Epsilon,
    /// The index of the mechanism with open noise, and the name of its field.
    pub(crate) index: usize,
    pub(crate) field: &'static str,
    pub(crate) by_distribution: Result<Sigma, AccountError>,
    pub(crate) by_orders: Result<Sigma, AccountError>,
}

/// How many of the whole set fit.
pub(crate) struct Fits {
    pub(crate) ceiling: Ceiling,
    pub(crate) at_delta: Delta,
    pub(crate) counts: Vec<(String, u64)>,
}

/// The cost of a set of mechanisms.
pub(crate) struct Account {
    pub(crate) releases: Vec<Release>,
    pub(crate) delta: Delta,
    pub(crate) calibrated: Option<Calibrated>,
    pub(crate) by_distribution: Result<f64, AccountError>,
    pub(crate) by_orders: Result<f64, AccountError>,
    pub(crate) basic: Result<f64, AccountError>,
    pub(crate) fits: Option<Fits>,
}

/// Computes the cost and prints it.
pub(crate) fn run(flags: &AccountArgs) -> Result<(), Failure> {
    let account = answer(flags)?;
    if flags.json { print_json(&report::json(&account)) } else { print(&report::text(&account)) }
}

fn answer(flags: &AccountArgs) -> Result<Account, Failure> {
    let set = MechanismSet::read(flags)?;
    let policy = flags.policy.as_deref().map(policy).transpose()?;
    let at_delta = at_delta(flags)?;
    let delta = stated_delta(flags, policy)?;
    let target = match &flags.target_epsilon {
        Some(text) => Some(LOSS_CEILING.read_flag("--target-epsilon", "1", text)?),
        None => None,
    };
    let (releases, calibrated) = match (set.open(), target) {
        (None, None) => (set.releases(), None),
        (Some((_, field)), None) => {
            return Err(Failure::usage(
                format!("{field}=? asks for noise, and no target is given"),
                "add --target-epsilon 1",
            ));
        }
        (None, Some(_)) => {
            return Err(Failure::usage(
                "--target-epsilon needs one mechanism with its noise left open",
                "write ? for it: --gaussian sigma=? or --laplace scale=?",
            ));
        }
        (Some((index, field)), Some(target)) => {
            let found = Calibrated {
                target,
                index,
                field,
                by_distribution: account::calibrate_by_distribution(target, delta, |noise| set.with_noise(noise)),
                by_orders: account::calibrate_by_orders(target, delta, |noise| set.with_noise(noise)),
            };
            let noise = found.by_distribution.or(found.by_orders).map_err(|_| out_of_reach(&found))?;
            (set.with_noise(noise), Some(found))
        }
    };
    let fits = match policy {
        Some(ceiling) => Some(count_fits(&releases, ceiling, at_delta)?),
        None => None,
    };
    Ok(Account {
        by_distribution: account::epsilon_by_distribution(&releases, delta),
        by_orders: account::epsilon_by_orders(&releases, delta),
        basic: account::epsilon_basic(&releases, delta),
        releases,
        delta,
        calibrated,
        fits,
    })
}

fn out_of_reach(found: &Calibrated) -> Failure {
    Failure::no_answer(
        format!(
            "--target-epsilon: no {} of at most 1e9 brings the set within epsilon {}; the rest of it costs \
             too much, or too much delta",
            found.field, found.target
        ),
        "raise --target-epsilon or --delta, or ask without the open mechanism what the rest costs",
    )
}

fn count_fits(releases: &[Release], ceiling: Ceiling, at_delta: Delta) -> Result<Fits, Failure> {
    let counts = account::fits(releases, ceiling, at_delta)
        .map_err(|why| Failure::no_answer(format!("--policy: {why}"), "ask for a smaller set, with smaller counts"))?;
    Ok(Fits { ceiling, at_delta, counts })
}

fn policy(text: &str) -> Result<Ceiling, Failure> {
    const EXAMPLE: &str = "--policy 1,1e-6";
    let Some((epsilon, delta)) = text.split_once(',') else {
        let message = format!("--policy must be EPSILON,DELTA, got {}", quoted(text));
        return Err(Failure::usage(message, EXAMPLE));
    };
    Ok(Ceiling {
        epsilon: LOSS_CEILING.read_flag("--policy: epsilon", "", epsilon).map_err(|why| why.helped(EXAMPLE))?,
        delta: DELTA_CEILING.read_flag("--policy: delta", "", delta).map_err(|why| why.helped(EXAMPLE))?,
    })
}

fn at_delta(flags: &AccountArgs) -> Result<Delta, Failure> {
    if let (Some(text), None) = (&flags.at_delta, &flags.policy) {
        return Err(Failure::usage(
            format!("--at-delta {} has a meaning only with --policy", quoted(text)),
            "--policy 1,1e-6 --at-delta 1e-9",
        ));
    }
    STATED_DELTA.read_flag("--at-delta", "1e-9", flags.at_delta.as_deref().unwrap_or("1e-9"))
}

/// The δ to state ε at: as given, otherwise the policy's.
fn stated_delta(flags: &AccountArgs, policy: Option<Ceiling>) -> Result<Delta, Failure> {
    match (&flags.delta, policy) {
        (Some(text), _) => STATED_DELTA.read_flag("--delta", "1e-6", text),
        (None, Some(ceiling)) if ceiling.delta > Delta::ZERO => Ok(ceiling.delta),
        (None, _) => Err(Failure::usage(
            "--delta is missing: epsilon is stated at a delta",
            "--delta 1e-6 (well below one over the number of rows)",
        )),
    }
}
