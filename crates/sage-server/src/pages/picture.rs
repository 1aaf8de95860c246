//! SVG plots. No meaning is carried by colour alone: a symbol or a text repeats it.

use sage_engine::run::Interval;

use super::html::short;
use crate::format::escape_html;

/// A bar of three parts, in thousandths: spent, set aside, free.
pub(super) fn stacked(name: &str, spent: u32, aside: u32) -> String {
    let left = 1000_u32.saturating_sub(spent + aside);
    let part = |class: &str, from: u32, width: u32| match width {
        0 => String::new(),
        _ => format!("<rect class=\"{class}\" x=\"{from}\" width=\"{width}\" height=\"12\"/>"),
    };
    let percent = |share: u32| short(f64::from(share) / 10.0);
    format!(
        "<div class=\"stacked\"><svg viewBox=\"0 0 1000 12\" preserveAspectRatio=\"none\" \
         aria-hidden=\"true\">{}{}{}</svg><p>{name}: <strong>{} %</strong> spent, {} % set aside, {} % free</p></div>",
        part("left", 0, 1000),
        part("q3", 0, spent),
        part("aside", spent, aside),
        percent(spent),
        percent(aside),
        percent(left),
    )
}

/// One interval of a plot.
pub(super) struct Line {
    /// Its label.
    pub(super) name: String,
    /// Its CSS class.
    pub(super) kind: &'static str,
    pub(super) found: Interval,
}

/// Width of the labels in pixels. The plot itself is scaled in percent, so that it fits on a narrow screen.
const NAMES: usize = 88;
const PLOT: f64 = 68.0;
const LINE: usize = 26;

/// Estimates with their intervals, one below the other, and the target.
pub(super) fn intervals(title: &str, lines: &[Line], target: Option<f64>) -> String {
    let all = lines.iter().flat_map(|line| [line.found.low, line.found.value, line.found.high]);
    let finite = || all.clone().chain([target]).flatten().filter(|number| number.is_finite());
    let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    if lines.is_empty() || !low.is_finite() || !high.is_finite() {
        return String::new();
    }
    let (low, high, step) = scale(low, high);
    let x = |number: f64| format!("{:.2}%", PLOT * ((number - low) / (high - low)).clamp(0.0, 1.0));
    let bottom = 30 + lines.len() * LINE;
    let mut inside = String::new();
    let mut tick = (low / step).ceil() * step;
    while tick <= high + step / 1e6 {
        let (at, number) = (x(tick), if tick.abs() < step / 1e6 { 0.0 } else { tick });
        inside += &format!(
            "<line class=\"grid\" x1=\"{at}\" x2=\"{at}\" y1=\"22\" y2=\"{bottom}\"/><text class=\"tick\" x=\"{at}\" \
             y=\"{}\">{}</text>",
            bottom + 16,
            short(number)
        );
        tick += step;
    }
    for (index, line) in lines.iter().enumerate() {
        inside += &one(line, 30 + index * LINE + LINE / 2, (low, high), &x);
    }
    if let Some(target) = target {
        let at = x(target);
        inside += &format!(
            "<line class=\"target\" x1=\"{at}\" x2=\"{at}\" y1=\"18\" y2=\"{bottom}\"/><text class=\"tick strong\" \
             x=\"{at}\" y=\"13\">target {}</text>",
            short(target)
        );
    }
    format!(
        "<figure class=\"plot\"><svg width=\"100%\" height=\"{}\" role=\"img\" aria-label=\"{}: bars are intervals, \
         dots estimates, the broken line the target; the table says the same\"><g \
         transform=\"translate({NAMES})\">{inside}</g></svg></figure>",
        bottom + 24,
        escape_html(title)
    )
}

fn one(line: &Line, y: usize, (low, high): (f64, f64), x: &dyn Fn(f64) -> String) -> String {
    let (from, to) = (x(line.found.low.unwrap_or(low)), x(line.found.high.unwrap_or(high)));
    let value = line.found.value.map_or_else(String::new, |value| {
        format!("<circle class=\"estimate\" cx=\"{}\" cy=\"{y}\" r=\"4.5\"/>", x(value))
    });
    format!(
        "<text class=\"name\" x=\"-12\" y=\"{}\">{}</text><line class=\"interval {}\" x1=\"{from}\" x2=\"{to}\" \
         y1=\"{y}\" y2=\"{y}\"/>{value}",
        y + 4,
        escape_html(&clipped(&line.name, 12)),
        line.kind
    )
}

/// An axis that covers two numbers, with a step of 1, 2 or 5 times a power of ten: its ends and its step.
fn scale(low: f64, high: f64) -> (f64, f64, f64) {
    let wide = if high > low { high - low } else { high.abs().max(1e-9) };
    let rough = wide / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(rough);
    ((low / step).floor() * step, (high / step).ceil() * step + if high > low { 0.0 } else { step }, step)
}

/// One attempt of a track.
pub(super) struct Bar {
    pub(super) sign: &'static str,
    pub(super) kind: &'static str,
    /// Its loss on each block, if it is known.
    pub(super) loss: Option<f64>,
    pub(super) blocks: u32,
}

/// The attempts of one run, side by side. The width of a bar shows its blocks, the height its loss.
pub(super) struct Track {
    /// The number of the run.
    pub(super) run: u64,
    pub(super) name: String,
    pub(super) bars: Vec<Bar>,
    /// The status of the run, unless the last attempt shows it.
    pub(super) ends: &'static str,
}

const TRACK: usize = 68;

/// All tracks, one below the other.
pub(super) fn tracks(tracks: &[Track]) -> String {
    let most = tracks.iter().flat_map(|track| &track.bars).filter_map(|bar| bar.loss).fold(0.0, f64::max);
    let mut inside = String::new();
    let mut right = 640;
    for (index, track) in tracks.iter().enumerate() {
        let ground = index * TRACK + 46;
        inside += &format!(
            "<line class=\"grid\" x1=\"0\" x2=\"4000\" y1=\"{0}\" y2=\"{0}\"/><a href=\"/runs/{1}\"><text \
             class=\"strong\" x=\"0\" y=\"{2}\">{3}</text></a><text class=\"soft\" x=\"0\" y=\"{4}\">run {1}</text>",
            ground + 22,
            track.run,
            ground - 14,
            escape_html(&clipped(&track.name, 20)),
            ground + 4
        );
        let mut x = 176;
        for bar in &track.bars {
            let wide = 60 + (f64::from(bar.blocks.max(1)).log2() * 5.0) as usize;
            inside += &drawn(bar, (x, ground, wide), most);
            x += wide + 6;
        }
        inside += &format!("<text class=\"soft\" x=\"{}\" y=\"{}\">{}</text>", x + 4, ground - 2, track.ends);
        right = right.max(x + 110);
    }
    let height = tracks.len() * TRACK + 4;
    format!(
        "<figure class=\"plot tracks\"><div class=\"wide\" role=\"group\" aria-label=\"Attempts of the newest runs\" \
         tabindex=\"0\"><svg viewBox=\"0 0 {right} {height}\" width=\"{right}\" height=\"{height}\" \
         preserveAspectRatio=\"xMinYMin\" role=\"group\" aria-label=\"A track for each run, a bar for each attempt; \
         the table of runs says the same\">{inside}</svg></div><figcaption>Each bar is an attempt, labelled with its \
         number of blocks and its loss on each of them. Wider bars have more blocks, taller bars a larger loss. ✓ \
         accepted, ↻ undecided and tried again, ✕ rejected, – ended otherwise, … in progress.</figcaption></figure>"
    )
}

/// The bar of an attempt: its left edge, its base line and its width.
fn drawn(bar: &Bar, (x, ground, wide): (usize, usize, usize), most: f64) -> String {
    let tall = bar.loss.filter(|_| most > 0.0).map_or(6, |loss| 6 + (22.0 * loss / most) as usize);
    let middle = x + wide / 2;
    // Losses are always rounded up.
    let lost = bar.loss.map_or_else(String::new, |loss| format!(" · ε {:.2}", (100.0 * loss).ceil() / 100.0));
    format!(
        "<rect class=\"bar {}\" x=\"{x}\" y=\"{}\" width=\"{wide}\" height=\"{tall}\" rx=\"2\"/><text class=\"sign\" \
         x=\"{middle}\" y=\"{}\">{}</text><text class=\"tick\" x=\"{middle}\" y=\"{}\">{}{lost}</text>",
        bar.kind,
        ground - tall,
        ground - tall - 4,
        bar.sign,
        ground + 14,
        bar.blocks
    )
}

/// A name, shortened to `limit` characters.
fn clipped(name: &str, limit: usize) -> String {
    match name.chars().count() > limit {
        true => name.chars().take(limit.saturating_sub(1)).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_holds_what_is_shown() {
        for (low, high) in [(0.0, 0.0451), (0.0123, 0.0216), (-3.0, 7.0), (5.0, 5.0), (0.0, 0.0), (1e-12, 3e9)] {
            let (from, to, step) = scale(low, high);
            assert!(from <= low && high <= to && step > 0.0 && from < to, "{low} {high}: {from} {to} {step}");
            assert!((to - from) / step < 9.0, "{low} {high}: {from} {to} {step}");
        }
    }

    #[test]
    fn what_is_not_limited_reaches_to_the_edge() {
        let found = Interval { value: Some(2.0), low: None, high: Some(3.0) };
        let lines = [Line { name: "<one>".to_owned(), kind: "good", found }];
        let text = intervals("t", &lines, Some(1.0));
        assert!(text.contains("x1=\"0.00%\"") && text.contains("&lt;one&gt;") && text.contains("target 1"), "{text}");
        assert_eq!(intervals("t", &[], Some(1.0)), "", "a target alone is no picture");
    }
}
