//! How answers look: JSON on one hand, aligned text on the other, and numbers that never flatter.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use sage_engine::Epsilon;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::runs::instant;
use crate::work::now;

/// Writes text to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes one JSON object to standard output.
pub(crate) fn print_json(value: &Value) -> Result<(), Failure> {
    print(&format!("{value:#}\n"))
}

/// How the program talks on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Sentences for a person
    Text,
    /// A JSON object on each line
    Json,
}

/// Whether lines of talk are JSON. One for the process, as its standard error is.
static AS_JSON: AtomicBool = AtomicBool::new(false);

/// From now on the program talks like this.
pub(crate) fn talk(format: LogFormat) {
    AS_JSON.store(format == LogFormat::Json, Ordering::Relaxed);
}

/// Whether lines of talk are read by a program.
pub(crate) fn talks_json() -> bool {
    AS_JSON.load(Ordering::Relaxed)
}

/// Says something on standard error, beside the answer.
pub(crate) fn tell(text: &str) {
    if talks_json() {
        return tell_fields("talk", json!({"message": text}));
    }
    // There is nobody left to tell if this fails.
    drop(writeln!(io::stderr(), "{text}"));
}

/// Says something on standard error as one JSON object, with the time and what kind of thing it is.
pub(crate) fn tell_fields(event: &str, mut fields: Value) {
    fields["event"] = json!(event);
    fields["time"] = json!(instant(now()));
    drop(writeln!(io::stderr(), "{fields}"));
}

/// So many blocks, in words.
pub(crate) fn blocks(count: u32) -> String {
    if count == 1 { "1 block".to_owned() } else { format!("{count} blocks") }
}

/// A loss with six significant digits, rounded up: what is printed is never less than what was computed.
pub(crate) fn rounded_up(value: f64) -> String {
    if value <= 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let places = (5 - value.log10().floor() as i32).clamp(0, 15) as usize;
    let nearest = format!("{value:.places$}");
    // The nearest decimal may be below: then the next one up is meant.
    let shown = match nearest.parse::<f64>() {
        Ok(read) if read < value => format!("{:.places$}", value + 0.6 * 10_f64.powi(-(places as i32))),
        _ => nearest,
    };
    if shown.contains('.') { shown.trim_end_matches('0').trim_end_matches('.').to_owned() } else { shown }
}

/// A loss for a person, rounded up. Where programs read it, all its digits are given.
pub(crate) fn loss(epsilon: Epsilon) -> String {
    rounded_up(epsilon.units() as f64 / 1e12)
}

/// What is left of a loss for a person: six decimals, rounded down.
pub(crate) fn left(epsilon: Epsilon) -> String {
    let millionths = epsilon.units() / 1_000_000;
    let text = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A parameter as the user would write it: plain where that is short, otherwise with an exponent.
pub(crate) fn parameter(value: f64) -> String {
    if value == 0.0 || (1e-3..1e15).contains(&value) { format!("{value}") } else { format!("{value:e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_loss_is_never_below_the_computed_one() {
        for (value, shown) in [
            (0.126_543_21, "0.126544"),
            (2.0, "2"),
            (1.999_999_9, "2"),
            (123_456.123, "123457"),
            (1e-9, "0.000000001"),
            (1.000_001, "1.00001"),
        ] {
            assert_eq!(rounded_up(value), shown);
        }
        let mut value = 1.0e-9;
        while value < 1.0e12 {
            let read: f64 = rounded_up(value).parse().expect("a number");
            assert!(read >= value && read <= value * 1.000_02, "{value} was shown as {read}");
            value *= 1.037;
        }
    }

    #[test]
    fn what_is_left_is_never_shown_as_more() {
        for (units, shown) in [(785_151_858_161, "0.785151"), (1_000_000_000_000, "1"), (0, "0"), (999_999, "0")] {
            assert_eq!(left(Epsilon::from_units(units).expect("a loss")), shown);
        }
    }

    #[test]
    fn parameters_are_printed_as_they_are_written() {
        for (value, shown) in [(1e-6, "1e-6"), (0.01, "0.01"), (50.0, "50"), (0.000_204_8, "2.048e-4")] {
            assert_eq!(parameter(value), shown);
        }
    }
}
