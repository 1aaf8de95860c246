//! Streams with their blocks, and the log's head.

use super::html::{Life, escaped, page, part, table};
use super::picture::{heat_map, mark};
use crate::output::{left, loss};
use crate::runs::instant;
use crate::server::call::{Answer, Call};
use crate::server::problem::Problem;

pub(in crate::server) fn list(call: &Call<'_>) -> Result<Answer, Problem> {
    let mut content = String::new();
    let views = call.engine().snapshot()?.streams();
    for view in views.iter().filter(|view| call.sees(&view.name)) {
        let blocks: Vec<String> = view.blocks.iter().map(|(state, count)| format!("{count} {state}")).collect();
        content += &format!(
            "<h2><a href=\"/streams/{}\">{}</a></h2><p>{}.</p><p>Lost so far: ε {} on the block that has lost most. \
             Blocks: {}.</p>",
            part(&view.name),
            escaped(&view.name),
            escaped(&view.promise),
            loss(view.spent),
            blocks.join(", ")
        );
    }
    if content.is_empty() {
        content = "<p>You have no role in a stream. What was released is under <a href=\"/releases\">Releases</a>.</p>"
            .to_owned();
    }
    Ok(page(call, Life::Live, "Streams", &content))
}

pub(in crate::server) fn show(call: &Call<'_>) -> Result<Answer, Problem> {
    let name = call.part("stream");
    let snapshot = call.engine().snapshot()?;
    let missing = || Problem::missing("there is no such stream");
    let (view, blocks) = snapshot.stream(name).zip(snapshot.blocks(name)).ok_or_else(missing)?;
    let row = |block: &sage_engine::BlockView| {
        let [train, test] = &block.lanes;
        vec![
            escaped(&block.key),
            format!("{} {}", mark(block.state), block.state),
            loss(train.spent),
            left(train.left),
            loss(test.spent),
            left(test.left),
        ]
    };
    let rows: Vec<Vec<String>> = blocks.iter().map(row).collect();
    let heads = ["block", "state", "train spent", "train left", "test spent", "test left"];
    let waits = view.proposed_by.as_ref().map_or_else(String::new, |by| {
        format!("<p>A policy proposed by {} waits for another officer.</p>", escaped(by))
    });
    let content = format!(
        "<p>{}.</p>{waits}<h2>Blocks</h2>{}<details><summary>The same as a table</summary>{}</details><h2>Its \
         file</h2><pre>{}</pre>",
        escaped(&view.promise),
        heat_map(name, &blocks),
        table(&heads, &rows),
        escaped(&view.file)
    );
    Ok(page(call, Life::Live, name, &content))
}

/// The head of the log, and what happened last in streams that the caller may see.
pub(in crate::server) fn audit(call: &Call<'_>) -> Result<Answer, Problem> {
    const SHOWN: u64 = 200;
    if !call.has_a_role() {
        return Err(Problem::forbidden("the log is for those who have a role in a stream"));
    }
    let head = call.engine().snapshot()?.head();
    let hash: String = head.hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let events = call.engine().events(head.length.saturating_sub(SHOWN), SHOWN as usize)?;
    let seen = events.iter().rev().filter(|event| event.stream.as_ref().is_none_or(|stream| call.sees(stream)));
    let text = |value: Option<String>| escaped(&value.unwrap_or_default());
    let rows: Vec<Vec<String>> = seen
        .map(|event| {
            let run = event.run.map(|run| run.to_string());
            vec![
                event.number.to_string(),
                instant(event.time),
                event.kind.to_owned(),
                text(event.stream.clone()),
                text(run),
                text(event.release.clone()),
            ]
        })
        .collect();
    let content = format!(
        "<p>The log has {} events, each chained to the one before. Its head is <code>{hash}</code>. Whoever keeps a copy \
         of this can show later that nothing was taken out; <code>sage doctor</code> verifies every event.</p>{}",
        head.length,
        table(&["event", "time", "kind", "stream", "run", "release"], &rows)
    );
    Ok(page(call, Life::Live, "Audit", &content))
}
