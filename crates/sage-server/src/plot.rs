//! Line plots as SVG. Lines differ in dashes as well as in colour, and every plot has a text description.

use crate::format::escape_html;

/// A line with its name.
pub struct Line {
    /// Its name.
    pub name: String,
    /// Values at 1, 2, 3 and so on.
    pub values: Vec<f64>,
}

/// The content of a plot. Texts are escaped here.
pub struct Plot {
    /// The heading.
    pub title: &'static str,
    /// The name of the horizontal axis.
    pub across: &'static str,
    /// The lines.
    pub lines: Vec<Line>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 40.0;
/// Height of a legend entry below the plot.
const NAMED: f64 = 18.0;

/// Colours with enough contrast on white and on black, and dashes to distinguish lines without colour.
const LOOKS: [(&str, &str); 8] = [
    ("#2a788e", "none"),
    ("#c2410c", "7 4"),
    ("#6d8f1f", "2 3"),
    ("#8b5fbf", "10 3 2 3"),
    ("#b8860b", "4 2"),
    ("#2f6fd0", "1 2"),
    ("#c0397b", "12 4"),
    ("#5f7a86", "6 2 2 2"),
];

impl Plot {
    fn height(&self) -> f64 {
        HEIGHT + NAMED * self.lines.len() as f64 + 8.0
    }

    /// The plot as a part of another SVG.
    pub fn drawn(&self, top: f64) -> String {
        let highest = self.lines.iter().flat_map(|line| &line.values).copied().fold(0.0, f64::max);
        let last = self.lines.iter().map(|line| line.values.len()).max().unwrap_or(0).max(2);
        let step = nice(highest / 5.0);
        let most = (highest / step).ceil().max(1.0) * step;
        let x = |position: f64| LEFT + (WIDTH - LEFT - RIGHT) * (position - 1.0) / (last as f64 - 1.0);
        let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / most;
        let mut out = format!("<g transform=\"translate(0 {top:.0})\" fill=\"currentColor\">");
        let mut put = |text: String| out += &text;
        put(format!("<text x=\"{LEFT}\" y=\"16\" font-weight=\"bold\">{}</text>", escape_html(self.title)));
        let mut level = 0.0;
        while level <= most * 1.000_001 {
            let at = y(level);
            put(format!(
                "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\" stroke=\"currentColor\" \
                 stroke-opacity=\"0.2\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                at + 4.0,
                short(level)
            ));
            level += step;
        }
        for part in 0..=4 {
            let position = 1.0 + (last as f64 - 1.0) * f64::from(part) / 4.0;
            let at = x(position);
            put(format!(
                "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                HEIGHT - BOTTOM + 16.0,
                short(position.round())
            ));
        }
        put(format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, WIDTH),
            HEIGHT - 6.0,
            escape_html(self.across)
        ));
        for (number, line) in self.lines.iter().enumerate() {
            let (colour, dashes) = LOOKS[number % LOOKS.len()];
            let look = format!("stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\" fill=\"none\"");
            let points = line.values.iter().enumerate().map(|(position, value)| {
                let position = position as f64 + 1.0;
                format!("{:.1},{:.1}", x(position), y(*value))
            });
            let points = points.collect::<Vec<_>>().join(" ");
            let below = HEIGHT + NAMED * (number as f64 + 0.5);
            put(format!(
                "<polyline points=\"{points}\" {look}/><line x1=\"{LEFT}\" y1=\"{below:.1}\" x2=\"{:.1}\" y2=\"{below:.1}\" \
                 {look}/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                LEFT + 40.0,
                LEFT + 48.0,
                below + 4.0,
                escape_html(&line.name)
            ));
        }
        out + "</g>"
    }
}

/// Plots below each other, as one SVG in a page.
pub fn svg(id: &str, says: &str, plots: &[Plot]) -> String {
    let height: f64 = plots.iter().map(Plot::height).sum();
    let titles: Vec<&str> = plots.iter().map(|plot| plot.title).collect();
    let mut top = 0.0;
    let mut parts = String::new();
    for plot in plots {
        parts += &plot.drawn(top);
        top += plot.height();
    }
    format!(
        "<svg viewBox=\"0 0 {WIDTH:.0} {height:.0}\" width=\"{WIDTH:.0}\" role=\"img\" \
         aria-labelledby=\"{id}-title {id}-text\" font-family=\"system-ui, sans-serif\" font-size=\"12\"><title \
         id=\"{id}-title\">{}</title><desc id=\"{id}-text\">{}</desc>{parts}</svg>",
        escape_html(&titles.join("; ")),
        escape_html(says)
    )
}

/// The same as a separate file, with the SVG namespace.
pub fn file(svg: &str) -> String {
    svg.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1)
}

/// The least number of the form 1, 2 or 5 times a power of ten that is not below this one.
fn nice(least: f64) -> f64 {
    if least <= 0.0 || !least.is_finite() {
        return 1.0;
    }
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|times| times * power)
        .into_iter()
        .find(|step| *step >= least * 0.999_999)
        .unwrap_or(power)
}

fn short(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_has_every_line_with_its_name_and_stays_within_its_frame() {
        let line = |name: &str, values: &[f64]| Line { name: name.to_owned(), values: values.to_vec() };
        let lines = vec![line("a <b>", &[0.0, 3.0, 7.0]), line("flat", &[0.0; 3])];
        let drawn = svg("one", "words", &[Plot { title: "Title", across: "blocks", lines }]);
        assert_eq!(drawn.matches("<polyline").count(), 2);
        assert!(drawn.contains("a &lt;b&gt;") && !drawn.contains("<b>") && drawn.contains("<desc"), "{drawn}");
        assert!(drawn.contains("stroke-dasharray=\"7 4\""), "{drawn}");
        let points = drawn.split("points=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("points");
        let numbers: Vec<f64> = points.split([' ', ',']).map(|number| number.parse().expect("a number")).collect();
        for pair in numbers.chunks(2) {
            assert!((0.0..=WIDTH).contains(&pair[0]) && (0.0..=HEIGHT).contains(&pair[1]), "{points}");
        }
        assert!(numbers[5] < numbers[1], "more is higher: {points}");
    }

    #[test]
    fn steps_are_round_numbers() {
        for (least, step) in [(0.0, 1.0), (1.0, 1.0), (1.2, 2.0), (33.0, 50.0), (0.07, 0.1), (f64::NAN, 1.0)] {
            assert!((nice(least) - step).abs() < 1e-9, "{least}: {}", nice(least));
        }
    }
}
