//! `:plot COMMAND`: the numbers in a reply as a chart. Pairs of texts or of times and numbers (`ZRANGE ...
//! WITHSCORES`, `TS.RANGE`, HGETALL of numbers) give points; a list of numbers is drawn in its order. Entries
//! of a stream give their first field that is a number, over the seconds since the first of them. Infinities
//! have no place in a chart and are left out.

use mantissa_number::parse_f64;
use mantissa_protocol::Value;
use ratatui::buffer::Buffer;
use ratatui::crossterm::terminal;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, Widget};

const WIDTH_MAX: u16 = 120;
const HEIGHT: u16 = 20;
/// Numbers from this one on have an exponent in labels.
const LABEL_MAX: f64 = 1e15;
/// Numbers beyond this one are drawn [`SMALLER`]: so that what a chart computes of them is finite.
const DRAWN_MAX: f64 = 1e300;
/// A power of two: it changes no digits.
const SMALLER: f64 = 1.0 / (1_u64 << 40) as f64;

/// The points in a reply; `None` if there are no numbers in it.
pub(crate) fn points_of(reply: Value) -> Option<Vec<(f64, f64)>> {
    stream_points(&reply).or_else(|| points(&without_names(reply)))
}

/// The points of the entries of a stream, as XRANGE, XREVRANGE and XREAD of one stream reply.
fn stream_points(reply: &Value) -> Option<Vec<(f64, f64)>> {
    let entries = match reply {
        Value::Map(streams) if streams.len() == 1 => streams[0].1.as_elements()?,
        reply => match reply.as_elements()? {
            [stream] if stream.as_elements().is_some_and(|parts| entry_id(parts).is_none()) => {
                stream.as_elements()?.get(1)?.as_elements()?
            }
            entries => entries,
        },
    };
    let entries: Vec<((u64, u64), &[Value])> = entries
        .iter()
        .map(|entry| {
            let parts = entry.as_elements()?;
            Some((entry_id(parts)?, parts.get(1)?.as_elements()?))
        })
        .collect::<Option<_>>()?;
    let value_of = |pair: &[Value]| number(&pair[1]).filter(|value| value.is_finite());
    let mut pairs = entries.iter().flat_map(|(_, entry)| entry.chunks_exact(2));
    let name = &pairs.find(|pair| value_of(pair).is_some())?[0];
    let mut found: Vec<((u64, u64), f64)> = entries
        .iter()
        .filter_map(|(id, entry)| {
            Some((*id, value_of(entry.chunks_exact(2).find(|pair| pair[0] == *name)?)?))
        })
        .collect();
    found.sort_by_key(|(id, _)| *id);
    let (first, last) = (found.first()?.0.0, found.last()?.0.0);
    let points = found.into_iter().enumerate().map(|(i, ((ms, _), value))| {
        // Entries that were all added at once are drawn in their order.
        let x = if first == last { i as f64 } else { (ms - first) as f64 / 1000.0 };
        (x, value)
    });
    Some(points.collect())
}

/// The parts of the ID that an entry of a stream begins with.
fn entry_id(entry: &[Value]) -> Option<(u64, u64)> {
    let [id, fields] = entry else { return None };
    fields.as_elements()?;
    let (ms, sequence) = std::str::from_utf8(id.as_bytes()?).ok()?.split_once('-')?;
    Some((ms.parse().ok()?, sequence.parse().ok()?))
}

/// The points in a reply; `None` if it is no list of numbers.
fn points(reply: &Value) -> Option<Vec<(f64, f64)>> {
    let elements: Vec<Vec<f64>> = match reply {
        Value::Map(pairs) => {
            pairs.iter().map(|(_, value)| Some(vec![number(value)?])).collect::<Option<_>>()?
        }
        reply => reply.as_elements()?.iter().map(numbers).collect::<Option<_>>()?,
    };
    let single: Option<Vec<f64>> = elements.iter().map(|one| one.first().copied()).collect();
    let points: Vec<(f64, f64)> = if elements.iter().any(|one| one.len() > 1) {
        elements.iter().map(|one| Some((*one.first()?, *one.get(1)?))).collect::<Option<_>>()?
    } else {
        (0_u32..).zip(single?).map(|(i, value)| (f64::from(i), value)).collect()
    };
    let points: Vec<_> = points.into_iter().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
    (!points.is_empty()).then_some(points)
}

/// The numbers of an element: one, or two if it is a pair of which both are numbers.
fn numbers(element: &Value) -> Option<Vec<f64>> {
    match element.as_elements() {
        None => number(element).map(|value| vec![value]),
        Some([one, other]) => {
            let other = number(other)?;
            Some(number(one).map_or_else(|| vec![other], |one| vec![one, other]))
        }
        Some(_) => None,
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Double { value, .. } => Some(*value),
        value => parse_f64(value.as_bytes()?),
    }
}

/// A reply of names and numbers in turn, as RESP2 sends scores, without the names; others as they are.
fn without_names(reply: Value) -> Value {
    match reply {
        Value::Array(elements)
            if elements.len() >= 2
                && elements.len().is_multiple_of(2)
                && elements.iter().step_by(2).any(|name| number(name).is_none())
                && elements.iter().all(|element| element.as_elements().is_none()) =>
        {
            Value::Array(elements.into_iter().skip(1).step_by(2).collect())
        }
        reply => reply,
    }
}

/// The chart as text, as wide as the terminal.
pub(crate) fn draw(title: &str, points: &[(f64, f64)], has_colours: bool) -> String {
    let title = format!("{title} ({} points)", points.len());
    draw_curves(&title, &[(String::new(), points.to_vec())], has_colours, label, label)
}

/// A number beside an axis: short, and exact to three digits behind the point.
fn label(value: f64) -> String {
    let is_long = value.abs() >= LABEL_MAX;
    let text = if is_long { format!("{value:.3e}") } else { format!("{value:.3}") };
    let (digits, exponent) = text.split_at(text.find('e').unwrap_or(text.len()));
    format!("{}{exponent}", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// A curve with its name.
pub(crate) type Curve = (String, Vec<(f64, f64)>);

/// The colours of curves and the codes of terminals for them.
const COLOURS: [(Color, &str); 4] = [
    (Color::Green, "\x1b[32m"),
    (Color::Yellow, "\x1b[33m"),
    (Color::Cyan, "\x1b[36m"),
    (Color::Magenta, "\x1b[35m"),
];

/// The ends of an axis, and what its numbers are multiplied by to be drawn.
struct Scale {
    low: f64,
    high: f64,
    factor: f64,
}

impl Scale {
    /// An axis from one number to another, or around them if they are the same.
    fn of(low: f64, high: f64) -> Scale {
        let factor = if low.abs().max(high.abs()) > DRAWN_MAX { SMALLER } else { 1.0 };
        // Of numbers beyond 2^53 the next ones are further away than 1.
        let margin = if low < high { 0.0 } else { (low.abs() / 1e6).max(1.0) };
        let (low, high) = ((low - margin).max(f64::MIN), (high + margin).min(f64::MAX));
        Scale { low, high, factor }
    }

    fn drawn(&self) -> [f64; 2] {
        [self.low * self.factor, self.high * self.factor]
    }

    fn labelled(&self) -> [f64; 3] {
        [self.low, f64::midpoint(self.low, self.high), self.high]
    }
}

/// Curves in one chart, as text, with such labels for the two axes.
pub(crate) fn draw_curves(
    title: &str,
    curves: &[Curve],
    has_colours: bool,
    x_label: impl Fn(f64) -> String,
    y_label: impl Fn(f64) -> String,
) -> String {
    let width = terminal::size().map_or(80, |(columns, _)| columns).clamp(20, WIDTH_MAX);
    let bounds = |axis: fn(&(f64, f64)) -> f64| {
        let (low, high) = curves
            .iter()
            .flat_map(|(_, points)| points)
            .map(axis)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        Scale::of(low, high)
    };
    let (x, y) = (bounds(|point| point.0), bounds(|point| point.1));
    let drawn: Vec<Vec<(f64, f64)>> = curves
        .iter()
        .map(|(_, points)| points.iter().map(|point| (point.0 * x.factor, point.1 * y.factor)).collect())
        .collect();
    let lines = curves.iter().zip(&drawn).zip(COLOURS.iter().cycle());
    let lines = lines.map(|(((name, _), points), (colour, _))| {
        let style = if has_colours { Style::new().fg(*colour) } else { Style::new() };
        let line = Dataset::default().marker(Marker::Braille).graph_type(GraphType::Line).data(points);
        // A curve without a name has no legend.
        if name.is_empty() { line.style(style) } else { line.name(name.as_str()).style(style) }
    });
    let chart = Chart::new(lines.collect())
        .block(Block::bordered().title(format!(" {title} ")))
        .x_axis(Axis::default().bounds(x.drawn()).labels(x.labelled().map(x_label)))
        .y_axis(Axis::default().bounds(y.drawn()).labels(y.labelled().map(y_label)));
    let area = Rect::new(0, 0, width, HEIGHT);
    let mut buffer = Buffer::empty(area);
    chart.render(area, &mut buffer);
    let mut text = String::new();
    for row in 0..HEIGHT {
        let cells = (0..width).filter_map(|column| buffer.cell((column, row)));
        let mut painted = None;
        for cell in cells {
            let paint = COLOURS.iter().find(|(colour, _)| *colour == cell.fg).map(|(_, code)| *code);
            if paint != painted {
                text.push_str(paint.unwrap_or("\x1b[0m"));
                painted = paint;
            }
            text.push_str(cell.symbol());
        }
        text.push_str(if painted.is_some() { "\x1b[0m\n" } else { "\n" });
    }
    text
}

#[cfg(test)]
mod tests {
    use mantissa_protocol::Decoder;

    use super::*;

    fn decoded(reply: &str) -> Value {
        Decoder::default().decode(reply.as_bytes()).expect("valid").expect("complete").0
    }

    #[test]
    fn entries_of_streams_are_drawn_over_time() {
        let entry = |id: &str, value: &str| {
            format!(
                "*2\r\n${}\r\n{id}\r\n*4\r\n$1\r\nt\r\n$1\r\nx\r\n$1\r\nn\r\n${}\r\n{value}\r\n",
                id.len(),
                value.len()
            )
        };
        let entries = format!("*2\r\n{}{}", entry("3500-0", "2.5"), entry("1000-0", "-1"));
        let expected = Some(vec![(0.0, -1.0), (2.5, 2.5)]);
        assert_eq!(points_of(decoded(&entries)), expected);
        assert_eq!(points_of(decoded(&format!("*1\r\n*2\r\n$1\r\ns\r\n{entries}"))), expected);
        assert_eq!(points_of(decoded(&format!("%1\r\n$1\r\ns\r\n{entries}"))), expected);
        let at_once = format!("*2\r\n{}{}", entry("5-0", "7"), entry("5-1", "8"));
        assert_eq!(points_of(decoded(&at_once)), Some(vec![(0.0, 7.0), (1.0, 8.0)]));
    }

    #[test]
    fn numbers_are_found_in_replies() {
        let scores = decoded("*4\r\n$1\r\na\r\n$3\r\n1.5\r\n$1\r\nb\r\n$1\r\n2\r\n");
        assert_eq!(points(&without_names(scores)), Some(vec![(0.0, 1.5), (1.0, 2.0)]));
        let pairs = decoded("*2\r\n*2\r\n$1\r\na\r\n,1.5\r\n*2\r\n$1\r\nb\r\n,2\r\n");
        assert_eq!(points(&without_names(pairs)), Some(vec![(0.0, 1.5), (1.0, 2.0)]));
        let series = decoded("*2\r\n*2\r\n:1000\r\n+1.5\r\n*2\r\n:2000\r\n+2\r\n");
        assert_eq!(points(&without_names(series)), Some(vec![(1000.0, 1.5), (2000.0, 2.0)]));
        assert_eq!(points(&decoded("*2\r\n:4\r\n:5\r\n")), Some(vec![(0.0, 4.0), (1.0, 5.0)]));
        let scores =
            decoded("*3\r\n*2\r\n$1\r\na\r\n,inf\r\n*2\r\n$1\r\nb\r\n,2\r\n*2\r\n$1\r\nc\r\n,-inf\r\n");
        assert_eq!(points(&without_names(scores)), Some(vec![(1.0, 2.0)]));
        let pairs = decoded("*2\r\n*2\r\n:1\r\n,inf\r\n*2\r\n:2\r\n,2\r\n");
        assert_eq!(points(&pairs), Some(vec![(2.0, 2.0)]));
        for other in ["+OK\r\n", "*1\r\n+a\r\n", "*0\r\n", "*1\r\n,inf\r\n", "*1\r\n*2\r\n:1\r\n,-inf\r\n"] {
            assert_eq!(points(&decoded(other)), None, "{other}");
        }
        assert_eq!(draw("x", &[(0.0, 1.0), (1.0, 2.0)], false).lines().count(), usize::from(HEIGHT));
    }
    /// The rows of a chart, without its frame, that have dots of a curve.
    fn dotted(chart: &str) -> Vec<usize> {
        let is_dot = |c: char| ('\u{2801}'..='\u{28ff}').contains(&c);
        chart.lines().enumerate().filter(|(_, line)| line.contains(is_dot)).map(|(row, _)| row).collect()
    }

    #[test]
    fn large_numbers_are_drawn_apart() {
        for points in [
            [(0.0, f64::MIN), (1.0, f64::MAX)],
            [(0.0, -1.7e308), (1.0, 1.7e308)],
            [(-1e308, -1e307), (1e308, 1e308)],
            [(0.0, 1e300), (1.0, 2e300)],
            [(0.0, -5.0), (1.0, 5.0)],
        ] {
            let chart = draw("x", &points, false);
            assert_eq!(chart.lines().count(), usize::from(HEIGHT));
            assert!(dotted(&chart).len() > usize::from(HEIGHT) / 2, "{chart}");
        }
        for value in [f64::MAX, f64::MIN, 1e17, -1e17, 0.0] {
            let chart = draw("x", &[(0.0, value), (1.0, value)], false);
            assert_eq!(dotted(&chart).len(), 1, "{chart}");
        }
    }

    #[test]
    fn labels_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (1.5, "1.5"),
            (-100.0, "-100"),
            (1_700_000_000_000.0, "1700000000000"),
            (1e15, "1e15"),
            (-1.7e308, "-1.7e308"),
            (1.2345e20, "1.234e20"),
        ] {
            assert_eq!(label(value), text);
        }
    }
}
