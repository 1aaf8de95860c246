//! How values are written for people. Losses are rounded up and remaining budgets down, never the other way.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sage_engine::{Epsilon, stream};

/// The unreserved characters of RFC 3986 stay; all others are encoded.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A text as one segment of a path, or one value of a query, percent-encoded.
#[must_use]
pub fn url_segment(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// A text escaped for HTML and XML, also within quotes. Control characters, which could hide other text, are replaced.
#[must_use]
pub fn escape_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other if other.is_control() && other != '\n' && other != '\t' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// User input in quotes, with control characters escaped, shortened to 40 characters.
#[must_use]
pub fn quoted(text: &str) -> String {
    const MOST: usize = 40;
    let short: String = text.chars().take(MOST).collect();
    let more = if text.chars().nth(MOST).is_some() { "..." } else { "" };
    format!("{short:?}{more}")
}

/// A time in milliseconds since 1970 as ISO 8601 text, to the second.
#[must_use]
pub fn timestamp(milliseconds: u64) -> String {
    let seconds = i64::try_from(milliseconds / 1000).unwrap_or(i64::MAX / 1_000_000);
    let text = stream::format_time(seconds.saturating_mul(1_000_000));
    // A date alone is how the first instant of a day is written elsewhere; here it would look like a whole day.
    if text.contains('T') { format!("{text}Z") } else { format!("{text}T00:00:00Z") }
}

/// A number of blocks in words: `1 block`, `24 blocks`.
#[must_use]
pub fn blocks(count: u32) -> String {
    if count == 1 { "1 block".to_owned() } else { format!("{count} blocks") }
}

/// A loss with six significant digits, rounded up: the text is never less than the value.
#[must_use]
pub fn rounded_up(value: f64) -> String {
    if value <= 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = (5 - value.log10().floor() as i32).clamp(0, 15) as usize;
    let nearest = format!("{value:.digits$}");
    // The nearest decimal may be below the value: then the next one up is used.
    let shown = match nearest.parse::<f64>() {
        Ok(read) if read < value => format!("{:.digits$}", value + 0.6 * 10_f64.powi(-(digits as i32))),
        _ => nearest,
    };
    if shown.contains('.') { shown.trim_end_matches('0').trim_end_matches('.').to_owned() } else { shown }
}

/// A loss for people, rounded up. Programs get all its digits.
#[must_use]
pub fn loss(epsilon: Epsilon) -> String {
    rounded_up(epsilon.units() as f64 / 1e12)
}

/// A remaining budget for people: six decimals, rounded down.
#[must_use]
pub fn remaining(epsilon: Epsilon) -> String {
    let millionths = epsilon.units() / 1_000_000;
    let text = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A parameter as a user would write it: plain where that is short, otherwise with an exponent.
#[must_use]
pub fn parameter(value: f64) -> String {
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
            assert_eq!(remaining(Epsilon::from_units(units).expect("a loss")), shown);
        }
    }

    #[test]
    fn a_timestamp_at_midnight_has_its_time() {
        assert_eq!(timestamp(1_767_312_000_000), "2026-01-02T00:00:00Z");
        assert_eq!(timestamp(1_767_312_001_999), "2026-01-02T00:00:01Z");
    }

    #[test]
    fn parameters_are_printed_as_they_are_written() {
        for (value, shown) in [(1e-6, "1e-6"), (0.01, "0.01"), (50.0, "50"), (0.000_204_8, "2.048e-4")] {
            assert_eq!(parameter(value), shown);
        }
    }

    #[test]
    fn no_input_becomes_a_tag_or_leaves_its_path_segment() {
        assert_eq!(escape_html("<b x='1' y=\"2\">&\u{1b}"), "&lt;b x=&#39;1&#39; y=&quot;2&quot;&gt;&amp;\u{fffd}");
        assert_eq!(url_segment("a/b?c d\"é"), "a%2Fb%3Fc%20d%22%C3%A9");
        assert_eq!(url_segment("a b/c@1"), "a%20b%2Fc%401");
    }
}
