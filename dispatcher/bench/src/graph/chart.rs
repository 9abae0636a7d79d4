//! One graph: lines over a logarithmic axis. It is written as text, as it is little more than that.

use std::fmt::Write as _;

use super::axis::Axis;

/// Pixels of the whole, and around the lines.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 56.0;
/// Of different hues and brightness, so that they differ in grey too.
const COLORS: [&str; 6] = ["#b0124f", "#1f6feb", "#2d7d46", "#b06c00", "#6f42c1", "#57606a"];
const STYLE: &str = "text{font:13px sans-serif;fill:#24292f}.title{font-size:15px;font-weight:bold}\
    .grid{stroke:#d0d7de}.line{fill:none;stroke-width:2}";

/// One line.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) name: &'static str,
    /// From left to right.
    pub(super) points: Vec<(f64, f64)>,
}

#[derive(Debug)]
pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    pub(super) x: &'a str,
    pub(super) y: &'a str,
    pub(super) series: Vec<Series>,
}

impl Chart<'_> {
    pub(super) fn svg(&self) -> String {
        let mut svg = String::new();
        self.write(&mut svg).expect("a string takes all");
        svg
    }

    fn write(&self, svg: &mut String) -> std::fmt::Result {
        let (width, height) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
        let points = || self.series.iter().flat_map(|series| &series.points);
        let smallest = points().map(|&(x, _)| x).fold(f64::INFINITY, f64::min);
        let largest = points().map(|&(x, _)| x).fold(0.0, f64::max);
        let across = Axis::logarithmic(smallest, largest, width);
        let up = Axis::linear(points().map(|&(_, y)| y).fold(0.0, f64::max), height);
        let place = |x: f64, y: f64| (LEFT + across.place(x), TOP + height - up.place(y));

        writeln!(svg, r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">"#)?;
        writeln!(svg, "<title>{}</title><style>{STYLE}</style>", self.title)?;
        writeln!(svg, r##"<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>"##)?;
        writeln!(svg, r#"<text class="title" x="{LEFT}" y="20">{}</text>"#, self.title)?;
        for tick in up.ticks() {
            let (x, y) = place(smallest, tick);
            writeln!(svg, r#"<path class="grid" d="M{x:.1} {y:.1}h{width:.1}"/>"#)?;
            let (x, y) = (x - 8.0, y + 4.0);
            writeln!(svg, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="end">{}</text>"#, short(tick))?;
        }
        for tick in across.ticks() {
            let (x, y) = place(tick, 0.0);
            writeln!(svg, r#"<path class="grid" d="M{x:.1} {y:.1}v-{height:.1}"/>"#)?;
            let y = y + 18.0;
            writeln!(svg, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="middle">{}</text>"#, short(tick))?;
        }
        let (middle, below) = (LEFT + width / 2.0, HEIGHT - 14.0);
        writeln!(svg, r#"<text x="{middle:.1}" y="{below:.1}" text-anchor="middle">{}</text>"#, self.x)?;
        writeln!(svg, r#"<text x="{LEFT}" y="38">{}</text>"#, self.y)?;
        for (nth, series) in self.series.iter().enumerate() {
            let color = COLORS[nth % COLORS.len()];
            let places: Vec<_> = series.points.iter().map(|&(x, y)| place(x, y)).collect();
            let path: Vec<_> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
            writeln!(svg, r#"<path class="line" stroke="{color}" d="M{}"/>"#, path.join("L"))?;
            for (x, y) in places {
                writeln!(svg, r#"<circle cx="{x:.1}" cy="{y:.1}" r="2.5" fill="{color}"/>"#)?;
            }
            let (x, y) = (WIDTH - RIGHT + 14.0, TOP + 8.0 + 20.0 * nth as f64);
            writeln!(svg, r#"<path class="line" stroke="{color}" d="M{x:.1} {y:.1}h18"/>"#)?;
            let (x, y) = (x + 24.0, y + 4.0);
            writeln!(svg, r#"<text x="{x:.1}" y="{y:.1}">{}</text>"#, series.name)?;
        }
        writeln!(svg, "</svg>")
    }
}

/// A round number as one writes it beside an axis.
fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 1e3 => format!("{}k", value / 1e3),
        value => format!("{}", (value * 1e3).round() / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_point_is_in_the_picture_and_each_line_has_its_name() {
        let points = vec![(1.0, 10.0), (10.0, 0.0), (1e6, 5.0)];
        let series = vec![Series { name: "ours", points: points.clone() }, Series { name: "theirs", points }];
        let svg = Chart { title: "Title", x: "across", y: "up", series }.svg();
        for word in ["Title", "across", "up", "ours", "theirs"] {
            assert!(svg.contains(&format!(">{word}</")), "{word} in {svg}");
        }
        let number = |line: &str, name: &str| -> f64 {
            let rest = line.split(&format!("{name}=\"")).nth(1).expect("the attribute is there");
            rest.split('"').next().and_then(|text| text.parse().ok()).expect("a number")
        };
        let circles: Vec<&str> = svg.lines().filter(|line| line.starts_with("<circle")).collect();
        assert_eq!(circles.len(), 6);
        for circle in circles {
            let (x, y) = (number(circle, "cx"), number(circle, "cy"));
            assert!((LEFT..=WIDTH - RIGHT).contains(&x) && (TOP..=HEIGHT - BOTTOM).contains(&y), "{circle}");
        }
        assert_eq!([0.5, 20.0, 5_000.0, 1e6].map(short), ["0.5", "20", "5k", "1M"]);
    }

    #[test]
    fn one_point_alone_is_a_picture_too() {
        let svg =
            Chart { title: "", x: "", y: "", series: vec![Series { name: "one", points: vec![(5.0, 0.0)] }] }.svg();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
