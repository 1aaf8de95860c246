//! Pictures, drawn as SVG from numbers alone: colour never says anything that a sign or a text does not say too.

use sage_engine::run::Interval;
use sage_engine::{BlockView, State};

use super::html::escaped;

const SIDE: usize = 22;
const ACROSS: usize = 24;

/// How much of a block is spent on the lane that has spent more, from 0 to 9.
fn level(block: &BlockView) -> usize {
    let share = block.lanes.iter().map(|lane| {
        let (spent, whole) = (lane.spent.units() as f64, (lane.spent.units() + lane.left.units()) as f64);
        if whole > 0.0 { spent / whole } else { 1.0 }
    });
    // A share is from 0 to 1.
    (share.fold(0.0, f64::max) * 9.999) as usize
}

/// The sign of a block's state.
pub(super) const fn mark(state: State) -> &'static str {
    match state {
        State::Open => "○",
        State::Sealed => "",
        State::Retired => "×",
        State::Deleted => "–",
    }
}

/// A square for each block: the fuller, the lighter; what is not sealed has a sign.
pub(super) fn heat_map(stream: &str, blocks: &[BlockView]) -> String {
    let rows = blocks.len().div_ceil(ACROSS).max(1);
    let (width, height) = (ACROSS * SIDE, rows * SIDE);
    let mut cells = String::new();
    for (place, block) in blocks.iter().enumerate() {
        let (x, y) = (place % ACROSS * SIDE, place / ACROSS * SIDE);
        let (level, state) = (level(block), block.state);
        let [train, test] = &block.lanes;
        cells += &format!(
            "<rect class=\"cell s{level} {state}\" x=\"{x}\" y=\"{y}\" width=\"{SIDE}\" height=\"{SIDE}\"><title>{}: \
             {state}, spent {} on train, {} on test</title></rect>",
            escaped(&block.key),
            train.spent,
            test.spent
        );
        if !mark(state).is_empty() {
            let shade = if level > 5 { "mark dark" } else { "mark" };
            cells += &format!("<text class=\"{shade}\" x=\"{}\" y=\"{}\">{}</text>", x + 6, y + 16, mark(state));
        }
    }
    format!(
        "<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" role=\"img\" aria-labelledby=\"map-title map-text\"><title \
         id=\"map-title\">Blocks of {}</title><desc id=\"map-text\">A square for each block in order of arrival, {ACROSS} in \
         a row; the fuller, the lighter. × is retired, ○ is open, – is deleted. The table below says the \
         same.</desc>{cells}</svg>",
        escaped(stream)
    )
}

/// What an attempt was estimated at, against its target.
pub(super) fn interval(found: &Interval, target: f64) -> String {
    const WIDTH: f64 = 560.0;
    let numbers = [found.low, found.value, found.high, Some(target), Some(0.0)];
    let finite = || numbers.iter().flatten().copied().filter(|number| number.is_finite());
    let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    let width = (high - low).max(f64::MIN_POSITIVE);
    let x = |number: f64| 20.0 + WIDTH * ((number - low) / width).clamp(0.0, 1.0);
    let (from, to) = (x(found.low.unwrap_or(low)), x(found.high.unwrap_or(high)));
    let value = found.value.map_or_else(String::new, |value| {
        format!("<circle class=\"estimate\" cx=\"{:.1}\" cy=\"40\" r=\"5\"/>", x(value))
    });
    let at = x(target);
    format!(
        "<svg viewBox=\"0 0 600 70\" width=\"600\" role=\"img\"><title>The estimate and the target</title><desc>The bar is the \
         interval, the dot the estimate, the broken line the target {target}. The table below says the same.</desc><line \
         class=\"axis\" x1=\"20\" y1=\"40\" x2=\"580\" y2=\"40\"/><line class=\"interval\" x1=\"{from:.1}\" y1=\"40\" \
         x2=\"{to:.1}\" y2=\"40\"/>{value}<line class=\"target\" x1=\"{at:.1}\" y1=\"15\" x2=\"{at:.1}\" y2=\"60\"/><text \
         x=\"{at:.1}\" y=\"12\" text-anchor=\"middle\">target {target}</text></svg>"
    )
}
