//! The pages of streams and blocks: the guarantee, the loss so far, and the budget of every block.

use sage_engine::{BlockView, Epsilon, Lane, Snapshot, State, StreamView};

use super::html::{Head, Life, facts, folded, named_table, page};
use super::map::{LEGEND, Layout, Map, Shown, mark};
use super::picture::stacked;
use crate::call::{Call, Reply};
use crate::difference::changed_lines;
use crate::format::{escape_html, loss, remaining, url_segment};
use crate::problem::Problem;

/// The guarantee of a stream as a sentence.
fn promise(view: &StreamView) -> String {
    let mut text = view.promise.chars();
    let first: String = text.next().into_iter().flat_map(char::to_uppercase).collect();
    // The exponent becomes a superscript.
    let rest = match text.as_str().split_once("e^") {
        Some((before, after)) => {
            let (power, after) = after.split_once(',').unwrap_or((after, ""));
            format!("{}e<sup>{}</sup>,{}", escape_html(before), escape_html(power), escape_html(after))
        }
        None => escape_html(text.as_str()),
    };
    format!("<p class=\"lead promise\">{}{rest}.</p>", escape_html(&first))
}

/// The largest loss of any block, and its limit.
fn lost(view: &StreamView, blocks: &[BlockView]) -> String {
    let lanes = blocks.iter().flat_map(|block| &block.lanes);
    let most = lanes.map(|lane| lane.spent.units() + lane.left.units()).max().and_then(Epsilon::from_units);
    let ceiling = most.map_or_else(String::new, |most| format!(" of {}", loss(most)));
    format!("ε {}{ceiling}", loss(view.spent))
}

/// The number of blocks in each state.
fn states(view: &StreamView) -> String {
    let kinds: Vec<String> = view
        .blocks
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(state, count)| format!("{count}&nbsp;{state}"))
        .collect();
    if kinds.is_empty() { "none yet".to_owned() } else { kinds.join(", ") }
}

/// The blocks, each with the budget that is set aside on it.
fn shown<'block>(call: &Call<'_>, name: &str, blocks: &'block [BlockView]) -> Result<Vec<Shown<'block>>, Problem> {
    let aside = call.engine().set_aside(name)?;
    let aside = aside.into_iter().chain(std::iter::repeat([0; 2]));
    Ok(blocks.iter().zip(aside).map(|(block, set_aside)| Shown { block, set_aside }).collect())
}

/// The mean budget that is spent, set aside and left on readable blocks, for each lane.
fn lanes(blocks: &[Shown<'_>]) -> String {
    let readable: Vec<&Shown<'_>> =
        blocks.iter().filter(|shown| matches!(shown.block.state, State::Open | State::Sealed)).collect();
    let Ok(count @ 1..) = u64::try_from(readable.len()) else { return String::new() };
    let mean = |lane: Lane| {
        let sum = readable
            .iter()
            .map(|shown| shown.shares(lane))
            .fold((0, 0), |(spent, aside), (one, other)| (spent + u64::from(one), aside + u64::from(other)));
        // The mean of thousandths is at most a thousand.
        (sum.0.div_ceil(count) as u32, (sum.1 / count) as u32)
    };
    Lane::BOTH
        .map(|lane| {
            let (spent, aside) = mean(lane);
            stacked(&format!("Budget of the {lane} lane, mean of all open and sealed blocks"), spent, aside)
        })
        .concat()
}

pub(crate) fn list(call: &Call<'_>) -> Result<Reply, Problem> {
    let mut content = String::new();
    let snapshot = call.engine().snapshot()?;
    let (runs, releases) = (call.engine().runs(), call.engine().releases());
    for view in snapshot.streams().iter().filter(|view| call.sees(&view.name)) {
        let blocks = snapshot.blocks(&view.name).unwrap_or_default();
        let own = runs.iter().filter(|run| run.stream == view.name);
        let active = own.filter(|run| run.outcome().is_none()).count();
        let released = releases.iter().filter(|release| release.stream == view.name).count();
        content += &format!(
            "<article class=\"card\"><h2><a href=\"/streams/{}\">{}</a></h2>{}{}{}</article>",
            url_segment(&view.name),
            escape_html(&view.name),
            promise(view),
            facts(&[
                ("Lost so far", lost(view, &blocks)),
                ("Blocks", states(view)),
                ("Active runs", active.to_string()),
                ("Releases", released.to_string()),
            ]),
            lanes(&shown(call, &view.name, &blocks)?)
        );
    }
    if content.is_empty() {
        content = "<p class=\"lead\">You have no role on any stream.</p><p>Everybody with a token can use the \
                   <a href=\"/releases\">releases</a>. An officer assigns roles in the stream file.</p>"
            .to_owned();
    }
    content.insert_str(0, HATCH);
    Ok(page(call, Life::Live, "Streams", &content))
}

pub(crate) fn show(call: &Call<'_>) -> Result<Reply, Problem> {
    let name = call.part("stream");
    let snapshot = call.engine().snapshot()?;
    let missing = || Problem::missing("there is no such stream");
    let (view, blocks) = snapshot.stream_with_blocks(name).ok_or_else(missing)?;
    let shown = shown(call, name, &blocks)?;
    let waits = proposal(&view) + &suspended(&view);
    let about = facts(&[
        ("Privacy unit", escape_html(view.unit)),
        ("Largest loss of a block", lost(&view, &blocks)),
        ("Blocks", states(&view)),
    ]);
    let counted = census(&snapshot, name);
    let content = format!(
        "{}{waits}{about}{counted}<h2>Blocks</h2>{}{}<h2>Policy</h2><p>The stream file declares the roles, the columns and \
         the guarantee of the stream. A change that weakens the guarantee needs two officers.</p>{}",
        promise(&view),
        lanes(&shown),
        pictures(call, name, &shown)?,
        folded("The stream file", &format!("<pre>{}</pre>", escape_html(&view.file)))
    );
    Ok(page(call, Life::Live, name, &content))
}

/// The proposal that waits for another officer: its changed lines and the digest that approves it.
fn proposal(view: &StreamView) -> String {
    let Some(proposal) = &view.proposal else { return String::new() };
    let lines = changed_lines(&view.file, &proposal.text);
    format!(
        "<p class=\"notice wait\">A stream file proposed by {} waits for the approval of another officer. Approve it by its digest: <code>sage \
         stream approve {} --digest {}</code></p>{}",
        escape_html(&proposal.by),
        escape_html(&view.name),
        escape_html(&proposal.digest),
        folded(
            "What would change: lines with - are in force, lines with + would replace them",
            &format!("<pre>{}</pre>", escape_html(&lines))
        )
    )
}

/// The counts of the census; empty if the stream has none.
fn census(snapshot: &Snapshot, name: &str) -> String {
    let Some(census) = snapshot.census(name) else { return String::new() };
    let total = match census.total {
        None => "No sealed block is counted yet.".to_owned(),
        Some(total) => format!(
            "About {} in all sealed blocks, at least {} (the bounds of this census hold with confidence {}).",
            total.estimate,
            total.at_least,
            1.0 - total.chance
        ),
    };
    let rows: Vec<Vec<String>> = census
        .counts
        .iter()
        .map(|count| {
            let [train, test] = count.lanes;
            vec![escape_html(&count.first), escape_html(&count.last), train.to_string(), test.to_string()]
        })
        .collect();
    let heads = [Head::Text("first block"), Head::Text("last block"), Head::Number("train"), Head::Number("test")];
    let table = match rows.is_empty() {
        true => String::new(),
        false => folded("Every released count", &named_table("Counts of the census", &heads, &rows)),
    };
    format!(
        "<h2>Census</h2><p>Private counts of {}, at ε {} on each lane. {total}</p>{table}",
        escape_html(census.unit),
        census.epsilon
    )
}

/// The members whose roles are suspended.
fn suspended(view: &StreamView) -> String {
    let line =
        |(member, reason): &(String, String)| format!("<li>{}: {}</li>", escape_html(member), escape_html(reason));
    match view.suspended.is_empty() {
        true => String::new(),
        false => format!("<h2>Suspended members</h2><ul>{}</ul>", view.suspended.iter().map(line).collect::<String>()),
    }
}

/// The map of both lanes, and a table with the same content.
fn pictures(call: &Call<'_>, name: &str, blocks: &[Shown<'_>]) -> Result<String, Problem> {
    if blocks.is_empty() {
        return Ok("<p>There are no blocks yet; ingesting rows creates them.</p>".to_owned());
    }
    let layout = Layout::of(blocks);
    let map = Map::new(&layout);
    let maps: String = Lane::BOTH.map(|lane| map.picture(name, lane, blocks)).concat();
    Ok(format!(
        "{HATCH}<div class=\"maps\">{maps}</div><p class=\"chosen\" role=\"status\"></p>{LEGEND}{}",
        blocks_table(call, name, blocks)?
    ))
}

/// The fill pattern of set-aside budget, for all maps of a page.
const HATCH: &str = "<svg class=\"patterns\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs><pattern id=\"hatch\" \
                     width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect \
                     class=\"stripe\" width=\"1.2\" height=\"5\"/></pattern></defs></svg>";

/// The number of blocks on one page of the table.
const AT_A_TIME: usize = 200;

/// One page of the blocks as a table: the newest, unless the query has `after`.
fn blocks_table(call: &Call<'_>, name: &str, blocks: &[Shown<'_>]) -> Result<String, Problem> {
    let newest = blocks.len().saturating_sub(AT_A_TIME);
    let after = call.query_value("after").map(|text| text.parse::<usize>());
    let from = match after.clone() {
        None => newest,
        Some(number) => number.map_err(|_| Problem::wrong("after must be a whole number"))?.min(newest),
    };
    let to = (from + AT_A_TIME).min(blocks.len());
    let rows: Vec<Vec<String>> = blocks[from..to].iter().map(|shown| row(name, shown)).collect();
    let heads = [
        Head::Text("block"),
        Head::Text("state"),
        Head::Number("train spent"),
        Head::Number("not spent"),
        Head::Number("of that set aside"),
        Head::Number("test spent"),
        Head::Number("not spent"),
        Head::Number("of that set aside"),
    ];
    let link =
        |from: usize, text: &str| format!("<a href=\"/streams/{}?after={from}#table\">{text}</a>", url_segment(name));
    let mut links = Vec::new();
    if from > 0 {
        links.push(link(from.saturating_sub(AT_A_TIME), "older blocks"));
    }
    if to < blocks.len() {
        links.push(link(to, "newer blocks"));
    }
    let which = format!("Blocks {} to {to} of {}", from + 1, blocks.len());
    let open = if after.is_some() { " open" } else { "" };
    Ok(format!(
        "<details id=\"table\"{open}><summary>The same as a table</summary><p>{which}, in order of arrival. ε is stated at the δ \
         of the policy. Budget that is set aside is a share of what is not spent. {}</p>{}</details>",
        links.join(" · "),
        named_table(&which, &heads, &rows)
    ))
}

fn row(stream: &str, shown: &Shown<'_>) -> Vec<String> {
    let block = shown.block;
    let percent = |thousandths: u16| format!("{} %", f64::from(thousandths) / 10.0);
    let mut row = vec![
        format!("<a href=\"{}\">{}</a>", address(stream, &block.key), escape_html(&block.key)),
        format!("<span aria-hidden=\"true\">{}</span> {}", mark(block.state), block.state),
    ];
    for (lane, aside) in block.lanes.iter().zip(shown.set_aside) {
        row.extend([loss(lane.spent), remaining(lane.left), percent(aside)]);
    }
    row
}

/// The address of a block's page.
pub(super) fn address(stream: &str, key: &str) -> String {
    let key: Vec<String> = key.split('/').map(url_segment).collect();
    format!("/streams/{}/blocks/{}", url_segment(stream), key.join("/"))
}

/// The page of a block: its budget, and the attempts that read it.
pub(crate) fn block(call: &Call<'_>) -> Result<Reply, Problem> {
    let (name, key) = (call.part("stream"), call.part("path"));
    let snapshot = call.engine().snapshot()?;
    let blocks = snapshot.blocks(name).unwrap_or_default();
    let all = shown(call, name, &blocks)?;
    let own = all.iter().find(|shown| shown.block.key == key);
    let own =
        own.ok_or_else(|| Problem::missing("the stream has no such block; the page of the stream lists its blocks"))?;
    let mut content = format!(
        "<p class=\"lead\">A block of <a href=\"/streams/{}\">{}</a>: {}.</p>",
        url_segment(name),
        escape_html(name),
        match own.block.state {
            State::Open => "open; rows are still ingested, and nothing can be charged yet",
            State::Sealed => "sealed; it can be charged while budget is left",
            State::Retired => "retired; it can never be read again",
            State::Deleted => "deleted; its files are removed",
        }
    );
    content += "<h2>Budget</h2>";
    content += HATCH;
    for lane in Lane::BOTH {
        let (spent, aside) = own.shares(lane);
        content += &stacked(&format!("{lane} lane"), spent, aside);
    }
    let lanes = own.block.lanes.iter().zip(own.set_aside).map(|(lane, aside)| {
        vec![lane.lane.to_string(), loss(lane.spent), remaining(lane.left), format!("{} %", f64::from(aside) / 10.0)]
    });
    let heads =
        [Head::Text("lane"), Head::Number("ε spent"), Head::Number("ε not spent"), Head::Number("of that set aside")];
    content += &named_table("Budget of the block", &heads, &lanes.collect::<Vec<_>>());
    content += "<h2>Who read it</h2>";
    content += &readers(call, name, key)?;
    Ok(page(call, Life::Live, key, &content))
}

/// The attempts that were charged to a block.
fn readers(call: &Call<'_>, stream: &str, key: &str) -> Result<String, Problem> {
    let mut rows = Vec::new();
    for (number, index) in call.engine().attempts_on(stream, key) {
        let Some(run) = call.engine().run(number) else { continue };
        let lost = call.engine().attempt_losses(number)?.get(index).copied().flatten();
        let Some(attempt) = run.attempts.get(index) else { continue };
        rows.push(vec![
            format!("<a href=\"/runs/{number}\">run {number}</a>"),
            escape_html(&run.pipeline),
            attempt.attempt.index.to_string(),
            lost.map(loss).unwrap_or_default(),
            super::runs::ended(attempt),
        ]);
    }
    if rows.is_empty() {
        return Ok("<p>No attempt was charged to it.</p>".to_owned());
    }
    let heads = [
        Head::Text("run"),
        Head::Text("pipeline"),
        Head::Number("attempt"),
        Head::Number("ε by itself"),
        Head::Text("ended"),
    ];
    Ok(named_table("Attempts on the block", &heads, &rows))
}
