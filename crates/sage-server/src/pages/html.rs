//! The frame of every page, and its components: tables, badges, lists of facts.

use crate::call::{Call, Reply};
use crate::format::{escape_html, timestamp};
use crate::problem::Problem;

/// Whether the script refreshes the page when events arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Live,
    Still,
}

/// The navigation: the address of each section, the prefix of its pages, and its name.
const SECTIONS: &[(&str, &str, &str)] = &[
    ("/", "/streams", "Streams"),
    ("/runs", "/runs", "Runs"),
    ("/releases", "/releases", "Releases"),
    ("/audit", "/audit", "Audit"),
    ("/simulate", "/simulate", "Simulate"),
];

/// A page. The title is escaped here; the content is HTML.
pub(super) fn page(call: &Call<'_>, life: Life, title: &str, content: &str) -> Reply {
    let (live, status) = match life {
        Life::Live => (" data-live", "<span class=\"live\" role=\"status\"></span>"),
        Life::Still => ("", ""),
    };
    let Some(caller) = &call.caller else { return whole(title, "", live, "", content) };
    let own = |(address, below, _): &(&str, &str, &str)| call.route == *address || call.route.starts_with(below);
    let link = |one: &(&str, &str, &str)| {
        let here = if own(one) { " aria-current=\"page\"" } else { "" };
        format!("<li><a href=\"{}\"{here}>{}</a></li>", one.0, one.2)
    };
    // Only callers with a role can read the log, so others get no link to it.
    let open = |one: &&(&str, &str, &str)| one.0 != "/audit" || call.has_a_role();
    let links: String = SECTIONS.iter().filter(open).map(link).collect();
    let top = format!(
        "<nav aria-label=\"Pages\"><ul>{links}</ul></nav><form class=\"who\" method=\"post\" action=\"/logout\">{status}\
         {}<span class=\"name\">{}</span><button class=\"quiet\">Log out</button></form>",
        call.form_field(),
        escape_html(caller.who.name())
    );
    // A page below a list links back to it.
    let above = SECTIONS.iter().find(|one| own(one) && call.route != one.0);
    let above = above.map_or_else(String::new, |(address, _, name)| {
        format!("<p class=\"above\"><a href=\"{address}\">{name}</a> <span aria-hidden=\"true\">/</span></p>")
    });
    whole(title, &top, live, &above, content)
}

fn whole(title: &str, top: &str, live: &str, above: &str, content: &str) -> Reply {
    let title = escape_html(title);
    let text = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title} · Sage</title><meta \
         name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light \
         dark\"><link rel=\"icon\" href=\"/assets/icon.svg\"><link rel=\"stylesheet\" \
         href=\"/assets/style.css\"><script src=\"/assets/script.js\" defer></script></head><body><a class=\"skip\" \
         href=\"#content\">Skip to the content</a><header><div class=\"bar\"><a class=\"home\" \
         href=\"/\">Sage</a>{top}</div></header><main id=\"content\" \
         tabindex=\"-1\"{live}>{above}<h1>{title}</h1>\n{content}\n</main></body></html>\n"
    );
    Reply::new("text/html; charset=utf-8", text)
}

/// The page of a problem.
pub(crate) fn problem(problem: &Problem) -> Reply {
    let title = problem.status.canonical_reason().unwrap_or("Error");
    let content = format!(
        "<p class=\"lead\">{}</p><p><a href=\"/\">Streams</a> · <a href=\"/releases\">Releases</a> · <a \
         href=\"/login\">Log in</a></p>",
        escape_html(&problem.detail)
    );
    Reply { status: problem.status, ..whole(title, "", "", "", &content) }
}

/// The heading of a column.
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
        escape_html(name)
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

/// A description list; terms and descriptions are HTML.
pub(super) fn facts(facts: &[(&str, String)]) -> String {
    let one = |(term, text): &(&str, String)| format!("<div><dt>{term}</dt><dd>{text}</dd></div>");
    format!("<dl class=\"facts\">{}</dl>", facts.iter().map(one).collect::<String>())
}

/// Content that is collapsed at first.
pub(super) fn folded(summary: &str, content: &str) -> String {
    format!("<details><summary>{summary}</summary>{content}</details>")
}

/// A status as a coloured symbol and a word. The word alone is enough to understand it.
pub(super) fn badge(kind: &str, sign: &str, word: &str) -> String {
    format!("<span class=\"badge {kind}\"><span aria-hidden=\"true\">{sign}</span> {}</span>", escape_html(word))
}

/// A time of the log, to the second.
pub(super) fn time(milliseconds: u64) -> String {
    let text = timestamp(milliseconds);
    format!("<time datetime=\"{text}\">{}</time>", text.trim_end_matches('Z').replace('T', " "))
}

/// A number with four significant digits.
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
