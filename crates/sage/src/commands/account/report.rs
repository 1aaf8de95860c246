//! The results of `sage account`, as JSON and as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use sage_engine::account::{AccountError, Release};
use sage_engine::{Delta, Epsilon, Rate, Sigma};
use sage_server::format::{parameter, rounded_up};
use sage_server::views::account::{AccountReport, Calibration, FitReport, Mechanism, MechanismReport, PolicyCeiling};

use crate::commands::account::{Account, Calibrated, Fits};

/// The neighbouring relation of every result.
const NEIGHBOURS: &str = "add/remove one row";

fn epsilon_value(epsilon: Epsilon) -> f64 {
    epsilon.units() as f64 / 1e12
}

fn delta_value(delta: Delta) -> f64 {
    delta.units() as f64 / 1e18
}

fn sigma_value(sigma: Sigma) -> f64 {
    sigma.units() as f64 / 1e9
}

fn rate_value(rate: Rate) -> f64 {
    rate.units() as f64 / 1e12
}

/// A mechanism's name, its numbers, and how often it happens.
fn described(release: &Release) -> (&'static str, Vec<(&'static str, f64)>, (&'static str, u32)) {
    match *release {
        Release::SampledGaussian { rate, sigma, steps } => {
            ("sampled-gaussian", vec![("q", rate_value(rate)), ("sigma", sigma_value(sigma))], ("steps", steps))
        }
        Release::Gaussian { sigma, count } => ("gaussian", vec![("sigma", sigma_value(sigma))], ("count", count)),
        Release::Laplace { scale, count } => ("laplace", vec![("scale", sigma_value(scale))], ("count", count)),
        Release::Pure { epsilon, count } => ("pure", vec![("epsilon", epsilon_value(epsilon))], ("count", count)),
        Release::BlackBox { epsilon, delta, count } => {
            ("black-box", vec![("epsilon", epsilon_value(epsilon)), ("delta", delta_value(delta))], ("count", count))
        }
        Release::Zcdp { rho, count } => ("zcdp", vec![("rho", epsilon_value(rho))], ("count", count)),
    }
}

/// All results as one object. A number that does not exist is `null`, with the reason in `unavailable`.
pub(crate) fn json(account: &Account) -> AccountReport {
    let mut unavailable = BTreeMap::new();
    let mut known = |name: &str, number: Result<f64, AccountError>| {
        if let Err(why) = &number {
            unavailable.insert(name.to_owned(), why.to_string());
        }
        number.ok()
    };
    let [epsilon_pld, epsilon_rdp, epsilon_basic] = [
        known("epsilon_pld", account.by_distribution),
        known("epsilon_rdp", account.by_orders),
        known("epsilon_basic", account.basic),
    ];
    let calibration = account.calibrated.as_ref().map(|found| {
        let by_distribution = known(found.field, found.by_distribution.map(sigma_value));
        let by_orders = known(&format!("{}_rdp", found.field), found.by_orders.map(sigma_value));
        let target_epsilon = epsilon_value(found.target);
        match found.field {
            "scale" => Calibration::Scale { scale: by_distribution, scale_rdp: by_orders, target_epsilon },
            _ => Calibration::Sigma { sigma: by_distribution, sigma_rdp: by_orders, target_epsilon },
        }
    });
    AccountReport {
        neighbours: NEIGHBOURS.to_owned(),
        delta: delta_value(account.delta),
        mechanisms: account.releases.iter().enumerate().map(|one| mechanism(account, one)).collect(),
        epsilon_pld,
        epsilon_rdp,
        epsilon_basic,
        calibration,
        fits: account.fits.as_ref().map(fit_report),
        unavailable,
    }
}

fn fit_report(fits: &Fits) -> FitReport {
    let policy = PolicyCeiling {
        epsilon: epsilon_value(fits.ceiling.epsilon),
        delta: delta_value(fits.ceiling.delta),
        at_delta: delta_value(fits.at_delta),
    };
    FitReport { fits: fits.counts.iter().cloned().collect(), policy }
}

fn mechanism(account: &Account, (index, release): (usize, &Release)) -> MechanismReport {
    let mechanism = match *release {
        Release::SampledGaussian { rate, sigma, steps } => {
            Mechanism::SampledGaussian { q: rate_value(rate), sigma: sigma_value(sigma), steps }
        }
        Release::Gaussian { sigma, count } => Mechanism::Gaussian { sigma: sigma_value(sigma), count },
        Release::Laplace { scale, count } => Mechanism::Laplace { scale: sigma_value(scale), count },
        Release::Pure { epsilon, count } => Mechanism::Pure { epsilon: epsilon_value(epsilon), count },
        Release::BlackBox { epsilon, delta, count } => {
            Mechanism::BlackBox { epsilon: epsilon_value(epsilon), delta: delta_value(delta), count }
        }
        Release::Zcdp { rho, count } => Mechanism::Zcdp { rho: epsilon_value(rho), count },
    };
    let calibrated = account.calibrated.as_ref().filter(|found| found.index == index);
    MechanismReport { mechanism, calibrated: calibrated.map(|found| found.field.to_owned()) }
}

/// All results as text.
pub(crate) fn text(account: &Account) -> String {
    let mut lines = String::new();
    let delta = parameter(delta_value(account.delta));
    if let Some(found) = &account.calibrated {
        calibrated_text(&mut lines, found, &delta);
    }
    lines.push_str("mechanisms\n");
    for release in &account.releases {
        let (kind, numbers, (often, times)) = described(release);
        let numbers: Vec<String> =
            numbers.iter().map(|(name, number)| format!("{name}={}", parameter(*number))).collect();
        line(&mut lines, format_args!("  {kind:<17} {}  {often}={times}", numbers.join("  ")));
    }
    line(&mut lines, format_args!("\nepsilon at delta {delta}"));
    for (name, number, by) in [
        ("pld", account.by_distribution, "distribution of the privacy loss"),
        ("rdp", account.by_orders, "Renyi orders"),
        ("basic", account.basic, "each release alone, added up"),
    ] {
        match number {
            Ok(epsilon) => line(&mut lines, format_args!("  {name:<6} {:<12} {by}", rounded_up(epsilon))),
            Err(why) => line(&mut lines, format_args!("  {name:<6} not available: {why}")),
        }
    }
    if let Some(fits) = &account.fits {
        fits_text(&mut lines, fits);
    }
    let best = [account.by_distribution, account.by_orders, account.basic];
    let best = best.into_iter().flatten().reduce(f64::min);
    lines.push('\n');
    match best {
        Some(epsilon) => line(
            &mut lines,
            format_args!(
                "One row more or less changes the probability of any outcome of all this by at most\n\
                 a factor e^{}, plus {delta}.",
                rounded_up(epsilon)
            ),
        ),
        None => line(&mut lines, format_args!("Nothing can be promised for this set at delta {delta}.")),
    }
    lines
}

fn calibrated_text(lines: &mut String, found: &Calibrated, delta: &str) {
    line(lines, format_args!("{} for epsilon {} at delta {delta}", found.field, found.target));
    for (name, noise) in [("pld", found.by_distribution), ("rdp", found.by_orders)] {
        match noise {
            Ok(noise) => line(lines, format_args!("  {name:<6} {noise}")),
            Err(why) => line(lines, format_args!("  {name:<6} not available: {why}")),
        }
    }
    lines.push('\n');
}

fn fits_text(lines: &mut String, fits: &Fits) {
    let (epsilon, delta) = (fits.ceiling.epsilon, parameter(delta_value(fits.ceiling.delta)));
    line(lines, format_args!("\nhow often all of it fits under epsilon {epsilon}, delta {delta}"));
    for (rule, count) in &fits.counts {
        let note = if rule == "renyi" { "  (the default filter)" } else { "" };
        line(lines, format_args!("  {rule:<11} {count}{note}"));
    }
}

fn line(lines: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _: std::fmt::Result = writeln!(lines, "{text}");
}
