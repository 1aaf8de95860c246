//! The frame of every page, and escaping.

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
pub(super) fn part(text: &str) -> String {
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

/// A page. The title is escaped here; the content is HTML.
pub(super) fn page(call: &Call<'_>, life: Life, title: &str, content: &str) -> Answer {
    let who = call.caller.as_ref().map_or_else(String::new, |caller| {
        format!(
            "<form method=\"post\" action=\"/logout\">{} <button>log out</button></form>",
            escaped(caller.who.name())
        )
    });
    let links = "<a href=\"/\">Streams</a> <a href=\"/runs\">Runs</a> <a href=\"/releases\">Releases</a> <a \
                 href=\"/audit\">Audit</a> <a href=\"/simulate\">Simulate</a>";
    let live = if life == Life::Live { " data-live" } else { "" };
    whole(title, &format!("<nav aria-label=\"pages\">{links}{who}</nav>"), live, content)
}

fn whole(title: &str, top: &str, live: &str, content: &str) -> Answer {
    let title = escaped(title);
    let text = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title} · Sage</title><meta \
         name=\"viewport\" content=\"width=device-width, initial-scale=1\"><link rel=\"stylesheet\" \
         href=\"/assets/style.css\"><script src=\"/assets/script.js\" defer></script></head><body><header>{top}\
         </header><main{live}><h1>{title}</h1>\n{content}\n</main></body></html>\n"
    );
    Answer::of("text/html; charset=utf-8", text)
}

/// What went wrong, as a page.
pub(in crate::server) fn problem(problem: &Problem) -> Answer {
    let title = problem.status.canonical_reason().unwrap_or("Error");
    let content = format!("<p>{}</p><p><a href=\"/releases\">What was released</a></p>", escaped(&problem.detail));
    Answer { status: problem.status, ..whole(title, "<nav><a href=\"/\">Sage</a></nav>", "", &content) }
}

/// A table; heads and cells are HTML.
pub(super) fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let head: String = heads.iter().map(|head| format!("<th scope=\"col\">{head}</th>")).collect();
    let line = |cells: &Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let body: String = rows.iter().map(line).collect();
    format!("<div class=\"wide\"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_comes_in_is_taken_for_a_tag() {
        assert_eq!(escaped("<b x='1' y=\"2\">&\u{1b}"), "&lt;b x=&#39;1&#39; y=&quot;2&quot;&gt;&amp;\u{fffd}");
        assert_eq!(part("a/b?c d\"é"), "a%2Fb%3Fc%20d%22%C3%A9");
    }
}
