//! "Did you mean": the known name nearest to a mistyped one.

use sage_engine::{Engine, EngineError, suggest};

use crate::failure::Failure;

/// The nearest known name, if it is near enough to be what was meant.
pub(crate) fn nearest<'name>(typed: &str, known: &[&'name str]) -> Option<&'name str> {
    let mut begun = known.iter().filter(|name| typed.len() >= 2 && name.starts_with(typed));
    if let (Some(name), None) = (begun.next(), begun.next()) {
        return Some(name);
    }
    suggest::nearest(typed, known)
}

/// The failure of a lookup by name, with the most similar name there is.
pub(crate) fn hinted(engine: &Engine, error: EngineError) -> Failure {
    let (typed, known): (&str, Vec<String>) = match &error {
        EngineError::NoStream(name) => {
            let streams = engine.snapshot().map(|snapshot| snapshot.streams()).unwrap_or_default();
            (name, streams.into_iter().map(|stream| stream.name).collect())
        }
        EngineError::NoRelease(name) => {
            let releases = engine.releases().into_iter().map(|release| release.name);
            (name.split('@').next().unwrap_or(name), releases.collect())
        }
        _ => return Failure::from(error),
    };
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    let meant = suggest::nearest(typed, &names).filter(|meant| *meant != typed).map(str::to_owned);
    match (Failure::from(error), meant) {
        (Failure::Engine { message, code }, Some(meant)) => {
            Failure::Engine { message: format!("{message}\n  help  did you mean {meant}?"), code }
        }
        (failure, _) => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_strangers_are_not() {
        let known = ["sigma", "count", "steps", "q"];
        for (typed, meant) in [
            ("sgma", Some("sigma")),
            ("Sigma", Some("sigma")),
            ("coutn", Some("count")),
            ("step", Some("steps")),
            ("p", Some("q")),
            ("sig", Some("sigma")),
            ("temperature", None),
            ("", Some("q")),
        ] {
            assert_eq!(nearest(typed, &known), meant, "{typed:?}");
        }
        assert_eq!(nearest(&"s".repeat(10_000), &known), None);
    }
}
