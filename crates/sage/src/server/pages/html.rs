//! The frame of every page, its small parts, and escaping.

use std::fmt::Write;

use crate::server::call::{Answer, Call};
use crate::server::problem::Problem;

/// A text as it may stand in HTML, also within quotes.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for sign in text.chars() {
        match sign {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Signs that are not shown could hide others.
            sign if sign.is_control() && sign != '\n' && sign != '\t' => out.push('\u{fffd}'),
            sign => out.push(sign),
        }
    }
    out
}

/// A text as one part of an address.
pub(in crate::server) fn part(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            // Writing to a text does not fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

/// Whether a page shows something that changes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Live,
    Still,
}

/// The pages that every page leads to: where they are, which addresses belong to them, and what they are called.
const PLACES: &[(&str, &str, &str)] = &[
    ("/", "/streams", "Streams"),
    ("/runs", "/runs", "Runs"),
    ("/releases", "/releases", "Releases"),
    ("/audit", "/audit", "Audit"),
    ("/simulate", "/simulate", "Simulate"),
];

/// A page. The title is escaped here; the content is HTML.
pub(super) fn page(call: &Call<'_>, life: Life, title: &str, content: &str) -> Answer {
    let (live, told) = match life {
        Life::Live => (" data-live", "<span class=\"live\" role=\"status\"></span>"),
        Life::Still => ("", ""),
    };
    let Some(caller) = &call.caller else { return whole(title, "", live, "", content) };
    let own = |(place, below, _): &(&str, &str, &str)| call.route == *place || call.route.starts_with(below);
    let link = |one: &(&str, &str, &str)| {
        let here = if own(one) { " aria-current=\"page\"" } else { "" };
        format!("<li><a href=\"{}\"{here}>{}</a></li>", one.0, one.2)
    };
    // The log is for those who have a role; others are not led to a refusal.
    let open = |one: &&(&str, &str, &str)| one.0 != "/audit" || call.has_a_role();
    let links: String = PLACES.iter().filter(open).map(link).collect();
    let top = format!(
        "<nav aria-label=\"Pages\"><ul>{links}</ul></nav><form class=\"who\" method=\"post\" action=\"/logout\">{told}\
         {}<span class=\"name\">{}</span><button class=\"quiet\">Log out</button></form>",
        call.form_field(),
        escaped(caller.who.name())
    );
    // What lies below a list leads back to it.
    let above = PLACES.iter().find(|one| own(one) && call.route != one.0);
    let above = above.map_or_else(String::new, |(place, _, name)| {
        format!("<p class=\"above\"><a href=\"{place}\">{name}</a> <span aria-hidden=\"true\">/</span></p>")
    });
    whole(title, &top, live, &above, content)
}

fn whole(title: &str, top: &str, live: &str, above: &str, content: &str) -> Answer {
    let title = escaped(title);
    let text = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title} · Sage</title><meta \
         name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light \
         dark\"><link rel=\"icon\" href=\"/assets/icon.svg\"><link rel=\"stylesheet\" \
         href=\"/assets/style.css\"><script src=\"/assets/script.js\" defer></script></head><body><a class=\"skip\" \
         href=\"#content\">Skip to the content</a><header><div class=\"bar\"><a class=\"home\" \
         href=\"/\">Sage</a>{top}</div></header><main id=\"content\" \
         tabindex=\"-1\"{live}>{above}<h1>{title}</h1>\n{content}\n</main></body></html>\n"
    );
    Answer::of("text/html; charset=utf-8", text)
}

/// What went wrong, as a page.
pub(in crate::server) fn problem(problem: &Problem) -> Answer {
    let title = problem.status.canonical_reason().unwrap_or("Error");
    let content = format!(
        "<p class=\"lead\">{}</p><p><a href=\"/\">Streams</a> · <a href=\"/releases\">What was released</a> · <a \
         href=\"/login\">Log in</a></p>",
        escaped(&problem.detail)
    );
    Answer { status: problem.status, ..whole(title, "", "", "", &content) }
}

/// The head of a column.
#[derive(Clone, Copy)]
pub(super) enum Head {
    Text(&'static str),
    Number(&'static str),
}

/// A table of texts; cells are HTML.
pub(super) fn table(heads: &[&'static str], rows: &[Vec<String>]) -> String {
    let texts: Vec<Head> = heads.iter().map(|head| Head::Text(head)).collect();
    named_table(&heads.join(", "), &texts, rows)
}

/// A table with a name; cells are HTML.
pub(super) fn named_table(name: &str, heads: &[Head], rows: &[Vec<String>]) -> String {
    let mut out = String::with_capacity(200 + rows.len() * 160);
    out += &format!(
        "<div class=\"wide\" role=\"group\" aria-label=\"{}\" tabindex=\"0\"><table><thead><tr>",
        escaped(name)
    );
    for head in heads {
        let (class, text) = match head {
            Head::Text(text) => ("", *text),
            Head::Number(text) => (" class=\"number\"", *text),
        };
        out += &format!("<th scope=\"col\"{class}>{text}</th>");
    }
    out += "</tr></thead><tbody>\n";
    for row in rows {
        out += "<tr>";
        for (cell, head) in row.iter().zip(heads) {
            out += match head {
                Head::Text(_) => "<td>",
                Head::Number(_) => "<td class=\"number\">",
            };
            out += cell;
            out += "</td>";
        }
        out += "</tr>\n";
    }
    out + "</tbody></table></div>"
}

/// Terms and what they are; both are HTML.
pub(super) fn facts(facts: &[(&str, String)]) -> String {
    let one = |(term, text): &(&str, String)| format!("<div><dt>{term}</dt><dd>{text}</dd></div>");
    format!("<dl class=\"facts\">{}</dl>", facts.iter().map(one).collect::<String>())
}

/// Something that most do not look at, folded away.
pub(super) fn folded(summary: &str, content: &str) -> String {
    format!("<details><summary>{summary}</summary>{content}</details>")
}

/// How something stands: a sign and a word in a colour, the word alone being enough.
pub(super) fn badge(kind: &str, sign: &str, word: &str) -> String {
    format!("<span class=\"badge {kind}\"><span aria-hidden=\"true\">{sign}</span> {}</span>", escaped(word))
}

/// A time as the log has it, to the second.
pub(super) fn time(milliseconds: u64) -> String {
    let text = crate::runs::instant(milliseconds);
    format!("<time datetime=\"{text}\">{}</time>", text.trim_end_matches('Z').replace('T', " "))
}

/// A number for a person: four digits that say something.
pub(super) fn short(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return format!("{number}");
    }
    let places = (3 - number.abs().log10().floor() as i32).clamp(0, 12) as usize;
    let text = format!("{number:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_comes_in_is_taken_for_a_tag() {
        assert_eq!(escaped("<b x='1' y=\"2\">&\u{1b}"), "&lt;b x=&#39;1&#39; y=&quot;2&quot;&gt;&amp;\u{fffd}");
        assert_eq!(part("a/b?c d\"é"), "a%2Fb%3Fc%20d%22%C3%A9");
    }

    #[test]
    fn numbers_are_short_and_true() {
        for (number, text) in [
            (0.016_751_9, "0.01675"),
            (0.02, "0.02"),
            (25.456, "25.46"),
            (12_345.6, "12346"),
            (-0.5, "-0.5"),
            (0.0, "0"),
        ] {
            assert_eq!(short(number), text);
        }
    }
}
