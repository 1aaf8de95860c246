//! What was released, with its card, what it cost, and a form to try it.

use sage_engine::ReleaseView;
use sage_engine::release::Kind;
use sage_engine::serve::{allowed, cell_of_text};
use serde_json::Value;

use super::html::{Life, escaped, page, part, table};
use crate::models::{full, object, text_of, word};
use crate::server::call::{Answer, Call};
use crate::server::problem::Problem;

pub(in crate::server) fn list(call: &Call<'_>) -> Result<Answer, Problem> {
    let row = |release: &ReleaseView| {
        let state = match &release.withdrawn {
            Some(reason) => format!("withdrawn: {}", escaped(reason)),
            None => escaped(&release.aliases.join(", ")),
        };
        let link = format!(
            "<a href=\"/releases/{}/{}\">{}</a>",
            part(&release.name),
            release.version,
            escaped(&full(release))
        );
        vec![link, word(release.kind).to_owned(), escaped(&release.stream), state]
    };
    let rows: Vec<Vec<String>> = call.releases().iter().map(row).collect();
    let content = match rows.is_empty() {
        true => "<p>Nothing is released yet.</p>".to_owned(),
        false => table(&["release", "kind", "stream", "also called"], &rows),
    };
    Ok(page(call, Life::Live, "Releases", &content))
}

pub(in crate::server) fn show(call: &Call<'_>) -> Result<Answer, Problem> {
    shown(call, "")
}

fn shown(call: &Call<'_>, answer: &str) -> Result<Answer, Problem> {
    let release = call.release()?;
    let files = call.engine().release_files(&release)?;
    let (name, version) = (part(&release.name), release.version);
    let what = match release.kind {
        Kind::Model => format!(
            "{}{answer}<h2>Card</h2><pre>{}</pre>",
            form(call, &release)?,
            escaped(&text_of(&files, "README.md"))
        ),
        Kind::Statistic => lines(&object(call.engine(), &release)?),
    };
    let link = |file: &String| {
        let path: Vec<String> = file.split('/').map(part).collect();
        format!("<li><a href=\"/v1/releases/{name}/{version}/files/{}\">{}</a></li>", path.join("/"), escaped(file))
    };
    let list: String = files.iter().map(|(file, _)| link(file)).collect();
    let content = format!(
        "<p>{} of stream {}, digest <code>{}</code></p>{what}<h2>What it cost</h2><pre>{}</pre><h2>Files</h2><ul>{list}</ul>",
        word(release.kind),
        escaped(&release.stream),
        escaped(&release.digest),
        escaped(&text_of(&files, "receipt.json"))
    );
    Ok(page(call, Life::Still, &full(&release), &content))
}

fn lines(object: &Value) -> String {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let lines = object["statistic"]["lines"].as_array().into_iter().flatten();
    let row = |line: &Value| ["key", "low", "value", "high"].iter().map(|name| escaped(&text(&line[*name]))).collect();
    let rows: Vec<Vec<String>> = lines.map(row).collect();
    table(&["key", "at least", "value", "at most"], &rows)
}

/// A field for each column that the model needs.
fn form(call: &Call<'_>, release: &ReleaseView) -> Result<String, Problem> {
    let predictor = call.engine().predictor(release)?;
    let field = |column: &sage_engine::serve::Column| {
        format!(
            "<label>{} <span class=\"hint\">{}</span><br><input name=\"{0}\"></label>",
            escaped(&column.name),
            escaped(&allowed(column))
        )
    };
    let fields: String = predictor.columns().iter().map(field).collect();
    let (name, version) = (part(&release.name), release.version);
    Ok(format!(
        "<h2>Try it</h2><form method=\"post\" action=\"/releases/{name}/{version}\">{fields}<button>predict</button></form>"
    ))
}

/// The answer of the model to what was filled in.
pub(in crate::server) fn try_out(call: &Call<'_>) -> Result<Answer, Problem> {
    let predictor = call.engine().predictor(&call.release()?)?;
    let given: Vec<(String, String)> = url::form_urlencoded::parse(&call.body).into_owned().collect();
    let cell = |column: &sage_engine::serve::Column| {
        let text = given.iter().find(|(name, _)| *name == column.name).map(|(_, text)| text.as_str());
        cell_of_text(column, text).map_err(|why| format!("{}: {why}", column.name))
    };
    let row: Result<Vec<_>, String> = predictor.columns().iter().map(cell).collect();
    let answer = match row {
        Err(why) => format!("<p role=\"status\">{}</p>", escaped(&why)),
        Ok(row) => {
            let found = predictor.rows(&[row]).map_err(sage_engine::EngineError::from)?;
            let numbers: Vec<String> = found.iter().map(f32::to_string).collect();
            format!("<p role=\"status\">The prediction is <strong>{}</strong>.</p>", numbers.join(", "))
        }
    };
    shown(call, &answer)
}
