//! The results of `sage account`, as JSON and as text.

use std::fmt::Write;

use sage_engine::account::{AccountError, Release};
use sage_engine::{Delta, Epsilon, Rate, Sigma};
use sage_server::format::{parameter, rounded_up};
use serde_json::{Map, Value, json};

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
pub(crate) fn json(account: &Account) -> Value {
    let mut object = Map::new();
    let mut unavailable = Map::new();
    object.insert("neighbours".to_owned(), json!(NEIGHBOURS));
    object.insert("delta".to_owned(), json!(delta_value(account.delta)));
    object.insert("mechanisms".to_owned(), mechanisms_json(account));
    let mut put = |name: String, number: Result<f64, AccountError>| {
        if let Err(why) = number {
            unavailable.insert(name.clone(), json!(why.to_string()));
        }
        object.insert(name, json!(number.ok()));
    };
    put("epsilon_pld".to_owned(), account.by_distribution);
    put("epsilon_rdp".to_owned(), account.by_orders);
    put("epsilon_basic".to_owned(), account.basic);
    if let Some(found) = &account.calibrated {
        put(found.field.to_owned(), found.by_distribution.map(sigma_value));
        put(format!("{}_rdp", found.field), found.by_orders.map(sigma_value));
        object.insert("target_epsilon".to_owned(), json!(epsilon_value(found.target)));
    }
    if let Some(fits) = &account.fits {
        let counts = fits.counts.iter().map(|(rule, count)| (rule.clone(), json!(count)));
        object.insert("fits".to_owned(), Value::Object(counts.collect()));
        let policy = json!({
            "epsilon": epsilon_value(fits.ceiling.epsilon),
            "delta": delta_value(fits.ceiling.delta),
            "at_delta": delta_value(fits.at_delta),
        });
        object.insert("policy".to_owned(), policy);
    }
    if !unavailable.is_empty() {
        object.insert("unavailable".to_owned(), Value::Object(unavailable));
    }
    Value::Object(object)
}

fn mechanisms_json(account: &Account) -> Value {
    let one = |(index, release): (usize, &Release)| {
        let (kind, numbers, (often, times)) = described(release);
        let mut object = Map::new();
        object.insert("kind".to_owned(), json!(kind));
        object.extend(numbers.into_iter().map(|(name, number)| (name.to_owned(), json!(number))));
        object.insert(often.to_owned(), json!(times));
        if let Some(found) = account.calibrated.as_ref().filter(|found| found.index == index) {
            object.insert("calibrated".to_owned(), json!(found.field));
        }
        Value::Object(object)
    };
    account.releases.iter().enumerate().map(one).collect()
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
