//! The map of a stream's blocks: a small gauge for each, filled from below by what is spent, then what is set aside.
//!
//! A map of ten thousand blocks must be small and fast to draw, so all parts of one kind are one SVG path. No meaning is
//! carried by colour alone: a symbol or the table repeats it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use sage_engine::stream::{format_time, parse_time};
use sage_engine::{BlockView, Lane, State, THOUSANDTHS};

use crate::format::escape_html;

/// The most rows of a map by keys. With more, blocks are laid out in order of arrival.
const MOST_ROWS: usize = 31;
/// Rows of a map in order of arrival.
const STRIP_ROWS: usize = 12;
/// Up to this many columns are drawn large, with the lanes side by side.
const FEW: usize = 31;
const DAY: i64 = 86_400_000_000;
/// Space for the labels of rows and of columns, in pixels.
const LEFT: usize = 44;
const TOP: usize = 18;

/// A block and the budget that is set aside on it.
pub(super) struct Shown<'block> {
    pub(super) block: &'block BlockView,
    /// Per lane, in thousandths of what is left.
    pub(super) set_aside: [u16; 2],
}

impl Shown<'_> {
    /// The spent and the set-aside share of a lane's budget, in thousandths.
    pub(super) fn shares(&self, lane: Lane) -> (u32, u32) {
        let index = usize::from(lane == Lane::Test);
        let own = &self.block.lanes[index];
        let (spent, left) = (u128::from(own.spent.units()), u128::from(own.left.units()));
        let whole = u128::from(THOUSANDTHS);
        // Rounded up, so that a block with any loss does not look untouched.
        let spent = (spent * whole).div_ceil((spent + left).max(1)).min(whole);
        let held = match self.block.state {
            State::Open | State::Sealed => (whole - spent) * u128::from(self.set_aside[index]) / whole,
            State::Retired | State::Deleted => 0,
        };
        // Both are at most a thousand.
        (spent as u32, held as u32)
    }
}

/// The symbol of a block's state.
pub(super) const fn mark(state: State) -> &'static str {
    match state {
        State::Open => "○",
        State::Sealed => "●",
        State::Retired => "✕",
        State::Deleted => "–",
    }
}

/// The grid positions of blocks.
pub(super) struct Layout {
    columns: Vec<String>,
    rows: Vec<String>,
    /// The column and the row of each block.
    cells: Vec<(usize, usize)>,
}

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// The column and the row in a block's key: day and hour, week and day, or time and the remaining levels.
fn named(key: &str) -> Option<(String, String)> {
    let level = |part: &str, name: &str| part.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
    if let Some(hour) = level(key, "hour") {
        let (day, hour) = hour.split_once('T')?;
        return (hour.len() == 2).then(|| (day.to_owned(), hour.to_owned()));
    }
    if let Some(day) = level(key, "day") {
        let number = parse_time(&day)?.div_euclid(DAY);
        // The first day of 1970 was a Thursday.
        let weekday = (number + 3).rem_euclid(7);
        return Some((format_time((number - weekday) * DAY), DAYS[usize::try_from(weekday).ok()?].to_owned()));
    }
    let (times, others): (Vec<&str>, Vec<&str>) =
        key.split('/').partition(|part| ["hour=", "day=", "time="].iter().any(|name| part.starts_with(name)));
    let (_, time) = times.first()?.split_once('=')?;
    (times.len() == 1 && !others.is_empty()).then(|| (time.to_owned(), others.join("/")))
}

impl Layout {
    pub(super) fn of(blocks: &[Shown<'_>]) -> Self {
        Self::by_key(blocks).unwrap_or_else(|| Self {
            columns: vec![String::new(); blocks.len().div_ceil(STRIP_ROWS)],
            rows: vec![String::new(); STRIP_ROWS],
            cells: (0..blocks.len()).map(|index| (index / STRIP_ROWS, index % STRIP_ROWS)).collect(),
        })
    }

    /// The layout by keys. Blocks whose keys have no column and row, such as those of late rows, come last.
    fn by_key(blocks: &[Shown<'_>]) -> Option<Self> {
        let names: Vec<Option<(String, String)>> = blocks.iter().map(|shown| named(&shown.block.key)).collect();
        let placed: Vec<&(String, String)> = names.iter().flatten().collect();
        let distinct = |texts: &mut dyn Iterator<Item = &str>| {
            texts.collect::<BTreeSet<&str>>().into_iter().map(str::to_owned).collect::<Vec<String>>()
        };
        let mut columns = distinct(&mut placed.iter().map(|(column, _)| column.as_str()));
        // All hours and all days of the week get a row, even if no block has them yet.
        let rows = match blocks.first()?.block.key.split_once('=')?.0 {
            "hour" => (0..24).map(|hour| format!("{hour:02}")).collect(),
            "day" => DAYS.map(str::to_owned).to_vec(),
            _ => distinct(&mut placed.iter().map(|(_, row)| row.as_str())),
        };
        if rows.len() > MOST_ROWS || placed.len() * 2 < blocks.len() {
            return None;
        }
        let indices = |names: &[String]| names.iter().cloned().zip(0..).collect::<BTreeMap<String, usize>>();
        let (of_column, of_row) = (indices(&columns), indices(&rows));
        let mut behind = columns.len() * rows.len()..;
        let cell = |name: &Option<(String, String)>| {
            let own = name.as_ref().and_then(|(column, row)| Some((*of_column.get(column)?, *of_row.get(row)?)));
            own.or_else(|| behind.next().map(|index| (index / rows.len(), index % rows.len())))
        };
        let cells: Option<Vec<(usize, usize)>> = names.iter().map(cell).collect();
        columns.resize((behind.start.div_ceil(rows.len().max(1))).max(columns.len()), "late".to_owned());
        Some(Self { columns, rows, cells: cells? })
    }

    /// The size of a cell with its gap, and the columns per band.
    const fn sizes(&self) -> (usize, usize) {
        match self.columns.len() {
            0..=FEW => (17, FEW),
            32..=48 => (13, 48),
            _ => (9, 112),
        }
    }
}

/// Appends to a string, which cannot fail.
fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

/// One lane of all blocks.
pub(super) struct Map<'page> {
    layout: &'page Layout,
    pitch: usize,
    across: usize,
}

impl<'page> Map<'page> {
    pub(super) const fn new(layout: &'page Layout) -> Self {
        let (pitch, across) = layout.sizes();
        Self { layout, pitch, across }
    }

    const fn band(&self) -> usize {
        self.layout.rows.len() * self.pitch + TOP + 8
    }

    /// The upper left corner of a cell.
    const fn corner(&self, (column, row): (usize, usize)) -> (usize, usize) {
        let x = LEFT + (column % self.across) * self.pitch;
        (x, (column / self.across) * self.band() + TOP + row * self.pitch)
    }

    /// The map of a lane. The page must also have a table with the same content.
    pub(super) fn picture(&self, stream: &str, lane: Lane, blocks: &[Shown<'_>]) -> String {
        let columns = self.layout.columns.len();
        // The width does not shrink with few columns, so that cells keep their size.
        let width = LEFT + columns.clamp(FEW, self.across) * self.pitch;
        let height = columns.div_ceil(self.across).max(1) * self.band();
        let broad = if columns > FEW { " broad" } else { "" };
        let (name, spread) = (escape_html(stream), self.ranges());
        format!(
            "<figure class=\"map{broad}\" data-stream=\"{name}\" data-pitch=\"{}\" data-across=\"{}\" data-rows=\"{}\" \
             data-band=\"{}\" data-cells=\"{spread}\"><figcaption>{lane} lane</figcaption><div class=\"wide\"><svg \
             viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"A gauge \
             for each block of {name}, {lane} lane; the table of blocks says the same\">{}{}</svg></div></figure>",
            self.pitch,
            self.across,
            self.layout.rows.len(),
            self.band(),
            self.names(),
            self.paths(lane, blocks)
        )
    }

    /// The mapping from cells to blocks, for the script: ranges of the first cell, its block, and the number of cells.
    fn ranges(&self) -> String {
        let rows = self.layout.rows.len();
        let mut ranges: Vec<(usize, usize, usize)> = Vec::new();
        for (block, (column, row)) in self.layout.cells.iter().enumerate() {
            let cell = column * rows + row;
            match ranges.last_mut() {
                Some((first, _, count)) if *first + *count == cell => *count += 1,
                _ => ranges.push((cell, block, 1)),
            }
        }
        let text: Vec<String> = ranges.iter().map(|(cell, block, count)| format!("{cell}:{block}:{count}")).collect();
        text.join(" ")
    }

    /// Labels of rows, and of columns where a month or a band begins.
    fn names(&self) -> String {
        let mut out = String::new();
        let every = self.layout.rows.len().div_ceil(8).max(1);
        for band in 0..self.layout.columns.len().div_ceil(self.across) {
            for (row, name) in self.layout.rows.iter().enumerate().step_by(every).filter(|(_, name)| !name.is_empty()) {
                let y = band * self.band() + TOP + row * self.pitch + self.pitch / 2 + 3;
                let short: String = name.chars().take(7).collect();
                put(
                    &mut out,
                    format_args!("<text x=\"{}\" y=\"{y}\" class=\"row\">{}</text>", LEFT - 6, escape_html(&short)),
                );
            }
        }
        let mut free = 0;
        for (column, name) in self.layout.columns.iter().enumerate() {
            let (x, y) = self.corner((column, 0));
            let month = name.get(..7).unwrap_or(name);
            let before = column.checked_sub(1).and_then(|before| self.layout.columns[before].get(..7));
            let begins = column % self.across == 0;
            if name.is_empty() || !(begins || before != Some(month) || self.pitch > 9 && column % 7 == 0) {
                continue;
            }
            if begins {
                free = 0;
            }
            let text = if self.pitch > 9 { name.get(..10).unwrap_or(name) } else { month };
            // An estimate of the width of a label. A label that would overlap another or the edge is left out.
            let end = x + 7 * text.len();
            if x < free || !begins && end > LEFT + self.layout.columns.len().clamp(FEW, self.across) * self.pitch {
                continue;
            }
            free = end + 10;
            put(&mut out, format_args!("<text x=\"{x}\" y=\"{}\">{}</text>", y - 5, escape_html(text)));
        }
        out
    }

    fn paths(&self, lane: Lane, blocks: &[Shown<'_>]) -> String {
        let side = self.pitch - 2;
        // One path each for what is left, spent by quarters, set aside, the symbols, and the outlines of open blocks.
        let mut left = String::with_capacity(blocks.len() * 18);
        let mut spent: [String; 4] = Default::default();
        let (mut held, mut gone, mut open) = (String::new(), String::new(), String::new());
        for (shown, cell) in blocks.iter().zip(&self.layout.cells) {
            let (x, y) = self.corner(*cell);
            let bottom = y + side;
            match shown.block.state {
                State::Open => put(&mut open, format_args!("M{x} {y}h{side}v{side}h-{side}z")),
                State::Sealed => put(&mut left, format_args!("M{x} {y}h{side}v{side}h-{side}z")),
                State::Retired => put(&mut gone, format_args!("M{x} {y}l{side} {side}m0-{side}l-{side} {side}")),
                State::Deleted => put(&mut gone, format_args!("M{x} {}h{side}", y + side / 2)),
            }
            let (lost, kept) = shown.shares(lane);
            let tall = |share: u32| (share as usize * side).div_ceil(usize::from(THOUSANDTHS)).min(side);
            let (full, aside) = (tall(lost), tall(lost + kept) - tall(lost));
            if full > 0 {
                let quarter = ((lost.saturating_sub(1) / 250) as usize).min(3);
                put(&mut spent[quarter], format_args!("M{x} {bottom}h{side}v-{full}h-{side}z"));
            }
            if aside > 0 {
                put(&mut held, format_args!("M{x} {}h{side}v-{aside}h-{side}z", bottom - full));
            }
        }
        let [first, second, third, fourth] = spent;
        let path = |class: &str, path: String| match path.is_empty() {
            true => String::new(),
            false => format!("<path class=\"{class}\" d=\"{path}\"/>"),
        };
        [
            path("left", left),
            path("q1", first),
            path("q2", second),
            path("q3", third),
            path("q4", fourth),
            path("aside", held),
            path("open", open),
            path("gone", gone),
        ]
        .concat()
    }
}

/// The legend of a map.
pub(super) const LEGEND: &str = "<ul class=\"legend\"><li><svg width=\"15\" height=\"15\" aria-hidden=\"true\"><path \
     class=\"left\" d=\"M0 0h15v15h-15z\"/><path class=\"q2\" d=\"M0 15h15v-6h-15z\"/></svg>spent</li><li><svg width=\"15\" height=\"15\" aria-hidden=\"true\"><path class=\"left\" d=\"M0 \
     0h15v15h-15z\"/><path class=\"aside\" d=\"M0 15h15v-15h-15z\"/></svg>set aside for waiting runs</li><li><svg \
     width=\"15\" height=\"15\" aria-hidden=\"true\"><path class=\"left\" d=\"M0 \
     0h15v15h-15z\"/></svg>free</li><li><svg width=\"15\" height=\"15\" aria-hidden=\"true\"><path class=\"open\" \
     d=\"M1 1h13v13h-13z\"/></svg>open: rows are still ingested</li><li><svg width=\"15\" height=\"15\" \
     aria-hidden=\"true\"><path class=\"gone\" d=\"M1 1l13 13m0-13l-13 13\"/></svg>retired: never read again</li></ul>";

#[cfg(test)]
mod tests {
    use super::*;
    use sage_engine::{Epsilon, LaneView};

    fn block(key: &str, spent: u64) -> BlockView {
        let units = |units| Epsilon::from_units(units).expect("a loss");
        let lane = |lane| LaneView { lane, spent: units(spent), left: units(1000 - spent) };
        BlockView { key: key.to_owned(), state: State::Sealed, lanes: Lane::BOTH.map(lane) }
    }

    fn cells(keys: &[&str]) -> Vec<(usize, usize)> {
        let blocks: Vec<BlockView> = keys.iter().map(|key| block(key, 0)).collect();
        let shown: Vec<Shown<'_>> = blocks.iter().map(|block| Shown { block, set_aside: [0; 2] }).collect();
        Layout::of(&shown).cells
    }

    #[test]
    fn blocks_are_laid_out_by_key_or_in_order() {
        assert_eq!(cells(&["hour=2026-01-01T23", "hour=2026-01-02T00"]), [(0, 23), (1, 0)]);
        // The first of January 2026 is a Thursday.
        assert_eq!(cells(&["day=2026-01-01", "day=2026-01-05"]), [(0, 3), (1, 0)]);
        assert_eq!(cells(&["users=0000000000/time=2026-01-01", "users=0000001000/time=2026-01-01"]), [(0, 0), (0, 1)]);
        let late = ["hour=2026-01-01T23", "hour=2026-01-01T22", "hour=2026-01-01T23/late=2026-01-09"];
        assert_eq!(cells(&late), [(0, 23), (0, 22), (1, 0)]);
        assert_eq!(cells(&["country=FR", "country=DE"]), [(0, 0), (0, 1)]);
        assert_eq!(cells(&[]), []);
    }

    #[test]
    fn a_block_with_any_loss_does_not_look_untouched() {
        for (spent, aside, shares) in
            [(0, 0, (0, 0)), (1, 0, (1, 0)), (0, 1000, (0, 1000)), (500, 500, (500, 250)), (1000, 1000, (1000, 0))]
        {
            let block = block("x=1", spent);
            assert_eq!(Shown { block: &block, set_aside: [aside; 2] }.shares(Lane::Test), shares, "{spent} {aside}");
        }
    }

    #[test]
    fn cells_keep_their_size_when_there_are_few() {
        let blocks = [block("hour=2026-01-01T00", 300)];
        let shown: Vec<Shown<'_>> = blocks.iter().map(|block| Shown { block, set_aside: [1000; 2] }).collect();
        let layout = Layout::of(&shown);
        let text = Map::new(&layout).picture("taxi", Lane::Train, &shown);
        assert!(text.contains("width=\"571\""), "{text}");
        // Three tenths of fifteen pixels, rounded up, with what is set aside above.
        assert!(text.contains("class=\"q2\" d=\"M44 33h15v-5h-15z\""), "{text}");
        assert!(text.contains("class=\"aside\" d=\"M44 28h15v-10h-15z\""), "{text}");
    }

    #[test]
    fn ten_thousand_blocks_are_a_small_picture() {
        let key = |hour: i64| format!("hour={}", format_time(hour * DAY / 24).replace(":00:00", ""));
        let keys = (490_000..500_000).map(key).map(|key| if key.contains('T') { key } else { format!("{key}T00") });
        let blocks: Vec<BlockView> = keys.zip(0..).map(|(key, number)| block(&key, number % 1000)).collect();
        let shown: Vec<Shown<'_>> = blocks.iter().map(|block| Shown { block, set_aside: [300; 2] }).collect();
        let layout = Layout::of(&shown);
        let text = Map::new(&layout).picture("taxi", Lane::Train, &shown);
        assert_eq!(layout.rows.len(), 24);
        assert!(text.contains(":10000\""), "the cells are not one range: {}", &text[..400]);
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut packed, text.as_bytes()).expect("packed");
        let packed = packed.finish().expect("packed");
        assert!(text.len() < 700_000 && packed.len() < 200_000, "{} bytes, {} packed", text.len(), packed.len());
    }
}
