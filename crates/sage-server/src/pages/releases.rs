//! The pages of releases: their lineage, their cost, and a form to try each of them.

use sage_engine::ReleaseView;
use sage_engine::release::{Kind, Receipt};
use sage_engine::run::{Interval, ReleasedStatistic};
use sage_engine::serve::{Column, Domain, Missing, allowed, parse_text_cell};

use super::html::{Head, Life, badge, facts, folded, named_table, page, short};
use super::picture::{Line, intervals};
use crate::call::{Call, Reply};
use crate::format::{escape_html, url_segment};
use crate::problem::Problem;
use crate::views::releases::{ReleaseKind, file_text, full_name};

pub(crate) fn list(call: &Call<'_>) -> Result<Reply, Problem> {
    let releases = call.releases();
    if releases.is_empty() {
        return Ok(page(call, Life::Live, "Releases", "<p class=\"lead\">Nothing is released yet.</p>"));
    }
    let content = format!(
        "<p class=\"lead\">Every release was charged before it was published. Reading it and predicting with it cost \
         no further budget.</p>{}{}",
        section("Models", Kind::Model, &releases),
        section("Features", Kind::Statistic, &releases)
    );
    Ok(page(call, Life::Live, "Releases", &content))
}

fn section(title: &str, kind: Kind, releases: &[ReleaseView]) -> String {
    let row = |release: &ReleaseView| {
        let state = match &release.withdrawn {
            Some(reason) => format!("{} {}", badge("off", "–", "withdrawn"), escape_html(reason)),
            None => badges(release),
        };
        let name = match release.withdrawn {
            Some(_) => escape_html(&full_name(release)),
            None => format!("<a href=\"{}\">{}</a>", address(release), escape_html(&full_name(release))),
        };
        vec![name, escape_html(&release.stream), release.run.to_string(), state]
    };
    // The newest version of each name first.
    let mut own: Vec<&ReleaseView> = releases.iter().filter(|release| release.kind == kind).collect();
    own.sort_by(|one, two| one.name.cmp(&two.name).then(two.version.cmp(&one.version)));
    if own.is_empty() {
        return format!("<h2>{title}</h2><p>None yet.</p>");
    }
    let rows: Vec<Vec<String>> = own.into_iter().map(row).collect();
    let heads = [Head::Text("release"), Head::Text("stream"), Head::Number("run"), Head::Text("aliases and state")];
    format!("<h2>{title}</h2>{}", named_table(title, &heads, &rows))
}

/// The aliases of a release, and its alarm.
fn badges(release: &ReleaseView) -> String {
    let alarm = release.failing.map(|run| {
        let text = format!("did not pass the test of <a href=\"/runs/{run}\">run {run}</a>");
        format!("{} {text}", badge("bad", "!", "alarm"))
    });
    let aliases = release.aliases.iter().map(|alias| badge("good", "★", alias));
    aliases.chain(alarm).collect::<Vec<_>>().join(" ")
}

/// The address of a release's page.
fn address(release: &ReleaseView) -> String {
    format!("/releases/{}/{}", url_segment(&release.name), release.version)
}

pub(crate) fn show(call: &Call<'_>) -> Result<Reply, Problem> {
    render(call, &[], "")
}

/// The page of a release, with the values in its form and their result.
fn render(call: &Call<'_>, given: &[(String, String)], answer: &str) -> Result<Reply, Problem> {
    let release = call.release()?;
    let files = call.engine().release_files(&release)?;
    let receipt = file_text(&files, "receipt.json");
    let what = match release.kind {
        Kind::Model => format!(
            "{}{}",
            form(
                call,
                &release,
                &call.engine().predictor(&release)?.columns().iter().map(field_of(given)).collect::<String>(),
                answer
            ),
            folded("The model card", &format!("<pre>{}</pre>", escape_html(&file_text(&files, "README.md"))))
        ),
        Kind::Statistic => {
            let published = call.engine().statistic(&release)?;
            format!("{}{}", statistic(&published), form(call, &release, &keys(&published, given), answer))
        }
    };
    let link = |file: &String| {
        let path: Vec<String> = file.split('/').map(url_segment).collect();
        format!("<li><a href=\"/v1{}/files/{}\">{}</a></li>", address(&release), path.join("/"), escape_html(file))
    };
    let list: String = files.iter().map(|(file, _)| link(file)).collect();
    let names = badges(&release);
    let content = format!(
        "<p class=\"lead\">A {} of stream {}. {names}</p>{}{what}{}{}<p class=\"hint\">Digest of its files: <code \
         class=\"long\">{}</code></p>",
        ReleaseKind::from(release.kind).word(),
        escape_html(&release.stream),
        lineage(call, &release, &receipt),
        folded("The receipt", &format!("<pre>{}</pre>", escape_html(&receipt))),
        folded("Its files", &format!("<ul>{list}</ul>")),
        escape_html(&release.digest)
    );
    Ok(page(call, Life::Still, &full_name(&release), &content))
}

/// The blocks, the run and the charge behind a release.
fn lineage(call: &Call<'_>, release: &ReleaseView, receipt: &str) -> String {
    let Ok(receipt) = serde_json::from_str::<Receipt>(receipt) else { return String::new() };
    // The receipt is public; the pages of the stream and the run need a role on the stream.
    let linked = |address: String, text: String| match call.sees(&release.stream) {
        true => format!("<a href=\"{address}\">{text}</a>"),
        false => text,
    };
    let ranges = match receipt.blocks.split_at_checked(3) {
        Some((shown, more @ [_, ..])) => format!("{} and {} others", shown.join(", "), more.len()),
        _ => receipt.blocks.join(", "),
    };
    let before = match receipt.attempts.saturating_sub(1) {
        0 => "the first attempt".to_owned(),
        1 => "after 1 earlier attempt".to_owned(),
        more => format!("after {more} earlier attempts"),
    };
    let [train, test] = &receipt.epsilon;
    let mut about = vec![
        (
            "Cost",
            format!(
                "ε {} on the train lane, {} on the test lane, δ {}",
                escape_html(train),
                escape_html(test),
                escape_html(&receipt.delta)
            ),
        ),
        ("Privacy unit", escape_html(&receipt.unit)),
        ("Filter", escape_html(&receipt.filter)),
        ("Access mode", escape_html(&receipt.access_mode)),
    ];
    if let (Some(validator), Some(target), Some(confidence)) =
        (&receipt.validator, &receipt.target, &receipt.confidence)
    {
        let text = format!("{validator} {target}, with confidence {confidence}");
        about.push(("Tested by", escape_html(&text)));
    }
    if let Some(constant) = &receipt.best_constant {
        about.extend(receipt.estimate.map(|found| ("The model", found.to_string())));
        about.push(("The best constant prediction", constant.to_string()));
    }
    format!(
        "<h2>Where it comes from</h2><ol class=\"lineage\"><li><strong>Blocks</strong> of {}<br>{}</li>\
         <li><strong>{}</strong>, submitted by {}<br>{before}</li><li><strong>{}</strong><br>charge {} of the \
         log</li></ol>{}",
        linked(format!("/streams/{}", url_segment(&release.stream)), escape_html(&release.stream)),
        escape_html(&ranges),
        linked(format!("/runs/{}", release.run), format!("Run {}", release.run)),
        escape_html(&receipt.by),
        escape_html(&full_name(release)),
        receipt.charge,
        facts(&about)
    )
}

/// The lines of a statistic, drawn and as a table.
fn statistic(published: &ReleasedStatistic) -> String {
    const DRAWN: usize = 60;
    let key = |line: &sage_engine::run::Line| line.key.clone().unwrap_or_else(|| "all".to_owned());
    let lines: Vec<Line> = published
        .lines
        .iter()
        .take(DRAWN)
        .map(|line| Line {
            name: key(line),
            kind: "plain",
            found: Interval { value: line.value, low: line.low, high: line.high },
        })
        .collect();
    let number = |number: Option<f64>| number.map_or_else(|| "–".to_owned(), short);
    let row = |line: &sage_engine::run::Line| {
        vec![escape_html(&key(line)), number(line.low), number(line.value), number(line.high)]
    };
    let rows: Vec<Vec<String>> = published.lines.iter().map(row).collect();
    let heads = [Head::Text("key"), Head::Number("at least"), Head::Number("value"), Head::Number("at most")];
    format!(
        "<h2>Values</h2><p>{}; all intervals hold together with a confidence of {} %.</p>{}{}",
        escape_html(&published.statistic),
        short(100.0 * published.confidence),
        intervals("The lines of the statistic", &lines, None),
        folded("The same as a table", &named_table("The lines of the statistic", &heads, &rows))
    )
}

fn form(call: &Call<'_>, release: &ReleaseView, fields: &str, answer: &str) -> String {
    format!(
        "<h2 id=\"try\">Try it</h2><form class=\"card\" method=\"post\" action=\"{}#try\">{}<div \
         class=\"fields\">{fields}</div><button>Show the result</button>{answer}</form>",
        address(release),
        call.form_field()
    )
}

/// A list of options, with the given one selected.
fn choice(id: &str, options: &[&str], given: &str) -> String {
    let option = |text: &&str| {
        let chosen = if *text == given { " selected" } else { "" };
        format!("<option{chosen}>{}</option>", escape_html(text))
    };
    let name = escape_html(id);
    format!("<select id=\"field-{name}\" name=\"{name}\">{}</select>", options.iter().map(option).collect::<String>())
}

/// The form field of a column, filled with the given value.
fn field_of(given: &[(String, String)]) -> impl Fn(&Column) -> String {
    move |column: &Column| {
        let (name, hint) = (escape_html(&column.name), escape_html(&allowed(column)));
        let value = given.iter().find(|(name, _)| *name == column.name).map_or("", |(_, text)| text.as_str());
        let empty = if column.missing == Missing::Possible { vec![""] } else { vec![] };
        let field = match &column.domain {
            Domain::Text { categories } if categories.len() <= 100 => {
                let options: Vec<&str> = empty.into_iter().chain(categories.iter().map(String::as_str)).collect();
                choice(&column.name, &options, value)
            }
            Domain::Truth => choice(&column.name, &[empty, vec!["true", "false"]].concat(), value),
            domain => {
                let (keys, example) = match domain {
                    Domain::Number { .. } => (" inputmode=\"decimal\"", ""),
                    Domain::Whole { .. } => (" inputmode=\"numeric\"", ""),
                    Domain::Time { .. } => ("", " placeholder=\"2026-11-01T08:15:00\""),
                    _ => ("", ""),
                };
                let needed = if column.missing == Missing::Never { " required" } else { "" };
                format!(
                    "<input id=\"field-{name}\" name=\"{name}\" value=\"{}\" autocomplete=\"off\" \
                     aria-describedby=\"hint-{name}\"{keys}{example}{needed}>",
                    escape_html(value)
                )
            }
        };
        format!(
            "<div><label for=\"field-{name}\">{name}</label>{field}<p class=\"hint\" \
             id=\"hint-{name}\">{hint}</p></div>"
        )
    }
}

/// The form field that selects a line of a statistic.
fn keys(published: &ReleasedStatistic, given: &[(String, String)]) -> String {
    let names: Vec<&str> = published.lines.iter().map(|line| line.key.as_deref().unwrap_or("all")).collect();
    let value = given.iter().find(|(name, _)| name == "key").map_or("", |(_, text)| text.as_str());
    format!("<div><label for=\"field-key\">key</label>{}</div>", choice("key", &names, value))
}

/// The page with the result of its form.
pub(crate) fn try_out(call: &Call<'_>) -> Result<Reply, Problem> {
    let release = call.release()?;
    let given: Vec<(String, String)> = url::form_urlencoded::parse(&call.body).into_owned().collect();
    let found = match release.kind {
        Kind::Model => predicted(call, &release, &given)?,
        Kind::Statistic => looked_up(&call.engine().statistic(&release)?, &given),
    };
    let answer = match found {
        Ok(text) => format!("<p class=\"notice good\" role=\"status\">{text}</p>"),
        Err(why) => format!("<p class=\"notice bad\" role=\"alert\">{}</p>", escape_html(&why)),
    };
    render(call, &given, &answer)
}

/// The prediction for a row, or why there is none.
fn predicted(
    call: &Call<'_>, release: &ReleaseView, given: &[(String, String)],
) -> Result<Result<String, String>, Problem> {
    let predictor = call.engine().predictor(release)?;
    let cell = |column: &Column| {
        let text = given.iter().find(|(name, _)| *name == column.name).map(|(_, text)| text.as_str());
        parse_text_cell(column, text).map_err(|why| format!("{}: {why}", column.name))
    };
    let row: Result<Vec<_>, String> = predictor.columns().iter().map(cell).collect();
    let row = match row {
        Ok(row) => row,
        Err(why) => return Ok(Err(why)),
    };
    if predictor.leaves_out(&row) {
        let why = "no prediction: a value is missing, and the model has no rule for that; fill it in";
        return Ok(Err(why.to_owned()));
    }
    let found = predictor.rows(&[row]).map_err(sage_engine::EngineError::from)?;
    let numbers: Vec<String> = found.iter().map(f32::to_string).collect();
    Ok(Ok(format!("The prediction is <strong>{}</strong>.", numbers.join(", "))))
}

/// The value of a statistic for a key, or why there is none.
fn looked_up(published: &ReleasedStatistic, given: &[(String, String)]) -> Result<String, String> {
    let key = given.iter().find(|(name, _)| name == "key").map_or("", |(_, text)| text.as_str());
    let line = published.lines.iter().find(|line| line.key.as_deref().unwrap_or("all") == key);
    let line = line.ok_or_else(|| "there is no such key".to_owned())?;
    let number = |number: Option<f64>, none: &str| number.map_or_else(|| none.to_owned(), short);
    Ok(format!(
        "<strong>{}</strong>, at least {} and at most {}.",
        number(line.value, "No value that can be distinguished from the noise"),
        number(line.low, "unknown"),
        number(line.high, "unknown")
    ))
}
