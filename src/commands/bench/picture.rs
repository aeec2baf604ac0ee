//! How does recall stand against latency, as a picture?

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 55.0;
/// What a name takes.
const NAME_WIDTH: f64 = 80.0;
const NAME_HEIGHT: f64 = 13.0;

/// An SVG of points (milliseconds, recall@10, name), with a line through those that no other beats in both; latencies are
/// on a logarithmic scale.
pub fn picture(title: &str, mut points: Vec<(f64, f64, String)>) -> String {
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    let low = points.iter().map(|p| p.0).fold(f64::INFINITY, f64::min).clamp(1e-6, 1e9);
    let high = points.iter().map(|p| p.0).fold(low, f64::max);
    // A little room on both sides, and for the last name.
    let (first, last) = (low.log10() - 0.05, high.log10() + 0.15);
    let floor = (points.iter().map(|p| p.1).fold(1.0, f64::min) * 20.0 - 1e-9).floor().clamp(0.0, 19.0) / 20.0;
    let x = |ms: f64| LEFT + (ms.max(1e-6).log10() - first) / (last - first) * (WIDTH - LEFT - RIGHT);
    let y = |recall: f64| TOP + (1.0 - recall) / (1.0 - floor) * (HEIGHT - TOP - BOTTOM);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    let mut line = |text: String| svg.extend([&*text, "\n"]);
    line(format!("<text x=\"{LEFT}\" y=\"24\" font-size=\"14\">{}</text>", escape(title)));
    let bottom = HEIGHT - BOTTOM;
    let ticks = (first.floor() as i32..=last.ceil() as i32).flat_map(|decade| [1, 2, 5].map(|step| (decade, step)));
    for (decade, step) in ticks {
        let ms = f64::from(step) * 10_f64.powi(decade);
        if (first..=last).contains(&ms.log10()) {
            let at = x(ms);
            line(format!("<path d=\"M{at:.1} {TOP}V{bottom}\" stroke=\"#ddd\"/>"));
            let digits = usize::try_from(-decade).unwrap_or(0);
            line(format!("<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{ms:.digits$}</text>", bottom + 18.0));
        }
    }
    for step in 0..=5 {
        let recall = floor + (1.0 - floor) * f64::from(step) / 5.0;
        let at = y(recall);
        line(format!("<path d=\"M{LEFT} {at:.1}H{}\" stroke=\"#ddd\"/>", WIDTH - RIGHT));
        line(format!("<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{recall:.3}</text>", LEFT - 8.0, at + 4.0));
    }
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    line(format!("<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">milliseconds, one query</text>", HEIGHT - 14.0));
    line(format!(
        "<text transform=\"translate(18 {}) rotate(-90)\" text-anchor=\"middle\">recall@10</text>",
        HEIGHT / 2.0
    ));
    let mut best = f64::NEG_INFINITY;
    let (front, others): (Vec<_>, Vec<_>) = points.iter().partition(|(_, recall, _)| {
        let is_better = *recall > best;
        best = best.max(*recall);
        is_better
    });
    for (ms, recall, _) in others {
        line(format!("<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\" fill=\"#bbb\"/>", x(*ms), y(*recall)));
    }
    let path: Vec<String> = front.iter().map(|(ms, recall, _)| format!("{:.1},{:.1}", x(*ms), y(*recall))).collect();
    line(format!("<polyline points=\"{}\" fill=\"none\" stroke=\"#2a6fb0\" stroke-width=\"1.5\"/>", path.join(" ")));
    // Names that would lie on each other are left out, but not the last, which is the best.
    let mut named: Option<(f64, f64)> = None;
    for (at, (ms, recall, name)) in front.iter().enumerate() {
        let (x, y) = (x(*ms), y(*recall));
        line(format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"#2a6fb0\"/>"));
        let is_free = named.is_none_or(|(left, above)| x - left > NAME_WIDTH || (y - above).abs() > NAME_HEIGHT);
        if is_free || at + 1 == front.len() {
            line(format!("<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", x + 6.0, y + 14.0, escape(name)));
            named = Some((x, y));
        }
    }
    svg + "</svg>\n"
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
