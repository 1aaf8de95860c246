//! "Did you mean": the known name nearest to a mistyped one.

use sage_engine::suggest;

/// The nearest known name, if it is near enough to be what was meant.
pub(crate) fn nearest<'name>(typed: &str, known: &[&'name str]) -> Option<&'name str> {
    let mut begun = known.iter().filter(|name| typed.len() >= 2 && name.starts_with(typed));
    if let (Some(name), None) = (begun.next(), begun.next()) {
        return Some(name);
    }
    suggest::nearest(typed, known)
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
