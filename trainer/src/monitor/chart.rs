//! How do curves become a picture that any browser shows?

use std::collections::BTreeMap;
use std::fmt::Write;

use super::scale::Scale;
use crate::sweep::Spread;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 20.0;
const BOTTOM: f64 = 48.0;
/// Where the first line of the legend stands, and how far the next is below it.
const LEGEND: f64 = 48.0;
const LINE: f64 = 20.0;
/// About the width of a letter of the legend.
const LETTER: f64 = 7.0;
const COLORS: usize = 6;

/// Colours that people with any colour vision can tell apart, for a light and for a dark page. They follow the reader's setting.
const STYLE: &str = "\
.chart{background:#fff;font:12px system-ui,sans-serif}\
.chart text{fill:#444}.chart .title{font-size:15px;font-weight:600;fill:#111}\
.chart .grid{stroke:#e4e4e4}.chart .axis{stroke:#999}\
.chart .line{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}\
.chart .dot{fill:currentColor}.chart .band{fill:currentColor;opacity:.16}\
.chart .c0{color:#1f6fd0}.chart .c1{color:#d9541e}.chart .c2{color:#0d8f69}\
.chart .c3{color:#8a4fc4}.chart .c4{color:#a87800}.chart .c5{color:#c23a78}\
@media (prefers-color-scheme:dark){\
.chart{background:#16181c}.chart text{fill:#b9bdc4}.chart .title{fill:#f2f3f5}\
.chart .grid{stroke:#2b2f36}.chart .axis{stroke:#6b7079}\
.chart .c0{color:#6aa9f7}.chart .c1{color:#f58a5b}.chart .c2{color:#3fc79b}\
.chart .c3{color:#b48cf0}.chart .c4{color:#dcae3c}.chart .c5{color:#f07fae}}";

/// A curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its points from left to right. One whose `y` is not finite makes a gap.
    pub points: Vec<Point>,
}

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Where, for example a step.
    pub x: f64,
    /// The value.
    pub y: f64,
    /// The lowest and the highest value of the band around it, if it has one.
    pub spread: Option<(f64, f64)>,
}

/// What the axes are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axes<'a> {
    /// The one below.
    pub x: &'a str,
    /// The one on the left, written above it.
    pub y: &'a str,
}

impl Series {
    /// The mean of several runs at each `x`, with a band of one sample standard deviation to both sides where two runs or more
    /// have a value. Values that are not finite are left out.
    pub fn mean(name: impl Into<String>, runs: &[Vec<(f64, f64)>]) -> Self {
        let mut at: BTreeMap<u64, (f64, Vec<f64>)> = BTreeMap::new();
        for &(x, y) in runs.iter().flatten().filter(|(x, y)| x.is_finite() && y.is_finite()) {
            at.entry(x.to_bits()).or_insert((x, Vec::new())).1.push(y);
        }
        let mut points: Vec<Point> = at
            .into_values()
            .filter_map(|(x, values)| {
                let Spread { mean, deviation, .. } = Spread::of(&values)?;
                Some(Point { x, y: mean, spread: deviation.map(|deviation| (mean - deviation, mean + deviation)) })
            })
            .collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        Self { name: name.into(), points }
    }
}

/// A line chart as a file of SVG, 720 by 400.
pub fn chart(title: &str, series: &[Series], axes: Axes<'_>) -> String {
    let legend = legend(series);
    let top = LEGEND + LINE * legend.lines as f64 + 18.0;
    let finite =
        || series.iter().flat_map(|one| &one.points).filter(|point| point.x.is_finite() && point.y.is_finite());
    let bands = finite().filter_map(band).flat_map(|(low, high)| [low, high]);
    let x = Scale::around(finite().map(|point| point.x), LEFT, WIDTH - RIGHT);
    let y = Scale::rounded(finite().map(|point| point.y).chain(bands), HEIGHT - BOTTOM, top);

    let mut svg = String::new();
    // Writing to a string cannot fail.
    let _ = draw(&mut svg, title, axes, &legend.text, (&x, &y), series);
    svg
}

fn draw(
    svg: &mut String,
    title: &str,
    axes: Axes<'_>,
    legend: &str,
    (x, y): (&Scale, &Scale),
    series: &[Series],
) -> std::fmt::Result {
    let (title, right, bottom) = (escape(title), WIDTH - RIGHT, HEIGHT - BOTTOM);
    write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" role=\"img\"><title>{title}</title><style>{STYLE}</style>\
         <text class=\"title\" x=\"{LEFT}\" y=\"26\">{title}</text>{legend}"
    )?;
    for (at, label) in y.ticks() {
        write!(svg, "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/>")?;
        write!(svg, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", LEFT - 8.0, at + 4.0)?;
    }
    for (at, label) in x.ticks() {
        write!(svg, "<path class=\"axis\" d=\"M{at:.1} {bottom}v5\"/>")?;
        write!(svg, "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>", bottom + 19.0)?;
    }
    write!(svg, "<path class=\"axis\" d=\"M{LEFT} {bottom}H{right}\"/>")?;
    let (middle, above) = ((LEFT + right) / 2.0, y.end() - 14.0);
    write!(svg, "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>", HEIGHT - 10.0, escape(axes.x))?;
    write!(svg, "<text x=\"{}\" y=\"{above}\">{}</text>", 12, escape(axes.y))?;
    for (number, one) in series.iter().enumerate() {
        let stretches: Vec<&[Point]> =
            one.points.split(|point| !(point.x.is_finite() && point.y.is_finite())).filter(|s| !s.is_empty()).collect();
        write!(svg, "<g class=\"c{}\">", number % COLORS)?;
        for stretch in &stretches {
            for banded in stretch.chunk_by(|a, b| band(a).is_some() == band(b).is_some()) {
                let edge = |point: &Point, value: f64| format!("{:.1} {:.1}", x.at(point.x), y.at(value));
                let high = banded.iter().filter_map(|point| Some(edge(point, band(point)?.1)));
                let low = banded.iter().rev().filter_map(|point| Some(edge(point, band(point)?.0)));
                let outline: Vec<String> = high.chain(low).collect();
                if outline.len() > 2 {
                    write!(svg, "<path class=\"band\" d=\"M{}Z\"/>", outline.join("L"))?;
                }
            }
        }
        for stretch in &stretches {
            let places: Vec<String> =
                stretch.iter().map(|point| format!("{:.1} {:.1}", x.at(point.x), y.at(point.y))).collect();
            match stretch {
                [alone] => {
                    write!(
                        svg,
                        "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/>",
                        x.at(alone.x),
                        y.at(alone.y)
                    )?;
                }
                _ => write!(svg, "<path class=\"line\"{} d=\"M{}\"/>", dashes(number), places.join("L"))?,
            }
        }
        svg.push_str("</g>");
    }
    if x.is_empty() {
        write!(svg, "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">no values yet</text>", HEIGHT / 2.0)?;
    }
    svg.push_str("</svg>\n");
    Ok(())
}

fn band(point: &Point) -> Option<(f64, f64)> {
    point.spread.filter(|(low, high)| low.is_finite() && high.is_finite())
}

/// Where colours begin again, lines are dashed.
fn dashes(number: usize) -> String {
    match number / COLORS {
        0 => String::new(),
        round => format!(" stroke-dasharray=\"{} 4\"", 10 / round.min(5)),
    }
}

struct Legend {
    text: String,
    lines: usize,
}

/// Names beside strokes of their colours; a single curve is named by the title.
fn legend(series: &[Series]) -> Legend {
    let (mut text, mut lines, mut x) = (String::new(), 0, LEFT);
    if series.len() < 2 {
        return Legend { text, lines };
    }
    for (number, one) in series.iter().enumerate() {
        let width = 28.0 + LETTER * one.name.chars().count() as f64 + 16.0;
        if x > LEFT && x + width > WIDTH - RIGHT {
            (lines, x) = (lines + 1, LEFT);
        }
        let (y, color, name) = (LEGEND + LINE * lines as f64, number % COLORS, escape(&one.name));
        let (dashes, label) = (dashes(number), x + 24.0);
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "<path class=\"line c{color}\"{dashes} d=\"M{x} {}h18\"/><text x=\"{label}\" y=\"{y}\">{name}</text>",
            y - 4.0
        );
        x += width;
    }
    Legend { text, lines: lines + 1 }
}

/// Text that is text, whatever it holds. Control characters are not allowed in XML at all.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            other if other.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}
