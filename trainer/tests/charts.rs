//! A chart is sound SVG whatever the names and numbers are, and shows the numbers where they are.

use hindsearch_trainer::{Axes, Point, Series, chart};

const AXES: Axes<'static> = Axes { x: "step", y: "reward" };

fn line(name: &str, values: &[(f64, f64)]) -> Series {
    let points = values.iter().map(|&(x, y)| Point { x, y, spread: None }).collect();
    Series { name: name.into(), points }
}

/// Names of elements that are open, checked to be closed in order, and the text between them.
fn parse(svg: &str) -> Vec<String> {
    let (mut open, mut texts) = (Vec::new(), Vec::new());
    for piece in svg.trim_end().split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("a tag ends");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().expect("a name").to_owned());
        }
        if !text.is_empty() && open.last().is_some_and(|name| name == "text") {
            texts.push(text.to_owned());
        }
    }
    assert!(open.is_empty(), "{open:?}");
    texts
}

/// The coordinates of the first path of this class.
fn path(svg: &str, class: &str) -> Vec<(f64, f64)> {
    let group = svg.split("<g class=").nth(1).expect("a curve");
    let after = group.split(&format!("class=\"{class}\"")).nth(1).expect("a path");
    let data = after.split(" d=\"M").nth(1).and_then(|rest| rest.split('"').next()).expect("places");
    let point = |pair: &str| {
        let (x, y) = pair.split_once(' ').expect("two numbers");
        (x.parse().expect("x"), y.parse().expect("y"))
    };
    data.trim_end_matches('Z').split('L').map(point).collect()
}

#[test]
fn points_stand_where_the_axes_say() {
    let svg = chart("Reward", &[line("a", &[(0.0, 0.0), (50.0, 0.5), (100.0, 1.0)])], AXES);
    let texts = parse(&svg);
    for expected in ["Reward", "step", "reward", "0", "20", "100", "0.0", "0.2", "1.0"] {
        let expected = if expected == "0.0" { "0" } else { expected };
        assert!(texts.iter().any(|text| text == expected), "{expected} in {texts:?}");
    }
    let points = path(&svg, "line");
    assert_eq!(points.len(), 3);
    // The middle is in the middle, and higher values are higher up.
    assert!((points[1].0 - (points[0].0 + points[2].0) / 2.0).abs() < 0.11, "{points:?}");
    assert!((points[1].1 - (points[0].1 + points[2].1) / 2.0).abs() < 0.11, "{points:?}");
    assert!(points[2].1 < points[0].1);
    assert!(svg.contains("prefers-color-scheme:dark"), "dark pages have colours of their own");
}

#[test]
fn text_is_text_whatever_it_holds() {
    let hostile = "</text><script>alert(1)</script>&\"'\u{0}\u{1b}]]>";
    let series = [line(hostile, &[(0.0, 1.0), (1.0, 2.0)]), line("b", &[(0.0, 2.0)])];
    let svg = chart(hostile, &series, Axes { x: hostile, y: hostile });
    let texts = parse(&svg);
    assert!(!svg.contains("<script") && !svg.contains('\u{0}') && !svg.contains('\u{1b}'));
    assert_eq!(texts.iter().filter(|text| text.starts_with("&lt;/text&gt;&lt;script&gt;")).count(), 4, "{texts:?}");
}

#[test]
fn what_is_not_finite_makes_a_gap_and_nothing_worse() {
    let values = [
        (0.0, 1.0),
        (1.0, f64::NAN),
        (2.0, 1.0),
        (3.0, 2.0),
        (4.0, f64::INFINITY),
        (f64::NAN, 1.0),
        (6.0, 3.0),
        (7.0, 2.0),
    ];
    let svg = chart("t", &[line("a", &values)], AXES);
    parse(&svg);
    let drawn = svg.split("<g class=").nth(1).expect("a curve");
    assert_eq!((drawn.matches("<circle").count(), drawn.matches("class=\"line\"").count()), (1, 2));
    assert!(!drawn.contains("NaN") && !drawn.contains("inf"));
    for strange in [
        vec![],
        vec![(1.0, 1.0)],
        vec![(0.0, 0.0), (1.0, 0.0)],
        vec![(0.0, -3.0), (1.0, -3.0)],
        vec![(0.0, f64::MAX), (1.0, f64::MIN)],
        vec![(f64::MIN_POSITIVE, 1.0), (1.0, 1.0 + f64::EPSILON)],
        vec![(1e300, 5e-324), (1e301, 0.0)],
        vec![(5.0, f64::NAN)],
    ] {
        let svg = chart("t", &[line("a", &strange)], AXES);
        parse(&svg);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{strange:?}: {svg}");
        assert!(svg.len() < 10_000, "{strange:?}");
        assert_eq!(svg.contains("no values yet"), !strange.iter().any(|(x, y)| x.is_finite() && y.is_finite()));
    }
    assert!(chart("t", &[], AXES).contains("no values yet"));
}

#[test]
fn several_runs_become_their_mean_and_a_band_of_one_deviation() {
    let runs =
        [vec![(1.0, 1.0), (2.0, 4.0), (3.0, 5.0)], vec![(1.0, 3.0), (2.0, 8.0)], vec![(2.0, 6.0), (1.0, f64::NAN)]];
    let mean = Series::mean("runs", &runs);
    let root = 2.0_f64.sqrt();
    let expected = [(1.0, 2.0, Some((2.0 - root, 2.0 + root))), (2.0, 6.0, Some((4.0, 8.0))), (3.0, 5.0, None)];
    assert_eq!(mean.points.len(), 3);
    for (point, (x, y, spread)) in mean.points.iter().zip(expected) {
        assert_eq!((point.x, point.y), (x, y));
        assert_eq!(point.spread.is_some(), spread.is_some());
        if let (Some(found), Some(expected)) = (point.spread, spread) {
            assert!((found.0 - expected.0).abs() < 1e-12 && (found.1 - expected.1).abs() < 1e-12, "{found:?}");
        }
    }
    let svg = chart("t", &[mean], AXES);
    parse(&svg);
    let (band, line) = (path(&svg, "band"), path(&svg, "line"));
    assert_eq!((band.len(), line.len()), (4, 3), "above and below, where there is a band");
    assert!(band[0].1 < line[0].1 && line[0].1 < band[3].1);
}

#[test]
fn many_curves_are_told_apart_by_the_legend() {
    let series: Vec<_> = (0..9).map(|n| line(&format!("curve number {n}"), &[(0.0, n as f64), (1.0, 1.0)])).collect();
    let svg = chart("t", &series, AXES);
    let texts = parse(&svg);
    assert_eq!(texts.iter().filter(|text| text.starts_with("curve number")).count(), 9);
    assert_eq!(
        svg.matches("stroke-dasharray").count(),
        6,
        "three of a colour that was used, in the legend and as a curve"
    );
    let one = parse(&chart("t", &series[..1], AXES));
    assert!(!one.iter().any(|text| text.starts_with("curve")), "the title is enough for one");
}
